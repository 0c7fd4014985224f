"""Every baseline as an agent: ask and tell, learn, predict, save and load."""

from __future__ import annotations

from typing import Any

from matrixrl.agents.agent import Agent
from matrixrl.agents.matrix_rl import split_options
from matrixrl.algorithms.baselines import BASELINES

__all__ = ["BASELINE_AGENTS", "BaselineAgent"]


class BaselineAgent(Agent):
    """An algorithm of another paper as an agent.

    Args:
        problem: As in `MatrixRL`.
        options: Options of `Agent`; every other one is a setting of the baseline (docs/baselines.md).
    """

    def __init__(self, problem: Any, **options: Any) -> None:
        shell, settings = split_options(options)
        super().__init__(problem, BASELINES[self.name](**settings), **shell)


def _agent_class(name: str) -> type[BaselineAgent]:
    algorithm = BASELINES[name]
    summary = (algorithm.__doc__ or "").strip().partition("\n")[0]
    members = {"name": name, "__doc__": f"{summary}\n\nThe agent of `{algorithm.__name__}`.", "__module__": __name__}
    return type(f"{algorithm.__name__}Agent", (BaselineAgent,), members)


BASELINE_AGENTS: dict[str, type[BaselineAgent]] = {name: _agent_class(name) for name in BASELINES}
"""The agent of every baseline by the baseline's name: ``BASELINE_AGENTS["psrl"]`` is `PSRLAgent`."""

globals().update({kind.__name__: kind for kind in BASELINE_AGENTS.values()})
__all__ += sorted(kind.__name__ for kind in BASELINE_AGENTS.values())
