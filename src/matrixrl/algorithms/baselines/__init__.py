"""Algorithms of other papers, on the same problems, plans and linear algebra, batched over replicas."""

from matrixrl.algorithms.baselines.bandits import KernelUCB, LinUCB
from matrixrl.algorithms.baselines.base import BaselineEngine, BaselineSettings
from matrixrl.algorithms.baselines.epsilon_greedy import EpsilonGreedy
from matrixrl.algorithms.baselines.kernel_ucbvi import KernelUCBVI
from matrixrl.algorithms.baselines.lsvi_ucb import LSVIUCB
from matrixrl.algorithms.baselines.psrl import PSRL
from matrixrl.algorithms.baselines.q_learning import QLearning
from matrixrl.algorithms.baselines.random_play import RandomPlay
from matrixrl.algorithms.baselines.rlsvi import RLSVI
from matrixrl.algorithms.baselines.ucbvi import UCBVI
from matrixrl.algorithms.baselines.ucrl2 import UCRL2
from matrixrl.algorithms.baselines.ucrl_vtr import UCRLVTR

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
