"""Playing experiments: units of work, where they are played, and who hands them out."""

from matrixrl.lab.execution.campaign import Campaign, Observer, Outcome
from matrixrl.lab.execution.executors import EXECUTORS, make_executor

__all__ = ["EXECUTORS", "Campaign", "Observer", "Outcome", "make_executor"]
