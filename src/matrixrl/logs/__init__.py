"""Logs: read and check recorded episodes, keep the steps that an agent saw, and write them."""

from matrixrl.logs.reader import ROLES, CheckedLog, LogPlan, log_digest, read_log
from matrixrl.logs.step_log import SeenLog, StepLog
from matrixrl.logs.writer import write_log

__all__ = ["ROLES", "CheckedLog", "LogPlan", "SeenLog", "StepLog", "log_digest", "read_log", "write_log"]
