"""Algorithms of other papers on the same problems, plans and linear algebra, batched over replicas."""

from matrixrl.algorithms.baselines.bandits import KernelUCB, LinUCB
from matrixrl.algorithms.baselines.base import Baseline, BaselineSettings
from matrixrl.algorithms.baselines.kernel_ucbvi import KernelUCBVI
from matrixrl.algorithms.baselines.linear import LSVIUCB, RLSVI
from matrixrl.algorithms.baselines.optimistic import UCBVI, UCRL2, QLearning
from matrixrl.algorithms.baselines.psrl import PSRL
from matrixrl.algorithms.baselines.ucrl_vtr import UCRLVTR
from matrixrl.algorithms.baselines.undirected import EpsilonGreedy, RandomPlay

__all__ = [
    "BASELINES",
    "LSVIUCB",
    "PSRL",
    "RLSVI",
    "UCBVI",
    "UCRL2",
    "UCRLVTR",
    "Baseline",
    "BaselineSettings",
    "EpsilonGreedy",
    "KernelUCB",
    "KernelUCBVI",
    "LinUCB",
    "QLearning",
    "RandomPlay",
]

BASELINES: dict[str, type[Baseline]] = {
    baseline.name: baseline
    for baseline in (
        RandomPlay,
        EpsilonGreedy,
        UCRL2,
        PSRL,
        UCBVI,
        QLearning,
        RLSVI,
        LSVIUCB,
        UCRLVTR,
        KernelUCBVI,
        LinUCB,
        KernelUCB,
    )
}
"""Every baseline by the name used on the command line and in specs."""
