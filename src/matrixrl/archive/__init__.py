"""Archives of named arrays with a JSON header, as bytes or as a file: no pickles, one digest, atomic writing."""

from matrixrl.archive.files import (
    FORMAT_VERSION,
    check_version,
    comparing,
    pack,
    read_archive,
    read_json,
    refusing,
    unpack,
    write_archive,
    write_atomically,
)

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
