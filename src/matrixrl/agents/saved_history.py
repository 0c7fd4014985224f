"""The history of an agent as arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.errors import InvalidInput
from matrixrl.problems import Problem
from matrixrl.records import FloatArray, HistoryLog

__all__ = ["history_arrays", "restore_history"]

Arrays = dict[str, NDArray[Any]]
_NAMES = ("returns", "lengths", "upper", "alarms", "regret", "certified_lower", "certified_upper")
_LOGGED = ("logged_returns", "logged_lengths")
_SLACK = 1e-6  # rounding of sums of rewards and values, relative to the range of returns


def history_arrays(log: HistoryLog) -> Arrays:
    """Return every column of a history: (N,) each, and (M,) each of the logged episodes if there are any."""
    logged = _LOGGED if len(log.logged_returns) else ()
    return {name: np.array(getattr(log, name), dtype=np.float64) for name in (*_NAMES, *logged)}


def restore_history(arrays: Arrays, n_episodes: int, n_logged: int, problem: Problem, *, clipped: bool) -> HistoryLog:
    """Return the history that `history_arrays` wrote, if episodes of the problem can have it.

    Args:
        arrays: Columns of the history.
        n_episodes: Number of episodes that were played.
        n_logged: Number of logged episodes.
        problem: The problem that was played.
        clipped: Whether rewards outside the declared range were clipped; returns are those earned before.

    Raises:
        InvalidInput: A column is missing, has another length, or holds numbers that no episode has.
    """
    expected = {*_NAMES, *(_LOGGED if n_logged else ())}
    if set(arrays) != expected:
        raise InvalidInput(f"the history must have the columns {sorted(expected)}")
    log = HistoryLog(regret_every=max(problem.regret_every, 1))
    if n_logged:
        _restore_logged(log, {name: arrays.pop(name) for name in _LOGGED}, n_logged, problem, clipped)
    for values in arrays.values():
        if values.shape != (n_episodes,) or values.dtype != np.float64:
            raise InvalidInput(f"the history must have {n_episodes} episodes")
    _check(arrays, problem, clipped)
    for name, values in arrays.items():
        kind = {"lengths": int, "alarms": bool}.get(name, float)
        getattr(log, name).extend(kind(value) for value in values.tolist())
    return log


def _restore_logged(log: HistoryLog, arrays: Arrays, n_logged: int, problem: Problem, clipped: bool) -> None:
    """Take back the columns of the logged episodes, if episodes of the problem can have them."""
    returns, lengths = (arrays[name] for name in _LOGGED)
    if any(values.shape != (n_logged,) or values.dtype != np.float64 for values in arrays.values()):
        raise InvalidInput(f"the history must have {n_logged} logged episodes")
    _check_lengths(lengths, problem.task.horizon)
    _check_returns(returns, lengths, problem, clipped)
    log.add_logged(returns.copy(), lengths.astype(np.int64))


def _check_lengths(lengths: FloatArray, horizon: int) -> None:
    if (lengths != np.floor(lengths)).any() or (lengths < 1).any() or (lengths > horizon).any():
        raise InvalidInput(f"lengths must be whole numbers from 1 to {horizon}")


def _check_returns(returns: FloatArray, lengths: FloatArray, problem: Problem, clipped: bool) -> None:
    low, high = problem.task.reward_range or (-np.inf, np.inf)
    slack = _SLACK * (1.0 + problem.task.horizon * (high - low))
    if problem.discount < 1.0:  # later rewards count less
        low, high = min(low, 0.0), max(high, 0.0)
    beyond = (returns < lengths * low - slack) | (returns > lengths * high + slack)
    if beyond.any() and not clipped:
        raise InvalidInput("returns must be sums of rewards of the declared range")


def _check(arrays: Arrays, problem: Problem, clipped: bool) -> None:
    lengths, alarms, weight = arrays["lengths"], arrays["alarms"], problem.total_weight
    _check_lengths(lengths, problem.task.horizon)
    if not np.isin(alarms, (0.0, 1.0)).all():
        raise InvalidInput("alarms must be 0 or 1")
    low, high = problem.task.reward_range or (-np.inf, np.inf)
    slack = _SLACK * (1.0 + weight * (high - low))
    _check_returns(arrays["returns"], lengths, problem, clipped)
    lower, upper = arrays["certified_lower"], arrays["certified_upper"]
    if (np.isnan(lower) != np.isnan(upper)).any() or (lower > upper + slack).any():
        raise InvalidInput("certificates must have a lower and an upper bound")
    _check_values("certified_lower", lower, weight, low, high, slack)
    _check_values("certified_upper", upper, weight, low, high, slack)
    regret = arrays["regret"]
    if (regret < -slack).any() or (regret > weight * (high - low) + slack).any():
        raise InvalidInput("regret must not be negative, nor larger than all rewards")
    if np.isinf(arrays["upper"]).any():
        raise InvalidInput("upper must be finite or NaN")


def _check_values(name: str, values: FloatArray, weight: float, low: float, high: float, slack: float) -> None:
    if (values < weight * low - slack).any() or (values > weight * high + slack).any() or np.isinf(values).any():
        raise InvalidInput(f"{name} must be a value of the problem")
