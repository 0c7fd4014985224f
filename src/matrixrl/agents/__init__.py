"""One agent shell over any algorithm, and constructors: MatrixRL, KernelMatrixRL, KernelControl and the baselines."""

from matrixrl.agents.agent import Agent
from matrixrl.agents.baselines import (
    BASELINE_AGENTS,
    BaselineAgent,
    EpsilonGreedyAgent,
    KernelUCBAgent,
    KernelUCBVIAgent,
    LinUCBAgent,
    LSVIUCBAgent,
    PSRLAgent,
    QLearningAgent,
    RandomPlayAgent,
    RLSVIAgent,
    UCBVIAgent,
    UCRL2Agent,
    UCRLVTRAgent,
)
from matrixrl.agents.episodes import OpenEpisode
from matrixrl.agents.logged import LearnedLog
from matrixrl.agents.matrix_rl import KernelControl, KernelMatrixRL, MatrixRL
from matrixrl.agents.opening import PlannedAhead

AGENTS: dict[str, type[Agent]] = {
    MatrixRL.name: MatrixRL,
    KernelMatrixRL.name: KernelMatrixRL,
    KernelControl.name: KernelControl,
    **BASELINE_AGENTS,
}
"""Every agent by the name used on the command line."""

__all__ = [
    "AGENTS",
    "BASELINE_AGENTS",
    "Agent",
    "BaselineAgent",
    "EpsilonGreedyAgent",
    "KernelControl",
    "KernelMatrixRL",
    "KernelUCBAgent",
    "KernelUCBVIAgent",
    "LSVIUCBAgent",
    "LearnedLog",
    "LinUCBAgent",
    "MatrixRL",
    "OpenEpisode",
    "PSRLAgent",
    "PlannedAhead",
    "QLearningAgent",
    "RLSVIAgent",
    "RandomPlayAgent",
    "UCBVIAgent",
    "UCRL2Agent",
    "UCRLVTRAgent",
]
