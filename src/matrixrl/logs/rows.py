"""Rows of a log, checked cell by cell, and the episodes that they form."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, shown
from matrixrl.errors import InvalidInput
from matrixrl.logs.step_log import StepLog, rows_differ
from matrixrl.logs.table import VECTORS, LogTable
from matrixrl.problems import ContinuousTask, FunctionalTask, Problem
from matrixrl.problems.dynamics import SAME_REWARD
from matrixrl.records import BoolArray, FloatArray, IntArray
from matrixrl.spaces import Codec, NamesCodec

__all__ = ["Columns", "LogRows"]

Columns = dict[str, tuple[str, ...]]
"""Columns of each role that a log has; a vector has one for each coordinate."""

_LARGEST = 1e12  # as in Problem.reward
_CHECK = "Correct the row, or check the columns."


def _first(bad: BoolArray) -> int | None:
    """Return the first place where `bad` (n,) is True; None if there is none."""
    return int(np.argmax(bad)) if bad.any() else None


def _and_more(found: object, bad: BoolArray, what: str) -> str:
    """Return what was found at the first bad place, and the number of the others in words."""
    more = int(bad.sum()) - 1
    return f"{found} and {more:,} more such {what}" if more else str(found)


class LogRows:
    """The n rows of a log of a problem with checked cells, in the order of episodes and steps.

    Raises:
        InvalidInput: A cell is not what its column must hold; the message names its place.
    """

    def __init__(self, source: LogTable, columns: Columns, problem: Problem) -> None:
        self.source, self.columns, self.problem = source, columns, problem
        read = source.read(columns, self._named_columns())
        rewards: FloatArray = read[columns["reward"][0]]
        n_rows = len(rewards)
        if not n_rows:
            fail(source.name, "must have at least one row", "none", "Check the file.")
        none = np.zeros(n_rows, dtype=np.bool_)
        self.states = self._checked_states("state", self._vector(read, "state"), ~none)
        self.next_states, self.has_next = np.zeros_like(self.states), none
        if "next_state" in columns:
            following = self._vector(read, "next_state")
            self.has_next = ~np.all(np.isnan(following).reshape(n_rows, -1), axis=1)
            self.next_states = self._checked_states("next_state", following, self.has_next)
        self.terminated, self.truncated = (
            read[columns[role][0]] if role in columns else none for role in ("terminated", "truncated")
        )
        self.steps: FloatArray | None = read[columns["step"][0]] if "step" in columns else None
        episodes, self.names, self.order_note = self._episodes(read)
        # Whether actions are allowed is checked later, as it may depend on the stage.
        what = f"an action of {problem.name}"
        self.actions = self._numbers(columns["action"], self._vector(read, "action"), problem.actions, ~none, what)
        self.rewards = self._checked_rewards(rewards)
        self.outcomes = self._reported_outcomes(read)
        self._sort(episodes)

    def _sort(self, episodes: IntArray) -> None:
        """Order all arrays by episode and step; `order` has the number of each row in the log."""
        steps = np.zeros(len(episodes)) if self.steps is None else self.steps
        self.order = np.lexsort((np.arange(len(steps)), steps, episodes))
        self.episodes = episodes[self.order]
        self.steps = None if self.steps is None else self.steps[self.order]
        names = ("states", "next_states", "has_next", "terminated", "truncated", "actions", "rewards", "outcomes")
        for name in names:
            setattr(self, name, getattr(self, name)[self.order])
        self.follows = np.zeros(len(steps), dtype=np.bool_)
        self.follows[1:] = self.episodes[1:] == self.episodes[:-1]

    # Cells

    def _named_columns(self) -> dict[str, NamesCodec]:
        """Return the names that columns hold; data sets with a format of their own hold numbers."""
        found = {}
        for role in VECTORS if self.source.roles is None else ():
            codec = self.problem.actions if role == "action" else self.problem.states
            names = self.columns.get(role, ())
            if codec is not None and len(names) == len(codec.sizes):
                leaves = [codec.leaf(part)[0] for part in range(len(names))]
                found.update(
                    {name: leaf for name, leaf in zip(names, leaves, strict=True) if isinstance(leaf, NamesCodec)}
                )
        return found

    def _vector(self, read: dict[str, Any], role: str) -> FloatArray:
        """Return states or actions (n,) or (n, p) as the problem has them, of one or several columns."""
        problem, names = self.problem, self.columns[role]
        codec = problem.actions if role == "action" else problem.states
        shape = problem.task.state_shape if codec is None else () if len(codec.sizes) == 1 else (len(codec.sizes),)
        wanted = int(np.prod(shape))
        parts = [read[name].reshape(len(read[name]), -1) for name in names]
        joined = np.concatenate(parts, axis=1)
        if joined.shape[1] != wanted:
            what = "an action" if role == "action" else "a state"
            many = "one number" if wanted == 1 else f"{wanted} coordinates"
            found = f"{joined.shape[1]}: {', '.join(map(repr, names[:5]))}"
            remedy = f"Name one column for each coordinate: columns={{{what.split()[1]!r}: ['x', 'y'], …}}."
            fail(self.source.name, f"must have {many} for {what} of {problem.name}", found, remedy)
        return joined.reshape(len(joined), *shape)

    def _checked_states(self, role: str, values: FloatArray, known: BoolArray) -> NDArray[Any]:
        """Return states as the algorithms count them; one that is not known (n,) is 0."""
        problem, names = self.problem, self.columns[role]
        if problem.states is not None:
            return self._numbers(names, values, problem.states, known, f"a state of {problem.name}")
        good, rule = np.isfinite(values), "must be finite"
        is_whole = isinstance(problem.task, FunctionalTask) and problem.task.state_dtype.kind == "i"
        if is_whole:
            good, rule = good & (values == np.floor(values)), "must be a whole number"
        wide = known.reshape(known.shape + (1,) * (values.ndim - 1))
        self._refuse_first(names, values, wide & ~good, rule)
        inside = np.where(wide, values, 0.0)
        return inside.astype(np.int64) if is_whole else inside

    def _numbers(
        self, names: tuple[str, ...], values: FloatArray, codec: Codec, known: BoolArray, what: str
    ) -> IntArray:
        """Return the numbers (n,) of elements of a finite space, given as numbers (n,) or as their parts (n, p)."""
        n_parts = len(codec.sizes)
        digits = np.zeros((len(values), n_parts), dtype=np.int64)
        table = values.reshape(len(values), -1)
        for i in range(n_parts):
            digits[:, i], good = codec.digits(i, table[:, i])
            own = names[i : i + 1] if len(names) == n_parts else names
            part = what if n_parts == 1 else f"part {i + 1} of {what}"
            self._refuse_first(own, table[:, i], known & ~good, f"{codec.rule(i)}, {part}")
        found: IntArray = np.where(known, np.ravel_multi_index(tuple(digits.T), codec.sizes), 0)
        return found

    def _checked_rewards(self, values: FloatArray) -> FloatArray:
        """Return rewards in the environment's unit: (n,)."""
        names, problem = self.columns["reward"], self.problem
        good = np.isfinite(values) & (np.abs(np.nan_to_num(values)) <= _LARGEST)
        self._refuse_first(names, values, ~good, f"must be finite, at most {_LARGEST:g} in size", "Correct the row.")
        if problem.reward_outside == "error":
            low, high = problem.task.reward_range or (0.0, 1.0)
            rule = f"must lie in [{low:g}, {high:g}], the declared range of rewards"
            remedy = "Declare a reward_range that contains it, or pass reward_outside='clip' to the agent."
            self._refuse_first(names, values, ~problem.in_range(values), rule, remedy)
        return values

    def _reported_outcomes(self, read: dict[str, Any]) -> IntArray:
        """Return the numbers of the outcomes of known dynamics, −1 of an empty cell or without the column: (n,)."""
        found = np.full(len(self.rewards), -1)
        dynamics = self.problem.task.dynamics
        if dynamics is None or "outcome" not in self.columns:
            return found
        names = self.columns["outcome"]
        values: FloatArray = read[names[0]]
        order = np.argsort(dynamics.outcomes)
        places = order[np.searchsorted(dynamics.outcomes[order], values).clip(max=len(order) - 1)]
        known = ~np.isnan(values)
        bad = known & (dynamics.outcomes[places] != values)
        self._refuse_first(names, values, bad, f"must be one of the {len(order)} outcomes of {self.problem.name}")
        return np.where(known, places, found)

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
        self, names: tuple[str, ...], values: FloatArray, bad: BoolArray, rule: str, remedy: str = _CHECK
    ) -> None:
        """Refuse the first bad cell, and say how many others there are."""
        if not bad.any():
            return
        row, *rest = (int(i) for i in np.argwhere(bad)[0])
        value = values[(row, *rest)]
        text = "an empty cell" if np.isnan(value) else shown(float(value)).removesuffix(".0")
        name = names[rest[0]] if rest and len(names) > 1 else names[0]
        self.source.refuse(row, name, rule, _and_more(text, bad, "cells"), remedy)

    def _episodes(self, read: dict[str, Any]) -> tuple[IntArray, list[str], str]:
        """Return the number of the episode of each row (n,), the names of the episodes, and their order in words."""
        if "episode" in self.columns:
            labels = read[self.columns["episode"][0]]
            order = "episodes in the order of their numbers" if labels.are_numbers else "episodes as they first appear"
            return labels.codes, labels.names, order
        if "terminated" not in self.columns and "truncated" not in self.columns:
            rule = "must have a column for the episode, or flags where an episode was terminated or truncated"
            fail(self.source.name, rule, "neither", "Name one: columns={'episode': …}.")
        ends = np.cumsum(self.terminated | self.truncated)
        return np.concatenate([[0], ends[:-1]]), [], "episodes in the order of the rows"

    # Episodes

    def form_episodes(self, first_step: int | None) -> tuple[StepLog, int | None, IntArray, str | None]:
        """Return the episodes, and `first_step`, the rows that are left out (k,) and `selection` of `LogPlan`.

        Raises:
            InvalidInput: Rows are repeated, contradict each other, leave gaps, go on after the end or beyond the
                horizon.
        """
        stages, number = self._stages(first_step)
        self._check_chain()
        next_states, known = self._known_next_states(stages)
        self._check_allowed(stages)
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
        if self.steps is None:
            begins = np.flatnonzero(~self.follows)
            lengths = np.diff(begins, append=len(self.follows))
            self._check_not_numbered(first_step, int(lengths.min()))
            stages = np.arange(len(self.follows)) - np.repeat(begins, lengths)
        else:
            self._check_numbers(self.steps)
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

    def _check_numbers(self, steps: FloatArray) -> None:
        """Refuse steps that are not whole numbers, are there twice, or are missing between others."""
        if (at := _first(~((steps == np.floor(steps)) & (np.abs(steps) < 2.0**53)))) is not None:
            self._refuse(at, "step", "must be a whole number", shown(float(steps[at])), "Number the steps 0, 1, 2, …")
        jump = np.where(self.follows, np.diff(steps, prepend=steps[0]), 1.0)
        if (at := _first(jump == 0.0)) is not None:
            names = ("states", "actions", "rewards", "next_states", "has_next", "terminated")
            same = all(np.array_equal(getattr(self, name)[at], getattr(self, name)[at - 1]) for name in names)
            rule = "must be another step than those before it" if same else "must not contradict another row"
            how = "the same step of the same episode as" if same else "another outcome of the same step as"
            self._refuse(at, "step", rule, f"{how} {self._place(at - 1)}", "Remove one of the two rows.")
        if (at := _first(jump != 1.0)) is not None:
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

    def _check_not_numbered(self, first_step: int | None, shortest: int) -> None:
        """Refuse rows without numbers of steps if the first ones may be missing and the difference matters.

        No row of an episode of H rows is missing, so only the `shortest` one counts.
        """
        if first_step not in (None, 0):
            rule = "must be 0 for a log without a column of steps, in which every episode begins with its first step"
            fail("first_step", rule, first_step, "Name the column of steps: columns={'step': …}.")
        why = self._why_first_steps_matter()
        if first_step is None and why is not None and shortest < self.problem.task.horizon:
            rule = f"must come with first_step=0 or a column of steps, as {why}"
            received = "neither, and episodes whose first rows may be missing"
            remedy = "Pass first_step=0 if every episode begins with its first step; else number the steps."
            fail(self.source.name, rule, received, remedy)

    def _why_first_steps_matter(self) -> str | None:
        """Return why it matters whether a row is the first of its episode, in words; None if it does not."""
        if self.problem.task.is_staged:
            return "laws differ between stages"
        is_estimated = self.problem.kind == "finite" and not self.problem.task.start_is_declared
        return "first states are estimated from the log" if is_estimated else None

    def _check_chain(self) -> None:
        """Refuse rows after the end of an episode, and steps that do not begin where the one before ended."""
        over, differs = np.zeros_like(self.follows), np.zeros_like(self.follows)
        over[1:] = self.follows[1:] & (self.terminated | self.truncated)[:-1]
        if (at := _first(over)) is not None:
            role = "terminated" if self.terminated[at - 1] else "truncated"
            received = f"a row after {self._place(at - 1)}, where its episode was {role}"
            self._refuse(at, "episode", "must belong to an episode that goes on", received, "Give it another episode.")
        differs[1:] = self.follows[1:] & self.has_next[:-1] & rows_differ(self.states[1:], self.next_states[:-1])
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
