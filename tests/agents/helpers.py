"""What the tests of agents share: an environment without a table, interrupts, and equality of agents."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

COLUMNS = ("returns", "lengths", "upper", "alarms", "regret", "certified")


class RaiseOnce:
    """Replaces a method and raises an error at one chosen call of it."""

    def __init__(self, target, name, at, error=KeyboardInterrupt):
        self.calls, self.at, self.error, self.whole = 0, at, error, getattr(target, name)
        setattr(target, name, self)

    def __call__(self, *args, **kwargs):
        self.calls += 1
        if self.calls == self.at:
            raise self.error
        return self.whole(*args, **kwargs)


@contextmanager
def interrupted_at(agent, step):
    """Raise KeyboardInterrupt at the given step of the environment, and expect it to come through."""
    env = agent.problem.env.unwrapped
    RaiseOnce(env, "step", step)
    with pytest.raises(KeyboardInterrupt):
        yield
    del env.step  # the method of the class again


def assert_same_arrays(found, wanted):
    """Two sets of named arrays are equal bit for bit."""
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype, name
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def assert_same_history(found, wanted):
    """Two histories are equal bit for bit."""
    for name in COLUMNS:
        one, other = getattr(found, name), getattr(wanted, name)
        assert (one is None) == (other is None), name
        if one is not None:
            np.testing.assert_array_equal(one, other, err_msg=name)


def plain(settings):
    """Settings as plain data: objects among them are copied with an agent, and few of them compare."""
    return None if settings is None else settings.as_dict()


def assert_same_agent(found, wanted):
    """Two agents know the same, have played the same, and will draw the same random numbers."""
    assert_same_arrays(found.algorithm.state(), wanted.algorithm.state())
    assert_same_history(found.history, wanted.history)
    assert found.seed == wanted.seed
    assert plain(found.settings) == plain(wanted.settings)
    assert found.guarantee == wanted.guarantee
