"""Saved steps with vectors as states that an agent can have observed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.continuous.model import Experience
from matrixrl.errors import InvalidInput
from matrixrl.features.kernels import ObservationScale
from matrixrl.problems import ContinuousTask, Problem
from matrixrl.records import FloatArray

__all__ = ["check_steps", "of_replica"]


def of_replica(arrays: Mapping[str, NDArray[Any]], b: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of one replica, without its number in their names."""
    return {name.removeprefix(f"{b}_"): array for name, array in arrays.items() if name.startswith(f"{b}_")}


def check_steps(data: Experience, seen: FloatArray, problem: Problem, episode: int) -> None:
    """Refuse steps that could not have been observed in so many episodes of a problem.

    Args:
        data: The steps.
        seen: Largest observations, as the scale of observations keeps them.
        problem: The problem.
        episode: Number of episodes.
    """
    task = problem.task
    assert isinstance(task, ContinuousTask)
    p, n = task.n_coordinates, len(data.actions)
    fits = (
        data.obs.shape == data.next_obs.shape == (n, p)
        and data.rewards.shape == data.terminated.shape == data.actions.shape == (n,)
        and data.actions.dtype == np.int64
        and data.terminated.dtype == np.bool_
        and all(array.dtype == np.float64 for array in (data.obs, data.next_obs, data.rewards, seen))
        and episode <= n <= episode * task.horizon
        and (n == 0 or 0 <= data.actions.min() <= data.actions.max() < task.n_actions)
        and int(data.terminated.sum()) <= episode
        and seen.shape == (p,)
    )
    if not fits:
        raise InvalidInput("the steps do not fit the problem")
    scale = ObservationScale(task.low, task.high)
    scale.see(np.concatenate([data.obs, data.next_obs]))
    if not np.array_equal(scale.seen, seen):
        raise InvalidInput("seen must be the largest observations of the steps")
    problem.rewards(data.rewards)
