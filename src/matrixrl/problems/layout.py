"""Where the states of a problem lie on a grid or a chain, and where actions lead, for pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from matrixrl.checks import choice, fail, fits_memory, indices, integer, shaped, shown
from matrixrl.records import FloatArray, IntArray

__all__ = ["Layout"]

_STEPS = {"up": (-1.0, 0.0), "right": (0.0, 1.0), "down": (1.0, 0.0), "left": (0.0, -1.0), "stay": (0.0, 0.0)}
_LARGEST = 1 << 31


@dataclass(frozen=True, eq=False)
class Layout:
    """Cells of states on a grid; a chain is a grid with one row.

    Attributes:
        cells: (S, 2) Row and column of each state, counted from 0 at the upper left.
        moves: (A, 2) Rows and columns that an action aims to move by, or (S, A, 2) if it depends on the state; None if
            actions are no moves.

    >>> Layout.grid(2, 3, moves=("up", "right", "down", "left")).shape
    (2, 3)
    """

    cells: IntArray
    moves: FloatArray | None = None

    def __post_init__(self) -> None:
        cells = indices("cells", self.cells, size=_LARGEST, remedy="Give row and column of each state.")
        if not isinstance(cells, np.ndarray) or cells.ndim != 2 or cells.shape[1] != 2 or not len(cells):
            fail("cells", "must have shape (S, 2)", shown(self.cells), "Give row and column of each state.")
        object.__setattr__(self, "cells", cells)
        rows, columns = self.shape
        fits_memory("cells", float(rows) * columns, f"{rows:,} rows and {columns:,} columns", remedy="Count from 0.")
        if self.moves is not None:
            object.__setattr__(self, "moves", self._checked_moves(self.moves))

    def _checked_moves(self, moves: Any) -> FloatArray:
        """Return the moves as an array (A, 2) or (S, A, 2)."""
        names = isinstance(moves, Sequence) and len(moves) > 0 and all(isinstance(one, str) for one in moves)
        if names and not isinstance(moves, str):
            return np.array([_STEPS[choice("moves", one, _STEPS)] for one in moves])
        remedy = 'Such as ("up", "right", "down", "left").'
        if not isinstance(moves, np.ndarray) or moves.ndim not in (2, 3):
            fail("moves", "must be the direction of each action", shown(moves), remedy)
        shape = (None, 2) if moves.ndim == 2 else (self.n_states, None, 2)
        return shaped("moves", moves, shape, remedy=remedy)

    @classmethod
    def grid(cls, n_rows: int, n_columns: int, moves: Any = None) -> Layout:
        """Return the layout of a grid whose states are numbered row by row.

        Args:
            n_rows: Number of rows.
            n_columns: Number of columns.
            moves: Direction of each action: "up", "right", "down", "left" or "stay"; or an array as in `Layout`.
        """
        rows = integer("n_rows", n_rows, low=1, remedy="Give the number of rows.")
        columns = integer("n_columns", n_columns, low=1, remedy="Give the number of columns.")
        fits_memory(
            "n_rows and n_columns", 3.0 * rows * columns, f"{rows:,} and {columns:,}", remedy="Make it smaller."
        )
        cells = np.stack(np.divmod(np.arange(rows * columns), columns), axis=1)
        return cls(cells, moves)

    @classmethod
    def chain(cls, n_states: int, moves: Any = None) -> Layout:
        """Return the layout of a chain from left to right; `moves` as in `grid`."""
        return cls.grid(1, n_states, moves)

    @property
    def n_states(self) -> int:
        """Number of states that have a cell."""
        return len(self.cells)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        rows, columns = self.cells.max(axis=0) + 1
        return int(rows), int(columns)

    def table(self, values: FloatArray) -> FloatArray:
        """Return one number of each state (S,) as a picture (rows, columns); NaN in cells without a state."""
        picture = np.full(self.shape, np.nan)
        picture[self.cells[:, 0], self.cells[:, 1]] = values
        return picture

    def moves_of(self, actions: IntArray) -> FloatArray | None:
        """Return the move (S, 2) of one action of each state (S,); None if actions are no moves."""
        if self.moves is None:
            return None
        if self.moves.ndim == 2:
            return self.moves[actions]
        return self.moves[np.arange(self.n_states), actions]
