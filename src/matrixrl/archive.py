"""Archives of named arrays with a JSON header, as bytes or as a file: no pickles, one digest, atomic writing.

An archive is a zip file that `numpy.load` reads, with members that are stored as they are and a SHA-256 digest of
everything before it as its last bytes. The reader compares the digest, then goes from member to member and trusts no
size that the file cannot fill. So a file that loads has no damage and takes no more memory than it has bytes.

The digest is no signature: a person who changes a file on purpose can compute it again, so what a file says is checked
as if there were no digest.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import secrets
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from matrixrl.errors import CheckpointError, InvalidInput

__all__ = [
    "FORMAT_VERSION",
    "Arrays",
    "atomic_write",
    "check_arrays",
    "check_entries",
    "check_version",
    "pack",
    "read_archive",
    "read_json",
    "refusing",
    "unpack",
    "write_archive",
]

FORMAT_VERSION = 14
"""Format of saved agents and simulations; other kinds of archives may have versions of their own."""

Result = TypeVar("Result")
Arrays = dict[str, NDArray[Any]]
"""Arrays by name."""
_HEADER_LIMIT = 8 << 20  # bytes; states and actions may each have 3 MiB of names
_DEEPEST = 32  # levels of lists and objects in a header
_DTYPES = {np.dtype(kind) for kind in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")}
_NPY_HEADER = 1024  # bytes; ours have 128
_CHUNK = 1 << 20
_MARK, _DIGITS = b"matrixrl archive sha256 ", 64  # the comment of the zip file
_LOCAL = struct.Struct("<4s5H3L2H")  # what stands before the name of a member
_DAMAGE = (  # what struct, json, NumPy and matrixrl raise on bytes and entries that nobody wrote
    *(struct.error, OSError, EOFError, LookupError, ValueError, TypeError, ArithmeticError),
    *(AttributeError, RuntimeError, MemoryError),
)


def atomic_write(path: str | os.PathLike[str], fill: Callable[[Path], Result], *, parents: bool = True) -> Result:
    """Write a file completely or not at all, and return what `fill` returned.

    `fill` writes to the path that it is given: that of a new file in the same directory, with the same suffix, which is
    flushed to disk and renamed afterwards. `parents` creates the directory.

    Raises:
        CheckpointError: The file cannot be written.
    """
    target = Path(path)
    if not target.name:
        raise CheckpointError(f"cannot write {target}: Is a directory")
    temporary = target.with_name(f".{secrets.token_hex(4)}-{target.name}")
    try:
        if parents:
            target.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)  # a link that somebody put there is not followed
        try:
            result = fill(temporary)
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise CheckpointError(f"cannot write {target}: {error.strerror or error}") from error
    return result


def write_archive(
    path: str | os.PathLike[str],
    kind: str,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    version: int = FORMAT_VERSION,
) -> None:
    """Write an archive to a file, atomically; `kind` and `version` say what it holds, and `read_archive` checks them.

    Raises:
        CheckpointError: The file cannot be written.
    """

    def fill(temporary: Path) -> None:
        with temporary.open("wb+") as file:
            _write(file, kind, header, arrays, version)

    atomic_write(path, fill, parents=False)


def read_archive(
    path: str | os.PathLike[str], kind: str, *, version: int = FORMAT_VERSION
) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a file that `write_archive` wrote for the same kind and version.

    Raises:
        CheckpointError: The file is missing or is not a valid archive of this kind and version.
    """
    source = Path(path)
    if not source.is_file():
        raise CheckpointError(f"{source} is not a file; give the path that was passed to save")
    try:
        with source.open("rb") as file:
            return _read(file, kind, str(source), version)
    except OSError as error:
        raise CheckpointError(f"{source} cannot be read ({error.strerror})") from error


