"""States, actions and rewards of whole columns, checked as `Problem` checks those of one step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, shown
from matrixrl.coding import Codec
from matrixrl.logs.source import Source
from matrixrl.problems import FunctionalTask, Problem
from matrixrl.problems.masks import action_list
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["checked_actions", "checked_rewards", "checked_states", "join_actions", "join_coordinates"]

_LARGEST = 1e12  # as in Problem.reward


def join_coordinates(source: Source, columns: tuple[str, ...], parts: list[FloatArray], problem: Problem) -> FloatArray:
    """Return one column of states (n,) or vectors (n, p) as the problem has them, of one or several columns.

    Observations of a finite problem with p > 1 parts have p columns, in the order of the observation space.
    """
    shape = _shape_of(problem.states) if problem.states is not None else problem.state_shape
    return _joined(source, columns, parts, shape, f"a state of {problem.name}", "state")


def join_actions(source: Source, columns: tuple[str, ...], parts: list[FloatArray], problem: Problem) -> FloatArray:
    """Return one column of actions (n,), or of their parts (n, p) in the order of the action space."""
    return _joined(source, columns, parts, _shape_of(problem.actions), f"an action of {problem.name}", "action")


def _shape_of(codec: Codec) -> tuple[int, ...]:
    return () if len(codec.sizes) == 1 else (len(codec.sizes),)


def _joined(
    source: Source, columns: tuple[str, ...], parts: list[FloatArray], shape: tuple[int, ...], what: str, role: str
) -> FloatArray:
    wanted = int(np.prod(shape)) if shape else 1
    widths = [part.shape[1] if part.ndim == 2 else 1 for part in parts]
    if sum(widths) != wanted:
        many = "one number" if wanted == 1 else f"{wanted} coordinates"
        found = f"{sum(widths)}: {', '.join(map(repr, columns[:5]))}"
        remedy = f"Name one column for each coordinate: columns={{{role!r}: ['x', 'y'], …}}."
        fail(source.name, f"must have {many} for {what}", found, remedy)
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
    if problem.states is not None:
        return _numbers(source, columns, values, problem.states, known, f"a state of {problem.name}")
    good = np.isfinite(values)
    rule = "must be finite"
    is_whole = isinstance(task, FunctionalTask) and task.state_dtype.kind == "i"
    if is_whole:
        good &= values == np.floor(values)
        rule = "must be a whole number"
    _refuse_first(source, columns, values, wide & ~good, rule, "Correct the row, or check the columns.")
    inside = np.where(wide, values, 0.0)
    return inside.astype(np.int64) if is_whole else inside


def _numbers(
    source: Source, columns: tuple[str, ...], values: FloatArray, codec: Codec, known: BoolArray, what: str
) -> IntArray:
    """Return the numbers (n,) of elements of a finite space, given as numbers (n,) or as their parts (n, p)."""
    digits = np.zeros((len(values), len(codec.sizes)), dtype=np.int64)
    table = values.reshape(len(values), -1)
    for i in range(len(codec.sizes)):
        digits[:, i], good = codec.digits(i, table[:, i])
        part = what if len(codec.sizes) == 1 else f"part {i + 1} of {what}"
        own = columns[i : i + 1] if len(columns) == len(codec.sizes) else columns
        rule = f"{codec.rule(i)}, {part}"
        _refuse_first(source, own, table[:, i], known & ~good, rule, "Correct the row, or check the columns.")
    found: IntArray = np.where(known, np.ravel_multi_index(tuple(digits.T), codec.sizes), 0)
    return found


def checked_actions(
    source: Source, columns: tuple[str, ...], values: FloatArray, states: Any, problem: Problem
) -> IntArray:
    """Return actions counted from 0: (n,), from numbers (n,) or parts (n, p); each must be allowed in its state."""
    everywhere = np.ones(len(values), dtype=np.bool_)
    actions = _numbers(source, columns, values, problem.actions, everywhere, f"an action of {problem.name}")
    by_action = problem.allowed_by_action if problem.stages is None else None  # else it is checked with the stage
    if by_action is not None and not by_action[actions, states].all():
        bad = ~by_action[actions, states]
        state = int(states[int(np.argmax(bad))])
        listed = action_list(by_action[:, state], problem.actions)
        rule = f"must be one of {listed}, allowed in state {problem.shown_state(state)}"
        cells = values.reshape(len(values), -1)[:, 0]
        _refuse_first(source, columns, cells, bad, rule, "Correct the row, or the declaration of allowed actions.")
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
