"""Results of single runs as small JSON files, so that an interrupted scorecard continues, and records as CSV."""

from __future__ import annotations

import csv
import importlib.metadata
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from matrixrl.archive import atomic_write
from matrixrl.errors import StoreError

__all__ = ["keep", "once", "read_kept", "read_records", "write_records"]

_KINDS: Mapping[str, Any] = {"str": str, "int": int, "float": float}


def keep(path: Path, result: dict[str, Any], packages: Sequence[str] = ()) -> None:
    """Write a result and the versions that made it; an interrupt leaves a whole file or none.

    Args:
        path: File of the result.
        result: What is kept; `asked` is the question that it answers.
        packages: Distributions whose versions matter, beside this library.
    """
    versions = {name: _version(name) for name in ("matrixrl", *packages)}
    text = json.dumps({"versions": versions, **result})
    atomic_write(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _version(name: str) -> str:
    """Return the version of a distribution; a package that is only on the path has none."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def once(
    path: Path,
    asked: dict[str, Any],
    play: Callable[[], dict[str, Any]],
    *,
    at_least: Sequence[str] = (),
    packages: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the row that was kept for a question, or play it and keep it.

    Args:
        path: File of the result.
        asked: All that determines the row; a file that answers another question is replaced.
        play: Function that returns the row.
        at_least: Names of numbers in the question; a row that was made for a larger one also answers it.
        packages: As in `keep`.
    """
    kept = read_kept(path)
    if kept is None or "row" not in kept or not _answers(kept["asked"], asked, at_least):
        kept = {"asked": asked, "row": play()}
        keep(path, kept, packages)
    row: dict[str, Any] = kept["row"]
    return row


def _answers(kept: dict[str, Any], asked: dict[str, Any], at_least: Sequence[str]) -> bool:
    enough = all(isinstance(number := kept.get(name), int) and number >= asked[name] for name in at_least)
    return enough and {**kept, **{name: asked[name] for name in at_least}} == asked


def read_kept(path: Path) -> dict[str, Any] | None:
    """Return a result that was kept, or None if there is none; files of older versions have no `versions`.

    Raises:
        StoreError: The file is not one that `keep` wrote.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StoreError(f"{path} is not a result of a scorecard ({error}); delete it to run it again") from error
    if not isinstance(found, dict) or not isinstance(found.get("asked"), dict):
        raise StoreError(f"{path} is not a result of a scorecard; delete it to run it again")
    return found


def write_records(path: Path, kind: type[Any], records: Sequence[Any]) -> None:
    """Write records of one dataclass as CSV, numbers with six digits."""

    def fill(temporary: Path) -> None:
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(kind)], lineterminator="\n")
            writer.writeheader()
            for record in records:
                writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in asdict(record).items()})

    atomic_write(path, fill)


def read_records(path: Path, kind: type[Any]) -> list[Any]:
    """Return the records that `write_records` wrote; fields are texts, whole numbers and numbers."""
    kinds = {field.name: _KINDS[str(field.type)] for field in fields(kind)}
    with path.open(newline="", encoding="utf-8") as file:
        return [kind(**{name: make(row[name]) for name, make in kinds.items()}) for row in csv.DictReader(file)]
