"""Columns of a log, with cells as numbers, flags or labels; a cell that is none of these is refused with its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, shown
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["CellKind", "Labels", "LogTable"]

CellKind = Literal["number", "flag", "label"]
"""What a column holds."""

Cells = list[Any] | NDArray[Any]

Refuse = Callable[[int, str, object, str], NoReturn]
"""Function that raises an error about a row of a column: number of the row, rule, what was received, remedy."""

_FLAGS = dict.fromkeys(("true", "t", "yes", "1", "1.0"), True) | dict.fromkeys(("false", "f", "no", "0", "0.0"), False)
_NO_NUMBERS = (complex, np.complexfloating, np.timedelta64, np.datetime64)  # though NumPy makes numbers of them
_EXACT = 2.0**53  # from here on float64 does not have all whole numbers


def numbers(cells: Cells, refuse: Refuse) -> FloatArray:
    """Return cells (n,) or (n, p), which may be text, as float64 numbers; an empty cell is NaN.

    >>> numbers(["1", "", "2.5"], refuse=print)
    array([1. , nan, 2.5])
    """
    kinds = () if isinstance(cells, np.ndarray) else set(map(type, cells))
    if not any(issubclass(kind, _NO_NUMBERS) for kind in kinds):
        try:
            return np.array(cells, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):  # an empty cell, or one that is no number
            pass
    found = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            if isinstance(cell, _NO_NUMBERS):
                raise TypeError
            found[row] = math.nan if is_missing(cell) else float(cell)
        except (TypeError, ValueError, OverflowError):
            refuse(row, "must be a number", shown(cell), "Correct the cell, or name another column in columns={…}.")
    return found


def is_missing(cell: object) -> bool:
    """Return whether a cell is empty: None, empty text, NaN, or the missing value of a data frame."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, str):
        return not cell.strip()
    return isinstance(cell, (float, np.floating)) and math.isnan(cell)


def flags(cells: Cells, refuse: Refuse) -> BoolArray:
    """Return cells as flags: True and False, 1 and 0, or those words.

    >>> flags(["True", "0", "false"], refuse=print)
    array([ True, False, False])
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "b" and cells.ndim == 1:
        return cells.astype(np.bool_)
    texts = list(map(str, cells))
    known = {text: _FLAGS.get(text.strip().lower()) for text in set(texts)}
    found = [known[text] for text in texts]
    if None in found:
        row = found.index(None)
        refuse(row, "must be true or false", shown(cells[row]), "Write true or false, or 1 or 0, in each cell.")
    return np.array(found, dtype=np.bool_)


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


def labels(cells: Cells, refuse: Refuse) -> Labels:
    """Return the labels of episodes as numbers 0, 1, ….

    >>> labels(["10", "9", "10"], refuse=print)
    Labels(codes=array([1, 0, 1]), names=['9.0', '10.0'], are_numbers=True)
    """
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind == "f" and (np.abs(cells) >= _EXACT).any():
            row = int(np.argmax(np.abs(cells) >= _EXACT))
            rule = "must be below 2⁵³ if it is a number of type float, as larger ones are rounded"
            refuse(row, rule, shown(float(cells[row])), "Give episodes as text or whole numbers.")
        cells = cells.tolist()
    try:
        seen = {cell: number for number, cell in enumerate(dict.fromkeys(cells))}
    except TypeError:
        row = next(row for row, cell in enumerate(cells) if not isinstance(cell, Hashable))
        refuse(row, "must be a number or text", shown(cells[row]), "Give every row one number or name.")
    codes = np.fromiter(map(seen.__getitem__, cells), dtype=np.int64, count=len(cells))
    missing = next((cell for cell in seen if is_missing(cell)), 0)
    if is_missing(missing):
        row = int(np.argmax(codes == seen[missing]))
        refuse(row, "must not be empty", "an empty cell", "Give every row the number or name of its episode.")
    try:
        values = np.array([float(cell) for cell in seen])
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    # Larger whole numbers may differ and have the same float64: their labels are compared as they are.
    if not (np.abs(values) < _EXACT).all():
        return Labels(codes, [str(cell) for cell in seen], are_numbers=False)
    distinct, places = np.unique(values, return_inverse=True)
    return Labels(places[codes], [repr(value) for value in distinct.tolist()], are_numbers=True)


_CONVERT: dict[CellKind, Callable[[Cells, Refuse], Any]] = {"number": numbers, "flag": flags, "label": labels}


def _row(row: int) -> str:
    return f"row {row} (counted from 0)"


@dataclass(frozen=True)
class LogTable:
    """A log with named columns.

    Attributes:
        name: Name in messages, such as that of the file.
        columns: Names of its columns.
        get: Function of some names that returns these columns: arrays or lists.
        place: Function of the number of a row, counted from 0, that returns its place in words.
        roles: Column of each role where the format fixes them; None if they are named or guessed.
    """

    name: str
    columns: list[str]
    get: Callable[[Sequence[str]], Mapping[str, Any]]
    place: Callable[[int], str] = _row
    roles: Mapping[str, tuple[str, ...]] | None = None

    def read(self, kinds: Mapping[str, CellKind]) -> dict[str, Any]:
        """Return columns by what they hold: a float64 array for numbers, a bool array for flags, or `Labels`."""
        given = self.get(list(kinds))
        cells = {column: self._cells(column, given[column]) for column in kinds}
        length = len(next(iter(cells.values())))
        for column, found in cells.items():
            if len(found) != length:
                rule = f"must be as long as the others, {length} rows"
                self.refuse_column(column, rule, f"{len(found)} rows", "Give columns of one length.")
        return {
            column: _CONVERT[kind](cells[column], lambda row, *words, _of=column: self.refuse(row, _of, *words))
            for column, kind in kinds.items()
        }

    def refuse(self, row: int, column: str | None, rule: str, received: object, remedy: str) -> NoReturn:
        """Raise an error about one row, and about one of its columns if that is not None."""
        where = f"{self.name}, {self.place(row)}" + ("" if column is None else f", column {shown(column)}")
        fail(where, rule, received, remedy)

    def refuse_column(self, column: str, rule: str, received: object, remedy: str = "Convert the column.") -> NoReturn:
        """Raise an error about a whole column."""
        fail(f"{self.name}, column {shown(column)}", rule, received, remedy)

    def _cells(self, column: str, given: Any) -> Cells:
        if isinstance(given, list) and given and isinstance(given[0], str):
            return given  # an array of text has the width of its longest cell
        if np.ma.is_masked(given):
            self.refuse_column(column, "must not be masked", shown(given), "Fill or remove the rows.")
        try:
            cells = np.asarray(given)
        except ValueError:  # rows of different lengths
            cells = np.empty(())
        if cells.ndim not in (1, 2) or cells.dtype.kind not in "biufOUTM":
            self.refuse_column(column, "must hold one number, flag or text in each row", shown(given))
        if cells.dtype.kind == "M":  # days as labels of episodes
            missing = np.isnat(cells)
            cells = cells.astype(str).astype(object)
            cells[missing] = None
        return cells.tolist() if cells.dtype.kind in "OUT" else cells
