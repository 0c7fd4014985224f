"""A learner in a process of its own: answers do not wait for Python code that plans.

The two processes exchange messages through a pipe that nobody else can open. The process of the answers is the only one
that writes the log; the learner reads it, sends its plans, and writes checkpoints. Each side has at most one message
under way besides the last one, "close", so neither can fill the pipe. If the learner dies, another one is started and
restored from the log; if the answers die, the learner ends.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from matrixrl.errors import MatrixRLError, StoreError
from matrixrl.references import safe_path
from matrixrl.threads import limited_threads
from matrixrl_serve.learner.checkpoints import Checkpoints
from matrixrl_serve.learner.loop import LearnerLoop, Publish
from matrixrl_serve.learner.publication import Publication
from matrixrl_serve.log import Draft, EventLog
from matrixrl_serve.problem import ProblemFile, ServedProblem

__all__ = ["LearnerProcess"]

logger = logging.getLogger("matrixrl_serve")
_PATIENCE = 3600.0  # seconds until the learner of a long log without a checkpoint must be ready
_LAST_PLAN = 60.0  # seconds that a plan may take while the service stops
_SHORT_LIFE = 10.0  # seconds; a learner that dies sooner makes the next one wait
_NICENESS = 10  # answers come first
_PAUSES = (0.0, 1.0, 5.0, 30.0)  # seconds before the next one, after so many short lives in a row


class LearnerProcess:
    """The other end of a learner in a process of its own.

    Args:
        data: Directory of the log.
        problem: Its problem.
        every: Number of events after which a checkpoint is written.
        publish: Function that publishes a plan; it is called in a thread.
        durable: Function that returns the number of the last durable event.
    """

    def __init__(
        self, data: Path, problem: ProblemFile, *, every: int, publish: Publish, durable: Callable[[], int]
    ) -> None:
        self._arguments = os.fspath(data), problem.model_dump(), every
        self._publish, self._durable = publish, durable
        self.seq = 0
        """Number of the last event that the learner has taken."""
        self._failure: str | None = None
        self.n_deaths = 0
        """How often the process died and was started again."""
        self._plans: list[Publication] = []
        self._ready, self._closing = threading.Event(), threading.Event()
        self._lock = threading.Lock()  # of the messages to the learner
        self._is_idle, self._is_new = False, False  # whether it waits for news, and whether a plan is due without any
        self._n_short, self._since = 0, time.monotonic()
        self._process, self._connection = self._start()
        self._thread = threading.Thread(target=self._run, name="matrixrl-learner", daemon=True)
        atexit.register(self.close)  # the learner ignores the signal by which Python ends its processes

    @property
    def failure(self) -> str | None:
        """Why nothing is learned, in words."""
        if self._failure is None and self._n_short >= len(_PAUSES):
            return f"the learner died {self._n_short} times in a row; it is started again every {_PAUSES[-1]:g} s"
        return self._failure

    @property
    def pid(self) -> int | None:
        """Number of the process."""
        return self._process.pid

    def await_plans(self) -> list[Publication]:
        """Return the plans that open episodes have, and the newest one, once the learner has read the log.

        The first plan of a new service is published like all later ones, and is not among them.
        """
        self._thread.start()
        if not self._ready.wait(_PATIENCE):
            raise StoreError(f"the learner was not ready within {_PATIENCE:g} seconds")
        if self._failure is not None:
            raise StoreError(self._failure)
        return self._plans

    def announce(self) -> None:
        """Tell the learner that there are new events, unless it is busy and will look itself."""
        with self._lock:
            if self._is_idle:
                self._is_idle = False
                self._send("news", self._durable())

    def close(self) -> None:
        """Let the learner write a checkpoint, and end it."""
        atexit.unregister(self.close)
        with self._lock:
            self._closing.set()
            self._send("close")
        self._process.join(_LAST_PLAN)
        if self._process.is_alive():
            logger.warning("the learner was still planning, and was ended without a checkpoint")
            self._process.kill()
            self._process.join()
        if self._thread.is_alive():
            self._thread.join()
        self._connection.close()

    def _start(self) -> tuple[BaseProcess, Connection]:
        context = multiprocessing.get_context("spawn")
        own, other = context.Pipe()
        process = context.Process(target=_learn, args=(other, *self._arguments), name="matrixrl-learner", daemon=True)
        with safe_path():
            process.start()
        other.close()
        self._since = time.monotonic()
        return process, own

    def _run(self) -> None:
        """Take the messages of the learner; start another one if it dies."""
        while True:
            try:
                while self._take(*self._connection.recv()):
                    pass
                return
            except (EOFError, OSError):
                if not self._closing.is_set() and self._start_again():
                    continue
                return
            except Exception as error:  # such as a log that takes no events any more
                if not isinstance(error, MatrixRLError):
                    logger.exception("the learner stopped")
                self._fail(str(error))
                self._connection.close()  # which ends the learner
                return

    def _take(self, kind: str, *rest: Any) -> bool:
        """Take a message, and say whether others follow."""
        if kind == "plan":
            last = self._publish(*rest)
            with self._lock:
                self._send("published", last)
            self._ready.set()
        elif kind == "ready":
            self._plans, self.seq, self._is_new = rest
            if self._plans:
                self._ready.set()
            self._go_on()
        elif kind == "taken":
            self.seq = rest[0]
            self._go_on()
        elif kind == "failed":
            self._fail(rest[0])
        return kind not in ("failed", "closed")

    def _go_on(self) -> None:
        """Send the learner on if there is something to do, else let it wait."""
        with self._lock:
            last = self._durable()
            self._is_idle = self.seq >= last and not self._is_new
            self._is_new = False
            if not self._is_idle:
                self._send("news", last)

    def _fail(self, words: str) -> None:
        self._failure = f"the learner stopped: {words}"
        logger.error("%s", self._failure)
        self._ready.set()

    def _start_again(self) -> bool:
        """Start another learner; False if the service closes meanwhile."""
        self._process.join()
        while not self._closing.is_set():
            self.n_deaths += 1
            self._n_short = self._n_short + 1 if time.monotonic() - self._since < _SHORT_LIFE else 0
            if self._n_short >= len(_PAUSES) and not self._ready.is_set():
                self._fail(f"it died {self._n_short} times while the service started")
                return False
            pause = _PAUSES[min(self._n_short, len(_PAUSES) - 1)]
            logger.warning("the learner died (exit code %s); another one starts in %g s", self._process.exitcode, pause)
            deadline = time.monotonic() + pause
            while time.monotonic() < deadline and not self._closing.is_set():
                time.sleep(0.05)
            if self._closing.is_set():
                return False
            try:
                process, connection = self._start()
            except OSError as error:  # no memory for another process
                logger.warning("no learner could be started: %s", error)
                self._since = time.monotonic()
                continue
            with self._lock:
                old, self._is_idle = self._connection, False
                self._process, self._connection = process, connection
                if self._closing.is_set():
                    self._send("close")
            old.close()
            return True
        return False

    def _send(self, *message: object) -> None:
        with contextlib.suppress(OSError):  # it died: `_run` notices
            self._connection.send(message)


class _Closing(Exception):
    """The service ends, or is gone."""


class _Pipe:
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


def _learn(connection: Connection, data: str, problem: dict[str, Any], every: int) -> None:
    """Learn from the log in a directory until the service closes."""
    for name in (signal.SIGINT, signal.SIGTERM):  # they are for the service, which ends this process in order
        signal.signal(name, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    pipe = _Pipe(connection)
    log = EventLog(data, create=False)
    try:
        with limited_threads(1):
            _follow(pipe, log, ServedProblem(ProblemFile.model_validate(problem)), Checkpoints(Path(data)), every)
    except _Closing:
        pass
    except Exception as error:
        logger.exception("the learner stopped")
        with contextlib.suppress(_Closing):
            pipe.send("failed", str(error))
    finally:
        log.close()


def _follow(pipe: _Pipe, log: EventLog, problem: ServedProblem, checkpoints: Checkpoints, every: int) -> None:
    loop = LearnerLoop(log, problem, checkpoints, pipe.publish, every=every)
    plans = [dataclasses.replace(plan, ahead=None) for plan in loop.learner.plans.values()]
    pipe.send("ready", plans, loop.seq, loop.learner.is_due)
    while True:
        kind, *rest = pipe.receive()
        if kind == "close":
            loop.catch_up()
            loop.save()
            pipe.send("closed")
            return
        loop.learn(int(rest[0]))
        loop.save_if_due()
        pipe.send("taken", loop.seq)
