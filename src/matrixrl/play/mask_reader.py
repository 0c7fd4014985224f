"""Masks of actions in episodes: what is allowed just now, by request or as an environment reports it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from matrixrl.algorithms import Algorithm, FiniteAlgorithm
from matrixrl.checks import fail
from matrixrl.core.greedy import best_among
from matrixrl.problems import Problem
from matrixrl.problems.action_masks import action_list, as_mask, chosen_actions, refuse_ambiguous, refuse_forbidden
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["MaskReader", "check_allowed", "check_policy", "choose_among", "narrower"]

_INFO = "action_mask"


def narrower(algorithm: Algorithm, state: Any, stage: int, allowed: Any) -> BoolArray | None:
    """Return the actions (A,) of a request if they are fewer than those that are allowed in a state, else None.

    Raises:
        InvalidInput: There is none, one of them is not allowed in the state, or an array may be a mask as well.
    """
    problem = algorithm.problem
    if isinstance(allowed, np.ndarray):
        refuse_ambiguous("allowed", [allowed], problem.actions.size)
    among = chosen_actions("allowed", allowed, problem.actions.size, actions=problem.actions)
    known = algorithm.masks.at(state, stage)
    if known is None:
        return None if among.all() else among
    if (among & ~known).any():
        rule = (
            f"must be among the actions {action_list(known, problem.actions)} that {_at(problem, state, stage)} allows"
        )
        fail("allowed", rule, action_list(among, problem.actions), "Leave the others out.")
    return None if np.array_equal(among, known) else among


def check_allowed(algorithm: Algorithm, state: Any, stage: int, action: int) -> None:
    """Refuse an action, counted from 0, that is not allowed in a state."""
    known = algorithm.masks.at(state, stage)
    if known is not None and not known[action]:
        problem = algorithm.problem
        rule = f"must be one of {action_list(known, problem.actions)}, which {_at(problem, state, stage)} allows"
        fail("action", rule, problem.own_action(action), "Report an action that is allowed, or change allowed=….")


def check_policy(algorithm: Algorithm, name: str, table: IntArray | FloatArray) -> None:
    """Refuse a policy, (H, S) actions or (H, A, S) probabilities, with actions that are not allowed."""
    problem = algorithm.problem
    allowed = algorithm.frame.allowed if isinstance(algorithm, FiniteAlgorithm) else problem.allowed_by_action
    if allowed is None:
        return
    if problem.task.stages is not None:
        for stage in range(len(table)):
            _check_table(problem, name, table[stage : stage + 1], allowed[problem.task.stages.block(stage)], stage)
    else:
        _check_table(problem, name, table, allowed)


def _check_table(
    problem: Problem, name: str, table: IntArray | FloatArray, allowed: BoolArray, stage: int | None = None
) -> None:
    """Refuse a policy of some stages, or of one stage, with actions that are not allowed (A, S)."""
    if table.ndim == 2:
        actions, states = np.asarray(table), np.broadcast_to(np.arange(table.shape[1]), table.shape)
    else:
        _, actions, states = np.nonzero(table)
    refuse_forbidden(
        name, allowed.T, states, actions, state_codec=problem.states, action_codec=problem.actions, stage=stage
    )


def _at(problem: Problem, state: Any, stage: int) -> str:
    when = "" if problem.task.stages is None else f" at stage {stage}"
    return f"state {problem.shown_state(state)}{when}"


def choose_among(
    algorithm: Algorithm, plan: Any, stage: int, state: Any, among: BoolArray, *, explore: bool = True
) -> int:
    """Return the action with the largest Q of a plan among some actions (A,), counted from 0."""
    q = algorithm.action_values(plan, stage, np.asarray(state)[None], explore=explore)
    stages = algorithm.problem.task.stages
    q = q if stages is None else q[:, stages.block(stage)]
    return int(best_among(q, among, algorithm.problem.task.horizon)[0])


class MaskReader:
    """Reads the masks that an environment reports while it is played.

    They are in ``info["action_mask"]``, or a method ``action_masks()`` returns them.

    Args:
        algorithm: The algorithm that plays; it takes note of the masks of numbered states.
        method: Method that returns the mask of the current state, for infos without one; None if there is none.
    """

    def __init__(self, algorithm: Algorithm, method: Callable[[], Any] | None) -> None:
        self._algorithm, problem = algorithm, algorithm.problem
        self._ignores = problem.ignores_masks
        self._is_known = problem.kind == "finite" and (problem.mdp is not None or problem.allowed_by_action is not None)
        self._method = None if self._ignores or self._is_known else method

    def among(self, state: Any, stage: int, info: Any) -> BoolArray | None:
        """Return the actions (A,) to choose from at the current state; None for those that are allowed anyway.

        Raises:
            InvalidInput: The mask contradicts another one of the same state, or what was declared.
        """
        if self._ignores:
            return None
        given = info.get(_INFO) if isinstance(info, dict) else None
        name = f"info['{_INFO}']"
        if given is None and self._method is not None:
            given, name = self._method(), "the action mask of the environment"
        if given is None:
            return None
        algorithm, problem = self._algorithm, self._algorithm.problem
        mask = as_mask(name, given, problem.actions.size)
        if self._is_known:
            self._compare(name, state, stage, mask)
            return None
        if problem.kind == "finite":
            algorithm.masks.tell(state, mask)
        return None if mask.all() else mask

    def note_last(self, state: Any, info: Any) -> None:
        """Take note of the mask of the state after the last step, in which nothing is chosen any more."""
        given, algorithm = info.get(_INFO) if isinstance(info, dict) else None, self._algorithm
        if given is None or self._ignores or self._is_known or algorithm.problem.kind != "finite":
            return
        if not isinstance(algorithm, FiniteAlgorithm):  # it refuses masks where actions are chosen
            return
        reported = algorithm.masks.reported
        # A mask without any action is one of an episode that is over.
        if np.any(given) and (reported is None or not reported.known[int(state)]):
            algorithm.masks.tell(state, as_mask(f"info['{_INFO}']", given, algorithm.problem.actions.size))

    def _compare(self, name: str, state: Any, stage: int, mask: BoolArray) -> None:
        """Refuse a mask that forbids an action which was declared as allowed."""
        problem = self._algorithm.problem
        declared = problem.allowed_at(state, stage)
        wrong = ~mask if declared is None else declared & ~mask
        if wrong.any():
            actions = problem.actions
            known = np.ones_like(mask) if declared is None else declared
            rule = f"must allow the declared actions {action_list(known, actions)} of {_at(problem, state, stage)}"
            fail(name, rule, action_list(mask, actions), "Declare them with allowed=…, or pass allowed='all'.")
