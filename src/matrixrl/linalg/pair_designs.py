"""A_n together with the width of every state-action pair: dense features, or one-hot pairs (counts)."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from matrixrl.checks import integer
from matrixrl.linalg.design import DesignMatrix
from matrixrl.linalg.products import squared_row_norms
from matrixrl.records import FloatArray, IntArray

__all__ = ["DensePairs", "DiagonalPairs", "LearningDesign", "PairDesign", "QueriedPairs"]


class PairDesign(Protocol):
    """What planning needs to know of A_n; B replicas, P pairs, d features."""

    width_sq: FloatArray
    """(B, P) squared widths φᵀA⁻¹φ."""

    @property
    def logdet(self) -> FloatArray:
        """(B,) ln det(A_n / λ)."""
        ...

    def solve(self, rhs: FloatArray) -> FloatArray:
        """Return A⁻¹ rhs, (B, d, m)."""
        ...

    def root_max_norms(self) -> FloatArray:
        """Return ‖A^{-1/2}φ‖_∞ of every pair, with the symmetric root: (B, P)."""
        ...

    def block_logdet(self, blocks: list[IntArray]) -> FloatArray:
        """Return ln det of A_n/λ restricted to each block of features: (B, K)."""
        ...


class LearningDesign(PairDesign, Protocol):
    """A_n with the widths of all pairs, kept up to date as pairs are visited."""

    @property
    def drift(self) -> float:
        """The largest relative error of a width that a refresh has found so far."""
        ...

    def update(self, pairs: IntArray, weights: FloatArray) -> None:
        """Add the pairs (B, k) that were visited; weights (B, k) are 1, or 0 for a step not taken."""
        ...

    def arrays(self) -> dict[str, FloatArray]:
        """Return everything that must be saved for a bitwise resume."""
        ...

    def restore(self, arrays: dict[str, FloatArray]) -> None:
        """Take back what `arrays` returned."""
        ...


class _DesignRows:
    """What follows from A_n and the features of some pairs, whichever pairs they are."""

    rows: FloatArray
    design: DesignMatrix
    width_sq: FloatArray

    @property
    def logdet(self) -> FloatArray:
        """(B,) ln det(A_n / λ)."""
        return self.design.logdet

    def solve(self, rhs: FloatArray) -> FloatArray:
        """Return A⁻¹ rhs, (B, d, m)."""
        return self.design.solve(rhs)

    def root_max_norms(self) -> FloatArray:
        """Return ‖A^{-1/2}φ‖_∞ of every pair, with the symmetric root: (B, P)."""
        eigenvalues, vectors = np.linalg.eigh(self.design.matrix)
        root = (vectors / np.sqrt(eigenvalues)[:, None, :]) @ vectors.transpose(0, 2, 1)
        return np.stack([np.abs(self.rows @ r).max(axis=1) for r in root])

    def block_logdet(self, blocks: list[IntArray]) -> FloatArray:
        """Return ln det of A_n/λ restricted to each block of features: (B, K)."""
        scaled = self.design.matrix / self.design.ridge
        parts = [np.linalg.slogdet(scaled[:, block[:, None], block])[1] for block in blocks]
        return np.stack(parts, axis=1)


class QueriedPairs(_DesignRows):
    """The widths of a few pairs under a given A_n, computed when asked: nothing is kept for the others.

    Args:
        rows: (P, d) the features of the pairs.
        design: A_n.
        root: (B, d, d) R with A_n⁻¹ = RRᵀ, as `DesignMatrix.refactor` returns it.

    >>> design = DesignMatrix(d=2, n_replicas=1)
    >>> QueriedPairs(np.array([[3.0, 4.0]]), design, design.refactor()).width_sq
    array([[25.]])
    """

    def __init__(self, rows: FloatArray, design: DesignMatrix, root: FloatArray) -> None:
        self.rows = rows
        self.design = design
        self.width_sq = squared_row_norms(rows, root)


class DensePairs(_DesignRows):
    """Widths of all pairs by incremental downdates, refreshed from A every so often (design 4.4).

    Args:
        rows: (P, d) the features of all pairs.
        n_replicas: B.
        ridge: λ.
        refresh_every: updates between two recomputations from a Cholesky factor; each records the `drift`.

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
        self.width_sq = np.tile(norms, (n_replicas, 1))
        self._drift = 0.0
        self._since_refresh = 0

    @property
    def drift(self) -> float:
        """The largest relative error of a width that a refresh has found so far."""
        return self._drift

    def update(self, pairs: IntArray, weights: FloatArray) -> None:
        """Add the visited pairs (B, k); O(P d k) instead of O(P d²) while k < d."""
        is_downdate, factor = self.design.update(self.rows[pairs] * weights[:, :, None])
        if not is_downdate:
            self.width_sq = squared_row_norms(self.rows, factor)
            return
        self.width_sq -= squared_row_norms(self.rows, factor)
        self._since_refresh += 1
        if self._since_refresh >= self.refresh_every:
            self.refresh()

    def refresh(self) -> None:
        """Recompute widths from A and record how far the downdates had drifted."""
        exact = squared_row_norms(self.rows, self.design.refactor())
        scale = np.maximum(exact, np.finfo(np.float64).tiny)
        self._drift = max(self._drift, float(np.max(np.abs(self.width_sq - exact) / scale)))
        self.width_sq = exact
        self._since_refresh = 0

    def arrays(self) -> dict[str, FloatArray]:
        """Return A, A⁻¹, ln det, widths, and the refresh bookkeeping."""
        return {
            "design": self.design.matrix,
            "design_inverse": self.design.inverse,
            "logdet": self.design.logdet,
            "width_sq": self.width_sq,
            "refresh": np.array([float(self._since_refresh), self._drift]),
        }

    def restore(self, arrays: dict[str, FloatArray]) -> None:
        """Take back what `arrays` returned."""
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
            raise ValueError("the design matrix, its inverse and the widths do not belong together")
        self.design.matrix = matrix
        self.design.inverse = arrays["design_inverse"]
        self.design.logdet = arrays["logdet"]
        self.width_sq = arrays["width_sq"]
        self._since_refresh = int(arrays["refresh"][0])
        self._drift = float(arrays["refresh"][1])


