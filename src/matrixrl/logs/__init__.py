"""Logs: read and check recorded episodes, keep the steps that an agent saw, and write them."""

from typing import TYPE_CHECKING

from matrixrl.extras import later_names
from matrixrl.logs.step_log import SeenLog, StepLog

if TYPE_CHECKING:
    from matrixrl.logs.groups import FoundGroups, groups_from_log
    from matrixrl.logs.reader import ROLES, CheckedLog, LogPlan, log_digest, read_log
    from matrixrl.logs.writer import write_log

__all__ = [
    "ROLES",
    "CheckedLog",
    "FoundGroups",
    "LogPlan",
    "SeenLog",
    "StepLog",
    "groups_from_log",
    "log_digest",
    "read_log",
    "write_log",
]

_IN_GROUPS = ("FoundGroups", "groups_from_log")
_IN_READER = ("ROLES", "CheckedLog", "LogPlan", "log_digest", "read_log")
__getattr__ = later_names(
    __name__, {**dict.fromkeys(_IN_GROUPS, "groups"), **dict.fromkeys(_IN_READER, "reader"), "write_log": "writer"}
)
