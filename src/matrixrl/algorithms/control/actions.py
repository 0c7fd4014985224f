"""Actions as coordinates of the kernel: one indicator for each discrete action, or scaled numbers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from matrixrl.coding import BoxCodec, Codec
from matrixrl.records import FloatArray, IntArray

__all__ = ["ActionGrid"]

_MOST_INDICATORS = 32  # more actions than that are told apart by their numbers
_MOST_PLANNED = 64  # actions that are compared in a backup


@dataclass(frozen=True)
class ActionGrid:
    """Coordinates of actions, and the actions that backups compare.

    Attributes:
        codec: Numbers of the actions.
        numbers: (A,) actions that backups compare.
        planned: (A, q) their coordinates.
        is_box: Whether the actions between them can be played too.
    """

    codec: Codec
    numbers: IntArray
    planned: FloatArray
    is_box: bool

    @classmethod
    def of(cls, codec: Codec, points: int) -> ActionGrid:
        """Return the grid of a space of actions.

        Args:
            codec: Numbers of the actions.
            points: Points along each coordinate of continuous actions.
        """
        if isinstance(codec, BoxCodec):
            per_axis = min(points, codec.levels, max(2, int(_MOST_PLANNED ** (1.0 / codec.n_entries) + 1e-9)))
            axis = np.linspace(-1.0, 1.0, per_axis)
            if per_axis**codec.n_entries <= _MOST_PLANNED:
                rows = np.array(list(itertools.product(axis, repeat=codec.n_entries)))
            else:  # too many corners: rest, and both ends of each coordinate
                ends = np.eye(codec.n_entries)
                rows = np.concatenate([np.zeros((1, codec.n_entries)), ends, -ends])
            numbers = codec.nearest(rows)
            return cls(codec, numbers, codec.scaled(numbers), is_box=True)
        every = np.arange(codec.size, dtype=np.int64)
        if codec.size <= _MOST_INDICATORS:
            return cls(codec, every, np.eye(codec.size), is_box=False)
        return cls(codec, every, codec.coordinates(), is_box=False)

    @property
    def groups(self) -> IntArray:
        """(q,) coordinates that share a length scale: all indicators do, and numbers have their own."""
        q = self.planned.shape[1]
        indicators = not self.is_box and q == len(self.planned)
        return np.zeros(q, dtype=np.int64) if indicators else np.arange(q)

    def coordinates(self, actions: IntArray) -> FloatArray:
        """Return the coordinates of actions (n,): (n, q)."""
        found: FloatArray = self.codec.scaled(actions) if isinstance(self.codec, BoxCodec) else self.planned[actions]
        return found

    def number(self, row: FloatArray) -> int:
        """Return the number of the continuous action nearest to coordinates (q,)."""
        assert isinstance(self.codec, BoxCodec)
        return int(self.codec.nearest(row[None])[0])

    def around(self, row: FloatArray, width: float) -> FloatArray:
        """Return continuous actions around one (q,) at distances up to a width in each coordinate: (n, q)."""
        q = len(row)
        if q == 1:
            steps = np.linspace(-width, width, 9)[:, None]
        else:
            shifts = np.concatenate([np.eye(q), -np.eye(q), 0.5 * np.eye(q), -0.5 * np.eye(q)])
            steps = width * np.concatenate([np.zeros((1, q)), shifts])
        found: FloatArray = np.clip(row + steps, -1.0, 1.0)
        return found

    @property
    def spacing(self) -> float:
        """Distance of neighbours among the planned actions, in scaled coordinates."""
        axis = np.unique(self.planned[:, 0])
        return float(np.diff(axis).max()) if len(axis) > 1 else 0.0
