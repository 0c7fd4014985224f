"""Every baseline as an agent: ask and tell, learn, predict, save and load."""

from __future__ import annotations

from typing import Any

from matrixrl.agents.agent import Agent
from matrixrl.algorithms import baselines

__all__ = [
    "BASELINE_AGENTS",
    "BaselineAgent",
    "EpsilonGreedyAgent",
    "KernelUCBAgent",
    "KernelUCBVIAgent",
    "LSVIUCBAgent",
    "LinUCBAgent",
    "PSRLAgent",
    "QLearningAgent",
    "RLSVIAgent",
    "RandomPlayAgent",
    "UCBVIAgent",
    "UCRL2Agent",
    "UCRLVTRAgent",
]


class BaselineAgent(Agent):
    """An algorithm of another paper as an agent.

    Args:
        problem: As in `MatrixRL`.
        options: Options of `Agent`; every other one is a setting of the baseline (docs/baselines.md).
    """

    def __init__(self, problem: Any, **options: Any) -> None:
        super().__init__(problem, baselines.BASELINES[self.name], **options)


class RandomPlayAgent(BaselineAgent):
    """Plays uniformly at random; learns nothing."""

    name = baselines.RandomPlay.name


class EpsilonGreedyAgent(BaselineAgent):
    """Plays the best policy of the empirical model, and at random with probability ε."""

    name = baselines.EpsilonGreedy.name


class UCRL2Agent(BaselineAgent):
    """Plays the best policy of the most favourable plausible model (Jaksch et al. 2010)."""

    name = baselines.UCRL2.name


class PSRLAgent(BaselineAgent):
    """Plays the best policy of a model drawn from the posterior (Osband et al. 2013)."""

    name = baselines.PSRL.name


class UCBVIAgent(BaselineAgent):
    """Value iteration with a bonus for rarely visited pairs (Azar et al. 2017)."""

    name = baselines.UCBVI.name


class QLearningAgent(BaselineAgent):
    """Q-learning with a bonus in every target (Jin et al. 2018)."""

    name = baselines.QLearning.name


class RLSVIAgent(BaselineAgent):
    """Plans with a random draw of the regression weights (Osband et al. 2016)."""

    name = baselines.RLSVI.name


class LSVIUCBAgent(BaselineAgent):
    """Least-squares value iteration with a bonus (Jin et al. 2020)."""

    name = baselines.LSVIUCB.name


class UCRLVTRAgent(BaselineAgent):
    """Learns a linear mixture model by predicting values of its own plans (Ayoub et al. 2020)."""

    name = baselines.UCRLVTR.name


class KernelUCBVIAgent(BaselineAgent):
    """UCBVI with kernel-smoothed counts (Domingues et al. 2021)."""

    name = baselines.KernelUCBVI.name


class LinUCBAgent(BaselineAgent):
    """Linear bandit with an upper confidence bound (Abbasi-Yadkori et al. 2011)."""

    name = baselines.LinUCB.name


class KernelUCBAgent(BaselineAgent):
    """Kernel bandit with an upper confidence bound (Valko et al. 2013)."""

    name = baselines.KernelUCB.name


BASELINE_AGENTS: dict[str, type[BaselineAgent]] = {
    kind.name: kind
    for kind in (
        RandomPlayAgent,
        EpsilonGreedyAgent,
        UCRL2Agent,
        PSRLAgent,
        UCBVIAgent,
        QLearningAgent,
        RLSVIAgent,
        LSVIUCBAgent,
        UCRLVTRAgent,
        KernelUCBVIAgent,
        LinUCBAgent,
        KernelUCBAgent,
    )
}
"""The agent of every baseline, by the name of the baseline."""
