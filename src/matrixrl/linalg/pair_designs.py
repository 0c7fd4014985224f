"""Design matrices A_n together with the widths of state-action pairs, for dense features and for one-hot pairs."""

from __future__ import annotations

import numpy as np

from matrixrl.checks import integer
from matrixrl.linalg.design import DesignMatrix, squared_row_norms
from matrixrl.linalg.visit_factor import REFRESH, VisitFactor, summation_error
from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import ROUNDING

__all__ = ["DensePairs", "DiagonalPairs", "LearningDesign", "PairDesign", "QueriedPairs"]


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
        refresh_every: Number of updates between two recomputations.

    Attributes:
        drift: Largest relative error of a squared width that a refresh has found so far.

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
        self.drift = 0.0
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
        self.drift = max(self.drift, float(np.max(np.abs(self.width_sq - exact) / scale)))
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
            "refresh": np.array([float(self._since_refresh), self.drift]),
        }

    def restore(self, arrays: dict[str, FloatArray]) -> None:
        """Restore the arrays that `arrays` returned."""
        self.design.matrix, self.visits = arrays["design"], arrays["design_visits"]
        self.design.inverse, self.design.logdet = arrays["design_inverse"], arrays["logdet"]
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


LearningDesign = DensePairs | DiagonalPairs
"""A_n with the widths of all pairs, updated by visited pairs."""
PairDesign = LearningDesign | QueriedPairs
"""A_n with the widths of some pairs."""
