"""How benchmarks/control_rivals.py counts steps, episodes and poles that are up, for agents of several libraries."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from control_rivals import measured, table
from first_solved import first_at
from recorded import HELD, UPRIGHT, WINDOW, Record, Recorded


class Played(gym.Env):
    """Show given cosines, one a step, and pay 1 for each step."""

    observation_space = spaces.Box(-1.0, 1.0, (2,))
    action_space = spaces.Discrete(1)

    def __init__(self, cosines: list[float]) -> None:
        self._cosines, self._step = cosines, 0

    def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        self._step = 0
        return np.zeros(2), {}

    def step(self, _: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._step += 1
        return np.array([0.0, self._cosines[self._step - 1]]), 1.0, False, self._step == len(self._cosines), {}


def _play(env: gym.Env, n_steps: int) -> None:
    env.reset()
    for _ in range(n_steps):
        if env.step(0)[3]:
            env.reset()


@pytest.mark.parametrize("window", [1, 3, 5])
def test_the_first_good_window_is_that_of_cumulative_sums(window: int) -> None:
    random = np.random.default_rng(window)
    for bar in (-0.5, 0.0, 0.4, 0.8):
        returns = random.normal(size=40)
        sums = np.concatenate([[0.0], np.cumsum(returns)])
        is_good = (sums[window:] - sums[:-window]) / window >= bar
        assert first_at(returns, bar, window) == (int(np.argmax(is_good)) + window if is_good.any() else None)
    assert first_at(np.ones(window - 1), 0.0, window) is None


@pytest.mark.parametrize(("n_up", "expected"), [(HELD - 1, None), (HELD, 31)])
def test_a_pole_is_up_from_the_first_step_of_the_last_stretch(n_up: int, expected: int | None) -> None:
    record = Record(bar=1e9, cap=10**9)
    down, up = [UPRIGHT - 0.01], [UPRIGHT]
    _play(Recorded(Played(up * 20 + down * 10 + up * n_up), record, cosine=1), 30 + n_up)
    assert record.up_since == [expected]
    assert record.returns == [30.0 + n_up]


def test_steps_of_copies_are_counted_together() -> None:
    record = Record(bar=1e9, cap=10**9)
    copies = [Recorded(Played([0.0] * length), record, cosine=1) for length in (2, 3)]
    for env in copies:
        env.reset()
    for step in range(3):
        for env in copies[step == 2 :]:  # the first copy ends after two of its steps
            env.step(0)
    assert record.n_steps == 5
    assert (record.returns, record.ends) == ([2.0, 3.0], [3, 5])


def test_a_run_is_over_at_the_cap_or_some_episodes_after_the_solution() -> None:
    bar, length = 4.0, 4
    record = Record(bar, cap=10**9, after=3)
    env = Recorded(Played([0.0] * length), record, cosine=1)
    _play(env, length * (WINDOW + 3) - 1)
    assert not record.is_over
    _play(Recorded(Played([0.0] * length), record, cosine=1), length)
    assert record.is_over
    capped = Record(bar=1e9, cap=6)
    _play(Recorded(Played([0.0] * length), capped, cosine=1), 5)
    assert not capped.is_over
    _play(Recorded(Played([0.0] * length), capped, cosine=1), 1)
    assert capped.is_over


def test_the_table_counts_steps_and_not_episodes() -> None:
    returns = [0.0, 70.0, *[60.0] * WINDOW, 50.0, 70.0]
    ends = [10 * n for n in range(1, len(returns) + 1)]
    run = {"returns": returns, "ends": ends, "up_since": [None, 17, *[None] * WINDOW, 76, None], "n_steps": ends[-1]}
    run |= {"seconds": 1.8, "cpu": 0.9, "cap": 100}
    found = measured(60.0, run)
    assert (found["held"], found["good"], found["solved"]) == (17, 20, 10 * (WINDOW + 1))
    assert found["last"] == 60.0
    assert (found["wall"], found["cpu"]) == pytest.approx((1.8e3 / ends[-1], 0.9e3 / ends[-1]))
    never = run | {"returns": [0.0] * len(returns), "up_since": [None] * len(returns)}
    lines = table({"swing-up/sac/600": run, "swing-up/sac/601": never, "pendulum/ppo/600": never}, ["swing-up"])
    assert "| swing-up | ≥ 60 | sac | 60; never | 20; never | 17; never | 1 of 10 | 60; 0 | 10 | 100 |" in lines
    assert "| swing-up | ≥ 100 | sac | never; never | never; never | 17; never |" in lines
    assert "ppo" not in lines
    short = run | {"returns": [70.0], "ends": [10], "up_since": [3], "n_steps": 10}
    assert "| gp-mpc | – (fewer than 5 episodes) | 10 | 3 |" in table({"swing-up/gp-mpc/600": short}, ["swing-up"])
