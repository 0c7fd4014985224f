"""Exact regret of policies in a known MDP. Agents have no access to it."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from matrixrl.problems.finite import FiniteMDP
from matrixrl.problems.solving import Solution, evaluate_batch, solve
from matrixrl.records import FloatArray, IntArray

__all__ = ["RegretEvaluator"]


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
        self._n_calls += 1
        values = evaluate_batch(self.mdp, policies, repeated=self._n_calls)
        start_values: FloatArray = values[:, 0] @ self.mdp.task.start + self.rest
        # V^π <= V* holds exactly; rounding errors of about 1e-15 can make the difference negative.
        return np.maximum(self.optimal_value - start_values, 0.0)