class DiagonalPairs:
    """One-hot pairs: A_n is diagonal, λ + visits, so widths are 1/√(λ + visits), exactly.

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
        """(B,) ln det(A_n / λ)."""
        logdet: FloatArray = np.log1p(self.counts / self.ridge).sum(axis=1)
        return logdet

    def update(self, pairs: IntArray, weights: FloatArray) -> None:
        """Count the visited pairs (B, k)."""
        np.add.at(self.counts, (self._replica, pairs), weights)
        self.width_sq = 1.0 / (self.ridge + self.counts)

    def solve(self, rhs: FloatArray) -> FloatArray:
        """Return A⁻¹ rhs, (B, d, m)."""
        return rhs * self.width_sq[:, :, None]

    def root_max_norms(self) -> FloatArray:
        """Return ‖A^{-1/2}φ‖_∞ of every pair: for one-hot pairs the width itself."""
        return np.sqrt(self.width_sq)

    def block_logdet(self, blocks: list[IntArray]) -> FloatArray:
        """Return ln det of A_n/λ restricted to each block of features: (B, K)."""
        logs = np.log1p(self.counts / self.ridge)
        return np.stack([logs[:, block].sum(axis=1) for block in blocks], axis=1)

    def arrays(self) -> dict[str, FloatArray]:
        """Return the counts: all else follows from them."""
        return {"counts": self.counts}

    def restore(self, arrays: dict[str, FloatArray]) -> None:
        """Take back what `arrays` returned."""
        if (arrays["counts"] < 0).any():
            raise ValueError("counts are negative")
        self.counts = arrays["counts"]
        self.width_sq = 1.0 / (self.ridge + self.counts)
