"""Logs in any supported form: CSV and Parquet files, data frames, tables, dictionaries, Minari data sets."""

from __future__ import annotations

import csv
import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
        return _parquet_file(path) if path.suffix.lower() in PARQUET else _csv_file(path)
    if isinstance(log, Mapping):
        return _table("log", log, log.__getitem__)
    kind = type(log)
    if hasattr(kind, "iterate_episodes"):
        return minari_table(log)
    if hasattr(kind, "column_names") and hasattr(kind, "column"):
        return _table("log", log.column_names, lambda name: _cells(log.column(name), "log", name))
    if hasattr(kind, "columns") and hasattr(kind, "__getitem__"):
        return _table("log", log.columns, log.__getitem__)
    rule = "must be a path, a data frame, a table, a dictionary of columns or a Minari data set"
    fail("log", rule, shown(log), "Such as 'log.csv', or {'episode': …, 'state': …, 'action': …, 'reward': …}.")


def _table(name: str, columns: Any, get: Callable[[str], Any]) -> LogTable:
    """Return a log of which columns are read one by one."""
    texts = [column for column in columns if isinstance(column, str)]
    return LogTable(name, texts, lambda names: {column: get(column) for column in names})


def _csv_file(path: Path) -> LogTable:
    """Return a CSV file in UTF-8 with a header as a log; cells are separated by commas, semicolons or tabs."""
    with _opened(path) as file:
        heading = next(_lines(file, path.name), "")
        separator = max(_SEPARATORS, key=heading.count)
        file.seek(0)
        _, columns = next(_rows(file, path.name, separator), (0, []))
    if not any(column.strip() for column in columns):
        rule = "must have a header with the names of its columns in the first line"
        fail(path.name, rule, "an empty line" if heading else "an empty file", "Write the names into line 1.")
    lines = array("q")  # of each row

    def get(names: Sequence[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {name: [] for name in names}
        places = [(cells, columns.index(name)) for name, cells in found.items()]
        same: dict[str, str] = {}  # equal cells are stored once
        with _opened(path) as file:
            rows = _rows(file, path.name, separator)
            next(rows)  # the header
            for line, row in rows:
                if len(row) != len(columns):
                    rule = f"must have {len(columns)} cells, as the header has"
                    fail(f"{path.name}, line {line}", rule, f"{len(row)}: {shown(row)}", "Correct the line.")
                lines.append(line)
                for cells, i in places:
                    cells.append(same.setdefault(row[i], row[i]))
        return found

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


def _lines(file: IO[str], name: str) -> Iterator[str]:
    """Yield the lines of a file; one that is too long to be of a log is refused before it is read to its end."""
    number = 1
    while line := file.readline(_LONGEST):
        if len(line) == _LONGEST:
            fail(f"{name}, line {number}", f"must have fewer than {_LONGEST:,} characters", "more", "Check the file.")
        yield line
        number += 1


def _rows(file: IO[str], name: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, each with its last line."""
    reader = csv.reader(_lines(file, name), delimiter=separator, strict=True)
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


def _parquet_file(path: Path) -> LogTable:
    """Return a Parquet file as a log; a column is read when it is asked for."""
    pyarrow, parquet = import_parquet()

    @contextmanager
    def refused_if_damaged() -> Iterator[None]:
        try:
            yield
        except InvalidInput:
            raise
        except (OSError, ValueError, TypeError, KeyError, MemoryError, pyarrow.ArrowException) as error:
            words = " ".join(str(error).split())[:200] or type(error).__name__
            fail("log", "must be a Parquet file that can be read", f"{path} ({words})", "Check the file.")

    with refused_if_damaged():
        file = parquet.ParquetFile(path)
        names, n_rows = file.schema_arrow.names, file.metadata.num_rows
    fits_memory("log", 2.0 * n_rows, f"{path.name} with {n_rows:,} rows", remedy="Learn from parts of it.")

    def column(name: str) -> Any:
        with refused_if_damaged():
            return _cells(file.read(columns=[name]).column(name), path.name, name)

    return _table(path.name, names, column)


def _cells(column: Any, source: str, name: str) -> Any:
    """Return a column of pyarrow as an array, in which an empty cell is NaN or None."""
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if not (is_text or types.is_primitive(kind) or types.is_decimal(kind) or types.is_null(kind)):
        rule = "must hold one number, flag or text in each row"
        fail(f"{source}, column {shown(name)}", rule, f"the type {kind}", "Give one column for each coordinate.")
    if types.is_temporal(kind):  # days as labels of episodes
        return column.cast("string").to_numpy()
    return column.cast("float64" if types.is_decimal(kind) else kind).to_numpy()
