"""One agent shell over any algorithm, and the constructors of MatrixRL, KernelMatrixRL and the baselines."""

from matrixrl.agents.agent import Agent
from matrixrl.agents.baselines import BASELINE_AGENTS, BaselineAgent
from matrixrl.agents.episodes import OpenEpisode
from matrixrl.agents.matrix_rl import KernelMatrixRL, MatrixRL

AGENTS: dict[str, type[Agent]] = {
    MatrixRL.name: MatrixRL,
    KernelMatrixRL.name: KernelMatrixRL,
    **BASELINE_AGENTS,
}
"""Every agent by the name used on the command line."""

__all__ = ["AGENTS", "BASELINE_AGENTS", "Agent", "BaselineAgent", "KernelMatrixRL", "MatrixRL", "OpenEpisode"]
