"""Problems: finite MDPs and tasks, functional tasks, vectors; exact solving; reading a user's environment."""

from typing import TYPE_CHECKING

from matrixrl.extras import later_names
from matrixrl.problems.continuous import ContinuousTask, FunctionalTask, read_continuous
from matrixrl.problems.dynamics import KnownDynamics, OutcomeMDP, OutcomeTables
from matrixrl.problems.fingerprint import differing_fields, fingerprint, fingerprint_of_features
from matrixrl.problems.finite import FiniteMDP, MDPEnv, Task, draw_start
from matrixrl.problems.gym_tables import from_gymnasium, horizon_of, known_mdp
from matrixrl.problems.layout import Layout
from matrixrl.problems.problem import Problem
from matrixrl.problems.reader import ProblemOptions, problem_of, read_problem
from matrixrl.problems.solution import (
    RegretEvaluator,
    Solution,
    endless_values,
    evaluate,
    evaluate_batch,
    optimal_q,
    solve,
)
from matrixrl.problems.stages import Stages
from matrixrl.problems.structure import Structure
from matrixrl.problems.task import effective_horizon
from matrixrl.problems.transitions import (
    DenseTransitions,
    FactoredTransitions,
    SparseTransitions,
    Successors,
    Transitions,
)

if TYPE_CHECKING:
    from matrixrl.problems.generators import EmbeddedMDP, low_rank, tabular

__all__ = [
    "ContinuousTask",
    "DenseTransitions",
    "EmbeddedMDP",
    "FactoredTransitions",
    "FiniteMDP",
    "FunctionalTask",
    "KnownDynamics",
    "Layout",
    "MDPEnv",
    "OutcomeMDP",
    "OutcomeTables",
    "Problem",
    "ProblemOptions",
    "RegretEvaluator",
    "Solution",
    "SparseTransitions",
    "Stages",
    "Structure",
    "Successors",
    "Task",
    "Transitions",
    "differing_fields",
    "draw_start",
    "effective_horizon",
    "endless_values",
    "evaluate",
    "evaluate_batch",
    "fingerprint",
    "fingerprint_of_features",
    "from_gymnasium",
    "horizon_of",
    "known_mdp",
    "low_rank",
    "optimal_q",
    "problem_of",
    "read_continuous",
    "read_problem",
    "solve",
    "tabular",
]

__getattr__ = later_names(__name__, dict.fromkeys(("EmbeddedMDP", "low_rank", "tabular"), "generators"))
