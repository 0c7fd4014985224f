"""The server process: one service, one address, until an interrupt."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Sequence

import uvicorn

from matrixrl.checks import fail, number
from matrixrl.pages.listening import listening
from matrixrl.service.access import list_tokens
from matrixrl.service.http.app import make_app
from matrixrl.service.log import EventLog
from matrixrl.service.problem import ProblemFile
from matrixrl.service.running import Service

__all__ = ["serve"]

_GRACE = 5  # seconds that open requests have at the end


def serve(
    problem: ProblemFile | None,
    data: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8799,
    allow_hosts: Sequence[str] = (),
    rate: float = 10_000.0,
    announce: Callable[[str], object] | None = None,
) -> None:
    """Serve a problem until an interrupt or a termination signal, which ends it in order.

    Args:
        problem: The problem; None takes that of the log.
        data: Directory of the log.
        host: Address to listen on; another one than this machine's own needs tokens.
        port: Port; 0 chooses a free one.
        allow_hosts: Names in Host headers besides those of this machine.
        rate: Requests a second that each token may send.
        announce: Function that is called once with the address.

    Raises:
        InvalidInput: The address is open to other machines, and there is no token.
    """
    number("--rate", rate, low=1.0, remedy="Requests a second.")
    with Service(problem, data) as service:
        if not _is_own(host):
            _check_tokens(service.log, host)
        with listening(port, host) as listener:
            app = make_app(service, hosts=[*allow_hosts, host], rate=rate)
            config = uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE,
                timeout_keep_alive=60,
            )
            server = uvicorn.Server(config)
            app.state.stopping = lambda: server.should_exit  # so that open streams end; the server waits for them
            if announce is not None:
                announce(f"http://{host}:{listener.getsockname()[1]}")
            try:
                server.run(sockets=[listener])
            except KeyboardInterrupt:
                return  # uvicorn raises the interrupt again after its shutdown


def _is_own(host: str) -> bool:
    """Say whether an address can only be reached from this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_tokens(log: EventLog, host: str) -> None:
    if not any(token.revoked_at is None for token in list_tokens(log)):
        rule = "must be 127.0.0.1 as long as there is no token: others could reach it"
        fail("--host", rule, host, "Create one: matrixrl serve token create DIR NAME --scope ask …")
