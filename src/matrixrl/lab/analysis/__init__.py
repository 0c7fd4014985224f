"""Statistics of stored results, with intervals over seeds."""

from matrixrl.lab.analysis.aggregate import AgentAggregate, Aggregate, aggregate
from matrixrl.lab.analysis.bounds import RegretBounds
from matrixrl.lab.analysis.statistics import Curve, Interval, Profile
from matrixrl.lab.analysis.summary import AgentSummary, EnvSummary, summarise

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
