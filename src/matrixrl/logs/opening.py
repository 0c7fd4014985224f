"""Open a log in any of the supported forms: a path, a data frame, a table, a dictionary, a Minari data set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matrixrl.checks import fail, file_path, shown
from matrixrl.logs.arrow_tables import arrow_table, parquet_file
from matrixrl.logs.csv_files import CsvFile
from matrixrl.logs.minari_sets import PREFIX, MinariSet, minari_set
from matrixrl.logs.source import Source, Table

__all__ = ["CSV", "PARQUET", "open_log"]

CSV = (".csv", ".tsv", ".txt")
"""Endings of names of CSV files."""

PARQUET = (".parquet", ".pq")
"""Endings of names of Parquet files."""


def open_log(log: Any) -> Source:
    """Return a log with named columns.

    Nothing is imported for data frames and tables: their classes are recognised by their methods.

    Args:
        log: Path of a CSV or Parquet file, ``minari:name`` or what ``minari.load_dataset`` returned, a data frame, a
            table of pyarrow, or a dictionary of columns.

    Raises:
        InvalidInput: It is none of these, or cannot be read.
        MissingExtra: A package that the format needs is not installed.
    """
    if isinstance(log, str) and log.startswith(PREFIX):
        return minari_set(log.removeprefix(PREFIX))
    if isinstance(log, (str, os.PathLike)):
        return _open_file(Path(file_path("log", log)))
    if isinstance(log, Mapping):
        return Table("log", [name for name in log if isinstance(name, str)], log.__getitem__)
    kind = type(log)
    if kind.__module__.partition(".")[0] == "minari" and hasattr(log, "iterate_episodes"):
        return MinariSet(log)
    if not isinstance(log, type) and hasattr(kind, "column_names") and hasattr(kind, "column"):
        return arrow_table(log)
    if not isinstance(log, type) and hasattr(log, "columns") and hasattr(kind, "__getitem__"):
        return Table("log", [name for name in log.columns if isinstance(name, str)], log.__getitem__)
    rule = "must be a path, a data frame, a table, a dictionary of columns or a Minari data set"
    fail("log", rule, shown(log), "Such as 'log.csv', or {'episode': …, 'state': …, 'action': …, 'reward': …}.")


def _open_file(path: Path) -> Source:
    ending = path.suffix.lower()
    if ending in PARQUET:
        return parquet_file(path)
    if ending in CSV:
        return CsvFile(path)
    endings = ", ".join((*CSV, *PARQUET))
    fail("log", f"must be a file whose name ends in one of {endings}", repr(path.name), "Rename it, or read it first.")
