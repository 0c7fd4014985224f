"""Logs in any supported form: CSV and Parquet files, data frames, tables, dictionaries, Minari data sets."""

from __future__ import annotations

import csv
import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

from matrixrl.checks import fail, file_path, fits_memory, shown
from matrixrl.errors import InvalidInput, MissingExtra
from matrixrl.logs.minari_data import PREFIX, minari_table, open_minari
from matrixrl.logs.table import LogTable

__all__ = ["PARQUET", "import_parquet", "open_log"]

CSV = (".csv", ".tsv", ".txt")
"""Endings of names of CSV files."""

PARQUET = (".parquet", ".pq")
"""Endings of names of Parquet files."""

_LONGEST = 1 << 20  # characters of a line
_SEPARATORS = (",", ";", "\t")


def open_log(log: Any) -> LogTable:
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
        return open_minari(log.removeprefix(PREFIX))
    if isinstance(log, (str, os.PathLike)):
        path = Path(file_path("log", log))
        if path.suffix.lower() not in (*CSV, *PARQUET):
            rule = f"must be a file whose name ends in one of {', '.join((*CSV, *PARQUET))}"
            fail("log", rule, repr(path.name), "Rename it, or read it first.")
        return parquet_file(path) if path.suffix.lower() in PARQUET else read_csv(path)
    if isinstance(log, Mapping):
        return LogTable("log", [name for name in log if isinstance(name, str)], _one_by_one(log.__getitem__))
    kind = type(log)
    if kind.__module__.partition(".")[0] == "minari" and hasattr(log, "iterate_episodes"):
        return minari_table(log)
    if not isinstance(log, type) and hasattr(kind, "column_names") and hasattr(kind, "column"):
        get = _one_by_one(lambda name: _cells(log.column(name), "log", name))
        return LogTable("log", list(log.column_names), get)
    if not isinstance(log, type) and hasattr(log, "columns") and hasattr(kind, "__getitem__"):
        return LogTable("log", [name for name in log.columns if isinstance(name, str)], _one_by_one(log.__getitem__))
    rule = "must be a path, a data frame, a table, a dictionary of columns or a Minari data set"
    fail("log", rule, shown(log), "Such as 'log.csv', or {'episode': …, 'state': …, 'action': …, 'reward': …}.")


def _one_by_one(get: Callable[[str], Any]) -> Callable[[Sequence[str]], dict[str, Any]]:
    """Return a function of some names from a function of one."""
    return lambda names: {name: get(name) for name in names}


def read_csv(path: Path) -> LogTable:
    """Return a CSV file in UTF-8 with a header as a log; cells are separated by commas, semicolons or tabs."""
    with _opened(path) as file:
        _check_lines(file, path.name)
        heading = file.readline()
        separator = max(_SEPARATORS, key=heading.count)
        file.seek(0)
        _, columns = next(_rows(file, path.name, separator), (0, []))
    if not any(column.strip() for column in columns):
        rule = "must have a header with the names of its columns in the first line"
        fail(path.name, rule, "an empty line" if heading else "an empty file", "Write the names into line 1.")
    lines = array("q")  # of each row

    def get(names: Sequence[str]) -> dict[str, list[str]]:
        places = [columns.index(name) for name in names]
        found: list[list[str]] = [[] for _ in names]
        same: dict[str, str] = {}  # equal cells are stored once
        with _opened(path) as file:
            for line, row in islice(_rows(file, path.name, separator), 1, None):
                if len(row) != len(columns):
                    rule = f"must have {len(columns)} cells, as the header has"
                    fail(f"{path.name}, line {line}", rule, f"{len(row)}: {shown(row)}", "Correct the line.")
                lines.append(line)
                for cells, i in zip(found, places, strict=True):
                    cells.append(same.setdefault(row[i], row[i]))
        return dict(zip(names, found, strict=True))

    return LogTable(path.name, columns, get, lambda row: f"line {lines[row]}")


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file
    except OSError as error:
        fail("log", "must be a file that can be read", f"{path} ({error.strerror})", "Check the path.")
    except UnicodeDecodeError as error:
        remedy = "Save the file as UTF-8."
        fail(path.name, "must be text in UTF-8", f"a byte {error.object[error.start]:#04x} that is not", remedy)


def _check_lines(file: IO[str], name: str) -> None:
    """Refuse bytes that are not text, and a line that is too long to be one of a log; go back to the beginning."""
    line = 1
    while block := file.read(_LONGEST):
        ends = block.count("\n") or block.count("\r")
        if not ends and len(block) == _LONGEST:
            fail(f"{name}, line {line}", f"must have fewer than {_LONGEST:,} characters", "more", "Check the file.")
        line += ends
    file.seek(0)


def _rows(file: IO[str], name: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, each with its last line."""
    reader = csv.reader(file, delimiter=separator, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        remedy = "Correct the line; cells that hold quotes or separators are quoted."
        fail(f"{name}, line {reader.line_num}", "must be CSV", str(error), remedy)


def import_parquet() -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet, or raise `MissingExtra`."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("Parquet needs pyarrow; pip install 'matrixrl[lab]'") from error
    return pyarrow, pyarrow.parquet


def parquet_file(path: Path) -> LogTable:
    """Return a Parquet file as a log; a column is read when it is asked for."""
    pyarrow, parquet = import_parquet()
    damage = (OSError, ValueError, TypeError, KeyError, NotImplementedError, MemoryError, pyarrow.ArrowException)
    try:
        file = parquet.ParquetFile(path)
        names, n_rows = list(file.schema_arrow.names), file.metadata.num_rows
    except damage as error:
        fail("log", "must be a Parquet file that can be read", f"{path} ({_words(error)})", "Check the file.")
    fits_memory("log", 2.0 * n_rows, f"{path.name} with {n_rows:,} rows", remedy="Learn from parts of it.")

    def column(name: str) -> Any:
        try:
            return _cells(file.read(columns=[name]).column(name), path.name, name)
        except InvalidInput:
            raise
        except damage as error:
            fail(path.name, "must be a Parquet file that can be read", _words(error), "Check the file.")

    return LogTable(path.name, names, _one_by_one(column))


def _cells(column: Any, source: str, name: str) -> Any:
    """Return a column as an array of numbers or flags, or as a list if it holds text or empty cells."""
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if types.is_decimal(kind):
        return column.cast("float64").to_numpy()
    if types.is_integer(kind) or types.is_floating(kind):
        return column.to_numpy()
    if types.is_boolean(kind):
        return column.to_pylist() if column.null_count else column.to_numpy()
    if types.is_temporal(kind):
        return column.cast("string").to_pylist()
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind):
        return column.to_pylist()
    rule = "must hold one number, flag or text in each row"
    fail(f"{source}, column {shown(name)}", rule, f"the type {kind}", "Give one column for each coordinate.")


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
