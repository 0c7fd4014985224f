"""Matrix products in blocks that fit into the cache."""

from __future__ import annotations

import numpy as np

from matrixrl.records import FloatArray

__all__ = ["squared_row_norms"]

_BLOCK_ENTRIES = 1 << 17  # one megabyte of float64, so that a block is squared while it is in the cache


def squared_row_norms(rows: FloatArray, factor: FloatArray) -> FloatArray:
    r"""Return the squared norms of all rows after a linear map, \(\|x_p^\top G_b\|^2\).

    Args:
        rows: Vectors x_p, shape (P, d).
        factor: One map G_b for each replica, shape (B, d, k).

    Returns:
        Squared norms, shape (B, P).

    >>> squared_row_norms(np.eye(2), np.array([[[3.0], [4.0]]]))
    array([[ 9., 16.]])
    """
    n_replicas, d, k = factor.shape
    maps = np.ascontiguousarray(factor.transpose(0, 2, 1)).reshape(n_replicas * k, d)
    n_rows = rows.shape[0]
    out = np.empty((n_replicas, n_rows))
    step = max(1, _BLOCK_ENTRIES // max(d, n_replicas * k))
    for i in range(0, n_rows, step):
        images = maps @ rows[i : i + step].T  # one row for each map, so that squares are summed along memory
        images *= images
        images.reshape(n_replicas, k, -1).sum(axis=1, out=out[:, i : i + step])
    return out
