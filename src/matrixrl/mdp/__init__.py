"""Finite episodic MDPs: transitions, exact planning and evaluation, generators with a known core M*."""

from matrixrl.mdp.env import MDPEnv, draw_start
from matrixrl.mdp.finite import FiniteMDP, Task
from matrixrl.mdp.generators import EmbeddedMDP, low_rank, tabular
from matrixrl.mdp.gym_tables import from_gymnasium, horizon_of, known_mdp
from matrixrl.mdp.judge import Judge
from matrixrl.mdp.large import LargeTask
from matrixrl.mdp.mixture import MixtureTransitions
from matrixrl.mdp.planning import Solution, evaluate, evaluate_batch, optimal_q, solve
from matrixrl.mdp.transitions import (
    DenseTransitions,
    FactoredTransitions,
    SparseTransitions,
    Successors,
    Transitions,
)

__all__ = [
    "DenseTransitions",
    "EmbeddedMDP",
    "FactoredTransitions",
    "FiniteMDP",
    "Judge",
    "LargeTask",
    "MDPEnv",
    "MixtureTransitions",
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
