"""The process of a learner; see `matrixrl_serve.learning.apart`."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from matrixrl.threads import limited_threads
from matrixrl_serve.learning.checkpoints import Checkpoints
from matrixrl_serve.learning.loop import LearningLoop
from matrixrl_serve.learning.publication import Publication
from matrixrl_serve.log import Draft, EventLog
from matrixrl_serve.problem import ProblemFile, ServedProblem

__all__ = ["learn"]

logger = logging.getLogger("matrixrl_serve")
_NICENESS = 10  # answers come first


class _Closing(Exception):
    """The service ends, or is gone."""


class _Line:
    """The learner's end of the pipe."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._is_closing = connection, False

    def send(self, *message: object) -> None:
        """Send a message; nobody may be there any more."""
        try:
            self._connection.send(message)
        except OSError as error:
            raise _Closing from error

    def receive(self) -> tuple[Any, ...]:
        """Return the next message."""
        return ("close",) if self._is_closing else self._next()

    def _next(self) -> tuple[Any, ...]:
        try:
            message: tuple[Any, ...] = self._connection.recv()
        except (EOFError, OSError) as error:
            raise _Closing from error
        return message

    def publish(self, publication: Publication, drafts: Sequence[Draft]) -> int:
        """Send a plan, and return the number of an event once it and all before it are durable."""
        self.send("plan", dataclasses.replace(publication, ahead=None), list(drafts))
        while True:
            kind, *rest = self._next()
            if kind == "published":
                return int(rest[0])
            self._is_closing = kind == "close"  # it comes at any time, and has to wait


def learn(connection: Connection, data: str, problem: dict[str, Any], every: int) -> None:
    """Learn from the log in a directory until the service closes."""
    for name in (signal.SIGINT, signal.SIGTERM):  # they are for the service, which ends this process in order
        signal.signal(name, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    line = _Line(connection)
    log = EventLog(data, create=False)
    try:
        with limited_threads(1):
            _follow(line, log, ServedProblem(ProblemFile.model_validate(problem)), Checkpoints(Path(data)), every)
    except _Closing:
        pass
    except Exception as error:
        logger.exception("the learner stopped")
        with contextlib.suppress(_Closing):
            line.send("failed", str(error))
    finally:
        log.close()


def _follow(line: _Line, log: EventLog, problem: ServedProblem, checkpoints: Checkpoints, every: int) -> None:
    loop = LearningLoop(log, problem, checkpoints, line.publish, every=every)
    plans = [dataclasses.replace(plan, ahead=None) for plan in loop.learner.plans.values()]
    line.send("ready", plans, loop.seq, loop.learner.is_due)
    while True:
        kind, *rest = line.receive()
        if kind == "close":
            loop.catch_up()
            loop.save()
            line.send("closed")
            return
        loop.learn(int(rest[0]))
        loop.save_if_due()
        line.send("taken", loop.seq)
