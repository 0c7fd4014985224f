"""Logs in any supported form as named columns, with cells as numbers, flags or labels.

CSV and Parquet are read with pyarrow. A cell that its column cannot hold is refused with its place.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from matrixrl.checks import fail, file_path, fits_memory, shown
from matrixrl.errors import InvalidInput
from matrixrl.extras import require_packages
from matrixrl.records import BoolArray, FloatArray, IntArray
from matrixrl.spaces import NamesCodec

__all__ = ["PARQUET", "VECTORS", "Labels", "LogTable", "open_table", "require_pyarrow"]

PARQUET = (".parquet", ".pq")
"""Endings of names of Parquet files."""

VECTORS = ("state", "action", "next_state")
"""Roles that may have one column for each coordinate or part, or a column of vectors."""

_CSV = (".csv", ".tsv", ".txt")
_SEPARATORS = (",", ";", "\t")
_FLAGS = dict.fromkeys(("true", "t", "yes", "1", "1.0"), True) | dict.fromkeys(("false", "f", "no", "0", "0.0"), False)
_NO_NUMBERS = (complex, np.complexfloating, np.timedelta64, np.datetime64)  # though NumPy makes numbers of them
_NONE: Mapping[str, NamesCodec] = {}
_EXACT = 2.0**53  # from here on float64 does not have all whole numbers


class Labels(NamedTuple):
    """The episodes of n rows.

    Attributes:
        codes: (n,) Number of the episode of each row. The order is that of the labels if all are numbers, else that in
            which they first appear.
        names: Label of each number; a number is written as a float.
        are_numbers: Whether all labels are numbers.
    """

    codes: IntArray
    names: list[str]
    are_numbers: bool


@dataclass(frozen=True)
class LogTable:
    """A log with named columns.

    Attributes:
        name: Name in messages, such as that of the file.
        columns: Names of its columns.
        get: Function of some names that returns these columns: arrays, lists, or arrays of text of pyarrow.
        place: Function of the number of a row, counted from 0, that returns its place in words.
        roles: Column of each role where the format fixes them; None if they are named or guessed.
    """

    name: str
    columns: list[str]
    get: Callable[[Sequence[str]], Mapping[str, Any]]
    place: Callable[[int], str] = "row {} (counted from 0)".format
    roles: Mapping[str, tuple[str, ...]] | None = None

    def read(self, roles: Mapping[str, Sequence[str]], named: Mapping[str, NamesCodec] = _NONE) -> dict[str, Any]:
        """Return columns by their names: `Labels` of the episodes, else flags (n,) or float64 numbers (n,) or (n, p).

        Args:
            roles: Columns of each role.
            named: Names that columns of states or actions hold; a column of names becomes their numbers, NaN in empty
                cells.
        """
        role_of = {column: role for role, names in roles.items() for column in names}
        given = self.get(list(role_of))
        cells: dict[str, Any] = {
            column: given[column]
            if column in named and isinstance(given[column], list)  # an array would be of one type
            else self._cells(column, given[column])
            for column in role_of
        }
        length = len(next(iter(cells.values())))
        for column, found in cells.items():
            if getattr(found, "ndim", 1) > 1 and role_of[column] not in VECTORS:
                self._refuse_column(column, "must have one cell a row", f"the shape {found.shape}", "Check it.")
            if len(found) != length:
                rule = f"must be as long as the others, {length} rows"
                self._refuse_column(column, rule, f"{len(found)} rows", "Give columns of one length.")
        convert = {"episode": self._labels, "terminated": self._flags, "truncated": self._flags}
        return {
            column: self._names(column, cells[column], named[column])
            if column in named
            else convert.get(role, self._numbers)(column, cells[column])
            for column, role in role_of.items()
        }

    def refuse(self, row: int, column: str | None, rule: str, received: object, remedy: str) -> NoReturn:
        """Raise an error about one row, and about one of its columns if that is not None."""
        where = f"{self.name}, {self.place(row)}" + ("" if column is None else f", column {shown(column)}")
        fail(where, rule, received, remedy)

    def _refuse_column(self, column: str, rule: str, received: object, remedy: str = "Convert the column.") -> NoReturn:
        fail(f"{self.name}, column {shown(column)}", rule, received, remedy)

    def _cells(self, column: str, given: Any) -> Any:
        """Return a column as an array, as a list if it may hold text, or as an array of text of pyarrow."""
        if hasattr(given, "dictionary_encode"):  # of pyarrow
            given = self._arrow_cells(column, given)
        if _is_arrow_text(given) or (isinstance(given, list) and given and isinstance(given[0], str)):
            return given  # an array of NumPy has the width of its longest text
        if np.ma.is_masked(given):
            self._refuse_column(column, "must not be masked", shown(given), "Fill or remove the rows.")
        try:
            cells = np.asarray(given)
        except ValueError:  # rows of different lengths
            cells = np.empty(())
        if cells.ndim not in (1, 2) or cells.dtype.kind not in "biufOUTM":
            self._refuse_column(column, "must hold one number, flag or text in each row", shown(given))
        if cells.dtype.kind == "M":  # days as labels of episodes
            missing = np.isnat(cells)
            cells = cells.astype(str).astype(object)
            cells[missing] = None
        return cells.tolist() if cells.dtype.kind in "OUT" else cells

    def _arrow_cells(self, column: str, given: Any) -> Any:
        """Return a column of pyarrow as an array of NumPy, in which an empty cell is NaN or None, or as large text."""
        from pyarrow import types

        kind = given.type.value_type if types.is_dictionary(given.type) else given.type
        is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
        if not (is_text or types.is_primitive(kind) or types.is_decimal(kind) or types.is_null(kind)):
            rule = "must hold one number, flag or text in each row"
            self._refuse_column(column, rule, f"the type {kind}", "Give one column for each coordinate.")
        if is_text or types.is_temporal(kind):  # days as labels of episodes
            text = given.cast("string").cast("large_string")
            return text.combine_chunks() if hasattr(text, "combine_chunks") else text
        whole = given.cast("float64" if types.is_decimal(kind) or types.is_null(kind) else kind)
        return whole.to_numpy() if hasattr(whole, "chunks") else whole.to_numpy(zero_copy_only=False)

    def _numbers(self, column: str, cells: Any) -> FloatArray:
        """Return cells (n,) or (n, p), which may be text, as numbers; an empty cell is NaN."""
        if _is_arrow_text(cells):
            from pyarrow import ArrowInvalid, compute

            trimmed = compute.utf8_trim_whitespace(cells)
            try:
                filled = compute.if_else(compute.equal(trimmed, ""), None, trimmed)
                numbers: FloatArray = filled.cast("float64").to_numpy(zero_copy_only=False)
                return numbers
            except ArrowInvalid:  # a number that only Python reads, or none
                cells = cells.to_pylist()
        if isinstance(cells, np.ndarray) or not any(issubclass(kind, _NO_NUMBERS) for kind in set(map(type, cells))):
            try:
                return np.array(cells, dtype=np.float64)
            except (TypeError, ValueError, OverflowError):  # an empty cell, or one that is no number
                pass
        found = np.empty(len(cells))
        for row, cell in enumerate(cells):
            try:
                if isinstance(cell, _NO_NUMBERS):
                    raise TypeError
                found[row] = math.nan if _is_missing(cell) else float(cell)
            except (TypeError, ValueError, OverflowError):
                remedy = "Correct the cell, or name another column in columns={…}."
                self.refuse(row, column, "must be a number", shown(cell), remedy)
        return found

    def _names(self, column: str, cells: Any, names: NamesCodec) -> FloatArray:
        """Return the numbers (n,) of the names in cells; an empty cell is NaN."""
        if getattr(cells, "ndim", 1) > 1:
            self._refuse_column(column, "must hold one name in each row", f"the shape {cells.shape}")
        values, codes = self._distinct(column, cells)
        numbers = np.empty(len(values))
        for code, value in enumerate(values):
            found = math.nan if _is_missing(value) else names.find(value)
            if found is None:
                remedy = "Correct the cell, or name another column in columns={…}."
                self.refuse(int(np.argmax(codes == code)), column, names.rule(0), shown(value), remedy)
            numbers[code] = found
        return numbers[codes]

    def _flags(self, column: str, cells: Any) -> BoolArray:
        """Return cells as flags (n,): True and False, 1 and 0, or those words."""
        if isinstance(cells, np.ndarray) and cells.dtype.kind == "b":
            return cells
        values, codes = self._distinct(column, cells)
        known = [_FLAGS.get(str(value).strip().lower()) for value in values]
        if None in known:
            code = known.index(None)
            remedy = "Write true or false, or 1 or 0, in each cell."
            self.refuse(int(np.argmax(codes == code)), column, "must be true or false", shown(values[code]), remedy)
        return np.array(known, dtype=np.bool_)[codes]

    def _labels(self, column: str, cells: Any) -> Labels:
        """Return the labels of episodes as numbers 0, 1, …."""
        if isinstance(cells, np.ndarray) and cells.dtype.kind == "f" and (np.abs(cells) >= _EXACT).any():
            row = int(np.argmax(np.abs(cells) >= _EXACT))
            rule = "must be below 2⁵³ if it is a number of type float, as larger ones are rounded"
            self.refuse(row, column, rule, shown(float(cells[row])), "Give episodes as text or whole numbers.")
        is_whole = isinstance(cells, np.ndarray) and cells.dtype.kind in "iu" and len(cells)
        if is_whole and float(cells.min()) > -_EXACT and float(cells.max()) < _EXACT:
            ordered, codes = np.unique(cells, return_inverse=True)
            return Labels(codes, [repr(float(number)) for number in ordered], are_numbers=True)
        values, codes = self._distinct(column, cells)
        empty = next((code for code, value in enumerate(values) if _is_missing(value)), None)
        if empty is not None:
            row, remedy = int(np.argmax(codes == empty)), "Give every row the number or name of its episode."
            self.refuse(row, column, "must not be empty", "an empty cell", remedy)
        try:
            numbers = np.array([float(value) for value in values])
        except (TypeError, ValueError):
            numbers = np.full(1, np.nan)
        # Larger whole numbers may differ and have the same float64: their labels are compared as they are.
        if not (np.abs(numbers) < _EXACT).all():
            return Labels(codes, [str(value) for value in values], are_numbers=False)
        distinct, places = np.unique(numbers, return_inverse=True)
        return Labels(places[codes], [repr(number) for number in distinct.tolist()], are_numbers=True)

    def _distinct(self, column: str, cells: Any) -> tuple[list[Any], IntArray]:
        """Return the different cells in the order in which they first appear, and the number (n,) of each cell."""
        if _is_arrow_text(cells):
            encoded = cells.dictionary_encode("encode")
            return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
        cells = cells.tolist() if isinstance(cells, np.ndarray) else cells
        try:
            seen = {cell: number for number, cell in enumerate(dict.fromkeys(cells))}
        except TypeError:
            row = next(row for row, cell in enumerate(cells) if not isinstance(cell, Hashable))
            rule, remedy = "must be one number, flag or text", "Correct the cell."
            self.refuse(row, column, rule, shown(cells[row]), remedy)
        return list(seen), np.fromiter(map(seen.__getitem__, cells), dtype=np.int64, count=len(cells))


def _is_arrow_text(cells: Any) -> bool:
    return hasattr(cells, "dictionary_encode")


def _is_missing(cell: object) -> bool:
    """Return whether a cell is empty: None, empty text, NaN, or the missing value of a data frame."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, str):
        return not cell.strip()
    return isinstance(cell, (float, np.floating)) and math.isnan(cell)


