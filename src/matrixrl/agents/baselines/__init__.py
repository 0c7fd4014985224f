"""Algorithms of other papers, on the same problems, plans and linear algebra, batched over replicas."""

from matrixrl.agents.baselines.base import BaselineEngine, BaselineSettings

BASELINES: dict[str, type[BaselineEngine]] = {}
"""Every baseline by the name used on the command line and in specs."""

__all__ = ["BASELINES", "BaselineEngine", "BaselineSettings"]
