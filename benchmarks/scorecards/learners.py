"""The one rule that says which agent plays an environment: it reads what is observed, never the name of the task."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import numpy as np

from matrixrl.algorithms.control.algorithm import MOST_COORDINATES
from scorecards.coordinates import coordinates_repeat
from scorecards.factored import FactoredLearner
from scorecards.numbered_states import GrowingLearner
from scorecards.probe import PROBE_EPISODES, observations_repeat, play_at_random
from scorecards.timesteps import SteppedEnv
from scorecards.vectors import VectorLearner

__all__ = ["AGENTS", "FINITE", "EnvLearner", "RandomLearner", "choose_learner"]

AGENTS = ("matrixrl", "random")
"""Columns of the scorecard that are played."""
FINITE: tuple[str, dict[str, Any]] = ("matrix-rl", {"preset": "tuned", "known_reward": False})
"""Algorithm and settings on numbered observations."""


class EnvLearner(Protocol):
    """What plays: one episode at a time."""

    def play(self) -> float:
        """Play and learn one episode, and return the sum of its rewards."""


class RandomLearner:
    """Takes actions that are equally likely.

    Args:
        env: Environment.
        seed: Seed of the actions.
    """

    def __init__(self, env: SteppedEnv, seed: int) -> None:
        self._env, self._rng = env, np.random.default_rng(seed)

    def play(self) -> float:
        """Play one episode."""
        return sum(play_at_random(self._env, self._rng).rewards)


def choose_learner(env: SteppedEnv, seed: int) -> tuple[EnvLearner, str]:
    """Play the first ten episodes at random, and return what plays the others, and its name.

    Observations that repeat are numbered, for a finite algorithm; so are those whose single coordinates repeat, by the
    coordinates that predict something. Others are vectors, for KernelControl. With more coordinates than KernelControl
    takes, actions stay random.

    Args:
        env: Environment.
        seed: Seed of all random streams of the learner.
    """
    rng = np.random.default_rng(seed)
    episodes = [play_at_random(env, rng) for _ in range(PROBE_EPISODES)]
    name, settings = FINITE
    start = partial(GrowingLearner, agent=name, settings=settings, seed=seed)
    if observations_repeat(episodes):
        return start(env, episodes=episodes), name
    if coordinates_repeat(episodes):
        return FactoredLearner(env, lambda window, seen: start(window, episodes=seen), episodes), name
    if episodes[0].observations[0].size > MOST_COORDINATES:
        return RandomLearner(env, seed), "random"
    return VectorLearner(env, episodes, seed), "kernel-control"
