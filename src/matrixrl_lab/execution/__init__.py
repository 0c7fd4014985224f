"""Play experiments: blocks of episodes, executors that play them, and the campaign that submits them."""

from matrixrl_lab.execution.campaign import Campaign, Observer, Outcome
from matrixrl_lab.execution.executors import EXECUTORS, Executor, make_executor

__all__ = ["EXECUTORS", "Campaign", "Executor", "Observer", "Outcome", "make_executor"]
