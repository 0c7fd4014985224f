"""Finite episodic MDPs: transitions, exact planning and evaluation, generators with a known core M*."""

from matrixrl.problems.env import MDPEnv, draw_start
from matrixrl.problems.factored import FactoredTransitions
from matrixrl.problems.finite import FiniteMDP, Task
from matrixrl.problems.functional import FunctionalTask
from matrixrl.problems.generators import EmbeddedMDP, low_rank, tabular
from matrixrl.problems.gym_tables import from_gymnasium, horizon_of, known_mdp
from matrixrl.problems.regret import RegretEvaluator
from matrixrl.problems.solving import Solution, evaluate, evaluate_batch, optimal_q, solve
from matrixrl.problems.tabulated import DenseTransitions, SparseTransitions
from matrixrl.problems.transitions import Successors, Transitions

__all__ = [
    "DenseTransitions",
    "EmbeddedMDP",
    "FactoredTransitions",
    "FiniteMDP",
    "FunctionalTask",
    "MDPEnv",
    "RegretEvaluator",
    "Solution",
    "SparseTransitions",
    "Successors",
    "Task",
    "Transitions",
    "draw_start",
    "evaluate",
    "evaluate_batch",
    "from_gymnasium",
    "horizon_of",
    "known_mdp",
    "low_rank",
    "optimal_q",
    "solve",
    "tabular",
]
