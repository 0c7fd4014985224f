"""Exact regret, measured beside the learning and never shown to the agent."""

from __future__ import annotations

import numpy as np

from matrixrl.problems.finite import FiniteMDP
from matrixrl.problems.solving import Solution, evaluate_batch, solve
from matrixrl.records import FloatArray, IntArray

__all__ = ["RegretEvaluator"]


class RegretEvaluator:
    """V*(s0) − V^π(s0) for the policies that are played (YW19 (1), conditioned on the past of each episode).

    >>> from matrixrl.problems import tabular
    >>> mdp = tabular(n_states=4, n_actions=2, horizon=3, seed=0).mdp
    >>> judge = RegretEvaluator(mdp)
    >>> float(judge.regret(judge.solution.policy[None])[0])
    0.0
    """

    def __init__(self, mdp: FiniteMDP) -> None:
        self.mdp = mdp
        self.solution: Solution = solve(mdp)

    @property
    def optimal_value(self) -> float:
        """V*(s0) in the environment's unit."""
        return self.solution.start_value

    def regret(self, policies: IntArray) -> FloatArray:
        """Return the exact regret of one episode under each policy: (B, H, S) → (B,)."""
        start_values: FloatArray = evaluate_batch(self.mdp, policies)[:, 0] @ self.mdp.task.start
        # V^π <= V* exactly; rounding may say otherwise by 1e-15.
        return np.maximum(self.optimal_value - start_values, 0.0)
