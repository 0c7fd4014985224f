"""Archives of named arrays with a JSON header, as bytes or as a file. They contain no pickles; writing is atomic."""

from __future__ import annotations

import io
import json
import os
import tempfile
import tokenize
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from matrixrl.errors import CheckpointError, InvalidInput

__all__ = ["FORMAT_VERSION", "pack", "read_archive", "refusing", "unpack", "write_archive"]

FORMAT_VERSION = 3
_HEADER = "header"
_HEADER_LIMIT = 1 << 20
_KINDS = "fiub"  # floats, integers and booleans; other types could contain code


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
    data = pack(kind, header, arrays)
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
    text = json.dumps({"format": kind, "version": FORMAT_VERSION, **header}, allow_nan=False).encode()
    if len(text) > _HEADER_LIMIT:  # never write what cannot be read
        raise CheckpointError(f"the header would have {len(text):,} bytes, more than the {_HEADER_LIMIT:,} of a file")
    members = {_HEADER: np.frombuffer(text, dtype=np.uint8), **arrays}
    buffer = io.BytesIO()
    np.savez(buffer, **members)  # type: ignore[arg-type]
    return buffer.getvalue()


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
    return _read(kind, source, str(source))


def _read(kind: str, file: Path | IO[bytes], source: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        with zipfile.ZipFile(file) as archive:
            header = _read_header(kind, archive, source)
            names = [n for n in archive.namelist() if n != f"{_HEADER}.npy"]
            return header, {n.removesuffix(".npy"): _read_array(archive, n, source) for n in names}
    except zipfile.BadZipFile as error:
        raise CheckpointError(f"{source} is truncated or not a matrixrl checkpoint ({error})") from error
    except (OSError, EOFError, UnicodeDecodeError, RuntimeError) as error:  # zipfile raises RuntimeError if encrypted
        raise CheckpointError(f"{source} cannot be read ({error})") from error


def _read_header(kind: str, archive: zipfile.ZipFile, source: str) -> dict[str, Any]:
    if f"{_HEADER}.npy" not in archive.namelist():
        raise CheckpointError(f"{source} is not a matrixrl checkpoint: it has no header")
    raw = _read_array(archive, f"{_HEADER}.npy", source)
    if raw.ndim != 1 or raw.dtype != np.uint8 or raw.size > _HEADER_LIMIT:
        raise CheckpointError(f"{source} has a header that is not text of at most {_HEADER_LIMIT} bytes")
    try:
        header = json.loads(raw.tobytes())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{source} has a damaged header ({error})") from error
    if not isinstance(header, dict) or header.get("format") != kind:
        raise CheckpointError(f"{source} is not a matrixrl checkpoint: its header does not have the format {kind!r}")
    version = header.get("version")
    if type(version) is not int or version < 1:
        raise CheckpointError(f"{source} has no valid format version; got {version!r}")
    if version < FORMAT_VERSION:
        raise CheckpointError(
            f"{source} has format {version}, older than the {FORMAT_VERSION} that this matrixrl reads; "
            "load it with the version that wrote it, or learn again"
        )
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"{source} has format {version}, newer than the {FORMAT_VERSION} that this matrixrl reads; upgrade"
        )
    return header


def _read_array(archive: zipfile.ZipFile, name: str, source: str) -> NDArray[Any]:
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED:
        raise CheckpointError(f"{source}: {name} is compressed, which matrixrl never writes")
    with archive.open(info) as member:
        try:
            major, minor = npy.read_magic(member)
            reader = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[major, minor]
            shape, fortran, dtype = reader(member)
        except (ValueError, KeyError, TypeError, SyntaxError, tokenize.TokenError) as error:
            raise CheckpointError(f"{source}: {name} is not an array ({error})") from error
        if dtype.kind not in _KINDS or dtype.hasobject or fortran:
            raise CheckpointError(f"{source}: {name} has type {dtype}, which matrixrl never writes")
        size = dtype.itemsize
        if len(shape) > 8 or not all(type(n) is int and n >= 0 for n in shape):
            raise CheckpointError(f"{source}: {name} has shape {shape}, which matrixrl never writes")
        for n in shape:
            size *= n
        if size > info.file_size:
            raise CheckpointError(f"{source}: {name} claims {size} bytes, but the file holds fewer")
        data = member.read()
    if len(data) != size:
        raise CheckpointError(f"{source}: {name} has {len(data)} bytes, but its header declares {size}")
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy()


@contextmanager
def refusing(source: str) -> Iterator[None]:
    """Convert the errors that a damaged header or array causes in the block into `CheckpointError`."""
    try:
        yield
    except (InvalidInput, KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise CheckpointError(f"{source} cannot be restored: {reason}") from error
