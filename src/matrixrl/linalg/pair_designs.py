"""Design matrices A_n together with the widths of state-action pairs, for dense features and for one-hot pairs."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from matrixrl.checks import integer
from matrixrl.linalg.design import DesignMatrix
from matrixrl.linalg.products import squared_row_norms
from matrixrl.records import FloatArray, IntArray

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

    def __init__(self, rows: FloatArray, n_replicas: int, *, ridge: float = 1.0, refresh_every: int = 256) -> None:
        self.rows = rows
        self.refresh_every = integer("refresh_every", refresh_every, low=1, remedy="Try 256.")
        self.design = DesignMatrix(rows.shape[1], n_replicas, ridge=ridge)
        norms = np.einsum("pd,pd->p", rows, rows) / ridge
        self._width_sq: FloatArray = np.tile(norms, (n_replicas, 1))
        self._waiting: list[
            tuple[bool, FloatArray]
        ] = []  # updates of the widths: whether it is a downdate, and its factor
        self._drift = 0.0
        self._since_refresh = 0

    @property
    def width_sq(self) -> FloatArray:
        """Squared widths φᵀA⁻¹φ, shape (B, P)."""
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
        """Return A_n, A_n⁻¹, ln det, squared widths, and the state of the refresh."""
        return {
            "design": self.design.matrix,
            "design_inverse": self.design.inverse,
            "logdet": self.design.logdet,
            "width_sq": self.width_sq,
            "refresh": np.array([float(self._since_refresh), self._drift]),
        }

    def restore(self, arrays: dict[str, FloatArray]) -> None:
        """Restore the arrays that `arrays` returned."""
        matrix = arrays["design"]
        fresh = DesignMatrix(self.design.d, len(matrix), ridge=self.design.ridge)
        fresh.matrix = matrix
        try:
            exact = squared_row_norms(self.rows, fresh.refactor())
        except np.linalg.LinAlgError as error:
            raise ValueError("the design matrix is not positive definite") from error
        fits = (
            np.allclose(matrix, matrix.transpose(0, 2, 1))
            and np.allclose(arrays["design_inverse"], fresh.inverse, rtol=1e-4, atol=1e-8 / self.design.ridge)
            and np.allclose(arrays["logdet"], fresh.logdet, rtol=1e-6, atol=1e-6)
            and np.allclose(arrays["width_sq"], exact, rtol=1e-4, atol=1e-8 / self.design.ridge)
        )
        if not fits:
            raise ValueError("the design matrix, its inverse and the widths do not match")
        since, drift = (float(number) for number in arrays["refresh"])
        if since != int(since) or not 0 <= since < self.refresh_every or drift < 0.0:
            raise ValueError("refresh must be a number of updates and a drift of at least 0")
        self.design.matrix = matrix
        self.design.inverse = arrays["design_inverse"]
        self.design.logdet = arrays["logdet"]
        self._width_sq, self._waiting = arrays["width_sq"], []
        self._since_refresh, self._drift = int(since), drift


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
