"""Logs in any supported form as named columns, with cells as numbers, flags, dates or labels.

CSV and Parquet are read with pyarrow. A cell that its column cannot hold is refused with its place.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import choice, fail, file_path, fits_memory, shown
from matrixrl.extras import require_packages
from matrixrl.records import FloatArray, IntArray
from matrixrl.spaces import NamesCodec

__all__ = ["DECIMALS", "PARQUET", "VECTORS", "Labels", "LogTable", "open_table", "require_pyarrow"]

PARQUET = (".parquet", ".pq")
"""Endings of names of Parquet files."""

DECIMALS = (".", ",")
"""Decimal characters of numbers that are text."""

VECTORS = ("state", "action", "next_state")
"""Roles that may have one column for each coordinate or part, or a column of vectors."""

_CSV = (".csv", ".tsv", ".txt")
_SEPARATORS = (",", ";", "\t", "|")
_COMMA = re.compile(r"\s*[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?\s*")  # a number with a decimal comma
_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2},\d{3}\s*")  # which may be one with a separator of thousands as well
_YEAR_LAST = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4})(?!\d)")
_EMPTY = frozenset(("", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "none"))  # texts of empty cells
_FLAGS = dict.fromkeys(("true", "t", "yes", "1", "1.0"), 1.0) | dict.fromkeys(("false", "f", "no", "0", "0.0"), 0.0)
_CORRECT = "Correct the cell, or name another column in columns={…}."
_NO_NUMBERS = (complex, np.complexfloating, np.timedelta64, np.datetime64)  # though NumPy makes numbers of them
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


class _Distinct(NamedTuple):
    """The different cells of a column, in the order in which they first appear, and the number (n,) of each cell."""

    values: list[Any]
    codes: IntArray


_Column = NDArray[Any] | _Distinct


@dataclass(frozen=True)
class LogTable:
    """A log with named columns.

    Attributes:
        name: Name in messages, such as that of the file.
        columns: Names of its columns.
        get: Function of some names that returns these columns: arrays, lists, or arrays of pyarrow.
        place: Function of the number of a row, counted from 0, that returns its place in words.
        roles: Column of each role where the format fixes them; None if they are named or guessed.
        separator: Character between the cells of a CSV file; None for other forms.
    """

    name: str
    columns: list[str]
    get: Callable[[Sequence[str]], Mapping[str, Any]]
    place: Callable[[int], str] = "row {} (counted from 0)".format
    roles: Mapping[str, tuple[str, ...]] | None = None
    separator: str | None = None

    def read(
        self, roles: Mapping[str, Sequence[str]], named: Mapping[str, NamesCodec], decimal: str | None
    ) -> tuple[dict[str, Any], str]:
        """Return columns by their names, and the decimal character of numbers that are text.

        A column becomes `Labels` if it has the episodes, else an array of float64 (n,) or (n, p), or of dates if it has
        the steps. Flags become 0 and 1, names their numbers, and empty cells NaN.

        Args:
            roles: Columns of each role.
            named: Names that columns of states or actions hold.
            decimal: Decimal character; found from the cells if None.
        """
        role_of = {column: role for role, names in roles.items() for column in names}
        given = self.get(list(role_of))
        cells = {column: self._cells(column, given[column], column in named) for column in role_of}
        lengths = {column: len(c.codes if isinstance(c, _Distinct) else c) for column, c in cells.items()}
        for column, found in cells.items():
            if _is_table(found) and role_of[column] not in VECTORS:
                self._refuse_column(column, "must have one cell a row", "vectors", "Check it.")
            if lengths[column] != (length := next(iter(lengths.values()))):
                rule = f"must be as long as the others, {length} rows"
                self._refuse_column(column, rule, f"{lengths[column]} rows", "Give columns of one length.")
        texts = {c: cells[c] for c, role in role_of.items() if role in (*VECTORS, "reward", "step") and c not in named}
        decimal = decimal or self._decimal(texts)

        def convert(column: str, role: str) -> Any:
            if column in named:
                return self._names(column, cells[column], named[column])
            if role in ("terminated", "truncated"):
                return self._flags(column, cells[column])
            if role == "episode":
                return self._labels(column, cells[column])
            dates = self._dates(column, cells[column]) if role == "step" else None
            return self._numbers(column, cells[column], decimal) if dates is None else dates

        return {column: convert(column, role) for column, role in role_of.items()}, decimal

    def has_dates(self, column: str) -> bool:
        """Return whether the first cell of a column that is not empty is a date."""
        cells = self._cells(column, self.get([column])[column], is_named=False)
        if isinstance(cells, np.ndarray):
            return cells.dtype.kind == "M"
        return _is_date(next((value for value in cells.values if not _is_empty(value)), None))

    def refuse(self, row: int, column: str | None, rule: str, received: object, remedy: str) -> NoReturn:
        """Raise an error about one row, and about one of its columns if that is not None."""
        where = f"{self.name}, {self.place(row)}" + ("" if column is None else f", column {shown(column)}")
        fail(where, rule, received, remedy)

    def _refuse_value(self, column: str, cells: _Distinct, code: int, rule: str, remedy: str = _CORRECT) -> NoReturn:
        """Refuse the first cell that has one of the different values."""
        self.refuse(int(np.argmax(cells.codes == code)), column, rule, shown(cells.values[code]), remedy)

    def _refuse_column(self, column: str, rule: str, received: object, remedy: str = "Convert the column.") -> NoReturn:
        fail(f"{self.name}, column {shown(column)}", rule, received, remedy)

    def _cells(self, column: str, given: Any, is_named: bool) -> _Column:
        """Return a column as an array of numbers, flags or dates, (n,) or (n, p), or as its different cells."""
        if hasattr(given, "dictionary_encode"):  # of pyarrow
            given = self._arrow_cells(column, given)
        # An array would give names one type, and texts the width of the longest.
        is_text = isinstance(given, list) and (is_named or isinstance(next(iter(given), None), str))
        if is_text or isinstance(given, _Distinct):
            return self._distinct(column, given)
        if np.ma.is_masked(given):
            self._refuse_column(column, "must not be masked", shown(given), "Fill or remove the rows.")
        try:
            cells = np.asarray(given)
            cells = cells.astype(np.float64) if cells.ndim == 2 and cells.dtype.kind in "OU" else cells
        except (ValueError, TypeError):  # rows of different lengths, or vectors of text
            cells = np.empty(())
        if cells.ndim not in (1, 2) or cells.dtype.kind not in "biufOUTM":
            self._refuse_column(column, "must hold one number, flag, date or text in each row", shown(given))
        return self._distinct(column, cells.tolist()) if cells.dtype.kind in "OUT" else cells

    def _arrow_cells(self, column: str, given: Any) -> Any:
        """Return a column of pyarrow as an array of NumPy, or text as its different cells."""
        from pyarrow import types

        kind = given.type.value_type if types.is_dictionary(given.type) else given.type
        if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
            text = given.cast("string").cast("large_string")
            text = text.combine_chunks() if hasattr(text, "combine_chunks") else text
            encoded = text.dictionary_encode("encode")
            return _Distinct(encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64))
        is_number = types.is_primitive(kind) and not types.is_temporal(kind)
        is_day = types.is_date(kind) or types.is_timestamp(kind)
        if not (is_number or is_day or types.is_decimal(kind) or types.is_null(kind)):
            rule = "must hold one number, flag, date or text in each row"
            self._refuse_column(column, rule, f"the type {kind}", "Give one column for each coordinate.")
        whole = given.cast("float64" if types.is_decimal(kind) or types.is_null(kind) else kind)
        return whole.to_numpy() if hasattr(whole, "chunks") else whole.to_numpy(zero_copy_only=False)

    def _distinct(self, column: str, cells: Any) -> _Distinct:
        if isinstance(cells, _Distinct):
            return cells
        cells = cells.tolist() if isinstance(cells, np.ndarray) else cells
        seen: dict[Any, int] = {}
        codes = np.empty(len(cells), dtype=np.int64)
        for row, cell in enumerate(cells):
            try:
                codes[row] = seen.setdefault(cell, len(seen))
            except (TypeError, ValueError):  # not hashable
                self.refuse(row, column, "must be a number, a flag, a date or a text", shown(cell), _CORRECT)
        return _Distinct(list(seen), codes)

    def _decimal(self, columns: Mapping[str, Any]) -> str:
        """Return the decimal character of numbers that are text; refuse a comma that may separate thousands."""
        doubtful = None
        for column, cells in columns.items():
            for code, value in enumerate(cells.values if isinstance(cells, _Distinct) else ()):
                if isinstance(value, str) and "," in value and _COMMA.fullmatch(value):
                    if not _THOUSANDS.fullmatch(value):
                        return ","
                    doubtful = doubtful or (column, cells, code)
        if doubtful is not None:
            rule = "must say whether a comma is a decimal comma or separates thousands"
            self._refuse_value(*doubtful, rule, "Pass decimal=',', or write numbers without separators of thousands.")
        return "."

    def _numbers(self, column: str, cells: _Column, decimal: str) -> FloatArray:
        """Return cells (n,) or (n, p), which may be text, as numbers; an empty cell is NaN."""
        if isinstance(cells, np.ndarray):
            if cells.dtype.kind == "M":
                self.refuse(0, column, "must be a number", shown(cells[0]), "Name another column in columns={…}.")
            return np.asarray(cells, dtype=np.float64)
        found, words = np.empty(len(cells.values)), " with a decimal comma" * (decimal == ",")
        if decimal == "." and set(map(type, cells.values)) == {str} and not any("_" in one for one in cells.values):
            try:
                return np.array(cells.values, dtype=np.float64).take(cells.codes)
            except ValueError:  # an empty cell, or one that is no number
                pass
        for code, value in enumerate(cells.values):
            try:
                if isinstance(value, _NO_NUMBERS) or (isinstance(value, str) and "_" in value):  # 1_0 is 10 in Python
                    raise TypeError
                if isinstance(value, str) and decimal == ",":
                    found[code] = float("?" if "." in value else value.replace(",", "."))  # 1.234 may be a thousand
                else:
                    found[code] = float(value)
            except (TypeError, ValueError, OverflowError):
                if not _is_empty(value):
                    self._refuse_value(column, cells, code, f"must be a number{words}")
                found[code] = math.nan
        return found.take(cells.codes)

    def _dates(self, column: str, cells: _Column) -> NDArray[Any] | None:
        """Return cells as dates (n,), NaT where they are empty; None if they are no dates."""
        if isinstance(cells, np.ndarray):
            return cells if cells.dtype.kind == "M" else None
        full = [(code, value) for code, value in enumerate(cells.values) if not _is_empty(value)]
        if not full or not _is_date(full[0][1]):
            return None
        readings = []
        for month_first in (False, True):
            days, zones = np.full(len(cells.values), np.datetime64("NaT", "us")), set[bool]()
            for code, value in full:
                day = _date_of(value, month_first)
                if day is None or len(zones | {day[1]}) > 1:
                    wrong = code
                    break
                days[code] = day[0]
                zones.add(day[1])
            else:
                readings.append(days)
        if not readings:
            rule = "must be a date, such as 2026-01-31, 31.01.2026 or 2026-01-31 14:30, with a time zone in all or none"
            self._refuse_value(column, cells, wrong, rule)
        if not np.array_equal(readings[0], readings[-1], equal_nan=True):
            rule = "must say whether the day or the month comes first"
            self._refuse_value(column, cells, full[0][0], rule, "Write dates as 2026-01-31.")
        return readings[0].take(cells.codes)

    def _names(self, column: str, cells: _Column, names: NamesCodec) -> FloatArray:
        """Return the numbers (n,) of the names in cells; an empty cell is NaN."""
        if _is_table(cells):
            self._refuse_column(column, "must hold one name in each row", "vectors")
        cells = self._distinct(column, cells)
        numbers: FloatArray = np.full(len(cells.values), np.nan)
        for code, value in enumerate(cells.values):
            found = None if _is_blank(value) else names.find(value)
            if found is None and isinstance(value, str) and _COMMA.fullmatch(value):
                found = names.find(value.replace(",", "."))
            if found is not None:
                numbers[code] = found
            elif not _is_empty(value):
                self._refuse_value(column, cells, code, names.rule(0))
        return numbers.take(cells.codes)

    def _flags(self, column: str, cells: _Column) -> FloatArray:
        """Return cells as flags (n,): True and False, 1 and 0, or those words; an empty cell is NaN."""
        cells = self._distinct(column, cells)
        known = [_FLAGS.get(str(v).strip().lower(), math.nan if _is_empty(v) else None) for v in cells.values]
        if None in known:
            remedy = "Write true or false, or 1 or 0, in each cell."
            self._refuse_value(column, cells, known.index(None), "must be true or false", remedy)
        return np.array(known, dtype=np.float64).take(cells.codes)

    def _labels(self, column: str, cells: _Column) -> Labels:
        """Return the labels of episodes as numbers 0, 1, …."""
        if isinstance(cells, np.ndarray) and cells.dtype.kind == "f" and (np.abs(cells) >= _EXACT).any():
            row = int(np.argmax(np.abs(cells) >= _EXACT))
            rule = "must be below 2⁵³ if it is a number of type float, as larger ones are rounded"
            self.refuse(row, column, rule, shown(float(cells[row])), "Give episodes as text or whole numbers.")
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "iu" and len(cells) and np.abs(cells).max() < _EXACT:
            whole, codes = np.unique(cells, return_inverse=True)
            return Labels(codes, [repr(float(number)) for number in whole.tolist()], are_numbers=True)
        if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
            cells = cells.astype(str)
        values, codes = cells = self._distinct(column, cells)
        empty = next((code for code, value in enumerate(values) if _is_empty(value)), None)
        if empty is not None:
            row, remedy = int(np.argmax(codes == empty)), "Give every row the number or name of its episode."
            self.refuse(row, column, "must not be empty", "an empty cell", remedy)
        try:
            numbers = np.array([float(value) for value in values])
        except (TypeError, ValueError, OverflowError):
            numbers = np.full(1, np.nan)
        # Larger whole numbers may differ and have the same float64: their labels are compared as they are.
        if not (np.abs(numbers) < _EXACT).all():
            names = list(dict.fromkeys(texts := [str(value).strip() for value in values]))
            places = {name: place for place, name in enumerate(names)}
            return Labels(np.array([places[text] for text in texts], dtype=np.int64)[codes], names, are_numbers=False)
        distinct, order = np.unique(numbers, return_inverse=True)
        return Labels(order[codes], [repr(number) for number in distinct.tolist()], are_numbers=True)


def _is_table(cells: _Column) -> bool:
    return isinstance(cells, np.ndarray) and cells.ndim > 1


def _is_blank(cell: object) -> bool:
    """Return whether a cell is empty: None, blank text, NaN, or the missing value of a data frame."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return not cell.strip() if isinstance(cell, str) else isinstance(cell, (float, np.floating)) and math.isnan(cell)


