"""Statistics of stored results, with intervals over seeds."""

from matrixrl.lab.analysis.bounds import RegretBounds
from matrixrl.lab.analysis.statistics import Curve, Interval
from matrixrl.lab.analysis.summary import AgentSummary, EnvSummary, summarise

__all__ = ["AgentSummary", "Curve", "EnvSummary", "Interval", "RegretBounds", "summarise"]
