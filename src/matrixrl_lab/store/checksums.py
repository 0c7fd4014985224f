"""Checksums of the rows of a store, so that a changed byte is an error and never another result."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

__all__ = ["Value", "checksum"]

Value = None | int | float | str | bytes
"""A value of an SQLite column."""

_SIZE = 16  # bytes


def checksum(table: str, row: Iterable[Value]) -> bytes:
    """Return the checksum of a row: a hash of its table and of the type, the length and the bytes of every value.

    Args:
        table: Name of the table.
        row: Values of all columns except the checksum.

    >>> checksum("meta", ["format", "3"]) == checksum("meta", ["format", 3])
    False
    """
    total = hashlib.blake2b(table.encode(), digest_size=_SIZE)
    for value in row:
        data = value if isinstance(value, bytes) else str(value).encode()
        total.update(f" {type(value).__name__} {len(data)} ".encode())
        total.update(data)
    return total.digest()
