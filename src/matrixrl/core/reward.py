"""Bounds on unknown rewards that are linear in φ, by ridge regression with the same A_n."""

from __future__ import annotations

import numpy as np

from matrixrl.core.regularity import REWARD_NOISE
from matrixrl.core.sets.base import widths
from matrixrl.features import Phi
from matrixrl.linalg import PairDesign
from matrixrl.records import BoolArray, FloatArray
from matrixrl.tolerances import EMPTY_SET

__all__ = ["reward_bounds", "rewards_misfit"]


def reward_bounds(
    phi: Phi, design: PairDesign, reward_moment: FloatArray, radius: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Return the bounds clip(φᵀθ_n ± √β_r w, 0, 1) on unit rewards, with \(\theta_n = A_n^{-1} \sum \phi r\).

    Args:
        phi: Features φ of the pairs.
        design: A_n with the widths of the pairs.
        reward_moment: (B, d) Σ φr over the unit rewards of the data.
        radius: (B, 1) or (B, P) Radius √β_r.

    Returns:
        Upper and lower bounds, each (B, A, S).
    """
    theta = design.solve(reward_moment[:, :, None])[:, :, 0]
    mean = phi.dot(theta)
    half = (radius * widths(design)).reshape(mean.shape)
    return np.clip(mean + half, 0.0, 1.0), np.clip(mean - half, 0.0, 1.0)


def rewards_misfit(phi: Phi, counts: FloatArray, sums: FloatArray, *, delta: float) -> BoolArray:
    r"""Return whether the rewards of visited pairs refute that they are linear in φ, for each replica.

    With n visits and the mean reward r̄ of each visited pair, rewards are refuted if

    .. math:: \min_\theta \sum_p \frac{n_p^2}{1 + n_p} (\bar r_p - \phi_p^\top\theta)^2
            > \tfrac14 \Bigl(2\ln\frac1\delta + \sum_p \ln(1 + n_p)\Bigr).

    If E r = φᵀθ* for some θ*, this happens at any time with probability at most δ (docs/proofs.md, section 5).

    Args:
        phi: Features φ of all pairs.
        counts: (B, P) Number of visits n of each pair.
        sums: (B, P) Sum of the unit rewards of each pair.
        delta: Probability δ of a false alarm at any time.

    Returns:
        Booleans (B,).
    """
    found = np.zeros(len(counts), dtype=np.bool_)
    for b, (visits, paid) in enumerate(zip(counts, sums, strict=True)):
        pairs = np.flatnonzero(visits)
        n = visits[pairs]
        weight = n / np.sqrt(1.0 + n)
        rows, targets = phi.rows(pairs) * weight[:, None], paid[pairs] / n * weight
        off = targets - rows @ np.linalg.lstsq(rows, targets, rcond=None)[0]
        level = REWARD_NOISE**2 * (2.0 * np.log(1.0 / delta) + np.log1p(n).sum())
        found[b] = off @ off > level * (1.0 + EMPTY_SET)
    return found