def _is_empty(cell: object) -> bool:
    """Return whether a cell is blank or says so, such as NA."""
    return _is_blank(cell) or (isinstance(cell, str) and cell.strip().lower() in _EMPTY)


def _is_date(cell: object) -> bool:
    """Return whether a cell is a date or looks like one; a whole number does not."""
    if isinstance(cell, str):
        return bool(re.match(r"\s*(\d{4}-\d|\d{1,2}[./]\d{1,2}[./]\d)", cell))
    return isinstance(cell, (date, np.datetime64))


def _date_of(cell: Any, month_first: bool) -> tuple[Any, bool] | None:
    """Return a date, in UTC if it has a time zone, and whether it has one; None if it is none."""
    if isinstance(cell, str):

        def year_first(found: re.Match[str]) -> str:
            one, mark, other, year = found.groups()
            day, month = (other, one) if month_first and mark == "/" else (one, other)
            return f"{year}-{month:>02}-{day:>02}"

        try:
            cell = datetime.fromisoformat(_YEAR_LAST.sub(year_first, cell.strip(), count=1))
        except ValueError:
            return None
    has_zone = isinstance(cell, datetime) and cell.tzinfo is not None
    if has_zone:
        try:
            cell = cell.astimezone(UTC).replace(tzinfo=None)
        except OverflowError:  # before year 1 or after 9999
            return None
    return (cell, has_zone) if isinstance(cell, (date, np.datetime64)) else None


