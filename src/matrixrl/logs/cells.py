"""Cells of a column as numbers, flags or labels; a cell that is none is refused with its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import shown
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["CellKind", "Labels", "Refuse", "flags", "numbers"]

CellKind = Literal["number", "flag", "label"]
"""What a column holds."""

Refuse = Callable[[int, str, object, str], NoReturn]
"""Function that raises an error about a row of a column: number of the row, rule, what was received, remedy."""

_TRUE, _FALSE = {"true", "t", "yes", "1", "1.0"}, {"false", "f", "no", "0", "0.0"}
_NUMBER = "must be a number"
_FLAG = "must be true or false"
_NO_LABEL = ("must not be empty", "an empty cell", "Give every row the number or name of its episode.")


def numbers(cells: Sequence[Any] | NDArray[Any], refuse: Refuse) -> FloatArray:
    """Return cells as float64 numbers; an empty cell is NaN.

    Args:
        cells: (n,) or (n, p) numbers, or numbers as text.
        refuse: Called for the first cell that is not a number.

    >>> numbers(["1", "", "2.5"], refuse=print)
    array([1. , nan, 2.5])
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf":
        return cells.astype(np.float64)
    if isinstance(cells, np.ndarray) and cells.ndim > 1:
        refuse(0, f"{_NUMBER} in each cell", f"an array of {cells.dtype}", "Convert the column.")
    if _is_text(cells):
        try:
            return np.array(cells, dtype=np.float64)
        except ValueError:  # an empty cell, or text that is no number
            pass
    try:
        return _one_by_one(cells)
    except _BadCell as bad:
        refuse(bad.row, _NUMBER, shown(bad.cell), "Correct the cell, or name another column in columns={…}.")


def _is_text(cells: Sequence[Any] | NDArray[Any]) -> bool:
    """Say whether all cells are text, as those of a CSV file."""
    return not isinstance(cells, np.ndarray) and set(map(type, cells)) == {str}


class _BadCell(ValueError):
    """A cell that is not a number."""

    def __init__(self, row: int, cell: object) -> None:
        super().__init__(row)
        self.row, self.cell = row, cell


def _one_by_one(cells: Sequence[Any] | NDArray[Any]) -> FloatArray:
    found = np.empty(len(cells))
    for row, cell in enumerate(cells):
        if is_missing(cell):
            found[row] = math.nan
            continue
        if not isinstance(cell, (str, int, float, np.number)) or isinstance(cell, (bool, np.bool_, np.complexfloating)):
            raise _BadCell(row, cell)
        try:
            found[row] = float(cell)
        except (ValueError, OverflowError) as error:
            raise _BadCell(row, cell) from error
    return found


def is_missing(cell: object) -> bool:
    """Say whether a cell is empty: None, empty text, NaN, or the missing value of a data frame."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, str):
        return not cell.strip()
    return isinstance(cell, (float, np.floating)) and math.isnan(cell)


def flags(cells: Sequence[Any] | NDArray[Any], refuse: Refuse) -> BoolArray:
    """Return cells as flags: True and False, 1 and 0, or those words.

    >>> flags(["True", "0", "false"], refuse=print)
    array([ True, False, False])
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "b" and cells.ndim == 1:
        return cells.astype(np.bool_)
    texts = cells if _is_text(cells) else [cell if isinstance(cell, str) else _flag_text(cell) for cell in cells]
    known = {text: _flag(text) for text in set(texts)}
    if None in known.values():
        row = next(i for i, text in enumerate(texts) if known[text] is None)
        refuse(row, _FLAG, shown(cells[row]), "Write true or false, or 1 or 0, in each cell.")
    return np.fromiter(map(known.__getitem__, texts), dtype=np.bool_, count=len(texts))


def _flag_text(cell: object) -> str:
    return str(cell) if isinstance(cell, (bool, int, float, np.bool_, np.number)) else ""


def _flag(text: str) -> bool | None:
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


_EXACT = 2.0**53  # from here on float64 does not have all whole numbers


class _Numbering(dict[Any, int]):
    """Numbers 0, 1, … for keys in the order in which they are first asked for."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


class Labels:
    """The labels of episodes as numbers 0, 1, …, given in pieces.

    The order is that of the labels if all are numbers, else that in which they first appear.

    >>> labels = Labels()
    >>> labels.add(["10", "9", "10"], refuse=print)
    >>> labels.codes(), labels.names
    (array([1, 0, 1]), ['9.0', '10.0'])
    """

    def __init__(self) -> None:
        self._seen = _Numbering()
        self._pieces: list[IntArray] = []
        self.names: list[str] = []
        """Label of each number, known after `codes` was called."""
        self.are_numbers = False
        """Whether all labels are numbers, known after `codes` was called."""

    def add(self, cells: Sequence[Any] | NDArray[Any], refuse: Refuse) -> None:
        """Take the labels of some more rows."""
        seen, before = self._seen, len(self._seen)
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf" and cells.ndim == 1:
            if np.isnan(cells).any():
                refuse(int(np.argmax(np.isnan(cells))), *_NO_LABEL)
            if cells.dtype.kind == "f" and (np.abs(cells) >= _EXACT).any():
                row = int(np.argmax(np.abs(cells) >= _EXACT))
                rule = "must be below 2⁵³ if it is a number of type float, as larger ones are rounded"
                refuse(row, rule, shown(float(cells[row])), "Give episodes as text or whole numbers.")
            distinct, first, places = np.unique(cells, return_index=True, return_inverse=True)
            order = np.argsort(first)
            numbers = np.empty(len(distinct), dtype=np.int64)
            numbers[order] = [seen[value] for value in distinct[order].tolist()]
            self._pieces.append(numbers[places])
        else:
            texts = cells
            if not _is_text(cells):
                texts = [cell if isinstance(cell, str) else "" if is_missing(cell) else str(cell) for cell in cells]
            self._pieces.append(np.fromiter(map(seen.__getitem__, texts), dtype=np.int64, count=len(texts)))
        for value, code in islice(seen.items(), before, None):
            if is_missing(value):
                refuse(int(np.argmax(self._pieces[-1] == code)), *_NO_LABEL)

    def codes(self) -> IntArray:
        """Return the number of the episode of every row: (n,)."""
        raw = np.concatenate(self._pieces) if self._pieces else np.zeros(0, dtype=np.int64)
        try:
            values = np.array([float(value) for value in self._seen], dtype=np.float64)
        except ValueError:
            values = np.full(1, np.nan)
        # Larger whole numbers may differ and have the same float64: their labels are compared as they are.
        self.are_numbers = bool((np.abs(values) < _EXACT).all())
        if not self.are_numbers:
            self.names = [str(value) for value in self._seen]
            return raw
        distinct, places = np.unique(values, return_inverse=True)
        self.names = [repr(value) for value in distinct.tolist()]
        found: IntArray = places[raw]
        return found