def pack(kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of an archive with a header and named arrays; `kind` is the name of its type of content."""
    buffer = io.BytesIO()
    _write(buffer, kind, header, arrays, FORMAT_VERSION)
    return buffer.getvalue()


def unpack(kind: str, data: bytes, source: str) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of an archive made by `pack`; `source` is its name in error messages.

    Raises:
        CheckpointError: The bytes are not a valid archive of this kind and version.
    """
    return _read(io.BytesIO(data), kind, source, FORMAT_VERSION)


def _write(
    file: IO[bytes], kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], version: int
) -> None:
    text = json.dumps({"format": kind, "version": version, **header}, allow_nan=False).encode()
    if len(text) > _HEADER_LIMIT:  # never write what cannot be read
        raise CheckpointError(f"the header would have {len(text):,} bytes, more than the {_HEADER_LIMIT:,} of a file")
    members = {"header": np.frombuffer(text, dtype=np.uint8), **arrays}
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in members.items():
            plain = np.ascontiguousarray(array).reshape(array.shape)  # the first makes a number an array of one
            if plain.dtype not in _DTYPES:
                raise CheckpointError(f"{name} cannot be saved: an archive holds numbers, not {plain.dtype}")
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                npy.write_array_header_1_0(member, npy.header_data_from_array_1_0(plain))
                member.write(plain.reshape(-1).view(np.uint8).data)
        archive.comment = _MARK + bytes(_DIGITS)
    file.write(_digest(file, file.seek(-_DIGITS, os.SEEK_END)))


def _digest(file: IO[bytes], size: int) -> bytes:
    """Return the digest of the first bytes of a file, as hexadecimal digits; the position is then behind them."""
    digest, left = hashlib.sha256(), size
    file.seek(0)
    while left > 0 and (part := file.read(min(left, _CHUNK))):
        digest.update(part)
        left -= len(part)
    return digest.hexdigest().encode()


def _read(file: IO[bytes], kind: str, source: str, version: int) -> tuple[dict[str, Any], Arrays]:
    arrays: Arrays = {}
    try:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        name, text = _read_member(file, size, source)
        if name != "header" or text.dtype != np.uint8 or text.size > _HEADER_LIMIT:
            raise CheckpointError(f"{source} is not a matrixrl file: it has no header")
        header = read_json(text.tobytes(), kind, source, part="header")
        check_version(header, source, version)  # before the digest, which other formats may not have
        start = file.tell()
        if _digest(file, size - _DIGITS) != file.read():
            raise CheckpointError(
                f"{source} is truncated, damaged or was changed after it was written. Use a copy of the file"
            )
        file.seek(start)
        while (mark := file.read(4)) == b"PK\x03\x04":
            file.seek(-4, os.SEEK_CUR)
            name, array = _read_member(file, size, source)
            if arrays.setdefault(name, array) is not array:
                raise CheckpointError(f"{source} holds {name[:80]} twice")
        if mark != b"PK\x01\x02":  # the directory, which is for other readers
            raise CheckpointError(f"{source} has bytes that belong to no array")
    except _DAMAGE as error:
        raise CheckpointError(f"{source} is truncated or not a matrixrl file ({_words(error)})") from error
    return header, arrays


def _read_member(file: IO[bytes], size: int, source: str) -> tuple[str, NDArray[Any]]:
    """Return name and array of the member at the position of a file, which must fill the shape before it is read."""
    mark, _, flags, method, *_, name_size, extra_size = _LOCAL.unpack(file.read(_LOCAL.size))
    if mark != b"PK\x03\x04":
        raise CheckpointError(f"{source} is truncated or not a matrixrl file")
    name = file.read(name_size).decode("ascii")
    member = f"{source}: {name[:80]}"
    file.seek(extra_size, os.SEEK_CUR)
    if flags or method != zipfile.ZIP_STORED:
        raise CheckpointError(f"{member} is compressed or encrypted, which matrixrl never writes")
    try:
        if npy.read_magic(file) != (1, 0):
            raise ValueError("it has another version of the npy format")
        shape, fortran, dtype = npy.read_array_header_1_0(file, max_header_size=_NPY_HEADER)
    except Exception as error:  # NumPy evaluates a literal, which can fail in every way that parsing can
        raise CheckpointError(f"{member} is not an array ({error})") from error
    if dtype not in _DTYPES or fortran:
        raise CheckpointError(f"{member} has type {dtype}, which matrixrl never writes")
    claimed, held = math.prod(shape) * dtype.itemsize, size - file.tell()
    if claimed > held:
        raise CheckpointError(f"{member} claims {claimed:,} bytes, and the file has {held:,}")
    array = np.empty(shape, dtype=dtype)
    file.readinto(array.reshape(-1).view(np.uint8))  # type: ignore[attr-defined]
    return name.removesuffix(".npy"), array


