"""An option of a problem is used or refused by its name, whatever the problem is given as; none is ignored."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from matrixrl import FiniteMDP, FunctionalTask, InvalidInput, Task, make
from matrixrl.envs import open_problem
from matrixrl.problems import fingerprint, read_problem
from matrixrl.problems.reader import OPTION_DEFAULTS


class Hidden(gym.Env):
    """Three states and two actions, without a transition table."""

    observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)
    horizon = 4


def functional():
    return FunctionalTask(
        phi=lambda s: np.ones((len(s), 2, 1)),
        psi=lambda s: np.ones((len(s), 1)),
        sampler=lambda rng, m: (rng.random((m, 1)), np.full(m, 1.0 / m)),
        n_actions=2,
        horizon=4,
    )


GIVEN = {
    "FiniteMDP": lambda: FiniteMDP(np.full((3, 2, 3), 1 / 3), np.full((3, 2), 0.5), horizon=4),
    "Task": lambda: Task(np.full((3, 2), 0.5), horizon=4),
    "FunctionalTask": functional,
    "our environment": lambda: make("river-swim", n_states=3, horizon=4),
    "table": lambda: gym.make("FrozenLake-v1", max_episode_steps=50),
    "no table": Hidden,
    "vectors": lambda: gym.make("CartPole-v1"),
}
OF_THE_WORLD = (
    "phi",
    "psi",
    "reward",
    "horizon",
    "reward_range",
    "allowed",
    "stage_dependent",
    "discount",
    "accuracy",
    "start",
    "deterministic",
    "successors",
)


def other_value(option, n_states, n_actions):
    """Return a value of an option that none of the problems above has itself."""
    random = np.random.default_rng(0)
    return {
        "phi": random.random((n_states, n_actions, 2)),
        "psi": random.random((n_states, 2)),
        "reward": np.full((n_states, n_actions), 0.25),
        "horizon": 3,
        "reward_range": (-3.0, 3.0),
        "allowed": np.eye(n_states, n_actions, dtype=bool) | (np.arange(n_actions) == 0),
        "stage_dependent": True,
        "discount": 0.5,
        "accuracy": 0.3,
        "start": 1,
        "deterministic": True,
        "successors": np.ones((n_states, n_actions, n_states), dtype=bool),
    }[option]


def facts(problem):
    parts = [list(fingerprint(problem.task).values()), [problem.task.start_is_declared]]
    if problem.features is not None:
        parts += [problem.features.phi.at(np.arange(2)).ravel(), problem.features.psi.rows(np.arange(2)).ravel()]
    return np.concatenate([np.array(part, dtype=np.float64) for part in parts])  # NaN for None


@pytest.mark.parametrize("option", OF_THE_WORLD)
@pytest.mark.parametrize("kind", GIVEN)
def test_an_option_changes_the_problem_or_is_refused_by_name(kind, option):
    given = GIVEN[kind]()
    plain = read_problem(given)
    value = other_value(option, plain.n_observed or 3, plain.actions.size)
    refusal = None
    try:
        changed = read_problem(given, **{option: value})
    except InvalidInput as error:
        refusal = str(error)
    if refusal is None:
        before, after = facts(plain), facts(changed)
        assert before.shape != after.shape or not np.allclose(before, after, equal_nan=True)
    else:
        assert refusal.startswith(option)


@pytest.mark.parametrize("kind", GIVEN)
def test_an_option_that_is_written_down_with_its_default_changes_nothing(kind):
    given = GIVEN[kind]()
    plain = read_problem(given)
    for found in (read_problem(given, **OPTION_DEFAULTS), open_problem(given, **OPTION_DEFAULTS)):
        np.testing.assert_array_equal(facts(found), facts(plain))
        for name in ("name", "pseudo", "regret_every", "states", "actions", "reward_outside", "ignores_masks"):
            assert getattr(found, name) == getattr(plain, name)


def test_a_name_that_is_no_option_is_refused():
    with pytest.raises(InvalidInput, match=r"got 'rewards'.*Did you mean 'reward'"):
        read_problem(Hidden(), rewards=3)
