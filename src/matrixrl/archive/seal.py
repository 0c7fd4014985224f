"""The seal of an archive: a digest of all its other bytes, at its end.

A seal finds damage, also of a single bit. It is no signature: a person who changes a file on purpose can compute it
again, so what a file says is checked as if there were no seal.
"""

from __future__ import annotations

import hashlib
import io
import os
from typing import IO

from matrixrl.errors import CheckpointError

__all__ = ["SEAL_SIZE", "has_seal", "seal", "verify_seal"]

_MARK = b"matrixrl archive sha256 "
_DIGITS = 64
SEAL_SIZE = len(_MARK) + _DIGITS
"""Number of bytes of a seal, which is the comment of the zip file."""

_CHUNK = 1 << 20


def seal(file: io.BytesIO) -> None:
    """Write the digest into a zip file whose comment has `SEAL_SIZE` bytes."""
    size = file.seek(0, os.SEEK_END)
    file.seek(size - SEAL_SIZE)
    file.write(_MARK)
    digest = _digest(file, size - _DIGITS)
    file.seek(size - _DIGITS)
    file.write(digest)


def has_seal(file: IO[bytes]) -> bool:
    """Say whether a file ends like an archive of this format."""
    size = file.seek(0, os.SEEK_END)
    if size < SEAL_SIZE:
        return False
    file.seek(size - SEAL_SIZE)
    return file.read(len(_MARK)) == _MARK


def verify_seal(file: IO[bytes], source: str) -> None:
    """Refuse a sealed file whose bytes are not those that were written.

    Raises:
        CheckpointError: The digest is that of other bytes.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(size - _DIGITS)
    if file.read(_DIGITS) != _digest(file, size - _DIGITS):
        raise CheckpointError(
            f"{source} is damaged or was changed after it was written: its digest is that of other bytes. "
            "Use a copy of the file"
        )


def _digest(file: IO[bytes], size: int) -> bytes:
    """Return the SHA-256 of the first bytes of a file in hexadecimal digits."""
    found, left = hashlib.sha256(), size
    file.seek(0)
    while left:
        chunk = file.read(min(left, _CHUNK))
        if not chunk:
            break
        found.update(chunk)
        left -= len(chunk)
    return found.hexdigest().encode()
