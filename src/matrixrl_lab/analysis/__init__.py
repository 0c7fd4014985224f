"""Statistics of stored results, with intervals over seeds."""

from matrixrl_lab.analysis.aggregate import AgentAggregate, Aggregate, aggregate
from matrixrl_lab.analysis.statistics import Curve, Interval, Profile
from matrixrl_lab.analysis.summary import AgentSummary, EnvSummary, RegretBounds, summarise

__all__ = [
    "AgentAggregate",
    "AgentSummary",
    "Aggregate",
    "Curve",
    "EnvSummary",
    "Interval",
    "Profile",
    "RegretBounds",
    "aggregate",
    "summarise",
]