def open_table(log: Any) -> LogTable:
    """Return a file, a data frame, a table of pyarrow or a dictionary of columns as a log with named columns.

    Nothing is imported for data frames and tables: their classes are recognised by their methods.

    Raises:
        InvalidInput: It is none of these, or cannot be read.
        MissingExtra: It is a file, and pyarrow is not installed.
    """
    if isinstance(log, (str, os.PathLike)):
        path = Path(file_path("log", log))
        if path.suffix.lower() not in (*_CSV, *PARQUET):
            rule = f"must be a file whose name ends in one of {', '.join((*_CSV, *PARQUET))}"
            fail("log", rule, repr(path.name), "Rename it, or read it first.")
        require_pyarrow()
        return _parquet_file(path) if path.suffix.lower() in PARQUET else _csv_file(path)
    kind = type(log)
    if isinstance(log, Mapping):
        columns, get = log, log.__getitem__
    elif hasattr(kind, "column_names") and hasattr(kind, "column"):  # of pyarrow
        columns, get = log.column_names, log.column
    elif hasattr(kind, "columns") and hasattr(kind, "__getitem__"):
        columns, get = log.columns, log.__getitem__
    else:
        rule = "must be a path, a data frame, a table, a dictionary of columns or a Minari data set"
        fail("log", rule, shown(log), "Such as 'log.csv', or {'episode': …, 'state': …, 'action': …, 'reward': …}.")
    texts = [column for column in columns if isinstance(column, str)]
    return LogTable("log", texts, lambda names: {name: get(name) for name in names})


