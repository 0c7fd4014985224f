"""Allowed actions of environments, MDPs and tasks: those that a user gives, or that an environment declares."""

from __future__ import annotations

from typing import Any, TypeVar

import gymnasium as gym
import numpy as np

from matrixrl.checks import choice, fail
from matrixrl.coding import Codec
from matrixrl.problems.finite import FiniteMDP, Task
from matrixrl.problems.masks import as_mask, read_allowed
from matrixrl.problems.stages import Stages, spread_allowed
from matrixrl.problems.wrappers import current_mask, mask_of_state
from matrixrl.records import BoolArray

__all__ = ["declared_mask", "refuse_masks_on_the_way", "restricted"]

M = TypeVar("M", FiniteMDP, Task)


def declared_mask(
    env: gym.Env[Any, Any],
    allowed: Any,
    states: Codec,
    actions: Codec,
    *,
    end_state: int,
    stages: Stages | None = None,
) -> BoolArray | None:
    """Return the allowed actions (S, A) of an environment: those given, or what it declares; None for all actions.

    Args:
        env: Environment, wrapped or not.
        allowed: Table (S, A), function of the state, "all", or None for what a method ``action_mask(state)`` of the
            environment says. With stages, also tables for each stage, as `spread_allowed` reads them.
        states: Numbers of the observations.
        actions: Numbers of the actions.
        end_state: Number of the end state, which comes after the observations.
        stages: Classes of stages; the result is then about inner actions, (S, C·A).
    """
    if isinstance(allowed, str):
        choice("allowed", allowed, ["all"])
        return None
    if allowed is None:
        method = mask_of_state(env)
        if method is None:
            return None
        allowed = lambda state: as_mask(f"action_mask({state})", method(state), actions.size)  # noqa: E731
    if stages is not None:
        shape = (end_state + 1, actions.size)
        return spread_allowed(allowed, shape, stages, end_state, states=states, actions=actions)
    return read_allowed(allowed, end_state + 1, actions.size, end_state=end_state, states=states, actions=actions)


def restricted(known: M, allowed: Any) -> M:
    """Return an MDP or a task with the allowed actions that are given; it may not have others of its own.

    Args:
        known: MDP or task.
        allowed: Table (S, A), function of the state, "all", or None to change nothing; also tables for each stage if
            laws depend on it, as `spread_allowed` reads them.
    """
    task = known.task if isinstance(known, FiniteMDP) else known
    if isinstance(allowed, str):
        choice("allowed", allowed, ["all"])
        table = np.ones((task.n_states, task.n_actions), dtype=np.bool_)
    elif allowed is None:
        return known
    elif task.stages is not None:
        table = spread_allowed(allowed, (task.n_states, task.n_own_actions), task.stages, task.end_state)
    else:
        table = read_allowed(allowed, task.n_states, task.n_actions, end_state=task.end_state)
    if task.end_state is not None:
        table[task.end_state] = True
    if task.allowed is None:
        return known if table.all() else known.restricted(table)
    if not np.array_equal(table, task.allowed):
        rule = "cannot be changed on a problem that has its own"
        fail("allowed", rule, f"{int(table.sum())} pairs in place of {task.n_pairs}", "Build it with that value.")
    return known


def refuse_masks_on_the_way(env: gym.Env[Any, Any]) -> None:
    """Refuse an environment with a transition table that reports masks only while it is played."""
    reported = current_mask(env) is not None
    if not reported:
        answer: Any = env.reset()
        reported = isinstance(answer, tuple) and isinstance(answer[-1], dict) and "action_mask" in answer[-1]
    if reported:
        fail(
            "allowed",
            "must be given for an environment with a transition table that reports masks of its current state only",
            None,
            "Pass allowed=table (S, A), or allowed='all' to allow every action.",
        )
