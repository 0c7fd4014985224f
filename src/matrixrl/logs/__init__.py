"""Logs in and out: read and check what others recorded, keep what an agent saw, and write it."""

from matrixrl.logs.columns import ROLES
from matrixrl.logs.keeping import SeenLog
from matrixrl.logs.plan import LogPlan
from matrixrl.logs.reading import CheckedLog, read_log
from matrixrl.logs.step_log import StepLog
from matrixrl.logs.writing import write_log

__all__ = ["ROLES", "CheckedLog", "LogPlan", "SeenLog", "StepLog", "read_log", "write_log"]
