"""Which actions are allowed, as an algorithm knows it: declared, or reported by the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail
from matrixrl.core.greedy import greedy_actions, lowest_first, tie_weights
from matrixrl.errors import InvalidInput
from matrixrl.problems.action_masks import NOT_PLAYED, REPORTED_MASKS, TRIED, ActionMasks, action_list
from matrixrl.records import BoolArray, Plan, Steps

if TYPE_CHECKING:
    from matrixrl.algorithms.base import Algorithm

__all__ = ["KnownMasks"]


class KnownMasks:
    """The allowed actions of a problem as far as they are known.

    Args:
        algorithm: The algorithm, whose `_use_masks` is called after a mask was reported.
        may_learn: Whether it can learn masks while it plays.

    Attributes:
        reported: Masks that the environment reported so far, another object after each new one; None without any.
        may_be_reported: Whether allowed actions are not declared, so that an environment may report them.
    """

    def __init__(self, algorithm: Algorithm, *, may_learn: bool) -> None:
        self._algorithm: Any = algorithm
        self._may_learn = may_learn
        self._problem = problem = algorithm.problem
        self.reported: ActionMasks | None = None
        is_declared = problem.task.allowed is not None or problem.mdp is not None or problem.ignores_masks
        self.may_be_reported = problem.kind == "finite" and may_learn and not is_declared
        self._tried: BoolArray | None = None  # (S, A) pairs that were learned from, where masks may be reported
        if self.may_be_reported:
            task = problem.finite_task
            self._tried = np.zeros((task.n_states, task.n_actions), dtype=np.bool_)

    @property
    def by_action(self) -> BoolArray | None:
        """(A, S) allowed actions; None if all are."""
        table = self._table
        return None if table is None or table.all() else np.ascontiguousarray(table.T)

    @property
    def _table(self) -> BoolArray | None:
        """(S, A) allowed actions, declared or reported; None if neither was."""
        return self._problem.task.allowed if self.reported is None else self.reported.allowed

    def at(self, state: Any, stage: int) -> BoolArray | None:
        """Return which actions (A,), counted from 0, a state allows at a stage; None for all."""
        table, stages = self._table, self._problem.task.stages
        if table is None:
            return None
        return table[state] if stages is None else table[state, stages.block(stage)]

    def tell(self, state: Any, mask: BoolArray) -> None:
        """Take note of the actions (A,) that are allowed in a state; plans heed them from the next one on.

        Raises:
            InvalidInput: Another mask was reported for the state, or the algorithm cannot learn masks.
        """
        if not self._may_learn:
            rule = "must be given for this algorithm, which cannot learn masks while it plays"
            fail("allowed", rule, None, "Pass allowed=table (S, A), or allowed='all' to allow every action.")
        task, s = self._problem.finite_task, int(state)
        mask = mask if task.stages is None else np.tile(mask, task.stages.n_classes)  # a mask is that of a state
        reported = self.reported or ActionMasks.none(task.n_states, task.n_actions, task.end_state)
        if not reported.known[s]:
            self.take(reported.with_mask(s, mask))
        elif not np.array_equal(reported.allowed[s], mask):
            actions = self._problem.actions
            rule = f"must be the same at every visit of state {self._problem.shown_state(s)}"
            n = actions.size
            received = f"{action_list(mask[:n], actions)} after {action_list(reported.allowed[s, :n], actions)}"
            fail("action mask", rule, received, "If more than the state decides, make it part of the state.")

    def take(self, reported: ActionMasks | None) -> None:
        """Use these reported masks from now on."""
        if reported is not self.reported:
            self.reported = reported
            self._algorithm._use_masks()

    def permitted(self, plan: Any) -> Any:
        """Return a plan with the best allowed action, by Q, in place of each one that a newer mask forbids.

        This is what an open episode answers in such a state.
        """
        algorithm = self._algorithm
        if not isinstance(plan, Plan) or algorithm.frame.allowed is None or algorithm.frame.permits(plan.policy):
            return plan
        frame, q = algorithm.frame, algorithm.q_table()
        for h in range(frame.horizon):
            frame.exclude(q[:, h], h)
        ties = tie_weights(lowest_first(frame.n_actions, len(q)), frame.horizon)
        best = greedy_actions(q, ties[:, None, :, None], axis=2)
        fits = frame.allowed[plan.policy, np.arange(frame.n_states)]
        return replace(plan, policy=np.where(fits, plan.policy, best).astype(plan.policy.dtype))

    def note(self, steps: Steps) -> None:
        """Take note of the pairs that were learned from."""
        if self._tried is not None:
            self._tried[steps.states[steps.taken], steps.actions[steps.taken]] = True

    def regret_words(self) -> str | None:
        """Return why no regret bound is proven; None if no mask was reported."""
        return None if self.reported is None else self.reported.regret_words()

    def certificate_words(self, *, is_new: bool) -> str | None:
        """Return why a certificate is not proven, or None if it is; `is_new` if no episode was played yet."""
        if self.reported is not None:
            return self.reported.certificate_words(self._tried)
        return NOT_PLAYED if is_new and self.may_be_reported and self._problem.env is not None else None

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the reported masks and the pairs that were learned from, for saving."""
        told = {} if self.reported is None else {REPORTED_MASKS: self.reported.array()}
        return told | ({} if self._tried is None else {TRIED: self._tried.copy()})

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned; pairs that were not saved may all have been learned from.

        Raises:
            InvalidInput: The arrays do not fit the problem.
        """
        told, tried = arrays.get(REPORTED_MASKS), arrays.get(TRIED)
        if told is None and tried is None:
            self._tried = None
            return
        task = self._problem.finite_task
        shape = (task.n_states, task.n_actions)
        if told is not None:
            if not self.may_be_reported:
                raise InvalidInput(f"{REPORTED_MASKS} must be left out of a problem whose allowed actions are declared")
            self.take(ActionMasks.from_array(told, *shape))
        if tried is not None and (tried.shape != shape or tried.dtype != np.bool_):
            raise InvalidInput(f"{TRIED} must be booleans of shape {shape}")
        self._tried = None if tried is None else tried.copy()
