"""MatrixRL and KernelMatrixRL: the paper's algorithms as agents."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.agents.agent import Agent
from matrixrl.algorithms import ContinuousControl, ContinuousMatrixRL, KernelStarter, UCMatrixRL
from matrixrl.checks import fail, index, real_numbers, shaped
from matrixrl.records import FloatArray

__all__ = ["KernelControl", "KernelMatrixRL", "MatrixRL"]


class MatrixRL(Agent):
    """Learns a problem with optimism over a matrix confidence set (UC-MatrixRL, YW19 Algorithm 1).

    The agent knows the rewards (unless ``known_reward=False``) and the features, never the transitions.

    Args:
        problem: Name of an environment ("river-swim", "gym:FrozenLake-v1"), a Gymnasium environment (ours, one with a
            transition table, or any discrete one together with `reward`), a `FiniteMDP`, a `Task` for ask and tell
            only, or a `FunctionalTask` (functions of states).
        options: phi, psi, psi_pinv, reward, horizon, reward_range, env_settings, measure_regret, seed, compiled and
            trust_code, as in `Agent`; every other one is a setting of `MatrixRLSettings` (preset, set, radius, …).

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL(matrixrl.make("river-swim", n_states=4), seed=0, preset="practical")
    >>> history = agent.learn(n_episodes=30)
    >>> history.n_episodes, bool(history.cumulative_regret[-1] < 30 * 8.3)
    (30, True)
    """

    name = "matrix-rl"

    def __init__(self, problem: Any, **options: Any) -> None:
        super().__init__(problem, UCMatrixRL, **options)


class _OnVectors(Agent):
    """An agent that may have vectors as states, and then a value of every observation."""

    def value(self, obs: Any, stage: int) -> tuple[FloatArray, FloatArray]:
        """Return values and widths of observations (n, p), for pictures: (n,) and (n,)."""
        algorithm, task = self.algorithm, self.problem.task
        if not isinstance(algorithm, (ContinuousMatrixRL, ContinuousControl)):
            fail("value", "is computed for vectors as states", self.problem.name, "Use certificate().")
        h = index("stage", stage, size=task.horizon, remedy="Stages count from 0.")
        size = algorithm.task.n_coordinates
        given = obs if np.ndim(real_numbers(obs)) != 1 else real_numbers(obs)[None]
        points = shaped("obs", given, (None, size), remedy="Give rows of observations.")
        return algorithm.value(self._advised_plan(), h, points)


class KernelMatrixRL(_OnVectors):
    """Learns through a kernel of states, finite or continuous (YW19 Algorithm 2).

    On numbered states it has the paper's sets, radii and certificates, and neighbours share what is learned. On vectors
    (any Gymnasium environment with vectors as observations and discrete actions) what is unknown is worth the most that
    can still be earned; nothing is proven there, and one configuration learns control tasks in a handful of episodes.

    Args:
        problem: As in `MatrixRL`.
        options: As in `MatrixRL`; settings are those of `KernelSettings` (points, k_phi, length_scale, … and all of
            MatrixRL) for numbered states, of `ContinuousSettings` (kernel, transformer, length_scale, …) for vectors.

    >>> import gymnasium
    >>> agent = KernelMatrixRL(gymnasium.make("CartPole-v1"), horizon=50, seed=0)
    >>> agent.learn(n_episodes=3).n_episodes
    3
    """

    name = "kernel-matrix-rl"

    def __init__(self, problem: Any, **options: Any) -> None:
        super().__init__(problem, KernelStarter, **options)


class KernelControl(_OnVectors):
    """Learns a control task by planning in a kernel model of its dynamics, which fits itself to the data.

    Observations are vectors, actions are discrete or continuous with bounds. No range of rewards, length scale or
    largest return has to be given, and one configuration serves every task. It is measured, not proven.

    Args:
        problem: Name of a control task ("cart-pole"), or a Gymnasium environment with vectors as observations.
        options: As in `MatrixRL`; settings are those of `ControlSettings`.

    >>> import gymnasium
    >>> agent = KernelControl(gymnasium.make("Pendulum-v1", max_episode_steps=20), seed=0)
    >>> agent.learn(n_episodes=2).n_episodes
    2
    """

    name = "kernel-control"

    def __init__(self, problem: Any, **options: Any) -> None:
        super().__init__(problem, ContinuousControl, **options)
