"""The server process: one service, one address, until an interrupt."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence

from matrixrl.checks import choice, fail
from matrixrl.interrupts import ending_in_order
from matrixrl.pages.server import open_socket, run_server
from matrixrl_serve.access import list_tokens
from matrixrl_serve.http.app import make_app
from matrixrl_serve.log import EventLog
from matrixrl_serve.log.database import log_file
from matrixrl_serve.log.postgres import is_address
from matrixrl_serve.problem import ProblemFile
from matrixrl_serve.service import Service
from matrixrl_serve.shared import SharedLearner, SharedService

__all__ = ["ROLES", "end_unread", "serve"]

ROLES = ("all", "web", "learner")
"""What a process does."""

logger = logging.getLogger("matrixrl_serve")
_NO_TIME_OUT = (
    "the problem file has no time_out: an episode that is never finished keeps the service from learning of all "
    "episodes that were opened after it; add time_out = seconds, or abandon such episodes"
)
_NO_DEFAULT = (
    "the problem file has a time_out and no default_reward: an episode whose outcome does not come in time is "
    "abandoned, and what is proven ends with it; add default_reward if a time-out is an outcome of its own"
)
_MOST_CONNECTIONS = 1000
_UNREAD = 20.0  # seconds that a client may leave what was sent to it unread
_GRACE = 5  # seconds that open requests have at the end


def serve(
    problem: ProblemFile | None,
    data: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8799,
    allow_hosts: Sequence[str] = (),
    role: str = "all",
    announce: Callable[[str], object] | None = None,
) -> None:
    """Serve a problem until an interrupt or a termination signal, which ends it in order.

    Args:
        problem: The problem; None takes that of the log.
        data: Directory of the log, or address of a PostgreSQL database, which any number of processes may serve.
        host: Address to listen on; another one than this machine's own needs tokens.
        port: Port; 0 chooses a free one.
        allow_hosts: Names in Host headers besides those of this machine.
        role: With a database, "web" answers, "learner" learns if no other process does, and "all" does both.
        announce: Function that is called once with words about the address.

    Raises:
        InvalidInput: The address is open to other machines, and there is no token.
        StoreError: The log cannot be used.
    """
    choice("--role", role, ROLES)
    if role == "learner":
        return _learn(problem, data, announce)
    with open_socket(port, host) as listener, ending_in_order(), _opened(problem, data, role, host) as service:
        if service.problem.file.time_out is None:
            logger.warning("%s", _NO_TIME_OUT)
        elif service.problem.file.default_reward is None:
            logger.warning("%s", _NO_DEFAULT)
        end_unread(listener)
        app = make_app(service, hosts=[*allow_hosts, host])
        if announce is not None:
            announce(f"serving at http://{host}:{listener.getsockname()[1]}")
        run_server(
            app,
            listener,
            log_level="warning",
            http="httptools",
            ws="none",
            proxy_headers=False,  # who sends a request is known by its token, not by its address
            timeout_graceful_shutdown=_GRACE,
            timeout_keep_alive=60,
            limit_concurrency=_MOST_CONNECTIONS,
        )


def end_unread(listener: socket.socket) -> None:
    """Let the system end connections whose clients do not read, where it can; otherwise a proxy must."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections have it from the socket that accepts them
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * _UNREAD))


def _opened(problem: ProblemFile | None, data: str | os.PathLike[str], role: str, host: str) -> Service:
    """Return the service of a directory or a database, unless others could reach it without a token."""
    if not is_address(data):
        _check_role(role)
    if not _is_own(host):
        _check_tokens(data, host)
    if is_address(data):
        return SharedService(problem, str(data), learning=role == "all")
    return Service(problem, data)


def _learn(problem: ProblemFile | None, data: str | os.PathLike[str], announce: Callable[[str], object] | None) -> None:
    """Learn from the log of a database until an interrupt or a termination signal."""
    if not is_address(data):
        _check_role("learner")
    say = announce or (lambda _: None)
    learner = SharedLearner(problem, str(data), on_lead=lambda seq: say(f"learning from event {seq} on"))
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # also in the background of a shell, which ignores it there
    say("waiting for the lock of the learner")
    with ending_in_order(), contextlib.suppress(KeyboardInterrupt):
        learner.run()


def _check_role(role: str) -> None:
    if role != "all":
        fail("--role", "must be all for a directory, which one process serves", role, "Use a PostgreSQL database.")


def _is_own(host: str) -> bool:
    """Say whether an address can only be reached from this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_tokens(data: str | os.PathLike[str], host: str) -> None:
    path = log_file(data)
    if path is None or path.is_file():
        with contextlib.closing(EventLog(data, create=False)) as log:
            if any(token.revoked_at is None for token in list_tokens(log)):
                return
    rule = "must be 127.0.0.1 as long as there is no token: others could reach it"
    fail("--host", rule, host, "Start it without --host, and then: matrixrl serve token create DIR NAME --scope ask …")
