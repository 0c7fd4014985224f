"""Every agent of the registry by its name, as something that is called and loaded like a class."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from matrixrl import Agent, KernelControl, KernelMatrixRL, MatrixRL, ProtocolError
from matrixrl.algorithms import BASELINES


@dataclass(frozen=True)
class Baseline:
    """``Agent(problem, name, …)``."""

    name: str

    def __call__(self, problem, **options):
        return Agent(problem, self.name, **options)

    @property
    def load(self):
        return partial(Agent.load)


def predicted(agent):
    """Return the policy that `predict` follows: that of the estimates, or of the plan where there is no model."""
    try:
        return agent.greedy()
    except ProtocolError:
        return agent.policy


BASELINE_AGENTS = {name: Baseline(name) for name in BASELINES}
AGENTS = {kind.name: kind for kind in (MatrixRL, KernelMatrixRL, KernelControl)} | BASELINE_AGENTS
AGENTS["doubling-matrix-rl"] = Baseline("doubling-matrix-rl")
