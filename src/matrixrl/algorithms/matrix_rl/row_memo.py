"""Numbers that follow from the counts of a row, computed again only for rows that changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from matrixrl.records import FloatArray, IntArray

__all__ = ["RowMemo"]


class RowMemo:
    """One or more numbers of every row.

    Args:
        n_rows: Number of rows.
        fills: Number of a row without data, for each of the numbers that are kept.
        ids: Rows that have data.

    >>> memo = RowMemo(3, [0.0], ids=np.array([1]))
    >>> memo.read(lambda ids: [10.0 * ids])
    [array([ 0., 10.,  0.])]
    """

    def __init__(self, n_rows: int, fills: Sequence[float], ids: IntArray) -> None:
        self._arrays = [np.full(n_rows, fill) for fill in fills]
        self._changed = [ids] if len(ids) else []

    def note(self, ids: IntArray) -> None:
        """Note that the counts of some rows changed; rows may be repeated."""
        self._changed.append(ids)

    def read(self, compute: Callable[[IntArray], Sequence[FloatArray]]) -> list[FloatArray]:
        """Return the numbers of all rows, one array for each of the fills; arrays that were returned do not change.

        Args:
            compute: Function of ascending rows, each of which has data, that returns one array for each of the fills.
        """
        if self._changed:
            ids = np.unique(np.concatenate(self._changed))
            arrays = [array.copy() for array in self._arrays]
            for array, computed in zip(arrays, compute(ids), strict=True):
                array[ids] = computed
            self._arrays, self._changed = arrays, []
        return self._arrays
