"""One agent shell over any algorithm, and the agents of the paper: MatrixRL, KernelMatrixRL and KernelControl."""

from matrixrl.agents.agent import Agent
from matrixrl.agents.ask_and_tell import PlannedAhead
from matrixrl.agents.audit import Audit, audit_log
from matrixrl.agents.earnings import Earnings
from matrixrl.agents.episodes import OpenEpisode
from matrixrl.agents.given_policies import compare_returns
from matrixrl.agents.logged import LearnedLog
from matrixrl.agents.matrix_rl import KernelControl, KernelMatrixRL, MatrixRL

__all__ = ["Agent", "Audit", "Earnings", "KernelControl", "KernelMatrixRL", "LearnedLog", "MatrixRL"]
__all__ += ["OpenEpisode", "PlannedAhead", "audit_log", "compare_returns"]
