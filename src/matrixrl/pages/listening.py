"""Sockets that accept connections before an address is announced."""

from __future__ import annotations

import os
import socket

from matrixrl.checks import fail, integer
from matrixrl.errors import MatrixRLError

__all__ = ["listening"]

_PORT_REMEDY = "Choose another with --port."


def listening(port: int, host: str = "127.0.0.1") -> socket.socket:
    """Return a socket that accepts connections.

    Args:
        port: Port; 0 chooses a free one.
        host: Address of this machine.

    Raises:
        InvalidInput: The port is not a number from 0 to 65535.
        MatrixRLError: The port is in use, or the address is none of this machine.
    """
    if integer("--port", port, low=0, remedy="Ports go from 1 to 65535.") > 65535:
        fail("--port", "must be at most 65535", port, "Ports go from 1 to 65535.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    if os.name == "posix":  # reuse a port that was closed a moment ago; on Windows the option has another meaning
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)  # before the address is announced
    except OSError as error:
        listener.close()
        raise MatrixRLError(f"--port {port} cannot be used ({error.strerror}). {_PORT_REMEDY}") from error
    return listener
