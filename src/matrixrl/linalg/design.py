"""A_n = λI + Σ φφᵀ of B replicas, its inverse, log-determinant and the widths of pairs (YW19 Algorithm 1, line 11)."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from matrixrl.linalg.span import rounding_level
from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import ROUNDING

__all__ = [
    "DensePairs",
    "DesignMatrix",
    "DiagonalPairs",
    "LearningDesign",
    "PairDesign",
    "lost_digits",
    "summation_error",
    "widths",
]

_REFRESH = 256  # number of downdates of the widths between two recomputations
_BLOCK_ENTRIES = 1 << 17  # one megabyte of float64, so that a block is squared while it is in the cache
_CHUNK = 1 << 14  # number of rows that are factorised together
_UNIT = 0.5 * float(np.finfo(np.float64).eps)  # largest relative error of one operation
_FACTORISATION = 10.0  # of rounding errors of a factorisation, or of a downdate of the inverse, each of size eps·d


class DesignMatrix:
    r"""A_n and its inverse, updated by the Woodbury identity: \(A^{-1} \leftarrow A^{-1} - GG^\top\) (Hager 1989).

    Args:
        d: Number of features.
        n_replicas: Number of replicas B.
        ridge: Regularisation λ; 1 in the paper.

    Attributes:
        matrix: (B, d, d) A_n.
        moment_error: (B,) What rounding errors of Σ φy with ‖y‖ <= 1 add to the radius at most; None if negligible.
    """

    rows: FloatArray
    _width_sq: FloatArray
    _root: FloatArray  # R with A_n⁻¹ = RRᵀ, as of the last factorisation

    def __init__(self, d: int, n_replicas: int, *, ridge: float = 1.0) -> None:
        self.d, self.ridge = d, ridge
        identity = np.tile(np.eye(d), (n_replicas, 1, 1))
        self.matrix = ridge * identity
        self._inverse: FloatArray = identity / ridge
        self._logdet: FloatArray = np.zeros(n_replicas)

    def at(self, rows: FloatArray) -> DesignMatrix:
        """Return the same A_n with the widths of a few pairs (P, d); A_n was refactored last."""
        found = copy(self)
        found.rows, found._width_sq = rows, _squared_row_norms(rows, self._root)
        return found

    @property
    def width_sq(self) -> FloatArray:
        """Squared widths φᵀA⁻¹φ (B, P) of the pairs."""
        return self._width_sq

    @property
    def moment_error(self) -> FloatArray | None:
        return None

    @property
    def logdet(self) -> FloatArray:
        """Log-determinant ln det(A_n / λ) (B,); ln det A_n in the paper."""
        return self._logdet

    @property
    def inverse(self) -> FloatArray:
        """A_n⁻¹ (B, d, d)."""
        return self._inverse

    def solve(self, rhs: FloatArray) -> FloatArray:
        """Return A⁻¹ rhs: (B, d, m) → (B, d, m)."""
        return self._inverse @ rhs

    def inverse_norms_sq(self) -> FloatArray:
        """Return ‖A⁻¹φ‖² of every pair: (B, P)."""
        return _squared_row_norms(self.rows, self._inverse)

    def block_logdet(self, blocks: list[IntArray]) -> FloatArray:
        """Return ln det of A_n/λ restricted to each block of features: (B, K)."""
        scaled = self.matrix / self.ridge
        return np.stack([np.linalg.slogdet(scaled[:, block[:, None], block])[1] for block in blocks], axis=1)

    def add(self, x: FloatArray) -> FloatArray | None:
        """Add Σ xxᵀ over rows (B, k, d); return G (B, d, k), or None if k >= d, where a factorisation is cheaper."""
        k = x.shape[1]
        x_t = x.transpose(0, 2, 1)
        self.matrix += x_t @ x
        if k >= self.d:
            self.refactor()
            return None
        solved = self._inverse @ x_t
        inner = np.linalg.cholesky(np.eye(k) + x @ solved)
        factor: FloatArray = np.linalg.solve(inner, solved.transpose(0, 2, 1)).transpose(0, 2, 1)
        self._inverse = self._inverse - factor @ factor.transpose(0, 2, 1)  # never in place: `solver` keeps it
        self._logdet += 2.0 * np.log(np.diagonal(inner, axis1=1, axis2=2)).sum(axis=1)
        return factor

    def refactor(self) -> None:
        """Recompute inverse and log-determinant from A = LLᵀ.

        If rounding errors have left A without a Cholesky factor, its eigenvalues are raised to λ, below which the exact
        ones never are. Guarantees are withdrawn long before (`lost_digits`).
        """
        try:
            lower = np.linalg.cholesky(self.matrix)
        except np.linalg.LinAlgError:
            eigenvalues, vectors = np.linalg.eigh(self.matrix)
            raised = np.maximum(eigenvalues, self.ridge)
            self._root = vectors / np.sqrt(raised)[:, None, :]
            self._logdet = np.log(raised / self.ridge).sum(axis=1)
        else:
            self._root = np.linalg.inv(lower).transpose(0, 2, 1)
            scaled = np.diagonal(lower, axis1=1, axis2=2) / np.sqrt(self.ridge)
            self._logdet = 2.0 * np.log(scaled).sum(axis=1)
        self._inverse = self._root @ self._root.transpose(0, 2, 1)


def _squared_row_norms(rows: FloatArray, factor: FloatArray) -> FloatArray:
    """Return ‖xᵀG‖² of rows x (P, d) under one map G of each replica (B, d, k): (B, P)."""
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


class DensePairs(DesignMatrix):
    r"""A_n with the widths of all pairs: an update is a downdate \(w^2 \leftarrow w^2 - \|\phi^\top G\|^2\).

    It costs O(P·d·k) instead of O(P·d²). Rounding errors accumulate, so that the widths are recomputed from a Cholesky
    factorisation at regular intervals. Widths are brought up to date when they are read: with rare switching most
    episodes do not need them, and k >= d visited pairs replace all earlier updates.

    Long features and many steps leave A_n with few digits of its small eigenvalues. Visits of pairs are therefore
    counted as well, and once rounding errors of A_n may matter, everything follows from a factorisation of the visited
    pairs (`_VisitFactor`), which is slower.

    Args:
        rows: Features of all pairs, shape (P, d).
        n_replicas: Number of replicas B.
        ridge: Regularisation λ.
        refresh_every: Number of updates between two recomputations.
        of_state: (S, d/A) Features of which each action has a copy, if pairs are such; None if not.

    Attributes:
        drift: Largest relative error of a squared width that a refresh has found so far.

    >>> pairs = DensePairs(np.eye(3), n_replicas=1)
    >>> pairs.update(np.array([[0, 0]]), np.ones((1, 2)))
    >>> pairs.width_sq.round(12)
    array([[0.33333333, 1.        , 1.        ]])
    """

    def __init__(
        self,
        rows: FloatArray,
        n_replicas: int,
        *,
        ridge: float = 1.0,
        refresh_every: int = _REFRESH,
        of_state: FloatArray | None = None,
    ) -> None:
        super().__init__(rows.shape[1], n_replicas, ridge=ridge)
        self.rows, self.refresh_every, self._of_state = rows, refresh_every, of_state
        self.visits = np.zeros((n_replicas, len(rows)))
        self._replica = np.arange(n_replicas)[:, None]
        norms_sq = np.einsum("pd,pd->p", rows, rows)
        self._sizes = np.stack([np.ones(len(rows)), norms_sq, np.sqrt(norms_sq)], axis=1)
        self._summed = 0.0  # as `_summation_error` returns it
        self._factor: _VisitFactor | None = None
        self._width_sq = np.tile(norms_sq / ridge, (n_replicas, 1))
        self._waiting: list[FloatArray | None] = []  # factors of downdates; None recomputes the widths
        self.drift = 0.0
        self._since_refresh = 0

    def _summation_error(self) -> float:
        """Return a bound on the relative rounding error of half-widths by sums in float64, of all replicas."""
        steps, sum_sq, sums = (self.visits @ self._sizes).T
        return float(summation_error(steps, sum_sq, sums, self.ridge, self.d + self.refresh_every).max())

    @property
    def is_factorised(self) -> bool:
        """Whether A_n is factorised from visits, because its sum may have lost digits."""
        return self._summed > ROUNDING

    @property
    def factor(self) -> _VisitFactor:
        """Factors of A_n from visits, computed when they are read."""
        if self._factor is None:
            self._factor = _VisitFactor(self.rows, self.visits, self.ridge)
            self._width_sq, self._waiting = self._factor.width_sq(), []
        return self._factor

    @property
    def rounding(self) -> float:
        """Bound on the relative error of half-widths by rounding, of all replicas."""
        return float(self.factor.error.max()) if self.is_factorised else self._summed

    @property
    def moment_error(self) -> FloatArray | None:
        return self.factor.moment_error if self.is_factorised else None

    @property
    def logdet(self) -> FloatArray:
        return self.factor.logdet() if self.is_factorised else self._logdet

    @property
    def inverse(self) -> FloatArray:
        """A_n⁻¹ (B, d, d); `solve` loses fewer digits."""
        return self.factor.inverse if self.is_factorised else self._inverse

    def solve(self, rhs: FloatArray) -> FloatArray:
        return self.factor.solve(rhs) if self.is_factorised else super().solve(rhs)

    def solver(self) -> Callable[[FloatArray], FloatArray]:
        """Return `solve` with A_n as it is now, whatever is learned later."""
        if self.is_factorised:
            return self.factor.solve
        inverse = self._inverse
        return lambda rhs: inverse @ rhs

    def inverse_norms_sq(self) -> FloatArray:
        return self.factor.inverse_norms_sq() if self.is_factorised else super().inverse_norms_sq()

    def block_logdet(self, blocks: list[IntArray]) -> FloatArray:
        if not self.is_factorised:
            return super().block_logdet(blocks)
        return np.stack([self.factor.logdet(block) for block in blocks], axis=1)

    @property
    def width_sq(self) -> FloatArray:
        """Squared widths φᵀA⁻¹φ (B, P) of all pairs."""
        if self.is_factorised:
            _ = self.factor  # computes them
            return self._width_sq
        for factor in self._waiting:
            change = self._norms_sq(self._root if factor is None else factor)
            self._width_sq = change if factor is None else self._width_sq - change
        self._waiting = []
        return self._width_sq

    def _norms_sq(self, factor: FloatArray) -> FloatArray:
        """Return ‖φᵀG‖² of all pairs under one map G of each replica (B, d, k): (B, P)."""
        if self._of_state is None:
            return _squared_row_norms(self.rows, factor)
        by_action = factor.reshape(-1, self._of_state.shape[1], factor.shape[2])
        return _squared_row_norms(self._of_state, by_action).reshape(len(factor), -1)

    def update(self, pairs: IntArray, weights: FloatArray) -> None:
        """Add visited pairs (B, k) with weights (B, k)."""
        np.add.at(self.visits, (self._replica, pairs), weights * weights)
        self._summed = self._summation_error()
        x = self.rows[pairs] * weights[:, :, None]
        if self.is_factorised:
            self.matrix += x.transpose(0, 2, 1) @ x
            self._factor, self._waiting, self._since_refresh = None, [], 0
            return
        factor = self.add(x)
        if factor is None:
            self._waiting = [None]
            return
        self._waiting.append(factor)
        self._since_refresh += 1
        if self._since_refresh >= self.refresh_every:
            self.refresh()

    def refresh(self) -> None:
        """Recompute the widths from A_n and record the error of the downdates."""
        downdated = self.width_sq
        self.refactor()
        exact = self._norms_sq(self._root)
        scale = np.maximum(exact, np.finfo(np.float64).tiny)
        self.drift = max(self.drift, float(np.max(np.abs(downdated - exact) / scale)))
        self._width_sq = exact
        self._since_refresh = 0

    def arrays(self) -> dict[str, FloatArray]:
        """Return A_n, visits, A_n⁻¹, ln det, squared widths, and the state of the refresh."""
        return {
            "design": self.matrix,
            "design_visits": self.visits,
            "design_inverse": self._inverse,
            "logdet": self._logdet,
            "width_sq": self.width_sq,
            "refresh": np.array([float(self._since_refresh), self.drift]),
        }

    def restore(self, arrays: dict[str, FloatArray]) -> None:
        """Take back what `arrays` returned."""
        self.matrix, self.visits = arrays["design"], arrays["design_visits"]
        self._inverse, self._logdet = arrays["design_inverse"], arrays["logdet"]
        self._summed, self._factor = self._summation_error(), None
        self._width_sq, self._waiting = arrays["width_sq"], []
        self._since_refresh, self.drift = int(arrays["refresh"][0]), float(arrays["refresh"][1])


class DiagonalPairs:
    """Widths of one-hot pairs: A_n is the diagonal matrix λ + visits, so that every width is 1/√(λ + visits).

    Args:
        n_pairs: Number of pairs P, which is also the number of features.
        n_replicas: Number of replicas B.
        ridge: Regularisation λ.

    >>> pairs = DiagonalPairs(n_pairs=2, n_replicas=1)
    >>> pairs.update(np.array([[1, 1, 1]]), np.ones((1, 3)))
    >>> pairs.width_sq
    array([[1.  , 0.25]])
    """

    rounding = 0.0
    moment_error = None

    def __init__(self, n_pairs: int, n_replicas: int, *, ridge: float = 1.0) -> None:
        self.ridge = ridge
        self.counts = np.zeros((n_replicas, n_pairs))
        self.width_sq = 1.0 / (ridge + self.counts)
        self._replica = np.arange(n_replicas)[:, None]

    @property
    def logdet(self) -> FloatArray:
        """Log-determinant ln det(A_n / λ) (B,)."""
        logdet: FloatArray = np.log1p(self.counts / self.ridge).sum(axis=1)
        return logdet

    def update(self, pairs: IntArray, weights: FloatArray) -> None:
        """Count visited pairs (B, k) with weights (B, k)."""
        np.add.at(self.counts, (self._replica, pairs), weights)
        self.width_sq = 1.0 / (self.ridge + self.counts)

    def solve(self, rhs: FloatArray) -> FloatArray:
        """Return A⁻¹ rhs: (B, d, m) → (B, d, m)."""
        return rhs * self.width_sq[:, :, None]

    def inverse_norms_sq(self) -> FloatArray:
        """Return ‖A⁻¹φ‖² of every pair, which is w⁴: (B, P)."""
        return self.width_sq * self.width_sq

    def block_logdet(self, blocks: list[IntArray]) -> FloatArray:
        """Return ln det of A_n/λ restricted to each block of features: (B, K)."""
        logs = np.log1p(self.counts / self.ridge)
        return np.stack([logs[:, block].sum(axis=1) for block in blocks], axis=1)

    def arrays(self) -> dict[str, FloatArray]:
        """Return the counts, from which everything else is computed."""
        return {"counts": self.counts}

    def restore(self, arrays: dict[str, FloatArray]) -> None:
        """Take back what `arrays` returned."""
        self.counts = arrays["counts"]
        self.width_sq = 1.0 / (self.ridge + self.counts)


LearningDesign = DensePairs | DiagonalPairs
"""A_n with the widths of all pairs, updated by visited pairs."""
PairDesign = DesignMatrix | DiagonalPairs
"""A_n with the widths of some pairs."""


class _VisitFactor:
    r"""Triangular factors R of \(A_n = R^\top R\) by a QR factorisation of the rows √λ I and √n φ.

    The condition number of these rows is the root of that of A_n. Rounding therefore changes A_n by a share of at most
    `error`, \(2 \max(P, d)\,\epsilon\,\sqrt{\operatorname{tr} A_n/\lambda}\), and not of ε·tr(A_n)/λ times the number
    of steps (docs/proofs.md, section 18). Widths and log-determinants are increased by that share.

    Attributes:
        upper: (B, d, d) R.
        error: (B,) Bound on the relative error of a width.
        moment_error: (B,) Bound on ‖A^(−1/2)δ‖ for the rounding errors δ of Σ φy, and of solving with them, ‖y‖ <= 1.
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

    def solve(self, rhs: FloatArray) -> FloatArray:
        return np.stack([_solve(r, _solve(r, one, transposed=True)) for r, one in zip(self.upper, rhs, strict=True)])

    @cached_property
    def inverse(self) -> FloatArray:
        return self.solve(np.broadcast_to(np.eye(self.upper.shape[1]), self.upper.shape))

    def width_sq(self) -> FloatArray:
        found = [np.square(_solve(r, self._rows.T, transposed=True)).sum(axis=0) for r in self.upper]
        return np.stack(found) * np.square(1.0 + self.error)[:, None]

    def inverse_norms_sq(self) -> FloatArray:
        found = [np.square(_solve(r, _solve(r, self._rows.T, transposed=True))).sum(axis=0) for r in self.upper]
        norms_sq: FloatArray = np.stack(found) * (1.0 + self.error[:, None]) ** 4
        return norms_sq

    def logdet(self, block: IntArray | None = None) -> FloatArray:
        """Return ln det(A_n / λ), of all features or of a block of them: (B,)."""
        upper = self.upper if block is None else np.linalg.qr(self.upper[:, :, block], mode="r")
        scaled = np.abs(np.diagonal(upper, axis1=1, axis2=2)) / np.sqrt(self._ridge)
        logs: FloatArray = 2.0 * np.log(scaled).sum(axis=1) + 2.0 * scaled.shape[1] * self.error
        return np.maximum(logs, 0.0)


def _triangular(rows: FloatArray, visits: FloatArray, ridge: float) -> FloatArray:
    """Return R of one replica: (d, d)."""
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


def widths(design: PairDesign) -> FloatArray:
    """Return the widths w (B, P) of the pairs of a design."""
    return np.sqrt(np.maximum(design.width_sq, 0.0))


def summation_error(steps: FloatArray, sum_sq: FloatArray, sums: FloatArray, ridge: float, d: int) -> FloatArray:
    r"""Return a bound on the relative rounding error of half-widths if A_n and moments are summed step by step: (B,).

    A sum of T terms in any order has an error of at most uT times the sum of their sizes, u = ε/2. The error of A_n
    counts in units of λ, its smallest possible eigenvalue, and that of a moment Σ φy in units of √λ, at ‖y‖ = 1.
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
