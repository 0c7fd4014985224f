"""Policies that practitioners use: the best one of a family, and exact values of given policies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from matrixrl.checks import distributions, fail, shaped
from matrixrl.policies import Policy
from matrixrl.problems import FiniteMDP, evaluate, evaluate_batch
from matrixrl.records import FloatArray, IntArray

__all__ = ["best_of", "order_up_to", "policy_value"]

_MOST_VALUES = 1 << 22  # numbers of values that are computed together


def best_of(mdp: FiniteMDP, family: Iterable[tuple[str, IntArray]]) -> Policy:
    """Return the policy of a family with the largest value V^π(s0), computed exactly from the known P.

    Args:
        mdp: Known MDP.
        family: Description and actions (S,) of each policy, which are the same at all stages. The first one of several
            best policies is taken.

    >>> import matrixrl
    >>> mdp = matrixrl.make("river-swim").unwrapped.mdp
    >>> best_of(mdp, [("left", np.zeros(6, dtype=int)), ("right", np.ones(6, dtype=int))]).description
    'right'
    """
    names, rows = zip(*family, strict=True)
    tables = np.stack(rows)
    step = max(1, _MOST_VALUES // (mdp.n_states * (mdp.horizon + 1)))
    values = []
    for first in range(0, len(tables), step):
        some = tables[first : first + step]
        policies = np.broadcast_to(some[:, None, :], (len(some), mdp.horizon, mdp.n_states))
        values.append(evaluate_batch(mdp, policies)[:, 0] @ mdp.task.start)
    best = int(np.argmax(np.concatenate(values)))
    return Policy(np.tile(tables[best], (mdp.horizon, 1)), n_actions=mdp.n_actions, description=names[best])


def order_up_to(level: int, position: IntArray, most: IntArray | int) -> IntArray:
    """Return the orders (S,) that raise the inventory position to a level, as far as the largest orders allow.

    Args:
        level: Base-stock level.
        position: (S,) Stock on hand and on order.
        most: Largest order, for each state or for all.
    """
    orders: IntArray = np.clip(level - position, 0, most).astype(np.int64)
    return orders


def policy_value(mdp: FiniteMDP, policy: Any) -> float:
    """Return the exact value V^π(s0) of a policy, averaged over the distribution of the first state.

    Args:
        mdp: Known MDP.
        policy: A `Policy`, its table (H, S), or the probabilities (S, A) of a random policy.

    >>> import matrixrl
    >>> mdp = matrixrl.make("river-swim").unwrapped.mdp
    >>> round(policy_value(mdp, np.full((6, 2), 0.5)), 3)
    0.047
    """
    if np.issubdtype(np.asarray(policy).dtype, np.integer):
        return float(mdp.task.start @ evaluate(mdp, np.asarray(policy))[0])
    size = (mdp.n_states, mdp.n_actions)
    given = shaped("policy", policy, size, remedy="Give the probability of each action in each state.")
    chances = distributions("policy", given)
    if mdp.allowed is not None and (chances[~mdp.allowed] > 0.0).any():
        fail("policy", "must take allowed actions only", "another action", "Set its probability to 0.")
    values: FloatArray = np.zeros(mdp.n_states)
    for _ in range(mdp.horizon):
        values = (chances * (mdp.task.reward + mdp.transitions.expect(values[None])[0].T)).sum(axis=1)
    return float(mdp.task.start @ values)