def read_json(text: bytes, kind: str, source: str, *, part: str) -> dict[str, Any]:
    """Return the object of a JSON text, which is a `part` of the file `source`, if its entry `format` is `kind`.

    Names that occur twice, numbers that are not finite and deep nesting are refused.

    Raises:
        CheckpointError: The text is not such an object.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(made := dict(pairs)) < len(pairs):
            raise ValueError("a name occurs twice")
        return made

    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is not a number")

    try:
        found = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{source} has a damaged {part} ({error})") from error
    depth, level = 0, [found]
    while level := [value for value in level if isinstance(value, (dict, list)) and value]:
        level = [item for value in level for item in (value.values() if isinstance(value, dict) else value)]
        depth += 1
    if depth > _DEEPEST:
        raise CheckpointError(f"{source} has a {part} of more than {_DEEPEST} levels")
    if not isinstance(found, dict) or found.get("format") != kind:
        raise CheckpointError(f"{source} is not a matrixrl file: its {part} does not have the format {kind!r}")
    return found


def check_version(header: dict[str, Any], source: str, known: int) -> None:
    """Raise `CheckpointError` unless a header has the known format version."""
    version, library = header.get("version"), header.get("library")
    if type(version) is not int or version < 1:
        raise CheckpointError(f"{source} has no valid format version; got {str(version)[:80]!r}")
    if version != known:
        author = f", written by matrixrl {library[:40]!r}" if isinstance(library, str) else ""
        order = "older" if version < known else "newer"
        remedy = "load it with the version that wrote it, or learn again" if version < known else "upgrade"
        raise CheckpointError(
            f"{source} has format {version}{author}, {order} than the {known} that this matrixrl reads; {remedy}"
        )


def check_arrays(
    found: Mapping[str, NDArray[Any]],
    own: Mapping[str, NDArray[Any]],
    *,
    optional: Sequence[str] = (),
    may_be_nan: Sequence[str] = (),
) -> None:
    """Raise `InvalidInput` unless arrays have the names, shapes and types of others, and all numbers are finite.

    An axis of length 0 in `own` is a list, which may have any length. Names in `optional` may be there or not, and are
    not compared; in those of `may_be_nan`, NaN and infinity have a meaning.
    """
    names, known = set(found) - set(optional), set(own) - set(optional)
    if names != known:
        raise InvalidInput(f"the arrays must be {sorted(known)}; got {sorted(names)}")
    for name in names:
        array, shape, dtype = found[name], own[name].shape, own[name].dtype
        fits = array.dtype == dtype and array.ndim == len(shape)
        if not fits or any(n not in (0, m) for n, m in zip(shape, array.shape, strict=True)):
            raise InvalidInput(f"{name} must have shape {shape} and type {dtype}; got {array.shape} and {array.dtype}")
        if name not in may_be_nan and not np.isfinite(array).all():
            raise InvalidInput(f"{name} holds NaN or infinity")


def check_entries(what: str, found: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` unless entries of a header, named `what` in messages, have the names and types of `kinds`.

    A kind is a type or a tuple of types; True and False are no whole numbers here.
    """
    if set(found) != set(kinds):
        raise InvalidInput(f"{what} must have the entries {sorted(kinds)}")
    wrong = [n for n, kind in kinds.items() if type(found[n]) not in (kind if isinstance(kind, tuple) else (kind,))]
    if wrong:
        raise InvalidInput(f"{what} has entries of another type: {', '.join(wrong)}")


@contextmanager
def refusing(source: str) -> Iterator[None]:
    """Convert the errors that a damaged header or array causes in the block into `CheckpointError`."""
    try:
        with np.errstate(all="ignore"):  # numbers that nobody learned may overflow in the checks that find them
            yield
    except _DAMAGE as error:  # InvalidInput is a ValueError
        reason = f"{error} is missing" if isinstance(error, KeyError) else _words(error)
        raise CheckpointError(f"{source} cannot be restored: {reason}") from error


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
