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

__all__ = [
    "FORMAT_VERSION",
    "check_version",
    "comparing",
    "pack",
    "read_archive",
    "read_json",
    "refusing",
    "unpack",
    "write_archive",
    "write_atomically",
]

FORMAT_VERSION = 9
"""Format of saved agents and simulations; other kinds of archives may have versions of their own."""
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
    path: str | os.PathLike[str],
    kind: str,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    version: int = FORMAT_VERSION,
) -> None:
    """Write an archive to a file, atomically.

    Args:
        path: Path of the file.
        kind: Name of the type of content, checked by `read_archive`.
        header: Entries of the JSON header.
        arrays: Arrays by name.
        version: Format version of this kind.

    Raises:
        CheckpointError: The file cannot be written.
    """
    write_atomically(path, _packed(kind, header, arrays, version).getbuffer())


def write_atomically(path: str | os.PathLike[str], data: bytes | memoryview) -> None:
    """Write bytes to a file.

    A temporary file in the same directory is written, flushed to disk and renamed, so an incomplete file never has the
    final name.

    Raises:
        CheckpointError: The file cannot be written.
    """
    target = Path(path)
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
    return _packed(kind, header, arrays, FORMAT_VERSION).getvalue()


def _packed(kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], version: int) -> io.BytesIO:
    text = json.dumps({"format": kind, "version": version, **header}, allow_nan=False).encode()
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
    return _read(kind, io.BytesIO(data), source, FORMAT_VERSION)


def read_archive(
    path: str | os.PathLike[str], kind: str, *, version: int = FORMAT_VERSION
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of a file written by `write_archive`.

    Nothing is unpickled or decompressed, and arrays never use more memory than the size of the file.

    Args:
        path: Path of the file.
        kind: Name of the type of content that is expected.
        version: Format version of this kind that is read.

    Raises:
        CheckpointError: The file is missing or is not a valid archive of this kind and version.
    """
    source = Path(path)
    if not source.is_file():
        raise CheckpointError(f"{source} is not a file; give the path that was passed to save")
    try:
        with source.open("rb") as file:
            return _read(kind, file, str(source), version)
    except OSError as error:
        raise CheckpointError(f"{source} cannot be read ({error.strerror})") from error


def _read(kind: str, file: IO[bytes], source: str, version: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        if not has_seal(file):
            _refuse_unsealed(kind, file, source, version)
        verify_seal(file, source)
        archive, infos = open_members(file, source, comment_size=SEAL_SIZE)
        with archive:
            header = _read_header(kind, archive, infos, source)
            check_version(header, source, version)
            return header, {i.filename.removesuffix(".npy"): read_array(archive, i, source) for i in infos[1:]}
    except _DAMAGE as error:
        raise CheckpointError(f"{source} is truncated or not a matrixrl file ({_words(error)})") from error


def _refuse_unsealed(kind: str, file: IO[bytes], source: str, version: int) -> NoReturn:
    """Say what a file without a seal is: one of an older format, if it has its header."""
    archive, infos = open_members(file, source, comment_size=0)
    with archive:
        header = _read_header(kind, archive, infos, source)
    check_version(header, source, version)
    raise CheckpointError(f"{source} is truncated or not a matrixrl file: its digest is missing")


def _read_header(kind: str, archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo], source: str) -> dict[str, Any]:
    if not infos or infos[0].filename != f"{_HEADER}.npy":
        raise CheckpointError(f"{source} is not a matrixrl file: it has no header")
    if infos[0].file_size > 2 * _HEADER_LIMIT:
        raise CheckpointError(f"{source} has a header that is not text of at most {_HEADER_LIMIT} bytes")
    raw = read_array(archive, infos[0], source)
    if raw.ndim != 1 or raw.dtype != np.uint8 or raw.size > _HEADER_LIMIT:
        raise CheckpointError(f"{source} has a header that is not text of at most {_HEADER_LIMIT} bytes")
    return read_json(raw.tobytes(), kind, source, part="header")


def read_json(text: bytes, kind: str, source: str, *, part: str) -> dict[str, Any]:
    """Return the object of a JSON text whose entry `format` is `kind`.

    Names that occur twice, numbers that are not finite and deep nesting are refused.

    Args:
        text: The text.
        kind: Name of the type of content that is expected.
        source: Name of the file in messages.
        part: What the text is of the file, in messages.

    Raises:
        CheckpointError: The text is not such an object.
    """
    try:
        found = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{source} has a damaged {part} ({error})") from error
    if _depth(found) > _DEEPEST:
        raise CheckpointError(f"{source} has a {part} of more than {_DEEPEST} levels")
    if not isinstance(found, dict) or found.get("format") != kind:
        raise CheckpointError(f"{source} is not a matrixrl file: its {part} does not have the format {kind!r}")
    return found


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


def check_version(header: dict[str, Any], source: str, known: int) -> None:
    """Refuse a header of another format version than the known one.

    Raises:
        CheckpointError: The version is older, newer, or none.
    """
    version = header.get("version")
    if type(version) is not int or version < 1:
        raise CheckpointError(f"{source} has no valid format version; got {str(version)[:80]!r}")
    if version < known:
        library = header.get("library")
        author = f", written by matrixrl {library[:40]!r}" if isinstance(library, str) else ""
        raise CheckpointError(
            f"{source} has format {version}{author}, older than the {known} that this matrixrl reads; "
            "load it with the version that wrote it, or learn again"
        )
    if version > known:
        raise CheckpointError(
            f"{source} has format {version}, newer than the {known} that this matrixrl reads; upgrade"
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
