"""Rows of a log, checked cell by cell, and the episodes that they form."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, shown
from matrixrl.errors import InvalidInput
from matrixrl.logs.step_log import StepLog, rows_differ
from matrixrl.logs.table import VECTORS, Labels, LogTable
from matrixrl.problems import ContinuousTask, FunctionalTask, Problem
from matrixrl.problems.dynamics import SAME_REWARD
from matrixrl.records import BoolArray, FloatArray, IntArray
from matrixrl.spaces import Codec, NamesCodec

__all__ = ["MISSING", "Columns", "LogRows"]

Columns = dict[str, tuple[str, ...]]
"""Columns of each role that a log has; a vector has one for each coordinate."""

_RANGE = "Declare a reward_range that contains it, or pass reward_outside='clip' to the agent."
_LARGEST = 1e12  # as in Problem.reward
_EXACT = 2.0**53  # from here on float64 does not have all whole numbers
_CHECK = "Correct the row, or check the columns."
_FILL = "Fill the cell, or pass missing='drop_episode' or missing='cut_episode'."
_OF_ROWS = ("states", "actions", "rewards", "next_states", "has_next", "terminated", "truncated", "outcomes")

MISSING = ("error", "drop_episode", "cut_episode")
"""What can be done about empty cells."""


def _first(bad: BoolArray) -> int | None:
    """Return the first place where `bad` (n,) is True; None if there is none."""
    return int(np.argmax(bad)) if bad.any() else None


def _and_more(found: object, bad: BoolArray, what: str) -> str:
    """Return what was found at the first bad place, and the number of the others in words."""
    more = int(bad.sum()) - 1
    return f"{found} and {more:,} more such {what}" if more else str(found)


def _duration(time: np.timedelta64) -> str:
    """Return a time in days, or in hours, minutes and seconds."""
    days = float(time / np.timedelta64(1, "D"))
    return f"{days:g} day{'s' * (days != 1)}" if days.is_integer() else str(time.astype("timedelta64[us]").item())


class LogRows:
    """The n rows of a log of a problem with checked cells, in the order of episodes and steps.

    Attributes:
        order: (n,) Number of each row in the log.
        names: Labels of the episodes.
        notes: How rows were ordered, and what was done about empty cells, in words.
        n_incomplete: Number of episodes that were dropped or cut because of empty cells.
        decimal: Decimal character of numbers that are text.

    Raises:
        InvalidInput: A cell is not what its column must hold; the message names its place.
    """

    def __init__(self, source: LogTable, columns: Columns, problem: Problem, missing: str, decimal: str | None) -> None:
        self.source, self.columns, self.problem, self.missing = source, columns, problem, missing
        read, self.decimal = source.read(columns, self._named_columns(), decimal)
        n_rows = len(read[columns["reward"][0]])
        if not n_rows:
            fail(source.name, "must have at least one row", "none", "Check the file.")
        every = np.ones(n_rows, dtype=np.bool_)
        self._empty: dict[str, BoolArray] = {}
        """Which rows (n,) have an empty cell, for each role."""
        self._sort(read)
        self.terminated, self.truncated = self._flag("terminated", read), self._flag("truncated", read)
        self.states = self._checked_states("state", self._vector(read, "state"), every)
        self.next_states, self.has_next = np.zeros_like(self.states), ~every
        if "next_state" in columns:
            following = self._vector(read, "next_state")
            self.has_next = ~np.all(np.isnan(following).reshape(n_rows, -1), axis=1)
            self.next_states = self._checked_states("next_state", following, self.has_next)
        # Whether actions are allowed is checked later, as it may depend on the stage.
        self.actions = self._numbers("action", self._vector(read, "action"), problem.actions, every, "an action")
        self.rewards = self._checked_rewards(read[columns["reward"][0]])
        self.outcomes = self._reported_outcomes(read)
        self._note_unknown_outcomes()
        if self.steps is not None:
            self._check_steps(self.steps)
        self._check_chain()
        self.n_incomplete = 0
        self._selected = self._remove_incomplete()

    # Order

    def _sort(self, read: dict[str, Any]) -> None:
        """Order all columns by episode and step; rows whose step is empty come first in their episode."""
        episodes, note = self._episodes(read)
        steps = read[self.columns["step"][0]] if "step" in self.columns else np.zeros(len(episodes))
        ranks = np.unique(steps, return_inverse=True)[1] if steps.dtype.kind == "M" else steps
        self.order = np.lexsort((np.where(np.isnan(steps), -np.inf, ranks), episodes))
        is_sorted = not (np.diff(self.order) < 0).any()
        if not is_sorted:
            read |= {column: cells[self.order] for column, cells in read.items() if not isinstance(cells, Labels)}
            episodes, steps = episodes[self.order], steps[self.order]
        self.episodes, self.steps = episodes, steps if "step" in self.columns else None
        self._find_begins()
        self._in_order = np.ones_like(self.follows)  # whether a row belongs to an episode whose steps are all known
        self._shortest = int(self.lengths.min())
        self.notes = [note]
        if not is_sorted:
            self.notes.append("rows sorted by episode" + " and step" * (self.steps is not None))
        if self.steps is not None:
            known = self._to_check("step", self.steps, np.ones_like(self.follows))
            self._refuse_first("step", self.steps, known & np.isnan(self.steps), "must be a whole number or a date")
            self._in_order = ~np.repeat(np.logical_or.reduceat(self._empty["step"], self.begins), self.lengths)

    def _find_begins(self) -> None:
        """Find the episodes of the rows: `follows` (n,) is whether a row has the episode of the row before it."""
        self.follows = np.diff(self.episodes, prepend=-1) == 0
        self.begins = np.flatnonzero(~self.follows)
        self.lengths = np.diff(self.begins, append=len(self.follows))

    def _episodes(self, read: dict[str, Any]) -> tuple[IntArray, str]:
        """Return the number of the episode of each row (n,) in the log, and the order of the episodes in words."""
        self.names: list[str] = []
        if "episode" in self.columns:
            labels = read[self.columns["episode"][0]]
            self.names = labels.names
            order = "episodes in the order of their numbers" if labels.are_numbers else "episodes as they first appear"
            return labels.codes, order
        flags = [self.columns[role][0] for role in ("terminated", "truncated") if role in self.columns]
        if not flags:
            rule = "must have a column for the episode, or flags where an episode was terminated or truncated"
            fail(self.source.name, rule, "neither", "Name one: columns={'episode': …}.")
        for column in flags:
            if (row := _first(np.isnan(read[column]))) is not None:
                rule, remedy = "must not be empty, as it says where an episode ends", "Name a column for the episode."
                self.source.refuse(row, column, rule, "an empty cell", remedy)
        ends = np.cumsum(np.any([read[column] == 1.0 for column in flags], axis=0))
        return np.concatenate([[0], ends[:-1]]), "episodes in the order of the rows"

    # Cells

    def _named_columns(self) -> dict[str, NamesCodec]:
        """Return the names that columns hold; data sets with a format of their own hold numbers."""
        found = {}
        for role in VECTORS if self.source.roles is None else ():
            codec = self.problem.actions if role == "action" else self.problem.states
            names = self.columns.get(role, ())
            if codec is not None and len(names) == len(codec.sizes):
                leaves = [(name, codec.leaf(part)[0]) for part, name in enumerate(names)]
                found.update({name: leaf for name, leaf in leaves if isinstance(leaf, NamesCodec)})
        return found

    def _vector(self, read: dict[str, Any], role: str) -> FloatArray:
        """Return states or actions (n,) or (n, p) as the problem has them, of one or several columns."""
        problem, names = self.problem, self.columns[role]
        codec = problem.actions if role == "action" else problem.states
        shape = problem.task.state_shape if codec is None else () if len(codec.sizes) == 1 else (len(codec.sizes),)
        wanted = int(np.prod(shape))
        joined = np.concatenate([read[name].reshape(len(read[name]), -1) for name in names], axis=1)
        if joined.shape[1] != wanted:
            what = "an action" if role == "action" else "a state"
            many = "one number" if wanted == 1 else f"{wanted} coordinates"
            found = f"{joined.shape[1]}: {', '.join(map(repr, names[:5]))}"
            remedy = f"Name one column for each coordinate: columns={{{what.split()[1]!r}: ['x', 'y'], …}}."
            fail(self.source.name, f"must have {many} for {what} of {problem.name}", found, remedy)
        return joined.reshape(len(joined), *shape)

    def _to_check(self, role: str, values: NDArray[Any], among: BoolArray) -> BoolArray:
        """Note empty cells of some rows (n,), and return the rows to check: those without, or all if none may be."""
        self._empty[role] = among & np.isnan(values).reshape(len(values), -1).any(axis=1)
        return among if self.missing == "error" else among & ~self._empty[role]

    def _flag(self, role: str, read: dict[str, Any]) -> BoolArray:
        values = read[self.columns[role][0]] if role in self.columns else np.zeros(len(self.order))
        known = self._to_check(role, values, np.ones(len(values), dtype=np.bool_))
        self._refuse_first(role, values, known & np.isnan(values), "must be true or false")
        flags: BoolArray = values == 1.0
        return flags

    def _checked_states(self, role: str, values: FloatArray, among: BoolArray) -> NDArray[Any]:
        """Return states as the algorithms count them; one that is not known (n,) is 0."""
        problem = self.problem
        if problem.states is not None:
            return self._numbers(role, values, problem.states, among, "a state")
        good, rule = np.isfinite(values), "must be finite"
        is_whole = isinstance(problem.task, FunctionalTask) and problem.task.state_dtype.kind == "i"
        if is_whole:
            good, rule = good & (values == np.floor(values)), "must be a whole number"
        known = self._to_check(role, values, among)
        known = known.reshape(known.shape + (1,) * (values.ndim - 1))
        self._refuse_first(role, values, known & ~good, rule)
        inside = np.where(known, values, 0.0)
        return inside.astype(np.int64) if is_whole else inside

    def _numbers(self, role: str, values: FloatArray, codec: Codec, among: BoolArray, what: str) -> IntArray:
        """Return the numbers (n,) of elements of a finite space, given as numbers (n,) or as their parts (n, p)."""
        known, what = self._to_check(role, values, among), f"{what} of {self.problem.name}"
        n_parts = len(codec.sizes)
        digits = np.zeros((n_parts, len(values)), dtype=np.int64)
        for i, cells in enumerate(values.reshape(len(values), -1).T):
            digits[i], good = codec.digits(i, cells)
            part = what if n_parts == 1 else f"part {i + 1} of {what}"
            self._refuse_first(role, cells, known & ~good, f"{codec.rule(i)}, {part}", i)
        found: IntArray = np.where(known, np.ravel_multi_index(tuple(digits), codec.sizes), 0)
        return found

    def _checked_rewards(self, values: FloatArray) -> FloatArray:
        """Return rewards in the environment's unit: (n,)."""
        problem, known = self.problem, self._to_check("reward", values, np.ones(len(values), dtype=np.bool_))
        good = np.isfinite(values) & (np.abs(np.nan_to_num(values)) <= _LARGEST)
        self._refuse_first("reward", values, known & ~good, f"must be finite, at most {_LARGEST:g} in size")
        if problem.reward_outside == "error":
            bad = known & ~problem.in_range(values)
            self._refuse_first("reward", values, bad, problem.reward_rule(), remedy=_RANGE)
        return values

    def _check_ranges(self, stages: IntArray) -> None:
        """Refuse rewards outside the range of their pair at their stage: stages (n,)."""
        problem = self.problem
        if problem.task.reward_bounds is None or problem.reward_outside != "error":
            return
        actions = problem.task.stages.inner(self.actions, stages)
        bad = ~problem.in_range(self.rewards, self.states, actions)
        if (at := _first(bad)) is not None:
            rule = problem.reward_rule(int(self.states[at]), int(actions[at]))
            self._refuse_first("reward", self.rewards, bad, rule, remedy=_RANGE)

    def _reported_outcomes(self, read: dict[str, Any]) -> IntArray:
        """Return the numbers of the outcomes of known dynamics, −1 of an empty cell or without the column: (n,)."""
        found = np.full(len(self.rewards), -1)
        dynamics = self.problem.task.dynamics
        if dynamics is None or "outcome" not in self.columns:
            return found
        values: FloatArray = read[self.columns["outcome"][0]]
        order = np.argsort(dynamics.outcomes)
        places = order[np.searchsorted(dynamics.outcomes[order], values).clip(max=len(order) - 1)]
        known = ~np.isnan(values)
        bad = known & (dynamics.outcomes[places] != values)
        self._refuse_first("outcome", values, bad, f"must be one of the {len(order)} outcomes of {self.problem.name}")
        return np.where(known, places, found)

    def _note_unknown_outcomes(self) -> None:
        """Note empty cells of outcomes that next state and reward do not tell, if such rows are left out."""
        dynamics = self.problem.task.dynamics
        if dynamics is None or "outcome" not in self.columns or self.missing == "error":
            return
        following, known = self.next_states.copy(), self.has_next.copy()
        places = np.flatnonzero(self.follows[1:] & ~known[:-1])
        following[places], known[places] = self.states[places + 1], True
        task = self.problem.finite_task
        if task.end_state is not None:
            following[self.terminated], known[self.terminated] = task.end_state, True
        rows = np.flatnonzero(known & (self.outcomes < 0) & dynamics.matters[self.actions, self.states])
        steps = tuple(array[rows] for array in (self.states, self.actions, self.rewards, following))
        several = dynamics.fits(steps, SAME_REWARD * task.unit).sum(axis=1) > 1
        self._empty["outcome"] = np.isin(np.arange(len(known)), rows[several])

    def _known_outcomes(self, kept: IntArray, next_states: IntArray) -> IntArray | None:
        """Return the outcomes of some rows (k,) of known dynamics, reported or found; None for another problem."""
        problem = self.problem
        if problem.task.dynamics is None:
            return None
        steps = self.states[kept], self.actions[kept], self.rewards[kept], next_states[kept]
        reported = self.outcomes[kept]
        found = problem.task.dynamics.find(steps, reported, SAME_REWARD * problem.task.unit)
        if (at := _first(found == -2)) is not None:
            value = None if reported[at] < 0 else problem.task.dynamics.outcomes[reported[at]].item()
            state, action, reward, following = (array[at].item() for array in steps)
            try:
                problem.outcome(state, action, reward, following, value)
            except InvalidInput as error:
                place = self._place(int(kept[at]))
                raise InvalidInput(f"{self.source.name}, {place}: {error}") from None
        return found

    def _refuse_first(
        self, role: str, values: NDArray[Any], bad: BoolArray, rule: str, part: int = 0, remedy: str = _CHECK
    ) -> None:
        """Refuse the bad cell that is the first in the log, and say how many others there are.

        Cells (n,) are those of one part; bad ones of vectors (n, p) are of any.
        """
        if not bad.any():
            return
        table = bad.reshape(len(bad), -1)
        at = min(np.flatnonzero(table.any(axis=1)), key=lambda row: self.order[row])
        part += int(np.argmax(table[at]))
        value, names = values.reshape(table.shape)[at, np.argmax(table[at])], self.columns[role]
        is_empty = bool(np.isnan(value))
        text = "an empty cell" if is_empty else shown(float(value)).removesuffix(".0")
        name = names[part] if len(names) > 1 else names[0]
        remedy = _FILL if is_empty and self.missing == "error" else remedy
        self.source.refuse(int(self.order[at]), name, rule, _and_more(text, bad, "cells"), remedy)

    # Empty cells

    def _remove_incomplete(self) -> str | None:
        """Drop or cut episodes with empty cells, and return why that may depend on outcomes; None if it does not.

        Whether the state and the action of a step are in the log is decided before its outcome, so a cut before a step
        without them keeps the proof; a cut before a step without its reward does not (docs/proofs.md, section 14).
        """
        incomplete = np.any(list(self._empty.values()), axis=0)
        before = np.cumsum(incomplete) - incomplete
        before -= np.repeat(before[self.begins], self.lengths)  # incomplete rows before a row in its episode
        first = np.flatnonzero(incomplete & (before == 0))
        if not len(first):
            return None
        # Which first states are counted must not depend on them either, where they are estimated.
        outcome = ~self.follows[first] & self._starts_are_estimated
        outcome |= ~(self._empty["state"] | self._empty["action"])[first]
        outcome |= self._empty["step"][first] if "step" in self._empty else False
        self.n_incomplete = len(first)
        count = f"{len(first):,} episode{'s' * (len(first) != 1)}"
        where = self.source.place(int(self.order[first].min()))
        if self.missing == "drop_episode":
            kept = np.repeat(~np.logical_or.reduceat(incomplete, self.begins), self.lengths)
            self.notes.append(f"{count} with empty cells dropped, such as that of {where}")
            words = f"a log without {count} that had empty cells"
        else:
            kept = (before == 0) & ~incomplete
            self.notes.append(f"{count} cut before a row with an empty cell, such as {where}")
            where = "before a row without its reward, next state, flag, outcome, step or counted first state"
            words = f"a log with {count} cut, {int(outcome.sum()):,} of them {where}"
            # The state of a row that is cut is the next state of the row before it.
            ends = first[self.follows[first] & ~self._empty["state"][first] & ~self.has_next[first - 1]]
            self.next_states[ends - 1], self.has_next[ends - 1] = self.states[ends], True
        if not kept.any():
            rule = "must have a row before the first empty cell of its episode"
            fail(self.source.name, rule, "none", "Fill the cells.")
        for name in (*_OF_ROWS, "order", "episodes", "steps"):
            if (array := getattr(self, name)) is not None:
                setattr(self, name, array[kept])
        self._find_begins()
        return words if self.missing == "drop_episode" or outcome.any() else None

    # Episodes

    def form_episodes(self, first_step: int | None) -> tuple[StepLog, int | None, IntArray, str | None]:
        """Return the episodes, and `first_step`, the rows that are left out (k,) and `selection` of `LogPlan`.

        Raises:
            InvalidInput: Rows are repeated, contradict each other, leave gaps, go on after the end or beyond the
                horizon.
        """
        stages, number = self._stages(first_step)
        next_states, known = self._known_next_states(stages)
        self._check_allowed(stages)
        self._check_ranges(stages)
        kept = np.flatnonzero(known)
        begins = np.flatnonzero(np.diff(self.episodes[kept], prepend=-1))
        log = StepLog(
            states=self.states[kept],
            actions=self.actions[kept],
            rewards=self.rewards[kept],
            next_states=next_states[kept],
            ended=self.terminated[kept],
            firsts=stages[kept][begins],
            lengths=np.diff(begins, append=len(kept)),
            outcomes=self._known_outcomes(kept, next_states),
        )
        return log, number, self.order[~known], self._selection(stages, known)

    def _refuse(self, at: int, role: str, rule: str, received: object, remedy: str) -> None:
        """Refuse the row at a position of the sorted rows."""
        column = self.columns[role][0] if role in self.columns else None
        self.source.refuse(int(self.order[at]), column, rule, received, remedy)

    def _place(self, at: int) -> str:
        return self.source.place(int(self.order[at]))

    def _shown(self, state: Any) -> str:
        """Return a state as the log has it, for messages."""
        return self.problem.shown_state(state) if self.problem.kind == "finite" else shown(state.tolist())

    def _stages(self, first_step: int | None) -> tuple[IntArray, int | None]:
        """Return the stage of each row and the number of the first step."""
        horizon, number = self.problem.task.horizon, None
        if self.steps is None or self.steps.dtype.kind == "M":
            self._check_not_numbered(first_step)
            stages = np.arange(len(self.follows)) - np.repeat(self.begins, self.lengths)
        else:
            number = self._first_step(self.steps) if first_step is None else first_step
            stages = (self.steps - number).astype(np.int64)
            if (at := _first(stages < 0)) is not None:
                rule = f"must be at least {number}, the number of the first step"
                self._refuse(at, "step", rule, int(self.steps[at]), "Pass another first_step, or correct the row.")
        if (at := _first(stages >= horizon)) is not None:
            rule = f"must belong to one of the {horizon} steps of an episode of {self.problem.name}"
            received = f"step {int(stages[at]) + 1} of its episode"
            self._refuse(at, "step", rule, received, "Cut the episode, or declare a longer horizon.")
        return stages, number

    def _check_steps(self, steps: NDArray[Any]) -> None:
        """Refuse steps that are there twice, and numbers that are not whole or are missing between others."""
        are_dates = steps.dtype.kind == "M"
        if not are_dates:
            whole = np.isnan(steps) | ((steps == np.floor(steps)) & (np.abs(steps) < _EXACT))
            if (at := _first(~whole)) is not None:
                self._refuse(
                    at, "step", "must be a whole number", shown(float(steps[at])), "Number the steps 0, 1, 2, …"
                )
        both, jump = self.follows & self._in_order, np.diff(steps, prepend=steps[:1])
        if (at := _first(both & ~jump.astype(np.bool_))) is not None:
            names = (*_OF_ROWS[:5], "terminated")
            same = all(np.array_equal(getattr(self, name)[at], getattr(self, name)[at - 1]) for name in names)
            rule = "must be another step than those before it" if same else "must not contradict another row"
            how = "the same step of the same episode as" if same else "another outcome of the same step as"
            self._refuse(at, "step", rule, f"{how} {self._place(at - 1)}", "Remove one of the two rows.")
        if are_dates and both.any():
            apart = " to ".join(dict.fromkeys(_duration(one) for one in (jump[both].min(), jump[both].max())))
            self.notes.append(f"dates are {apart} apart in an episode, and no row may be missing between them")
        if not are_dates and (at := _first(both & (jump != 1.0))) is not None:
            rule = f"must be {int(steps[at - 1]) + 1}, as no step of an episode may be missing between others"
            remedy = f"Add the missing rows, or give what follows another episode; see {self._place(at - 1)}."
            self._refuse(at, "step", rule, int(steps[at]), remedy)

    def _first_step(self, steps: FloatArray) -> int:
        """Return the number of the first step, 0 or 1; refuse where both are possible and the difference matters."""
        problem, least = self.problem, int(steps.min())
        if least not in (0, 1):
            rule, remedy = "must have a step 0 or 1", "Pass first_step=…, the number of the first step of an episode."
            fail(self.source.name, rule, f"steps from {least}", remedy)
        # Steps may count from 1, or from 0 with the first row of every episode missing.
        why = self._why_first_steps_matter()
        if least == 1 and why is not None and (problem.task.is_staged or steps.max() < problem.task.horizon):
            rule = f"must come with first_step=…, as {why} and no row has step 0"
            remedy = "Pass first_step=1 if steps count from 1, or first_step=0 if the first steps are missing."
            fail(self.source.name, rule, "steps from 1", remedy)
        return least

    def _check_not_numbered(self, first_step: int | None) -> None:
        """Refuse rows without numbers of steps if the first ones may be missing and the difference matters.

        No row of an episode of H rows is missing, so only the shortest one counts.
        """
        if first_step not in (None, 0):
            rule = "must be 0 for a log without numbers of steps, in which every episode begins with its first step"
            fail("first_step", rule, first_step, "Name the column of steps: columns={'step': …}.")
        why = self._why_first_steps_matter()
        if first_step is None and why is not None and self._shortest < self.problem.task.horizon:
            rule = f"must come with first_step=0 or a column of steps, as {why}"
            received = "neither, and episodes whose first rows may be missing"
            remedy = "Pass first_step=0 if every episode begins with its first step; else number the steps."
            fail(self.source.name, rule, received, remedy)

    def _why_first_steps_matter(self) -> str | None:
        """Return why it matters whether a row is the first of its episode, in words; None if it does not."""
        if self.problem.task.is_staged:
            return "laws differ between stages"
        return "first states are estimated from the log" if self._starts_are_estimated else None

    @property
    def _starts_are_estimated(self) -> bool:
        return self.problem.kind == "finite" and not self.problem.task.start_is_declared

    def _check_chain(self) -> None:
        """Refuse rows after the end of an episode, and steps that do not begin where the one before ended."""
        over, differs = np.zeros_like(self.follows), np.zeros_like(self.follows)
        over[1:] = (self.follows & self._in_order)[1:] & (self.terminated | self.truncated)[:-1]
        if (at := _first(over)) is not None:
            role = "terminated" if self.terminated[at - 1] else "truncated"
            received = f"a row after {self._place(at - 1)}, where its episode was {role}"
            self._refuse(at, "episode", "must belong to an episode that goes on", received, "Give it another episode.")
        known = self.has_next[:-1] & ~self._empty["state"][1:] & self._in_order[1:]
        if "next_state" in self._empty:
            known &= ~self._empty["next_state"][:-1]
        differs[1:] = self.follows[1:] & known & rows_differ(self.states[1:], self.next_states[:-1])
        if (at := _first(differs)) is not None:
            rule = f"must be {self._shown(self.next_states[at - 1])}, the next state of {self._place(at - 1)}"
            received = _and_more(self._shown(self.states[at]), differs, "rows")
            self._refuse(at, "state", rule, received, "Correct the rows, or give what follows another episode.")

    def _check_allowed(self, stages: IntArray) -> None:
        """Refuse actions that are not allowed in their state at their stage: stages (n,)."""
        problem, allowed = self.problem, self.problem.allowed_by_action
        if allowed is None:
            return
        bad = ~allowed[problem.task.stages.inner(self.actions, stages), self.states]
        if (at := _first(bad)) is not None:
            own = slice(*problem.task.choices[stages[at]])
            listed = problem.env_actions(allowed[own, self.states[at]])
            rule = f"must be one of {listed}, allowed in {problem.place(self.states[at], stages[at])}"
            received = _and_more(problem.env_action(int(self.actions[at])), bad, "cells")
            self._refuse(at, "action", rule, received, "Correct the row, or the declaration of allowed actions.")

    def _known_next_states(self, stages: IntArray) -> tuple[NDArray[Any], BoolArray]:
        """Return the next state of each row, and which rows are learned from: those whose next state is known.

        If the log has no column of next states, all rows of the last stage are left out, also those that were
        terminated: which rows are learned from must not depend on what happened in them (docs/proofs.md, section 14).
        """
        task, known, found = self.problem.task, self.has_next.copy(), self.next_states.copy()
        places = np.flatnonzero(self.follows[1:] & ~known[:-1])
        found[places], known[places] = self.states[places + 1], True
        ended = np.flatnonzero(self.terminated)
        if isinstance(task, ContinuousTask):
            ended = ended[~known[ended]]  # nothing follows, so the next state does not matter; it must be some vector
            found[ended] = self.states[ended]
        elif len(ended):
            if task.end_state is None:
                remedy = "Build the Task with may_terminate=True, or name one of its states as end_state=…."
                rule = "must be false for a problem without an end state"
                self._refuse(int(ended[0]), "terminated", rule, True, remedy)
            found[ended] = task.end_state
        known[ended] = True
        if not isinstance(task, ContinuousTask) and "next_state" not in self.columns:
            known[stages == task.horizon - 1] = False
        return found, known

    def _selection(self, stages: IntArray, known: BoolArray) -> str | None:
        """Return why leaving out rows may be a selection by their outcomes; None if a rule decided before them."""
        if self._selected is not None:
            return self._selected
        last = stages == self.problem.task.horizon - 1
        early = int((~known & ~last).sum())
        if early:
            return (
                f"{early} last rows of episodes that stopped before the last stage were left out of a log, as their "
                "next state is not known"
            )
        missing = int((~known[last]).sum())
        if missing and known[last].any():
            return f"{missing} rows of the last stage were left out of a log, and others were not"
        if missing and "next_state" in self.columns:
            return f"{missing} rows of the last stage were left out of a log, as their next states are empty cells"
        return None