def open_table(log: Any, separator: str | None = None) -> LogTable:
    """Return a file, a data frame, a table of pyarrow or a dictionary of columns as a log with named columns.

    Nothing is imported for data frames and tables: their classes are recognised by their methods.

    Args:
        log: What is opened.
        separator: Character between the cells of a CSV file; found from its header if None.

    Raises:
        InvalidInput: It is none of these, or cannot be read.
        MissingExtra: It is a file, and pyarrow is not installed.
    """
    if separator is not None:
        choice("separator", separator, _SEPARATORS)
    if isinstance(log, (str, os.PathLike)):
        path = Path(file_path("log", log))
        if path.suffix.lower() not in (*_CSV, *PARQUET):
            rule = f"must be a file whose name ends in one of {', '.join((*_CSV, *PARQUET))}"
            fail("log", rule, repr(path.name), "Rename it, or read it first.")
        require_pyarrow()
        if path.suffix.lower() in _CSV:
            return _csv_file(path, separator)
    if separator is not None:
        fail("separator", "must be left out for a log that is no CSV file", shown(separator), "Leave it out.")
    if isinstance(log, (str, os.PathLike)):
        return _parquet_file(path)
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


def _csv_file(path: Path, separator: str | None) -> LogTable:
    """Return a CSV file in UTF-8 with a header as a log."""
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
    separator = separator or max(_SEPARATORS, key=re.sub(r'"[^"]*"', "", heading).count)

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
    return LogTable(name, columns, get, lambda row: f"line {next(islice(rows(), row + 1, None))[0]}", None, separator)


def _parquet_file(path: Path) -> LogTable:
    """Return a Parquet file as a log; only columns that are asked for are read."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    def read(names: Sequence[str]) -> tuple[Any, list[str], int]:
        """Return some columns, the names of all, and the number of rows."""
        try:
            with ParquetFile(path) as file:
                table = file.read(columns=list(names))
                table.validate(full=True)
                return table, file.schema_arrow.names, file.metadata.num_rows
        except (OSError, ValueError, TypeError, KeyError, MemoryError, pyarrow.ArrowException) as error:
            words = " ".join(str(error).split())[:200] or type(error).__name__
            fail("log", "must be a Parquet file that can be read", f"{path} ({words})", "Check the file.")

    _, columns, n_rows = read([])
    fits_memory("log", 2.0 * n_rows, f"{path.name} with {n_rows:,} rows", remedy="Learn from parts of it.")
    return LogTable(
        path.name, columns, lambda names: dict(zip(names, read(names)[0].select(names).columns, strict=True))
    )
