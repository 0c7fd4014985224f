"""Where the states of a problem lie on a grid or a chain, and where actions lead, for pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from matrixrl.checks import choice, fail, integer, shown
from matrixrl.records import FloatArray, IntArray

__all__ = ["Layout"]

_STEPS = {"up": (-1.0, 0.0), "right": (0.0, 1.0), "down": (1.0, 0.0), "left": (0.0, -1.0), "stay": (0.0, 0.0)}


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
        cells = np.stack(np.divmod(np.arange(rows * columns), columns), axis=1)
        return cls(cells, None if moves is None else _read_moves(moves))

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


def _read_moves(moves: Any) -> FloatArray:
    if isinstance(moves, Sequence) and not isinstance(moves, str) and all(isinstance(one, str) for one in moves):
        return np.array([_STEPS[choice("moves", one, _STEPS)] for one in moves])
    if isinstance(moves, np.ndarray) and moves.ndim in (2, 3) and moves.shape[-1] == 2:
        return moves.astype(np.float64)
    remedy = 'Such as ("up", "right", "down", "left").'
    fail("moves", "must be the direction of each action", shown(moves), remedy)
