"""The members of an archive: plain NumPy arrays, one after the other, stored as they are.

Everything is bounded by the size of the file before it is read: members may neither overlap nor repeat, nothing is
compressed, and the shape that an array declares must be what its bytes fill.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from matrixrl.errors import CheckpointError

__all__ = ["MOST_MEMBERS", "open_members", "read_array", "write_members"]

MOST_MEMBERS = (1 << 16) - 1
"""Largest number of members, header included."""

_DIRECTORY_LIMIT = 8 << 20  # bytes; zipfile makes an object of each entry, at most 150 MB in all
_DTYPES = {np.dtype(kind) for kind in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")}
_END, _LOCAL = struct.Struct("<4s4H2LH"), struct.Struct("<4s5H3L2H")
_LOCATOR, _END64 = struct.Struct("<4sLQL"), struct.Struct("<4sQ2H2L4Q")
_ENTRY = 80  # bytes of an entry of the directory, without the name, in large files
_LARGE = (1 << 31) - 1  # from this size on zipfile writes the records of large files
_NPY_HEADER = 1024  # bytes; ours have 128
_MOST_AXES = 8
_CHUNK = 1 << 20


def write_members(file: IO[bytes], members: Mapping[str, NDArray[Any]], comment: bytes) -> None:
    """Write arrays as the members of a zip file, which `numpy.load` reads too.

    Raises:
        CheckpointError: There are too many of them, or one has a type that no archive holds.
    """
    directory = sum(_ENTRY + len(name) for name in members)
    if len(members) > MOST_MEMBERS or directory > _DIRECTORY_LIMIT:  # never write what cannot be read
        raise CheckpointError(f"an archive cannot hold {len(members):,} arrays; end some of the open episodes")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = comment
        for name, array in members.items():
            plain = np.ascontiguousarray(array).reshape(array.shape)  # the first makes a number an array of one
            if plain.dtype not in _DTYPES:
                raise CheckpointError(f"{name} cannot be saved: an archive holds numbers, not {plain.dtype}")
            info = zipfile.ZipInfo(f"{name}.npy")
            info.file_size = plain.nbytes + _NPY_HEADER  # so that large members get large size fields
            with archive.open(info, "w") as member:
                npy.write_array(member, plain, version=(1, 0), allow_pickle=False)


def open_members(file: IO[bytes], source: str, *, comment_size: int) -> tuple[zipfile.ZipFile, list[zipfile.ZipInfo]]:
    """Return the zip file and its members, which fill it without gaps, overlaps or repetitions.

    Args:
        file: The file.
        source: Its name in messages.
        comment_size: Number of bytes after the last record.

    Raises:
        CheckpointError: The file is not laid out like that.
    """
    _check_directory(file, source, comment_size)
    archive = zipfile.ZipFile(file)
    infos, position, names = archive.infolist(), 0, set()
    for info in infos:
        name = info.filename
        if name in names or not name.endswith(".npy") or not name.isascii():
            raise CheckpointError(f"{source} holds {name!r} twice, or under a name that matrixrl never writes")
        names.add(name)
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits:
            raise CheckpointError(f"{source}: {name} is compressed or encrypted, which matrixrl never writes")
        if info.header_offset != position:
            raise CheckpointError(f"{source}: {name} overlaps another member, or bytes lie between them")
        file.seek(position)
        *_, name_size, extra_size = _LOCAL.unpack(file.read(_LOCAL.size))
        position += _LOCAL.size + name_size + extra_size + info.file_size
    if position != archive.start_dir:
        raise CheckpointError(f"{source}: its members do not fill it")
    return archive, infos


def _check_directory(file: IO[bytes], source: str, comment_size: int) -> None:
    """Refuse a directory of more entries than an archive has, before an object is made of each."""
    size = file.seek(0, os.SEEK_END)
    end = size - comment_size - _END.size
    refusal = CheckpointError(f"{source} is truncated or not a matrixrl file")
    if end < 0:
        raise refusal
    file.seek(end)
    mark, _, _, _, count, directory, _, length = _END.unpack(file.read(_END.size))
    if mark != b"PK\x05\x06" or length != comment_size:
        raise refusal
    if directory > min(_DIRECTORY_LIMIT, end) or count > MOST_MEMBERS:
        raise CheckpointError(f"{source} has a directory of {directory:,} bytes, which matrixrl never writes")
    end = _before_large_records(file, source, size, end, directory)
    file.seek(end - directory)
    if file.read(directory).count(b"PK\x01\x02") != count:
        raise CheckpointError(f"{source} has another number of members than the {count:,} that it declares")


def _before_large_records(file: IO[bytes], source: str, size: int, end: int, directory: int) -> int:
    """Return where the directory ends: before the records of a large zip file, which must say the same."""
    at = end - _LOCATOR.size
    if at < 0:
        return end
    file.seek(at)
    if _LOCATOR.unpack(file.read(_LOCATOR.size))[0] != b"PK\x06\x07":
        return end
    at -= _END64.size
    if size <= _LARGE or at < directory:
        raise CheckpointError(f"{source} has the records of a large zip file, which it is not")
    file.seek(at)
    found = _END64.unpack(file.read(_END64.size))
    if found[0] != b"PK\x06\x06" or found[8] != directory:
        raise CheckpointError(f"{source} has two directories of different sizes")
    return at


def read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, source: str) -> NDArray[Any]:
    """Return the array of a member; its shape is compared with its size before anything is allocated.

    Raises:
        CheckpointError: It is not an array of numbers, or has another size than it declares.
    """
    name = info.filename
    with archive.open(info) as member:
        try:
            if npy.read_magic(member) != (1, 0):
                raise ValueError("it has another version of the npy format")
            shape, fortran, dtype = npy.read_array_header_1_0(member, max_header_size=_NPY_HEADER)
        except Exception as error:  # NumPy evaluates a literal, which can fail in every way that parsing can
            raise CheckpointError(f"{source}: {name} is not an array ({error})") from error
        if dtype not in _DTYPES or not dtype.isnative or fortran:
            raise CheckpointError(f"{source}: {name} has type {dtype}, which matrixrl never writes")
        if len(shape) > _MOST_AXES or not all(type(n) is int and 0 <= n < 1 << 48 for n in shape):
            raise CheckpointError(f"{source}: {name} has shape {str(shape)[:80]}, which matrixrl never writes")
        size = dtype.itemsize
        for n in shape:
            size *= n
        held = info.file_size - member.tell()
        if size != held:
            raise CheckpointError(f"{source}: {name} claims {size:,} bytes, and the file holds {held:,} of it")
        array: NDArray[Any] = np.empty(shape, dtype=dtype)
        view, at = array.reshape(-1).view(np.uint8), 0
        while chunk := member.read(_CHUNK):
            view[at : at + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
            at += len(chunk)
    return array
