"""Matrix products in blocks that stay in cache."""

from __future__ import annotations

import numpy as np

from matrixrl.records import FloatArray

__all__ = ["squared_row_norms"]

_BLOCK_ENTRIES = 1 << 17  # one megabyte of float64: the product of a block is squared while in cache


def squared_row_norms(rows: FloatArray, factor: FloatArray) -> FloatArray:
    r"""Return the squared norms of all rows after a linear map: \(\|x_p^\top G_b\|^2\).

    Args:
        rows: (P, d).
        factor: (B, d, k), one map for each replica.

    Returns:
        (B, P).

    >>> squared_row_norms(np.eye(2), np.array([[[3.0], [4.0]]]))
    array([[ 9., 16.]])
    """
    n_replicas, d, k = factor.shape
    wide = np.ascontiguousarray(factor.transpose(1, 0, 2)).reshape(d, n_replicas * k)
    n_rows = rows.shape[0]
    out = np.empty((n_replicas, n_rows))
    step = max(1, _BLOCK_ENTRIES // max(d, n_replicas * k))
    for i in range(0, n_rows, step):
        block = rows[i : i + step] @ wide
        block *= block
        out[:, i : i + step] = block.reshape(-1, n_replicas, k).sum(axis=2).T
    return out
