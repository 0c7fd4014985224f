"""Problems: finite MDPs and tasks, functional tasks, vectors; exact solving; reading a user's environment."""

from matrixrl.problems.continuous import ContinuousTask, read_continuous
from matrixrl.problems.discounting import effective_horizon
from matrixrl.problems.env import MDPEnv
from matrixrl.problems.factored import FactoredTransitions
from matrixrl.problems.fingerprint import (
    fingerprint,
    fingerprint_of_features,
    fingerprint_of_points,
    same_fingerprint,
)
from matrixrl.problems.finite import FiniteMDP, Task, draw_start
from matrixrl.problems.functional import FunctionalTask
from matrixrl.problems.generators import EmbeddedMDP, low_rank, tabular
from matrixrl.problems.gym_tables import from_gymnasium, horizon_of, known_mdp
from matrixrl.problems.layout import Layout
from matrixrl.problems.problem import Problem
from matrixrl.problems.reading import read_problem
from matrixrl.problems.regret import RegretEvaluator
from matrixrl.problems.solving import Solution, endless_values, evaluate, evaluate_batch, optimal_q, solve
from matrixrl.problems.stages import Stages
from matrixrl.problems.tabulated import DenseTransitions, SparseTransitions
from matrixrl.problems.transitions import Successors, Transitions

__all__ = [
    "ContinuousTask",
    "DenseTransitions",
    "EmbeddedMDP",
    "FactoredTransitions",
    "FiniteMDP",
    "FunctionalTask",
    "Layout",
    "MDPEnv",
    "Problem",
    "RegretEvaluator",
    "Solution",
    "SparseTransitions",
    "Stages",
    "Successors",
    "Task",
    "Transitions",
    "draw_start",
    "effective_horizon",
    "endless_values",
    "evaluate",
    "evaluate_batch",
    "fingerprint",
    "fingerprint_of_features",
    "fingerprint_of_points",
    "from_gymnasium",
    "horizon_of",
    "known_mdp",
    "low_rank",
    "optimal_q",
    "read_continuous",
    "read_problem",
    "same_fingerprint",
    "solve",
    "tabular",
]
