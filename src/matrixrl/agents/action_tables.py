"""Plans as plain tables, with the bounds of every action, for those who answer without the agent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matrixrl.algorithms import Algorithm, FiniteAlgorithm
from matrixrl.algorithms.finite import permitted
from matrixrl.errors import ProtocolError
from matrixrl.records import FloatArray, IntArray

__all__ = ["ActionTables", "action_tables"]


class ActionTables(NamedTuple):
    """A plan of a problem with numbered states; states and actions count from 0.

    Attributes:
        policy: (H, S) Action of the plan.
        scores: (H, S, A) Q of the plan in unit rewards, by which the best of some actions is chosen; −∞ for an action
            that is not allowed.
        lower: (H, S, A) Lower bounds on Q*, in the environment's unit; NaN for an action that is not allowed.
        upper: (H, S, A) Upper bounds on Q*, likewise.
    """

    policy: IntArray
    scores: FloatArray
    lower: FloatArray
    upper: FloatArray


def action_tables(algorithm: Algorithm, plan: Any) -> ActionTables:
    """Return a plan that was just made, and the bounds of every action from the same data."""
    if not isinstance(algorithm, FiniteAlgorithm) or algorithm.problem.kind != "finite":
        raise ProtocolError("tables of actions need numbered states; matrix-rl has them")
    frame, task = algorithm.frame, algorithm.task
    scores = algorithm.q_table()
    lower, upper = algorithm.certifier.bound_actions()
    left = frame.lefts()[:, None, None]
    after = np.zeros_like(left)  # weight of the steps that are cut off from an endless episode
    if task.is_endless:
        after = (task.discount ** np.arange(frame.horizon, 0, -1.0) / (1.0 - task.discount))[:, None, None]
    least, most = ((np.clip(_own(table, algorithm), 0.0, left)) for table in (lower, upper))
    low = (left + after) * task.reward_range[0]
    forbidden = np.isneginf(_own(scores, algorithm))
    least, most = task.unit * least + low, task.unit * (most + after) + low
    least[forbidden] = most[forbidden] = np.nan
    policy = algorithm.problem.own_number(algorithm.policy_table(permitted(algorithm, plan))[0])
    return ActionTables(np.asarray(policy), _own(scores, algorithm), least, most)


def _own(table: FloatArray, algorithm: FiniteAlgorithm) -> FloatArray:
    """Return a table (1, H, A, S) of inner actions as (H, S, A) of a user's actions."""
    own: FloatArray = algorithm.task.stages.at_stages(table[0])
    return np.ascontiguousarray(own.transpose(0, 2, 1))
