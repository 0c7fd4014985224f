"""Parquet files and tables of pyarrow as logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matrixrl.checks import fail, fits_memory, shown
from matrixrl.errors import InvalidInput, MissingExtra
from matrixrl.logs.source import Table

__all__ = ["arrow_table", "import_parquet", "parquet_file"]


def import_parquet() -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("Parquet needs pyarrow; pip install 'matrixrl[lab]'") from error
    return pyarrow, pyarrow.parquet


def parquet_file(path: Path) -> Table:
    """Return a Parquet file as a log; a column is read when it is asked for.

    Raises:
        InvalidInput: The file cannot be read.
    """
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

    return Table(path.name, names, column)


def arrow_table(table: Any) -> Table:
    """Return a table of pyarrow as a log."""
    return Table("log", list(table.column_names), lambda name: _cells(table.column(name), "log", name))


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
