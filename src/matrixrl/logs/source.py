"""Where the columns of a log come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, shown
from matrixrl.logs.cells import CellKind, Labels, Refuse, flags, numbers

__all__ = ["Source", "Table"]


class Source(ABC):
    """A log with named columns.

    Attributes:
        name: Name in messages, such as that of the file.
        columns: Names of its columns.
        roles: Column of each role where the format fixes them; empty if they are named or guessed.
    """

    name: str
    columns: list[str]
    roles: Mapping[str, tuple[str, ...]] = {}  # never changed

    @abstractmethod
    def read(self, kinds: Mapping[str, CellKind]) -> dict[str, Any]:
        """Return some columns: a float64 array for a number, a bool array for a flag, `Labels` for labels.

        Args:
            kinds: What each of the wanted columns holds.
        """

    def place(self, row: int) -> str:
        """Return the place of a row, counted from 0, in words."""
        return f"row {row} (counted from 0)"

    def refuse(self, row: int, column: str | None, rule: str, received: object, remedy: str) -> NoReturn:
        """Raise an error about one row.

        Args:
            row: Number of the row, counted from 0.
            column: Name of the column, if the error is about one.
            rule: Rule that is broken.
            received: What was found.
            remedy: What to do.
        """
        where = f"{self.name}, {self.place(row)}" + ("" if column is None else f", column {shown(column)}")
        fail(where, rule, received, remedy)

    def refuser(self, column: str, first: int = 0) -> Refuse:
        """Return the function that refuses a cell of a column, for rows that are counted from row `first`."""

        def refuse(row: int, rule: str, received: object, remedy: str) -> NoReturn:
            self.refuse(first + row, column, rule, received, remedy)

        return refuse


class Table(Source):
    """Columns in memory.

    Args:
        name: Name in messages.
        columns: Names of the columns.
        get: Function of a name that returns the column: an array or a list.
    """

    def __init__(self, name: str, columns: Sequence[str], get: Callable[[str], Any]) -> None:
        self.name, self.columns, self._get = name, list(columns), get

    def read(self, kinds: Mapping[str, CellKind]) -> dict[str, Any]:
        """Return some columns, all of the same length."""
        found: dict[str, Any] = {}
        length: int | None = None
        for column, kind in kinds.items():
            cells = self._cells(column)
            length = len(cells) if length is None else length
            if len(cells) != length:
                rule = f"must be as long as the others, {length} rows"
                fail(f"{self.name}, column {shown(column)}", rule, f"{len(cells)} rows", "Give columns of one length.")
            found[column] = converted(cells, kind, self.refuser(column))
        return found

    def _cells(self, column: str) -> Sequence[Any] | NDArray[Any]:
        given = self._get(column)
        if isinstance(given, list) and given and isinstance(given[0], str):
            return given  # an array of text has the width of its longest cell
        if np.ma.is_masked(given):
            fail(f"{self.name}, column {shown(column)}", "must not be masked", shown(given), "Fill or remove the rows.")
        try:
            cells = np.asarray(given)
        except ValueError:  # rows of different lengths
            cells = np.empty(())
        if cells.ndim not in (1, 2) or cells.dtype.kind not in "biufOUTM":
            rule = "must have one number, flag or text in each row"
            fail(f"{self.name}, column {shown(column)}", rule, shown(given), "Convert the column.")
        if cells.dtype.kind == "M":  # days as labels of episodes
            cells = cells.astype(str)
        return cells.tolist() if cells.dtype.kind in "OUT" else cells


def converted(cells: Sequence[Any] | NDArray[Any], kind: CellKind, refuse: Refuse) -> Any:
    """Return cells as what their column holds."""
    if kind == "number":
        return numbers(cells, refuse)
    if kind == "flag":
        return flags(cells, refuse)
    labels = Labels()
    labels.add(cells, refuse)
    return labels
