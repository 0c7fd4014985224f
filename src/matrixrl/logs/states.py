"""States, actions and rewards of whole columns, checked as `Problem` checks those of one step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, shown
from matrixrl.logs.source import Source
from matrixrl.problems import FunctionalTask, Problem
from matrixrl.problems.masks import action_list
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["checked_actions", "checked_rewards", "checked_states", "join_coordinates"]

_LARGEST = 1e12  # as in Problem.reward


def join_coordinates(source: Source, columns: tuple[str, ...], parts: list[FloatArray], problem: Problem) -> FloatArray:
    """Return one column of states (n,) or vectors (n, p) as the problem has them, of one or several columns."""
    shape = problem.state_shape
    wanted = int(np.prod(shape)) if shape else 1
    widths = [part.shape[1] if part.ndim == 2 else 1 for part in parts]
    if sum(widths) != wanted:
        what = "one number" if wanted == 1 else f"{wanted} coordinates"
        found = f"{sum(widths)}: {', '.join(map(repr, columns[:5]))}"
        remedy = "Name one column for each coordinate: columns={'state': ['x', 'y'], …}."
        fail(source.name, f"must have {what} for a state of {problem.name}", found, remedy)
    joined = np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
    return joined.reshape(len(joined), *shape)


def checked_states(
    source: Source, columns: tuple[str, ...], values: FloatArray, problem: Problem, known: BoolArray
) -> NDArray[Any]:
    """Return states as the algorithms count them; a state that is not known is 0.

    Args:
        source: The log.
        columns: Columns of the states, for messages.
        values: (n,) or (n, p) The states of the log.
        problem: The problem.
        known: (n,) Which rows have a state.
    """
    task = problem.task
    wide = known.reshape(known.shape + (1,) * (values.ndim - 1))
    if problem.kind == "finite":
        low, high = problem.first_state, problem.first_state + problem.n_observed - 1
        good = (values == np.floor(values)) & (values >= low) & (values <= high)
        rule = f"must be a whole number in {low} … {high}, a state of {problem.name}"
    else:
        good = np.isfinite(values)
        rule = "must be finite"
    is_whole = isinstance(task, FunctionalTask) and task.state_dtype.kind == "i"
    if is_whole:
        good &= values == np.floor(values)
        rule = "must be a whole number"
    _refuse_first(source, columns, values, wide & ~good, rule, "Correct the row, or check the columns.")
    inside = np.where(wide, values, 0.0)
    if problem.kind == "finite":
        return np.where(known, inside - problem.first_state, 0.0).astype(np.int64)
    return inside.astype(np.int64) if is_whole else inside


def checked_actions(source: Source, column: str, values: FloatArray, states: Any, problem: Problem) -> IntArray:
    """Return actions counted from 0: (n,); each must be allowed in its state."""
    first = problem.first_action
    high = first + problem.task.n_actions - 1
    good = (values == np.floor(values)) & (values >= first) & (values <= high)
    rule = f"must be a whole number in {first} … {high}, an action of {problem.name}"
    _refuse_first(source, (column,), values, ~good, rule, "Correct the row, or check the columns.")
    actions = (values - first).astype(np.int64)
    by_action = problem.allowed_by_action
    if by_action is not None and not by_action[actions, states].all():
        bad = ~by_action[actions, states]
        state = int(states[int(np.argmax(bad))])
        rule = (
            f"must be one of {action_list(by_action[:, state], first)}, allowed in state {state + problem.first_state}"
        )
        _refuse_first(source, (column,), values, bad, rule, "Correct the row, or the declaration of allowed actions.")
    return actions


def checked_rewards(source: Source, column: str, values: FloatArray, problem: Problem) -> FloatArray:
    """Return rewards in the environment's unit: (n,)."""
    good = np.isfinite(values) & (np.abs(np.nan_to_num(values)) <= _LARGEST)
    _refuse_first(source, (column,), values, ~good, f"must be finite, at most {_LARGEST:g} in size", "Correct the row.")
    if problem.reward_outside == "error":
        low, high = problem.task.reward_range or (0.0, 1.0)
        rule = f"must lie in [{low:g}, {high:g}], the declared range of rewards"
        remedy = "Declare a reward_range that contains it, or pass reward_outside='clip' or 'widen' to the agent."
        _refuse_first(source, (column,), values, ~problem.in_range(values), rule, remedy)
    return values


def _refuse_first(
    source: Source, columns: tuple[str, ...], values: FloatArray, bad: BoolArray, rule: str, remedy: str
) -> None:
    """Refuse the first bad cell, and say how many others there are."""
    if not bad.any():
        return
    row, *rest = (int(i) for i in np.argwhere(bad)[0])
    column = columns[rest[0]] if rest and len(columns) > 1 else columns[0]
    value = values[(row, *rest)]
    text = "an empty cell" if np.isnan(value) else shown(float(value)).removesuffix(".0")
    more = int(bad.sum()) - 1
    source.refuse(row, column, rule, f"{text} and {more:,} more such cells" if more else text, remedy)
