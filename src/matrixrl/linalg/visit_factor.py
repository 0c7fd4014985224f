"""Factors of A_n from exact visits of pairs, where sums of φφᵀ in float64 would lose the small directions of A_n."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from matrixrl.linalg.span import rounding_level
from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import ROUNDING

__all__ = ["REFRESH", "VisitFactor", "lost_digits", "summation_error"]

REFRESH = 256
"""Number of downdates of the widths between two recomputations."""

_CHUNK = 1 << 14  # number of rows that are factorised together
_UNIT = 0.5 * float(np.finfo(np.float64).eps)  # largest relative error of one operation
_FACTORISATION = 10.0  # of rounding errors of a factorisation, or of a downdate of the inverse, each of size eps·d


class VisitFactor:
    r"""Triangular factors R of \(A_n = R^\top R\) by a QR factorisation of the rows √λ I and √n φ.

    The condition number of these rows is the root of that of A_n. Rounding therefore changes A_n by a share of at most
    `error`, \(2 \max(P, d)\,\epsilon\,\sqrt{\operatorname{tr} A_n/\lambda}\), and not of ε·tr(A_n)/λ times the number
    of steps (docs/proofs.md, section 18). Widths and log-determinants are increased by that share.

    Args:
        rows: Features of all pairs, shape (P, d).
        visits: Number of visits of each pair, shape (B, P).
        ridge: Regularisation λ.

    Attributes:
        error: Bound on the relative error of a width, shape (B,).
        moment_error: Bound on ‖A^(−1/2)δ‖ for the rounding errors δ of Σ φy and of solving with them, for ‖y‖ <= 1,
            shape (B,).

    >>> factor = VisitFactor(np.array([[3.0, 4.0], [4.0, -3.0]]), np.array([[2.0, 0.0]]), 1.0)
    >>> factor.width_sq().round(9)  # 25/(1 + 2·25) and 25
    array([[ 0.49019608, 25.        ]])
    """

    def __init__(self, rows: FloatArray, visits: FloatArray, ridge: float) -> None:
        self._rows, self._ridge = rows, ridge
        self.upper: FloatArray = np.stack([_triangular(rows, counts, ridge) for counts in visits])
        norms_sq = np.vecdot(rows, rows)
        n_rows, steps = (visits > 0.0).sum(axis=1) + rows.shape[1], visits.sum(axis=1)
        largest = np.sqrt((ridge + visits @ norms_sq) / ridge)  # √(tr A_n/λ), at least the largest singular value
        self.error: FloatArray = np.array(
            [2.0 * rounding_level((int(n),), float(size)) for n, size in zip(n_rows, largest, strict=True)]
        )
        summed = _UNIT * (steps + 2.0) * (visits @ np.sqrt(norms_sq)) / np.sqrt(ridge)
        self.moment_error: FloatArray = summed + self.error * np.sqrt(steps)

    def half_solve(self, rhs: FloatArray) -> FloatArray:
        """Return R⁻ᵀ rhs: (B, d, m) → (B, d, m)."""
        return np.stack([_solve(r, one, transposed=True) for r, one in zip(self.upper, rhs, strict=True)])

    def solve(self, rhs: FloatArray) -> FloatArray:
        """Return A⁻¹ rhs: (B, d, m) → (B, d, m)."""
        halves = self.half_solve(rhs)
        return np.stack([_solve(r, one) for r, one in zip(self.upper, halves, strict=True)])

    @cached_property
    def inverse(self) -> FloatArray:
        """A_n⁻¹, shape (B, d, d); `solve` loses fewer digits."""
        return self.solve(np.broadcast_to(np.eye(self.upper.shape[1]), self.upper.shape))

    def width_sq(self) -> FloatArray:
        """Return φᵀA⁻¹φ of all pairs, shape (B, P)."""
        found = [np.square(_solve(r, self._rows.T, transposed=True)).sum(axis=0) for r in self.upper]
        return np.stack(found) * np.square(1.0 + self.error)[:, None]

    def inverse_norms_sq(self) -> FloatArray:
        """Return ‖A⁻¹φ‖² of all pairs, shape (B, P)."""
        found = [np.square(_solve(r, _solve(r, self._rows.T, transposed=True))).sum(axis=0) for r in self.upper]
        norms_sq: FloatArray = np.stack(found) * (1.0 + self.error[:, None]) ** 4
        return norms_sq

    def logdet(self, block: IntArray | None = None) -> FloatArray:
        """Return ln det(A_n / λ), of all features or of a block of them, shape (B,)."""
        upper = self.upper if block is None else np.linalg.qr(self.upper[:, :, block], mode="r")
        scaled = np.abs(np.diagonal(upper, axis1=1, axis2=2)) / np.sqrt(self._ridge)
        logs: FloatArray = 2.0 * np.log(scaled).sum(axis=1) + 2.0 * scaled.shape[1] * self.error
        return np.maximum(logs, 0.0)


def _triangular(rows: FloatArray, visits: FloatArray, ridge: float) -> FloatArray:
    """Return R of one replica, of shape (d, d)."""
    upper: FloatArray = np.sqrt(ridge) * np.eye(rows.shape[1])
    visited = np.flatnonzero(visits)
    for first in range(0, len(visited), _CHUNK):
        some = visited[first : first + _CHUNK]
        stacked = np.concatenate([upper, rows[some] * np.sqrt(visits[some])[:, None]])
        upper = np.asarray(np.linalg.qr(stacked, mode="r"), dtype=np.float64)
    return upper


def _solve(upper: FloatArray, rhs: FloatArray, *, transposed: bool = False) -> FloatArray:
    solved: FloatArray = solve_triangular(upper, rhs, trans="T" if transposed else "N", check_finite=False)
    return solved


def summation_error(steps: FloatArray, sum_sq: FloatArray, sums: FloatArray, ridge: float, d: int) -> FloatArray:
    r"""Return a bound on the relative rounding error of half-widths if A_n and moments are summed step by step: (B,).

    A sum of T terms in any order has an error of at most uT times the sum of their sizes, u = ε/2. The error of A_n
    counts in units of λ, its smallest possible eigenvalue, and that of a moment Σ φy in units of √λ, at ‖y‖ = 1.

    Args:
        steps: (B,) Number of steps T.
        sum_sq: (B,) Σ ‖φ‖².
        sums: (B,) Σ ‖φ‖.
        ridge: Regularisation λ.
        d: Number of features.
    """
    n_errors = steps + _FACTORISATION * d
    bound: FloatArray = _UNIT * n_errors * np.maximum(sum_sq / ridge, sums / np.sqrt(ridge))
    return bound


def lost_digits(error: float) -> str | None:
    """Return, in words, that rounding errors of A_n may matter; None if they are below `tolerances.ROUNDING`."""
    if error <= ROUNDING:
        return None
    return (
        "phi is so long compared with the ridge, or steps are so many, that rounding errors of A_n may matter (their "
        f"share of a half-width is at most {error:.1g}). Divide phi by its largest norm, or raise ridge"
    )
