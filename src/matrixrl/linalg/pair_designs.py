"""Design matrices A_n together with the widths of state-action pairs, for dense features and for one-hot pairs."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from matrixrl.checks import integer
from matrixrl.linalg.design import DesignMatrix
from matrixrl.linalg.products import squared_row_norms
from matrixrl.linalg.visit_factor import REFRESH, VisitFactor, summation_error
from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import ROUNDING

__all__ = ["DensePairs", "DiagonalPairs", "LearningDesign", "PairDesign", "QueriedPairs"]


class PairDesign(Protocol):
    """Interface of A_n that planning uses; B replicas, P pairs, d features, K blocks."""

    @property
    def width_sq(self) -> FloatArray:
        """Squared widths φᵀA⁻¹φ, shape (B, P)."""
        ...

    @property
    def logdet(self) -> FloatArray:
        """Log-determinant ln det(A_n / λ), shape (B,)."""
        ...

    @property
    def moment_error(self) -> FloatArray | None:
        """What rounding errors of Σ φy with ‖y‖ <= 1 add to the radius at most, shape (B,); None if negligible."""
        ...

    def solve(self, rhs: FloatArray) -> FloatArray:
        """Return A⁻¹ rhs: (B, d, m) → (B, d, m)."""
        ...

    def root_max_norms(self) -> FloatArray:
        """Return ‖A^{-1/2}φ‖_∞ of every pair, with the symmetric root, shape (B, P)."""
        ...

    def inverse_norms_sq(self) -> FloatArray:
        """Return ‖A⁻¹φ‖² of every pair, shape (B, P)."""
        ...

    def block_logdet(self, blocks: list[IntArray]) -> FloatArray:
        """Return ln det of A_n/λ restricted to each block of features, shape (B, K)."""
        ...


class LearningDesign(PairDesign, Protocol):
    """Interface of A_n with the widths of all pairs, updated by visited pairs."""

    @property
    def drift(self) -> float:
        """Largest relative error of a squared width that a refresh has found so far."""
        ...

    @property
    def rounding(self) -> float:
        """Bound on the relative error of half-widths by rounding, of all replicas."""
        ...

    def update(self, pairs: IntArray, weights: FloatArray) -> None:
        """Add visited pairs (B, k) with weights (B, k): 1, or 0 for a step that was not taken."""
        ...

    def arrays(self) -> dict[str, FloatArray]:
        """Return all arrays that a bitwise resume needs."""
        ...

    def restore(self, arrays: dict[str, FloatArray]) -> None:
        """Restore the arrays that `arrays` returned."""
        ...


class _DesignRows:
    """Results that follow from A_n and the features of some pairs."""

    rows: FloatArray
    design: DesignMatrix

    @property
    def logdet(self) -> FloatArray:
        """Log-determinant ln det(A_n / λ), shape (B,)."""
        return self.design.logdet

    def solve(self, rhs: FloatArray) -> FloatArray:
        """Return A⁻¹ rhs: (B, d, m) → (B, d, m)."""
        return self.design.solve(rhs)

    def root_max_norms(self) -> FloatArray:
        """Return ‖A^{-1/2}φ‖_∞ of every pair, with the symmetric root, shape (B, P)."""
        eigenvalues, vectors = np.linalg.eigh(self.design.matrix)
        ridge = self.design.ridge  # below which an eigenvalue is only by rounding
        eigenvalues = np.where(eigenvalues > 0.5 * ridge, eigenvalues, ridge)
        root = (vectors / np.sqrt(eigenvalues)[:, None, :]) @ vectors.transpose(0, 2, 1)
        return np.stack([np.abs(self.rows @ r).max(axis=1) for r in root])

    def inverse_norms_sq(self) -> FloatArray:
        """Return ‖A⁻¹φ‖² of every pair, shape (B, P)."""
        return squared_row_norms(self.rows, self.design.inverse)

    def block_logdet(self, blocks: list[IntArray]) -> FloatArray:
        """Return ln det of A_n/λ restricted to each block of features, shape (B, K)."""
        scaled = self.design.matrix / self.design.ridge
        parts = [np.linalg.slogdet(scaled[:, block[:, None], block])[1] for block in blocks]
        return np.stack(parts, axis=1)


class QueriedPairs(_DesignRows):
    """Widths of a few pairs under a given A_n.

    Args:
        rows: Features of the pairs, shape (P, d).
        design: Design matrix A_n.
        root: R with A_n⁻¹ = RRᵀ, as `DesignMatrix.refactor` returns it, shape (B, d, d).

    >>> design = DesignMatrix(d=2, n_replicas=1)
    >>> QueriedPairs(np.array([[3.0, 4.0]]), design, design.refactor()).width_sq
    array([[25.]])
    """

    moment_error = None

    def __init__(self, rows: FloatArray, design: DesignMatrix, root: FloatArray) -> None:
        self.rows = rows
        self.design = design
        self.width_sq = squared_row_norms(rows, root)


class DensePairs(_DesignRows):
    """Widths of all pairs, updated incrementally.

    An update by k visited pairs is a downdate of the squared widths by the Woodbury identity (see `DesignMatrix`), at a
    cost of O(P·d·k) instead of O(P·d²). Rounding errors accumulate, so that the widths are recomputed from a Cholesky
    factorisation at regular intervals. Widths are brought up to date when they are read: with rare switching most
    episodes do not need them, and k >= d visited pairs replace all earlier updates.

    Long features and many steps leave A_n with few digits of its small eigenvalues. Visits of pairs are therefore
    counted as well, and once rounding errors of A_n may matter, everything follows from a factorisation of the visited
    pairs (`VisitFactor`), which is slower.

    Args:
        rows: Features of all pairs, shape (P, d).
        n_replicas: Number of replicas B.
        ridge: Regularisation λ.
        refresh_every: Number of updates between two recomputations; each one records the `drift`.

    >>> pairs = DensePairs(np.eye(3), n_replicas=1)
    >>> pairs.update(np.array([[0, 0]]), np.ones((1, 2)))
    >>> pairs.width_sq.round(12)
    array([[0.33333333, 1.        , 1.        ]])
    """

    def __init__(self, rows: FloatArray, n_replicas: int, *, ridge: float = 1.0, refresh_every: int = REFRESH) -> None:
        self.rows = rows
        self.refresh_every = integer("refresh_every", refresh_every, low=1, remedy="Try 256.")
        self.design = DesignMatrix(rows.shape[1], n_replicas, ridge=ridge)
        self.visits = np.zeros((n_replicas, len(rows)))
        self._replica = np.arange(n_replicas)[:, None]
        norms_sq = np.einsum("pd,pd->p", rows, rows)
        self._sizes = np.stack([np.ones(len(rows)), norms_sq, np.sqrt(norms_sq)], axis=1)
        self._summed = 0.0  # as `_summation_error` returns it
        self._factor: VisitFactor | None = None
        self._width_sq: FloatArray = np.tile(norms_sq / ridge, (n_replicas, 1))
        self._waiting: list[
            tuple[bool, FloatArray]
        ] = []  # updates of the widths: whether it is a downdate, and its factor
        self._drift = 0.0
        self._since_refresh = 0

    def _summation_error(self) -> float:
        """Return a bound on the relative rounding error of half-widths by sums in float64, of all replicas."""
        steps, sum_sq, sums = (self.visits @ self._sizes).T
        return float(summation_error(steps, sum_sq, sums, self.design.ridge, self.design.d + self.refresh_every).max())

    @property
    def is_factorised(self) -> bool:
        """Whether A_n is factorised from visits, because its sum may have lost digits."""
        return self._summed > ROUNDING

    @property
    def factor(self) -> VisitFactor:
        """Factors of A_n from visits, computed when they are read."""
        if self._factor is None:
            self._factor = VisitFactor(self.rows, self.visits, self.design.ridge)
            self._width_sq, self._waiting = self._factor.width_sq(), []
        return self._factor

    @property
    def rounding(self) -> float:
        """Bound on the relative error of half-widths by rounding, of all replicas."""
        return float(self.factor.error.max()) if self.is_factorised else self._summed

    @property
    def moment_error(self) -> FloatArray | None:
        """What rounding errors of Σ φy with ‖y‖ <= 1 add to the radius at most, shape (B,); None if negligible."""
        return self.factor.moment_error if self.is_factorised else None

    @property
    def logdet(self) -> FloatArray:
        """Log-determinant ln det(A_n / λ), shape (B,)."""
        return self.factor.logdet() if self.is_factorised else self.design.logdet

    @property
    def inverse(self) -> FloatArray:
        """A_n⁻¹, shape (B, d, d); `solve` loses fewer digits."""
        return self.factor.inverse if self.is_factorised else self.design.inverse

    def solve(self, rhs: FloatArray) -> FloatArray:
        """Return A⁻¹ rhs: (B, d, m) → (B, d, m)."""
        return self.factor.solve(rhs) if self.is_factorised else super().solve(rhs)

    def root_max_norms(self) -> FloatArray:
        """Return ‖A^{-1/2}φ‖_∞ of every pair, with the symmetric root, shape (B, P)."""
        return self.factor.root_max_norms() if self.is_factorised else super().root_max_norms()

    def inverse_norms_sq(self) -> FloatArray:
        """Return ‖A⁻¹φ‖² of every pair, shape (B, P)."""
        return self.factor.inverse_norms_sq() if self.is_factorised else super().inverse_norms_sq()

    def block_logdet(self, blocks: list[IntArray]) -> FloatArray:
        """Return ln det of A_n/λ restricted to each block of features, shape (B, K)."""
        if not self.is_factorised:
            return super().block_logdet(blocks)
        return np.stack([self.factor.logdet(block) for block in blocks], axis=1)

    @property
    def width_sq(self) -> FloatArray:
        """Squared widths φᵀA⁻¹φ, shape (B, P)."""
        if self.is_factorised:
            _ = self.factor  # computes them
            return self._width_sq
        for is_downdate, factor in self._waiting:
            change = squared_row_norms(self.rows, factor)
            self._width_sq = self._width_sq - change if is_downdate else change
        self._waiting = []
        return self._width_sq

    @property
    def drift(self) -> float:
        """Largest relative error of a squared width that a refresh has found so far."""
        return self._drift

    def update(self, pairs: IntArray, weights: FloatArray) -> None:
        """Add visited pairs (B, k) with weights (B, k)."""
        np.add.at(self.visits, (self._replica, pairs), weights * weights)
        self._summed = self._summation_error()
        if self.is_factorised:
            x = self.rows[pairs] * weights[:, :, None]
            self.design.matrix += x.transpose(0, 2, 1) @ x
            self._factor, self._waiting, self._since_refresh = None, [], 0
            return
        is_downdate, factor = self.design.update(self.rows[pairs] * weights[:, :, None])
        if not is_downdate:
            self._waiting = [(False, factor)]
            return
        self._waiting.append((True, factor))
        self._since_refresh += 1
        if self._since_refresh >= self.refresh_every:
            self.refresh()

    def refresh(self) -> None:
        """Recompute the widths from A_n and record the error of the downdates."""
        exact = squared_row_norms(self.rows, self.design.refactor())
        scale = np.maximum(exact, np.finfo(np.float64).tiny)
        self._drift = max(self._drift, float(np.max(np.abs(self.width_sq - exact) / scale)))
        self._width_sq = exact
        self._since_refresh = 0

    def arrays(self) -> dict[str, FloatArray]:
        """Return A_n, visits, A_n⁻¹, ln det, squared widths, and the state of the refresh."""
        return {
            "design": self.design.matrix,
            "design_visits": self.visits,
            "design_inverse": self.design.inverse,
            "logdet": self.design.logdet,
            "width_sq": self.width_sq,
            "refresh": np.array([float(self._since_refresh), self._drift]),
        }

    def restore(self, arrays: dict[str, FloatArray]) -> None:
        """Restore the arrays that `arrays` returned."""
        matrix, visits = arrays["design"], arrays["design_visits"]
        exact = self._checked(matrix, visits)
        fits = np.allclose(arrays["width_sq"], exact.width_sq, rtol=1e-4, atol=1e-8 / self.design.ridge)
        if fits and not exact.is_factorised:  # else neither is used
            fits = np.allclose(
                arrays["design_inverse"], exact.design.inverse, rtol=1e-4, atol=1e-8 / self.design.ridge
            ) and np.allclose(arrays["logdet"], exact.design.logdet, rtol=1e-6, atol=1e-6)
        if not fits:
            raise ValueError("the design matrix, its inverse and the widths do not match")
        since, drift = (float(number) for number in arrays["refresh"])
        if since != int(since) or not 0 <= since < self.refresh_every or drift < 0.0:
            raise ValueError("refresh must be a number of updates and a drift of at least 0")
        self.design.matrix = matrix
        self.design.inverse = arrays["design_inverse"]
        self.design.logdet = arrays["logdet"]
        self.visits, self._summed, self._factor = visits, exact._summed, None
        self._width_sq, self._waiting = arrays["width_sq"], []
        self._since_refresh, self._drift = int(since), drift

    def _checked(self, matrix: FloatArray, visits: FloatArray) -> DensePairs:
        """Return the design of a matrix and visits, or raise if they do not belong together."""
        fresh = DensePairs(self.rows, len(matrix), ridge=self.design.ridge, refresh_every=self.refresh_every)
        fresh.design.matrix, fresh.visits = matrix, visits
        if (visits < 0.0).any():
            raise ValueError("visits are negative")
        sizes = self.design.ridge + visits @ self._sizes[:, 1]
        for own, counts, size in zip(matrix, visits, sizes, strict=True):
            seen = np.flatnonzero(counts)
            rows = self.rows[seen] * np.sqrt(counts[seen])[:, None]
            if not np.abs(own - self.design.ridge * np.eye(self.design.d) - rows.T @ rows).max() <= 1e-6 * size:
                raise ValueError("the design matrix is not that of the visits")
        fresh._summed = fresh._summation_error()
        if not fresh.is_factorised:
            fresh._width_sq = squared_row_norms(self.rows, fresh.design.refactor())
        return fresh


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

    drift = 0.0
    rounding = 0.0
    moment_error = None

    def __init__(self, n_pairs: int, n_replicas: int, *, ridge: float = 1.0) -> None:
        self.ridge = ridge
        self.counts = np.zeros((n_replicas, n_pairs))
        self.width_sq = 1.0 / (ridge + self.counts)
        self._replica = np.arange(n_replicas)[:, None]

    @property
    def logdet(self) -> FloatArray:
        """Log-determinant ln det(A_n / λ), shape (B,)."""
        logdet: FloatArray = np.log1p(self.counts / self.ridge).sum(axis=1)
        return logdet

    def update(self, pairs: IntArray, weights: FloatArray) -> None:
        """Count visited pairs (B, k) with weights (B, k)."""
        np.add.at(self.counts, (self._replica, pairs), weights)
        self.width_sq = 1.0 / (self.ridge + self.counts)

    def solve(self, rhs: FloatArray) -> FloatArray:
        """Return A⁻¹ rhs: (B, d, m) → (B, d, m)."""
        return rhs * self.width_sq[:, :, None]

    def root_max_norms(self) -> FloatArray:
        """Return ‖A^{-1/2}φ‖_∞ of every pair, which is its width, shape (B, P)."""
        return np.sqrt(self.width_sq)

    def inverse_norms_sq(self) -> FloatArray:
        """Return ‖A⁻¹φ‖² of every pair, which is w⁴, shape (B, P)."""
        return self.width_sq * self.width_sq

    def block_logdet(self, blocks: list[IntArray]) -> FloatArray:
        """Return ln det of A_n/λ restricted to each block of features, shape (B, K)."""
        logs = np.log1p(self.counts / self.ridge)
        return np.stack([logs[:, block].sum(axis=1) for block in blocks], axis=1)

    def arrays(self) -> dict[str, FloatArray]:
        """Return the counts, from which everything else is computed."""
        return {"counts": self.counts}

    def restore(self, arrays: dict[str, FloatArray]) -> None:
        """Restore the arrays that `arrays` returned."""
        if (arrays["counts"] < 0).any():
            raise ValueError("counts are negative")
        self.counts = arrays["counts"]
        self.width_sq = 1.0 / (self.ridge + self.counts)
