"""From checked cells to episodes: rows in order, chains without gaps, next states, the rows that are left out."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, shown
from matrixrl.logs.source import Source
from matrixrl.logs.step_log import StepLog, rows_differ
from matrixrl.problems import ContinuousTask, Problem
from matrixrl.problems.masks import action_list
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["Arranged", "Rows", "arrange"]


@dataclass(frozen=True)
class Rows:
    """Checked cells of the n rows of a log, in the order of the log.

    Attributes:
        episodes: (n,) Number of the episode of each row, in the order in which episodes are learned from.
        steps: (n,) Number of each step as the log gives it; None if rows are not numbered.
        states: (n, …) States.
        actions: (n,) Actions, counted from 0.
        rewards: (n,) Rewards.
        next_states: (n, …) Next states; any state where the next one is not known.
        has_next: (n,) Whether the next state is known.
        terminated: (n,) Whether the environment ended the episode.
        truncated: (n,) Whether the episode was cut.
    """

    episodes: IntArray
    steps: FloatArray | None
    states: NDArray[Any]
    actions: IntArray
    rewards: FloatArray
    next_states: NDArray[Any]
    has_next: BoolArray
    terminated: BoolArray
    truncated: BoolArray

    def taken(self, order: IntArray) -> Rows:
        """Return some of the rows, in another order."""
        arrays: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays |= {name: array[order] for name, array in arrays.items() if array is not None}
        return Rows(**arrays)


@dataclass(frozen=True)
class Arranged:
    """The episodes of a log.

    Attributes:
        log: The steps to learn from.
        first_step: Number that the log gives to the first step; None if rows are not numbered.
        left_out: (k,) Rows of the log that are left out.
        selection: Why leaving out rows may be a selection by their outcomes, in words; None if it is not.
    """

    log: StepLog
    first_step: int | None
    left_out: IntArray
    selection: str | None


class _Arranger:
    """The rows of a log in the order of episodes and steps, with the number of each row in the log."""

    def __init__(self, source: Source, rows: Rows, problem: Problem, columns: dict[str, tuple[str, ...]]) -> None:
        self.source, self.problem, self.columns = source, problem, columns
        steps = np.zeros(len(rows.actions)) if rows.steps is None else rows.steps
        self.order = np.lexsort((np.arange(len(steps)), steps, rows.episodes))
        self.rows = rows.taken(self.order)
        self.follows = np.zeros(len(steps), dtype=np.bool_)
        self.follows[1:] = self.rows.episodes[1:] == self.rows.episodes[:-1]

    def refuse(self, at: int, role: str | None, rule: str, received: object, remedy: str) -> None:
        """Refuse the row at a position of the sorted rows."""
        column = self.columns[role][0] if role in self.columns else None
        self.source.refuse(int(self.order[at]), column, rule, received, remedy)

    def place(self, at: int) -> str:
        """Return the place of a sorted row in words."""
        return self.source.place(int(self.order[at]))

    def stages(self, first_step: int | None) -> tuple[IntArray, int | None]:
        """Return the stage of each row and the number of the first step; refuse duplicates, gaps, long episodes."""
        steps, horizon = self.rows.steps, self.problem.task.horizon
        if steps is None:
            begins = np.flatnonzero(~self.follows)
            stages = np.arange(len(self.follows)) - np.repeat(begins, np.diff(begins, append=len(self.follows)))
            number = None
        else:
            self._check_numbers(steps)
            number = self._first_step(steps, first_step)
            stages = (steps - number).astype(np.int64)
            if (stages < 0).any():
                at = int(np.argmax(stages < 0))
                rule = f"must be at least {number}, the number of the first step"
                self.refuse(at, "step", rule, int(steps[at]), "Pass another first_step, or correct the row.")
        if (stages >= horizon).any():
            at = int(np.argmax(stages >= horizon))
            rule = f"must belong to one of the {horizon} steps of an episode of {self.problem.name}"
            remedy = "Cut the episode, or declare a longer horizon."
            self.refuse(at, "step", rule, f"step {int(stages[at]) + 1} of its episode", remedy)
        return stages, number

    def _check_numbers(self, steps: FloatArray) -> None:
        bad = ~((steps == np.floor(steps)) & (np.abs(steps) < 2.0**53))
        if bad.any():
            at = int(np.argmax(bad))
            self.refuse(at, "step", "must be a whole number", shown(float(steps[at])), "Number the steps 0, 1, 2, …")
        jump = np.zeros(len(steps))
        jump[1:] = np.where(self.follows[1:], np.diff(steps), 1.0)
        jump[:1] = 1.0
        if (jump == 0.0).any():
            at = int(np.argmax(jump == 0.0))
            same = self._same_outcome(at)
            rule = "must be another step than those before it" if same else "must not contradict another row"
            how = "the same step of the same episode as" if same else "another outcome of the same step as"
            self.refuse(at, "step", rule, f"{how} {self.place(at - 1)}", "Remove one of the two rows.")
        if (jump != 1.0).any():
            at = int(np.argmax(jump != 1.0))
            rule = f"must be {int(steps[at - 1]) + 1}, as no step of an episode may be missing between others"
            remedy = f"Add the missing rows, or give what follows another episode; see {self.place(at - 1)}."
            self.refuse(at, "step", rule, int(steps[at]), remedy)

    def _same_outcome(self, at: int) -> bool:
        rows = self.rows
        arrays = (rows.states, rows.actions, rows.rewards, rows.next_states, rows.has_next, rows.terminated)
        return all(np.array_equal(array[at], array[at - 1]) for array in arrays)

    def _first_step(self, steps: FloatArray, given: int | None) -> int:
        if given is not None:
            return given
        least = int(steps.min())
        if least not in (0, 1):
            rule, remedy = "must have a step 0 or 1", "Pass first_step=…, the number of the first step of an episode."
            fail(self.source.name, rule, f"steps from {least}", remedy)
        # Steps may count from 1, or from 0 with the first row of every episode missing.
        why = None
        if least == 1 and self.problem.stages is not None:
            why = "laws differ between stages"
        elif least == 1 and self._estimates_start and steps.max() < self.problem.task.horizon:
            why = "first states are estimated from the log"
        if why is not None:
            rule = f"must come with first_step=…, as {why} and no row has step 0"
            remedy = "Pass first_step=1 if steps count from 1, or first_step=0 if the first steps are missing."
            fail(self.source.name, rule, "steps from 1", remedy)
        return least

    @property
    def _estimates_start(self) -> bool:
        """Whether first states of the log are draws of a start that nobody declared."""
        return self.problem.kind == "finite" and not self.problem.start_is_declared

    def check_chain(self) -> None:
        """Refuse rows after the end of an episode, and steps that do not begin where the one before ended."""
        rows, follows = self.rows, self.follows
        over = np.zeros(len(follows), dtype=np.bool_)
        over[1:] = follows[1:] & (rows.terminated | rows.truncated)[:-1]
        if over.any():
            at = int(np.argmax(over))
            role = "terminated" if rows.terminated[at - 1] else "truncated"
            received = f"a row after {self.place(at - 1)}, where its episode was {role}"
            self.refuse(at, "episode", "must belong to an episode that goes on", received, "Give it another episode.")
        differs = np.zeros(len(follows), dtype=np.bool_)
        differs[1:] = follows[1:] & rows.has_next[:-1] & rows_differ(rows.states[1:], rows.next_states[:-1])
        if differs.any():
            at = int(np.argmax(differs))
            expected, found = (self._shown(state) for state in (rows.next_states[at - 1], rows.states[at]))
            rule = f"must be {expected}, the next state of {self.place(at - 1)}"
            more = int(differs.sum()) - 1
            received = f"{found} and {more:,} more such rows" if more else found
            self.refuse(at, "state", rule, received, "Correct the rows, or give what follows another episode.")

    def check_allowed(self, stages: IntArray) -> None:
        """Refuse actions that their stage does not allow, where that depends on the stage: stages (n,)."""
        allowed, problem, rows = self.problem.allowed_by_action, self.problem, self.rows
        if allowed is None or problem.stages is None:
            return
        bad = ~allowed[problem.inner_number(rows.actions, stages), rows.states]
        if bad.any():
            at = int(np.argmax(bad))
            known = problem.allowed_at(int(rows.states[at]), int(stages[at]))
            listed = [] if known is None else action_list(known, problem.actions)
            rule = f"must be one of {listed}, allowed in state {self._shown(rows.states[at])} at stage {stages[at]}"
            remedy = "Correct the row, or the declaration of allowed actions."
            self.refuse(at, "action", rule, problem.own_action(int(rows.actions[at])), remedy)

    def _shown(self, state: Any) -> str:
        """Return a state as the log has it, for messages."""
        return self.problem.shown_state(state) if self.problem.kind == "finite" else shown(state.tolist())

    def next_states(self, stages: IntArray) -> tuple[NDArray[Any], BoolArray]:
        """Return the next state of each row, and which rows are learned from: those whose next state is known.

        If the log has no column of next states, all rows of the last stage are left out, also those that were
        terminated: which rows are learned from must not depend on what happened in them (docs/proofs.md, section 14).

        Args:
            stages: (n,) Stage of each row.
        """
        rows, known, found = self.rows, self.rows.has_next.copy(), self.rows.next_states.copy()
        from_row = np.zeros(len(known), dtype=np.bool_)
        from_row[:-1] = self.follows[1:] & ~known[:-1]
        places = np.flatnonzero(from_row)
        found[places], known[places] = rows.states[places + 1], True
        ended = np.flatnonzero(rows.terminated)
        if isinstance(self.problem.task, ContinuousTask):
            ended = ended[~known[ended]]  # nothing follows, so the next state does not matter; it must be some vector
            found[ended] = rows.states[ended]
        elif len(ended):
            if self.problem.task.end_state is None:
                remedy = "Build the Task with may_terminate=True, or name one of its states as end_state=…."
                rule = "must be false for a problem without an end state"
                self.refuse(int(ended[0]), "terminated", rule, True, remedy)
            found[ended] = self.problem.task.end_state
        known[ended] = True
        last = stages == self.problem.task.horizon - 1
        if not isinstance(self.problem.task, ContinuousTask) and "next_state" not in self.columns:
            known[last] = False
        return found, known

    def selection(self, stages: IntArray, known: BoolArray) -> str | None:
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


def arrange(
    source: Source, rows: Rows, problem: Problem, columns: dict[str, tuple[str, ...]], first_step: int | None
) -> Arranged:
    """Return the episodes of checked rows.

    Args:
        source: The log, for messages.
        rows: Its cells.
        problem: The problem.
        columns: Columns of each role, for messages.
        first_step: Number of the first step of an episode; 0 or 1, whichever occurs, if None.

    Raises:
        InvalidInput: Rows are repeated, contradict each other, leave gaps, go on after the end or beyond the horizon.
    """
    sorted_rows = _Arranger(source, rows, problem, columns)
    stages, number = sorted_rows.stages(first_step)
    sorted_rows.check_chain()
    next_states, known = sorted_rows.next_states(stages)
    own = sorted_rows.rows
    kept = np.flatnonzero(known)
    episodes = own.episodes[kept]
    begins = np.flatnonzero(np.diff(episodes, prepend=-1))
    sorted_rows.check_allowed(stages)
    log = StepLog(
        states=own.states[kept],
        actions=problem.inner_number(own.actions, stages)[kept],
        rewards=own.rewards[kept],
        next_states=next_states[kept],
        ended=own.terminated[kept],
        firsts=stages[kept][begins],
        lengths=np.diff(begins, append=len(kept)),
    )
    left_out = np.flatnonzero(~known)
    return Arranged(log, number, sorted_rows.order[left_out], sorted_rows.selection(stages, known))
