"""Algorithms of other papers, on the same problems, plans and linear algebra, batched over replicas."""

from matrixrl.agents.baselines.bandits import KernelUCB, LinUCB
from matrixrl.agents.baselines.base import BaselineEngine, BaselineSettings
from matrixrl.agents.baselines.epsilon_greedy import EpsilonGreedy
from matrixrl.agents.baselines.kernel_ucbvi import KernelUCBVI
from matrixrl.agents.baselines.lsvi_ucb import LSVIUCB
from matrixrl.agents.baselines.psrl import PSRL
from matrixrl.agents.baselines.q_learning import QLearning
from matrixrl.agents.baselines.random_play import RandomPlay
from matrixrl.agents.baselines.rlsvi import RLSVI
from matrixrl.agents.baselines.ucbvi import UCBVI
from matrixrl.agents.baselines.ucrl2 import UCRL2
from matrixrl.agents.baselines.ucrl_vtr import UCRLVTR

BASELINES: dict[str, type[BaselineEngine]] = {
    RandomPlay.name: RandomPlay,
    EpsilonGreedy.name: EpsilonGreedy,
    UCRL2.name: UCRL2,
    PSRL.name: PSRL,
    UCBVI.name: UCBVI,
    QLearning.name: QLearning,
    RLSVI.name: RLSVI,
    LSVIUCB.name: LSVIUCB,
    UCRLVTR.name: UCRLVTR,
    KernelUCBVI.name: KernelUCBVI,
    LinUCB.name: LinUCB,
    KernelUCB.name: KernelUCB,
}
"""Every baseline by the name used on the command line and in specs."""

__all__ = ["BASELINES", "BaselineEngine", "BaselineSettings"]