def require_pyarrow() -> None:
    """Raise `MissingExtra` if pyarrow is not installed."""
    require_packages(["pyarrow"], extra="logs", purpose="A log in a file")


def _csv_file(path: Path) -> LogTable:
    """Return a CSV file in UTF-8 with a header as a log; cells are separated by commas, semicolons or tabs."""
    import pyarrow
    from pyarrow.csv import ConvertOptions, ParseOptions, read_csv

    name = path.name
    try:
        data = path.read_bytes()
        data.decode()
    except OSError as error:
        fail("log", "must be a file that can be read", f"{path} ({error.strerror})", "Check the path.")
    except UnicodeDecodeError as error:
        received = f"a byte {error.object[error.start]:#04x} that is not"
        fail(name, "must be text in UTF-8", received, "Save the file as UTF-8.")
    heading = data.partition(b"\n")[0].decode()
    separator = max(_SEPARATORS, key=heading.count)

    def rows() -> Iterator[tuple[int, list[str]]]:
        """Yield the rows that are not blank, each with its last line; used for messages, as it is slow."""
        text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")
        reader = csv.reader(text, delimiter=separator, strict=True)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except csv.Error as error:
            remedy = "Correct the line; cells that hold quotes or separators are quoted."
            fail(f"{name}, line {reader.line_num}", "must be CSV", str(error), remedy)

    def check_rows() -> None:
        for line, row in rows():
            if len(row) != len(columns):
                rule = f"must have {len(columns)} cells, as the header has"
                fail(f"{name}, line {line}", rule, f"{len(row)}: {shown(row)}", "Correct the line.")

    def get(names: Sequence[str]) -> dict[str, Any]:
        if next(islice(rows(), 1, None), None) is None:  # pyarrow refuses a header that no line end follows
            return {column: pyarrow.array([], pyarrow.string()) for column in names}
        if data.count(b'"') % 2:  # pyarrow would close the last quote itself
            check_rows()
        convert = ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pyarrow.string()))
        parse = ParseOptions(delimiter=separator, newlines_in_values=True)
        try:
            table = read_csv(pyarrow.BufferReader(data), parse_options=parse, convert_options=convert)
        except pyarrow.ArrowException as error:
            check_rows()
            fail(name, "must be CSV", shown(str(error)), "Check the file.")
        return {column: table.column(column) for column in names}

    columns = next(rows(), (0, []))[1]
    if not any(column.strip() for column in columns):
        rule = "must have a header with the names of its columns in the first line"
        fail(name, rule, "an empty line" if data else "an empty file", "Write the names into line 1.")
    return LogTable(name, columns, get, lambda row: f"line {next(islice(rows(), row + 1, None))[0]}")


def _parquet_file(path: Path) -> LogTable:
    """Return a Parquet file as a log; only columns that are asked for are read."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    @contextmanager
    def refused_if_damaged() -> Iterator[None]:
        try:
            yield
        except InvalidInput:
            raise
        except (OSError, ValueError, TypeError, KeyError, MemoryError, pyarrow.ArrowException) as error:
            words = " ".join(str(error).split())[:200] or type(error).__name__
            fail("log", "must be a Parquet file that can be read", f"{path} ({words})", "Check the file.")

    def get(names: Sequence[str]) -> dict[str, Any]:
        with refused_if_damaged():
            table = file.read(columns=list(names))
            table.validate(full=True)
            return {name: table.column(name) for name in names}

    with refused_if_damaged():
        file = ParquetFile(path)
        names, n_rows = file.schema_arrow.names, file.metadata.num_rows
    fits_memory("log", 2.0 * n_rows, f"{path.name} with {n_rows:,} rows", remedy="Learn from parts of it.")
    return LogTable(path.name, names, get)
