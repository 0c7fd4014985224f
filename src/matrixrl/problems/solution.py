"""Exact backward induction, policy evaluation and regret of a known MDP. Agents have no access to it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

from matrixrl.checks import fail, indices
from matrixrl.compilation import saves_time
from matrixrl.display import Described, in_digits
from matrixrl.problems.finite import FiniteMDP, checked_mdp
from matrixrl.problems.transitions import SparseTransitions
from matrixrl.records import FloatArray, IntArray

__all__ = ["RegretEvaluator", "Solution", "endless_values", "evaluate", "evaluate_batch", "optimal_q", "solve"]

_SAME = 1e-12  # relative difference of Q below which an action is not better

_SAVED_BY_SOLVING, _SAVED_BY_EVALUATING = 1.2e-9, 2.5e-9  # seconds for each stage and entry of a sparse P


@dataclass(frozen=True, slots=True, repr=False)
class Solution(Described):
    """Hold the optimum of an MDP, in the unit of its rewards.

    Attributes:
        values: Optimal values V*, shape (H+1, S), discounted from their stage on; the last row is zero.
        policy: Optimal policy, shape (H, S); the lowest optimal action of each stage and state, among those allowed.
        start_value: V*(s0), averaged over the distribution of the first state; of infinitely many steps if the problem
            is endless.
    """

    values: FloatArray
    policy: IntArray
    start_value: float

    def _words(self) -> str:
        horizon, n_states = self.policy.shape
        return f"Solution: V*(s0) = {in_digits(self.start_value)}, {horizon:,} stages, {n_states:,} states"

    def _facts(self) -> dict[str, object]:
        first = self.values[0]
        return {
            "V*(s0)": float(self.start_value),
            "V* at stage 0": f"{in_digits(first.min())} to {in_digits(first.max())}",
            "values": f"array of shape {self.values.shape}",
            "policy": f"array of shape {self.policy.shape}",
        }


def q_values(mdp: FiniteMDP, next_values: FloatArray, stage: int) -> FloatArray:
    """Return Q(s, a) = r(s, a) + γ E[V(s') | s, a] for the values V of the next stage: (S,) → (S, A).

    Q of an action that is not allowed is −∞.
    """
    expected = mdp.transitions.expect(mdp.task.discount * next_values[None, :])[0]
    total: FloatArray = mdp.task.reward + expected.T
    if mdp.allowed is not None:
        total[~mdp.allowed] = -np.inf
    return total[:, mdp.stages.block(stage)]


def solve(mdp: FiniteMDP, *, compiled: bool | None = None) -> Solution:
    """Return the optimal values and an optimal policy, computed by backward induction.

    Args:
        mdp: Known MDP.
        compiled: Use compiled loops for a sparse P, or not; by default where they save time. The
            result is the same bit for bit.

    >>> mdp = FiniteMDP([[[0.0, 1.0]], [[1.0, 0.0]]], reward=[[0.0], [1.0]], horizon=4)
    >>> solve(mdp).start_value
    2.0
    """
    checked_mdp(mdp)
    values = np.zeros((mdp.horizon + 1, mdp.n_states))
    policy = np.zeros((mdp.horizon, mdp.n_states), dtype=np.int64)
    if _is_compiled(mdp, compiled, _SAVED_BY_SOLVING):
        from matrixrl.problems.compiled import fill_in_optimum  # imports numba, which takes half a second

        reward = mdp.task.reward if mdp.allowed is None else np.where(mdp.allowed, mdp.task.reward, -np.inf)
        firsts = np.ascontiguousarray(mdp.stages.choices[:, 0])
        fill_in_optimum(*_lists(mdp), reward, firsts, mdp.stages.n_own, mdp.task.discount, values, policy)
    else:
        for h in reversed(range(mdp.horizon)):
            q = q_values(mdp, values[h + 1], h)
            policy[h] = q.argmax(axis=1)
            values[h] = q.max(axis=1)
    first = endless_values(mdp) if mdp.task.is_endless else values[0]
    return Solution(values=values, policy=policy, start_value=float(mdp.task.start @ first))


def endless_values(mdp: FiniteMDP) -> FloatArray:
    """Return V* of infinitely many discounted steps, shape (S,), by policy iteration with exact evaluation.

    Args:
        mdp: Known MDP with a discount below 1 whose stages share their laws.
    """
    n, gamma, policy = mdp.n_states, mdp.task.discount, np.full(mdp.n_states, -1)
    values = np.zeros(n)
    while True:
        q = q_values(mdp, values, 0)
        kept = np.where(policy < 0, 0, policy)
        better = q.max(axis=1) > q[np.arange(n), kept] + _SAME * (1.0 + np.abs(values))
        improved = np.where((policy < 0) | better, q.argmax(axis=1), policy)
        if np.array_equal(improved, policy):
            return values
        policy = improved
        values = np.asarray(_solved(mdp, policy, gamma))


def _solved(mdp: FiniteMDP, policy: IntArray, gamma: float) -> FloatArray:
    """Return the values (S,) of a policy (S,) forever, from the linear equations that they satisfy."""
    states, reward = np.arange(mdp.n_states), mdp.task.reward[np.arange(mdp.n_states), policy]
    if isinstance(mdp.transitions, SparseTransitions):
        rows = mdp.transitions.law()[states * mdp.n_actions + policy]
        found: FloatArray = spsolve(sparse.csc_array(sparse.eye_array(mdp.n_states) - gamma * rows), reward)
        return found
    rows = mdp.transitions.rows(states, policy)
    return np.asarray(np.linalg.solve(np.eye(mdp.n_states) - gamma * rows, reward), dtype=np.float64)


def optimal_q(mdp: FiniteMDP) -> FloatArray:
    """Return Q* of every stage, shape (H, S, A); −∞ for an action that is not allowed.

    Args:
        mdp: Known MDP.

    >>> mdp = FiniteMDP([[[0.0, 1.0]], [[1.0, 0.0]]], reward=[[0.0], [1.0]], horizon=4)
    >>> optimal_q(mdp)[0].ravel()
    array([2., 2.])
    """
    values = solve(mdp).values
    return np.stack([q_values(mdp, values[h + 1], h) for h in range(mdp.horizon)])


def evaluate(mdp: FiniteMDP, policy: IntArray) -> FloatArray:
    """Return the values V^π of a policy at every stage, shape (H+1, S).

    Args:
        mdp: Known MDP.
        policy: Action of each stage and state, shape (H, S).

    Raises:
        InvalidInput: The policy has another shape, or an entry is not an action that is allowed.

    >>> mdp = FiniteMDP([[[0.0, 1.0]], [[1.0, 0.0]]], reward=[[0.0], [1.0]], horizon=4)
    >>> evaluate(mdp, np.zeros((4, 2), dtype=int))[0]
    array([2., 2.])
    """
    wanted, remedy = (checked_mdp(mdp).horizon, mdp.n_states), "Give policy[h, s]."
    chosen = np.asarray(indices("policy", policy, size=mdp.task.n_own_actions, remedy=remedy))
    if chosen.shape != wanted:
        fail("policy", f"must have shape {wanted}", f"shape {chosen.shape}", remedy)
    for stage, row in enumerate(chosen):
        mdp.task.check_actions("policy", np.arange(mdp.n_states), row, stage)
    values: FloatArray = evaluate_batch(mdp, mdp.stages.inner_policy(chosen)[None])[0]
    return values


def evaluate_batch(
    mdp: FiniteMDP, policies: IntArray, *, compiled: bool | None = None, repeated: int = 1
) -> FloatArray:
    """Return the values V^π of B policies: (B, H, S) → (B, H+1, S).

    Args:
        mdp: Known MDP.
        policies: (B, H, S) Action of each stage and state; inner actions if laws depend on the stage.
        compiled: As in `solve`.
        repeated: Number of such calls so far, which compiled loops may have to pay for.
    """
    n_replicas, horizon, n_states = policies.shape
    mdp.task.check_actions("policy", np.broadcast_to(np.arange(n_states), policies.shape), policies)
    if _is_compiled(mdp, compiled, _SAVED_BY_EVALUATING * n_replicas * repeated):
        from matrixrl.problems.compiled import fill_in_values

        values = np.zeros((n_replicas, horizon + 1, n_states))
        for policy, of_policy in zip(policies, values, strict=True):
            fill_in_values(*_lists(mdp), mdp.task.reward, mdp.task.discount, policy.astype(np.int64), of_policy)
        return values
    pairs = policies.astype(np.int64) * n_states + np.arange(n_states)
    rewards = mdp.task.reward.T.ravel()[pairs]
    pairs += (np.arange(n_replicas) * mdp.n_actions * n_states)[:, None, None]
    values = np.zeros((n_replicas, horizon + 1, n_states))
    for h in reversed(range(horizon)):
        expected = mdp.transitions.expect(mdp.task.discount * values[:, h + 1]).ravel()
        np.add(rewards[:, h], expected[pairs[:, h]], out=values[:, h])
    return values


def _is_compiled(mdp: FiniteMDP, wanted: bool | None, seconds: float) -> bool:
    """Return whether to use compiled loops, which save so many seconds for each stage and entry of P."""
    if not isinstance(mdp.transitions, SparseTransitions):
        if wanted:
            rule = "must be left out for a P that is not sparse, for which there are no compiled loops"
            fail("compiled", rule, wanted, "Give P as a scipy.sparse matrix.")
        return False
    return saves_time(wanted, seconds * mdp.horizon * mdp.transitions.law().nnz)


def _lists(mdp: FiniteMDP) -> tuple[Any, Any, Any]:
    """Return the lists of next states of a sparse P, with unsigned positions."""
    assert isinstance(mdp.transitions, SparseTransitions)
    csr = mdp.transitions.law()
    return _unsigned(csr.indptr), _unsigned(csr.indices), csr.data


def _unsigned(positions: IntArray) -> Any:
    return positions.view(np.uint64 if positions.itemsize == 8 else np.uint32)


_KEPT = 2  # with an optimism budget two policies are played in turn


class RegretEvaluator:
    """Computes the regret V*(s0) − V^π(s0) of policies (YW19 (1), conditioned on the past of each episode).

    The MDP is solved when V* is first needed.

    Args:
        mdp: Known MDP.

    >>> from matrixrl.problems import tabular
    >>> mdp = tabular(n_states=4, n_actions=2, horizon=3, seed=0).mdp
    >>> evaluator = RegretEvaluator(mdp)
    >>> float(evaluator.regret(evaluator.solution.policy[None])[0])
    0.0
    """

    def __init__(self, mdp: FiniteMDP) -> None:
        self.mdp = mdp
        self._n_calls = 0
        self._known: list[tuple[IntArray, FloatArray]] = []  # the last policies, which are often played again

    @cached_property
    def solution(self) -> Solution:
        """Optimal values and an optimal policy."""
        return solve(self.mdp)

    @property
    def optimal_value(self) -> float:
        """Optimal value V*(s0) in the environment's unit; of infinitely many steps if the problem is endless."""
        return self.solution.start_value

    @property
    def rest(self) -> float:
        """What the steps that are cut off from an endless episode are worth at least, in the environment's unit."""
        task = self.mdp.task
        return task.tail * task.reward_range[0]

    def regret(self, policies: IntArray) -> FloatArray:
        """Return the exact regret (B,) of one episode under each policy (B, H, S), in the environment's unit."""
        start_values = next((values for known, values in self._known if np.array_equal(known, policies)), None)
        if start_values is None:
            self._n_calls += 1
            values = evaluate_batch(self.mdp, policies, repeated=self._n_calls)
            start_values = values[:, 0] @ self.mdp.task.start + self.rest
            self._known = [(policies.copy(), start_values), *self._known[: _KEPT - 1]]
        # V^π <= V* holds exactly; rounding errors of about 1e-15 can make the difference negative.
        return np.maximum(self.optimal_value - start_values, 0.0)
