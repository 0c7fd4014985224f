"""Names in Host headers.

Another site can let its own name resolve to this machine (DNS rebinding), but the Host header still has that name.
"""

from __future__ import annotations

__all__ = ["LOOPBACK", "host_name", "is_loopback"]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine."""


def host_name(host: str) -> str | None:
    """Return the name in a Host header, without its port and in small letters; None if the header is malformed.

    >>> host_name("LocalHost:8787"), host_name("[::1]:80"), host_name("a:b")
    ('localhost', '[::1]', None)
    """
    name, colon, port = host.rpartition(":")
    if not colon or "]" in port:
        name, port = host, ""
    return name.lower() if name and (port == "" or port.isdigit()) else None


def is_loopback(host: str) -> bool:
    """Return whether a Host header is a loopback name, with or without a port.

    >>> is_loopback("localhost:8787"), is_loopback("localhost.example.com:8787")
    (True, False)
    """
    return host_name(host) in LOOPBACK
