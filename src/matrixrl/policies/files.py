"""Files of policies: JSON and npz, which are loaded again, and CSV; docs/guides/deploy.md describes them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.archive import check_version, read_archive, read_json, write_archive, write_atomically
from matrixrl.errors import CheckpointError
from matrixrl.records import IntArray

__all__ = ["FORMAT", "VERSION", "digest_of", "read_policy", "write_csv", "write_json", "write_numpy"]

FORMAT = "matrixrl policy"
"""Entry `format` of a file."""
VERSION = 1
"""Entry `version` of a file; it is raised when a reader of the old one would misread the new one."""

_LARGEST_JSON = 64 << 20  # bytes; the text of small objects takes many times its size in memory
_NAMES = {
    *("format", "version", "digest", "description", "horizon", "n_states", "n_observed", "n_actions"),
    *("first_state", "first_action", "states", "actions", "certificate", "basis"),
}


def digest_of(entries: Mapping[str, Any], table: IntArray) -> str:
    """Return the SHA-256 of a policy as 64 hexadecimal digits.

    It is the digest of the JSON text of the entries, with sorted names, without spaces and in ASCII, followed by the
    table as 64-bit little-endian integers, row by row. So it is the same for JSON and npz files.

    Args:
        entries: Everything but table, format, version and digest.
        table: (H, S) Actions, counted from 0.
    """
    text = json.dumps(dict(entries), sort_keys=True, separators=(",", ":"), allow_nan=False)
    found = hashlib.sha256(text.encode("ascii"))
    for row in table:
        found.update(row.astype("<i8").tobytes())
    return found.hexdigest()


def write_json(path: str, entries: Mapping[str, Any], table: IntArray) -> None:
    """Write a policy as JSON, one line for each stage.

    Raises:
        CheckpointError: The file cannot be written, or would be too large to be read.
    """
    head = {"format": FORMAT, "version": VERSION, "digest": digest_of(entries, table), **entries}
    lines = [f" {json.dumps(name)}: {json.dumps(value, allow_nan=False)}," for name, value in head.items()]
    rows = ",\n".join(f"  {json.dumps(row.tolist(), separators=(',', ':'))}" for row in table)
    data = "\n".join(["{", *lines, ' "table": [', rows, " ]", "}", ""]).encode("ascii")
    if len(data) > _LARGEST_JSON:  # never write what cannot be read
        size = f"{len(data):,} bytes, more than {_LARGEST_JSON:,}"
        raise CheckpointError(f"{path} would have {size}; save a table of this size as .npz")
    write_atomically(path, data)


def write_numpy(path: str, entries: Mapping[str, Any], table: IntArray) -> None:
    """Write a policy as an npz file with the arrays `header` and `table`.

    Raises:
        CheckpointError: The file cannot be written.
    """
    header = {"digest": digest_of(entries, table), **entries}
    small = table.astype(np.min_scalar_type(int(table.max())))
    write_archive(path, FORMAT, header, {"table": small}, version=VERSION)


def write_csv(path: str, names: Sequence[str], rows: Iterable[Sequence[int]]) -> None:
    """Write rows of whole numbers below the names of their columns.

    Args:
        path: Path of the file.
        names: Names of the columns.
        rows: Numbers of each row.

    Raises:
        CheckpointError: The file cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode("utf-8"))


def read_policy(path: str | os.PathLike[str]) -> tuple[dict[str, Any], NDArray[Any]]:
    """Return the entries and the table of a file; what they say is not checked yet.

    Raises:
        CheckpointError: The file is missing, damaged, no policy, or of another format version.
    """
    source = Path(path)
    if not source.is_file():
        raise CheckpointError(f"{source} is not a file; give the path that was passed to save")
    try:
        with source.open("rb") as file:
            begin = file.read(2)
            text = begin if begin == b"PK" else begin + file.read(_LARGEST_JSON)
    except OSError as error:
        raise CheckpointError(f"{source} cannot be read ({error.strerror})") from error
    if text == b"PK":  # a zip file
        header, arrays = read_archive(source, FORMAT, version=VERSION)
        if set(arrays) != {"table"}:
            raise CheckpointError(f"{source} holds other arrays than header and table")
        table = arrays["table"]
    else:
        if len(text) > _LARGEST_JSON:
            raise CheckpointError(f"{source} is larger than the {_LARGEST_JSON:,} bytes of a policy in JSON")
        header = read_json(text, FORMAT, str(source), part="text")
        check_version(header, str(source), VERSION)
        table = _read_table(header.pop("table", None), str(source))
    if set(header) != _NAMES:
        wrong = sorted(set(header) ^ _NAMES)
        raise CheckpointError(f"{source} has missing or unknown entries: {', '.join(wrong)[:200]!r}")
    return header, table


def _read_table(rows: Any, source: str) -> NDArray[Any]:
    """Return the table of a JSON text: lists of the same length of whole numbers."""
    good = isinstance(rows, list) and len(rows) > 0 and all(isinstance(row, list) for row in rows)
    good = good and len({len(row) for row in rows}) == 1
    good = good and all(type(action) is int and 0 <= action < 1 << 31 for row in rows for action in row)
    if not good:
        raise CheckpointError(f"{source} has a table that is not a list of rows of whole numbers, one for each state")
    return np.array(rows, dtype=np.int64)
