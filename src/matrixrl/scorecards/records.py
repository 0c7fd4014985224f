"""Frozen records as rows of CSV files."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from matrixrl.archive.whole import write_whole

__all__ = ["read_records", "write_records"]

_KINDS: Mapping[str, Any] = {"str": str, "int": int, "float": float}


def write_records(path: Path, kind: type[Any], records: Sequence[Any]) -> None:
    """Write records of one dataclass as CSV, numbers with six digits."""

    def fill(temporary: Path) -> None:
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(kind)], lineterminator="\n")
            writer.writeheader()
            for record in records:
                writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in asdict(record).items()})

    write_whole(path, fill)


def read_records(path: Path, kind: type[Any]) -> list[Any]:
    """Return the records that `write_records` wrote; fields are texts, whole numbers and numbers."""
    kinds = {field.name: _KINDS[str(field.type)] for field in fields(kind)}
    with path.open(newline="", encoding="utf-8") as file:
        return [kind(**{name: make(row[name]) for name, make in kinds.items()}) for row in csv.DictReader(file)]
