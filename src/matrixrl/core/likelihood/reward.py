"""Bounds on the mean of learned rewards in [0, 1] from their sum alone, by the binary Kullback-Leibler ball."""

from __future__ import annotations

import numpy as np

from matrixrl.core.likelihood.kl_ball import extreme_means
from matrixrl.core.likelihood.radii import log_mixture_gain, targeted_beta, top_beta
from matrixrl.linalg import SeenRows
from matrixrl.records import FloatArray

__all__ = ["reward_bounds"]


def reward_bounds(
    totals: FloatArray, sums: FloatArray, log_events: float | None, scale: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return upper and lower bounds on the mean reward of every row, each of the shape of `totals`.

    A reward r counts as 1 with weight r and as 0 with weight 1 − r, which can only loosen the bound (docs/proofs.md,
    section 9). Rows without data are bounded by 1 and 0.

    Args:
        totals: Number of rewards n of each row.
        sums: Sum of the unit rewards of each row.
        log_events: ln(number of rows / δ), δ of one side; None for the tuned radius, which is not proven.
        scale: Factor of the radius.
    """
    rows = np.flatnonzero(totals)
    n, paid = totals.ravel()[rows], np.clip(sums.ravel()[rows] / totals.ravel()[rows], 0.0, 1.0)
    times = np.stack([1.0 - paid, paid], axis=1).ravel()
    codes = (2 * rows[:, None] + np.arange(2)).ravel()
    seen = SeenRows(codes[times > 0.0], times[times > 0.0], 2)
    if log_events is None:
        epsilon, top = scale * log_mixture_gain(n) / n, None
    else:
        epsilon, top = scale * targeted_beta(n, log_events) / n, scale * top_beta(log_events) / n
    bounds = []
    for sign, end in ((1.0, 1.0), (-1.0, 0.0)):
        side = np.full(totals.size, end)
        side[rows] = extreme_means(seen, seen.outcomes.astype(np.float64), np.full(len(rows), end), epsilon, sign, top)
        bounds.append(side.reshape(totals.shape))
    return bounds[0], bounds[1]
