"""The durable, append-only log of a service."""

from matrixrl_serve.log.event_log import Checked, EventLog
from matrixrl_serve.log.events import KINDS, LEARNER, Draft, Event, Kind
from matrixrl_serve.log.writer import Head, Writer

__all__ = ["KINDS", "LEARNER", "Checked", "Draft", "Event", "EventLog", "Head", "Kind", "Writer"]
