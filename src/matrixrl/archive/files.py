"""Write and read archives: a header of plain data and named arrays under one seal."""

from __future__ import annotations

import io
import json
import os
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from matrixrl.archive.members import open_members, read_array, write_members
from matrixrl.archive.seal import SEAL_SIZE, has_seal, seal, verify_seal
from matrixrl.errors import CheckpointError, CheckpointMismatch, InvalidInput, UntrustedCode

__all__ = ["FORMAT_VERSION", "comparing", "pack", "read_archive", "refusing", "unpack", "write_archive"]

FORMAT_VERSION = 6
_HEADER = "header"
_HEADER_LIMIT = 1 << 20
_DEEPEST = 32  # levels of lists and objects in a header
_DAMAGE = (  # what zipfile, struct, json and NumPy raise on bytes that nobody wrote
    zipfile.BadZipFile,
    struct.error,
    OSError,
    EOFError,
    LookupError,
    ValueError,
    TypeError,
    ArithmeticError,
    AttributeError,
    RuntimeError,
    MemoryError,
)


def write_archive(
    path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write an archive to a file.

    A temporary file in the same directory is written, flushed to disk and renamed, so an incomplete file never has the
    final name.

    Args:
        path: Path of the file.
        kind: Name of the type of content, checked by `read_archive`.
        header: Entries of the JSON header.
        arrays: Arrays by name.

    Raises:
        CheckpointError: The file cannot be written.
    """
    target = Path(path)
    data = _packed(kind, header, arrays).getbuffer()
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise CheckpointError(f"cannot write {target}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)  # noqa: PTH105  # the atomic rename
    except OSError as error:
        raise CheckpointError(f"cannot write {target}: {error.strerror}") from error
    finally:
        Path(name).unlink(missing_ok=True)


def pack(kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of an archive with a header and named arrays; `kind` is the name of its type of content."""
    return _packed(kind, header, arrays).getvalue()


def _packed(kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> io.BytesIO:
    text = json.dumps({"format": kind, "version": FORMAT_VERSION, **header}, allow_nan=False).encode()
    if len(text) > _HEADER_LIMIT:  # never write what cannot be read
        raise CheckpointError(f"the header would have {len(text):,} bytes, more than the {_HEADER_LIMIT:,} of a file")
    buffer = io.BytesIO()
    write_members(buffer, {_HEADER: np.frombuffer(text, dtype=np.uint8), **arrays}, bytes(SEAL_SIZE))
    seal(buffer)
    return buffer


def unpack(kind: str, data: bytes, source: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of an archive made by `pack`.

    Args:
        kind: Name of the type of content that is expected.
        data: Bytes of the archive.
        source: Name of the archive in error messages.

    Raises:
        CheckpointError: The bytes are not a valid archive of this kind and version.
    """
    return _read(kind, io.BytesIO(data), source)


def read_archive(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of a file written by `write_archive`.

    Nothing is unpickled or decompressed, and arrays never use more memory than the size of the file.

    Args:
        path: Path of the file.
        kind: Name of the type of content that is expected.

    Raises:
        CheckpointError: The file is missing or is not a valid archive of this kind and version.
    """
    source = Path(path)
    if not source.is_file():
        raise CheckpointError(f"{source} is not a file; give the path that was passed to save")
    try:
        with source.open("rb") as file:
            return _read(kind, file, str(source))
    except OSError as error:
        raise CheckpointError(f"{source} cannot be read ({error.strerror})") from error


def _read(kind: str, file: IO[bytes], source: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        if not has_seal(file):
            _refuse_unsealed(kind, file, source)
        verify_seal(file, source)
        archive, infos = open_members(file, source, comment_size=SEAL_SIZE)
        with archive:
            header = _read_header(kind, archive, infos, source)
            _check_version(header, source)
            return header, {i.filename.removesuffix(".npy"): read_array(archive, i, source) for i in infos[1:]}
    except _DAMAGE as error:
        raise CheckpointError(f"{source} is truncated or not a matrixrl checkpoint ({_words(error)})") from error


def _refuse_unsealed(kind: str, file: IO[bytes], source: str) -> NoReturn:
    """Say what a file without a seal is: one of an older format, if it has its header."""
    archive, infos = open_members(file, source, comment_size=0)
    with archive:
        header = _read_header(kind, archive, infos, source)
    _check_version(header, source)
    raise CheckpointError(f"{source} is truncated or not a matrixrl checkpoint: its digest is missing")


def _read_header(kind: str, archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo], source: str) -> dict[str, Any]:
    if not infos or infos[0].filename != f"{_HEADER}.npy":
        raise CheckpointError(f"{source} is not a matrixrl checkpoint: it has no header")
    if infos[0].file_size > 2 * _HEADER_LIMIT:
        raise CheckpointError(f"{source} has a header that is not text of at most {_HEADER_LIMIT} bytes")
    raw = read_array(archive, infos[0], source)
    if raw.ndim != 1 or raw.dtype != np.uint8 or raw.size > _HEADER_LIMIT:
        raise CheckpointError(f"{source} has a header that is not text of at most {_HEADER_LIMIT} bytes")
    try:
        header = json.loads(raw.tobytes(), object_pairs_hook=_object, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{source} has a damaged header ({error})") from error
    if _depth(header) > _DEEPEST:
        raise CheckpointError(f"{source} has a header of more than {_DEEPEST} levels")
    if not isinstance(header, dict) or header.get("format") != kind:
        raise CheckpointError(f"{source} is not a matrixrl checkpoint: its header does not have the format {kind!r}")
    return header


def _depth(value: Any) -> int:
    """Return how many levels of lists and objects a value has."""
    depth, level = 0, [value]
    while level := [v for v in level if isinstance(v, (dict, list)) and v]:
        level = [item for v in level for item in (v.values() if isinstance(v, dict) else v)]
        depth += 1
    return depth


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _check_version(header: dict[str, Any], source: str) -> None:
    version = header.get("version")
    if type(version) is not int or version < 1:
        raise CheckpointError(f"{source} has no valid format version; got {str(version)[:80]!r}")
    if version < FORMAT_VERSION:
        library = header.get("library")
        author = f", written by matrixrl {library[:40]!r}" if isinstance(library, str) else ""
        raise CheckpointError(
            f"{source} has format {version}{author}, older than the {FORMAT_VERSION} that this matrixrl reads; "
            "load it with the version that wrote it, or learn again"
        )
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"{source} has format {version}, newer than the {FORMAT_VERSION} that this matrixrl reads; upgrade"
        )


@contextmanager
def refusing(source: str) -> Iterator[None]:
    """Convert the errors that a damaged header or array causes in the block into `CheckpointError`."""
    try:
        with np.errstate(all="ignore"):  # numbers that nobody learned may overflow in the checks that find them
            yield
    except (InvalidInput, *_DAMAGE) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else _words(error)
        raise CheckpointError(f"{source} cannot be restored: {reason}") from error


@contextmanager
def comparing(source: str) -> Iterator[None]:
    """Convert the errors of arguments of `load` that do not fit the file into `CheckpointMismatch`."""
    try:
        with np.errstate(all="ignore"):
            yield
    except UntrustedCode:
        raise
    except InvalidInput as error:
        raise CheckpointMismatch(f"{source} does not fit: {error}") from error


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
