"""Feature maps ψ(s') of next states, and the constants of them that the proofs use (YW19, Assumptions 2 and 2')."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from matrixrl.checks import fail, integer, shaped
from matrixrl.display import Described
from matrixrl.linalg import GramInverse, Span, span_of, span_of_chunks
from matrixrl.records import FloatArray, IntArray

__all__ = ["OneHotPsi", "Psi", "PsiConstants", "SparsePsi", "TablePsi", "measure_psi"]


@dataclass(frozen=True)
class PsiConstants:
    """Hold the constants of Ψ, the S × d_psi matrix of the features of all states.

    Attributes:
        total: Sum u = Ψᵀ1 of the features of all states, shape (d_psi,).
        gram_inverse: K_ψ⁻¹ (or its pseudo-inverse), shape (d_psi, d_psi); None if K_ψ is the identity.
        dual_norm: C_ψ', the largest ‖K_ψ⁻¹ψ(s)‖₂ (Assumption 2).
        noise_scale: Radius of a ball that contains every K_ψ⁻¹ψ(s) (L in docs/proofs.md, section 3).
        c_psi: C_ψ of Assumption 2', ‖Ψᵀv‖₂ <= C_ψ‖v‖_∞.
        c_psi_is_exact: Whether `c_psi` is the smallest such constant; otherwise it is an upper bound on it.
        c_psi_max_norm: C_ψ of Assumption 2, ‖Ψᵀv‖_∞ <= C_ψ‖v‖_∞, exact.
        left_out: What the inverse of K_ψ, or the kernel that ψ was computed from, leaves out, in words; None if
            nothing.
    """

    total: FloatArray
    gram_inverse: FloatArray | None
    dual_norm: float
    noise_scale: float
    c_psi: float
    c_psi_is_exact: bool
    c_psi_max_norm: float
    left_out: str | None = None


def measure_psi(table: FloatArray, *, weights: FloatArray | None = None, pseudo: bool = False) -> PsiConstants:
    """Return the constants of features given as an array.

    Args:
        table: Features of all states, shape (S, d_psi).
        weights: Weight of each row in ΨᵀV and K_ψ, shape (S,), where the rows are a sample of all states; 1 if None.
        pseudo: Whether linearly dependent features are accepted, and K_ψ is inverted on its range.

    Raises:
        InvalidInput: K_ψ is singular and `pseudo` is False, or the features sum to zero over all states.

    >>> measure_psi(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])).total
    array([2., 3.])
    """
    weighted = table if weights is None else table * weights[:, None]

    def dual_norms(inverse: FloatArray) -> tuple[float, float]:
        dual = table @ inverse
        about_mean = np.linalg.norm(dual - dual.mean(axis=0), axis=1).max()
        return float(np.linalg.norm(dual, axis=1).max()), float(about_mean)

    return _constants(
        gram=weighted.T @ table,
        total=weighted.sum(axis=0),
        sums=np.abs(weighted).sum(axis=0),
        has_signs=bool(((weighted >= 0).all(axis=0) | (weighted <= 0).all(axis=0)).all()),
        count=float(len(table) if weights is None else weights.sum()),
        norm_sum=float(np.linalg.norm(weighted, axis=1).sum()),
        dual_norms=dual_norms,
        span=lambda: span_of(table),
        pseudo=pseudo,
    )


def _constants(
    *,
    gram: FloatArray,
    total: FloatArray,
    sums: FloatArray,
    has_signs: bool,
    count: float,
    norm_sum: float,
    dual_norms: Callable[[FloatArray], tuple[float, float]],
    span: Callable[[], Span],
    pseudo: bool,
) -> PsiConstants:
    """Return the constants of features from sums over all states.

    Args:
        gram: K_ψ, shape (d_psi, d_psi).
        total: Sum of the features, shape (d_psi,).
        sums: Sum of the absolute values of each feature, shape (d_psi,).
        has_signs: Whether each feature has one sign.
        count: Number of states, or the sum of their weights.
        norm_sum: Sum of ‖ψ(s)‖₂.
        dual_norms: Function of K_ψ⁻¹ that returns the largest ‖K_ψ⁻¹ψ(s)‖₂, and the largest distance from their mean.
        span: Function that returns the span of the rows of Ψ; called only if directions were left out.
        pseudo: Whether linearly dependent features are accepted.
    """
    inverted = GramInverse(gram, pseudo=pseudo)
    if np.linalg.norm(total) <= 1e-9 * float(np.sqrt(np.trace(gram))):
        rule = "must not sum to zero over all states (no model could give probabilities that sum to one)"
        received = f"a total of norm {np.linalg.norm(total):.2g}"
        fail("psi", rule, received, "Add a constant column, or do not centre the features.")
    dual_norm, about_mean = dual_norms(inverted.matrix)
    # The maximum of the convex ‖Ψᵀv‖₂ over the cube ‖v‖_∞ <= 1 is at a vertex. If each feature has one sign, the
    # vertex v = 1 is the best one and the bound is exact. Otherwise the smallest of three simple bounds is taken.
    bounds = [float(np.linalg.norm(sums))]
    if not has_signs:
        bounds += [float(np.sqrt(count * np.linalg.eigvalsh(gram)[-1])), norm_sum]
    # Eigenvalues of K_ψ cannot tell linearly dependent features from nearly dependent ones; singular values of Ψ can.
    dropped = 0 if inverted.rank == len(gram) else span().rank - inverted.rank
    left_out = (
        f"psi is nearly dependent: {dropped} of its {inverted.rank + dropped} directions are too small to invert K_psi "
        "in them and were left out, and P may need them. Orthogonalise psi, such as numpy.linalg.qr(psi)[0]"
    )
    return PsiConstants(
        total=total,
        gram_inverse=inverted.matrix,
        dual_norm=dual_norm,
        noise_scale=min(dual_norm, about_mean),
        c_psi=min(bounds),
        c_psi_is_exact=has_signs,
        c_psi_max_norm=float(sums.max()),
        left_out=left_out if dropped > 0 else None,
    )


class Psi(Described, ABC):
    """Base class of feature maps of next states.

    Ψ is the S × d_psi matrix with rows ψ(s), and K_ψ = ΨᵀΨ. A subclass sets `n_states` and `d_psi`, and implements
    `rows`. All other methods have defaults that form Ψ once; override them where the features have more structure.

    Attributes:
        n_states: Number of states S.
        d_psi: Number of features.
        pseudo: Whether linearly dependent features are accepted, and K_ψ is inverted on its range.

    >>> class Halves(Psi):
    ...     n_states, d_psi = 6, 2
    ...
    ...     def rows(self, states):
    ...         return np.stack([states < 3, states >= 3], axis=-1).astype(float)
    >>> Halves().total, Halves().project(np.ones((1, 6)))
    (array([3., 3.]), array([[3., 3.]]))
    """

    n_states: int
    d_psi: int
    pseudo: bool = False

    @abstractmethod
    def rows(self, states: IntArray) -> FloatArray:
        """Return the features of some states: indices of any shape → the same shape with d_psi at the end."""

    def _words(self) -> str:
        return f"{type(self).__name__}: {self.n_states:,} states, d' {self.d_psi:,}"

    @cached_property
    def _dense(self) -> FloatArray:
        remedy = "Return one row of d_psi numbers for each state."
        return shaped("psi.rows", self.rows(np.arange(self.n_states)), (self.n_states, self.d_psi), remedy=remedy)

    @property
    def table(self) -> FloatArray:
        """Features of all states, shape (S, d_psi)."""
        return self._dense

    @cached_property
    def constants(self) -> PsiConstants:
        """Constants of Assumptions 2 and 2'."""
        return measure_psi(self.table, pseudo=self.pseudo)

    @property
    def total(self) -> FloatArray:
        """Sum u = Ψᵀ1 of the features of all states, shape (d_psi,); φᵀM*u = 1 for every pair."""
        return self.constants.total

    @property
    def left_out(self) -> str | None:
        """Part of the given features that these features leave out, in words; None if they leave out nothing.

        Nothing is proven if P may need it.
        """
        return self.constants.left_out

    @cached_property
    def error_scale(self) -> float:
        """Largest ‖ψ(s)‖ times the norm of K_ψ⁻¹: what an error of size 1 in each Σ φψᵀ/‖ψ‖ does to M_n."""
        inverse = self.constants.gram_inverse
        longest = float(np.sqrt(self.norms_sq().max()))
        return longest if inverse is None else longest * float(np.linalg.norm(inverse, 2))

    def project(self, values: FloatArray) -> FloatArray:
        """Return v = ΨᵀV: (B, S) → (B, d_psi)."""
        return values @ self.table

    def solve_gram(self, moments: FloatArray) -> FloatArray:
        """Return X K_ψ⁻¹ for X of shape (…, d_psi)."""
        inverse = self.constants.gram_inverse
        return moments if inverse is None else moments @ inverse

    def norms_sq(self) -> FloatArray:
        """Return ‖ψ(s)‖² of all states, shape (S,)."""
        norms: FloatArray = np.vecdot(self.table, self.table)
        return norms

    def accumulate(self, cross_moment: FloatArray, rows: FloatArray, next_states: IntArray) -> None:
        """Add Σ φψᵀ in place.

        Args:
            cross_moment: Sum to add to, shape (B, d, d_psi).
            rows: Features φ of the visited pairs, shape (B, k, d).
            next_states: Their next states, shape (B, k).
        """
        cross_moment += rows.transpose(0, 2, 1) @ self.rows(next_states)

    def accumulate_at(
        self,
        cross_moment: FloatArray,
        features: IntArray,
        next_states: IntArray,
        weights: FloatArray,
    ) -> None:
        """Add Σ φψᵀ in place where every φ is one-hot.

        Args:
            cross_moment: Sum to add to, shape (B, d, d_psi).
            features: Position of the one in φ of each visited pair, shape (B, k).
            next_states: Their next states, shape (B, k).
            weights: Factor of each step, shape (B, k).
        """
        replica = np.arange(len(cross_moment))[:, None]
        np.add.at(cross_moment, (replica, features), self.rows(next_states) * weights[:, :, None])


class OneHotPsi(Psi):
    """Feature map with one feature for each next state: Ψ = I, K_ψ = I, C_ψ' = 1.

    Args:
        n_states: Number of states S.

    >>> OneHotPsi(3).project(np.array([[1.0, 2.0, 3.0]]))
    array([[1., 2., 3.]])
    """

    def __init__(self, n_states: int) -> None:
        self.n_states = integer("n_states", n_states, low=1, remedy="Give the number of states.")
        self.d_psi = self.n_states

    @cached_property
    def constants(self) -> PsiConstants:
        """Constants of Assumptions 2 and 2'."""
        return PsiConstants(
            total=np.ones(self.n_states),
            gram_inverse=None,
            dual_norm=1.0,
            noise_scale=float(np.sqrt(1.0 - 1.0 / self.n_states)),
            c_psi=float(np.sqrt(self.n_states)),
            c_psi_is_exact=True,
            c_psi_max_norm=1.0,
        )

    @property
    def table(self) -> FloatArray:
        """Features of all states, shape (S, S): the identity matrix, formed when it is read."""
        return np.eye(self.n_states)

    def rows(self, states: IntArray) -> FloatArray:
        """Return the features of some states: indices of any shape → the same shape with d_psi at the end."""
        chosen: FloatArray = (np.asarray(states)[..., None] == np.arange(self.d_psi)).astype(np.float64)
        return chosen

    def project(self, values: FloatArray) -> FloatArray:
        """Return v = ΨᵀV = V."""
        return values

    def norms_sq(self) -> FloatArray:
        """Return ‖ψ(s)‖² = 1 of all states, shape (S,)."""
        return np.ones(self.n_states)

    def accumulate(self, cross_moment: FloatArray, rows: FloatArray, next_states: IntArray) -> None:
        """Add Σ φψᵀ in place; shapes as in `Psi.accumulate`."""
        replica = np.arange(len(cross_moment))[:, None]
        np.add.at(cross_moment.swapaxes(1, 2), (replica, next_states), rows)

    def accumulate_at(
        self,
        cross_moment: FloatArray,
        features: IntArray,
        next_states: IntArray,
        weights: FloatArray,
    ) -> None:
        """Count observed next states in place; shapes as in `Psi.accumulate_at`."""
        replica = np.arange(len(cross_moment))[:, None]
        np.add.at(cross_moment, (replica, features, next_states), weights)


class TablePsi(Psi):
    """Feature map that stores the features of all states.

    Args:
        table: Features ψ(s), shape (S, d_psi).
        pseudo: Whether linearly dependent features are accepted, and K_ψ is inverted on its range.
        weights: Weight of each row in ΨᵀV and K_ψ, shape (S,), where the rows are a sample of all states; 1 if None.
        left_out: What the table leaves out of the kernel that it was computed from, in words; None if nothing.

    Attributes:
        weighted: (S, d_psi) Features of all states times their weights.

    Raises:
        InvalidInput: K_ψ is singular and `pseudo` is False, or the features sum to zero over all states.

    >>> psi = TablePsi([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> psi.total
    array([2., 3.])
    """

    def __init__(
        self,
        table: object,
        *,
        pseudo: bool = False,
        weights: FloatArray | None = None,
        left_out: str | None = None,
    ) -> None:
        array = shaped("psi", table, (None, None), remedy="Give one vector of numbers for each state.")
        self.n_states, self.d_psi = array.shape
        self._dense = array
        self.weighted = array if weights is None else array * weights[:, None]
        self.pseudo = pseudo
        measured = measure_psi(array, weights=weights, pseudo=pseudo)
        self.constants = measured if left_out is None else replace(measured, left_out=left_out)

    def project(self, values: FloatArray) -> FloatArray:
        """Return v = ΨᵀV: (B, S) → (B, d_psi)."""
        return values @ self.weighted

    def rows(self, states: IntArray) -> FloatArray:
        """Return the features of some states: indices of any shape → the same shape with d_psi at the end."""
        return self._dense[states]


_CHUNK = 1 << 16  # number of states whose dense rows are formed together


class SparsePsi(Psi):
    """Feature map that stores the features of all states in a sparse matrix.

    Args:
        matrix: Features ψ(s), shape (S, d_psi), in any scipy.sparse format.
        pseudo: Whether linearly dependent features are accepted, and K_ψ is inverted on its range.

    Raises:
        InvalidInput: K_ψ is singular and `pseudo` is False, or the features sum to zero over all states.

    >>> psi = SparsePsi(sparse.csr_array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]))
    >>> psi.total, psi.project(np.array([[1.0, 0.0, 1.0]]))
    (array([2., 3.]), array([[1., 2.]]))
    """

    def __init__(self, matrix: sparse.sparray | sparse.spmatrix, *, pseudo: bool = False) -> None:
        if np.iscomplexobj(matrix):
            fail("psi", "must be real numbers", "complex ones", "Give real features.")
        csr = sparse.csr_array(matrix, dtype=np.float64)
        if csr.ndim != 2 or 0 in csr.shape:
            fail("psi", "must be a matrix with rows and columns", f"shape {csr.shape}", "Give one row for each state.")
        if not np.isfinite(csr.data).all():
            fail("psi", "must be finite", "NaN or infinity", "Remove or replace those entries.")
        self.n_states, self.d_psi = csr.shape
        self.matrix = csr
        self._transposed = csr.T.tocsr()
        self.pseudo = pseudo
        self.constants = self._measure()

    def _measure(self) -> PsiConstants:
        total, sums = (np.asarray(matrix.sum(axis=0)).ravel() for matrix in (self.matrix, abs(self.matrix)))
        firsts = range(0, self.n_states, _CHUNK)
        return _constants(
            gram=(self._transposed @ self.matrix).toarray(),
            total=total,
            sums=sums,
            has_signs=bool((np.abs(total) >= sums * (1 - 1e-12)).all()),
            count=float(self.n_states),
            norm_sum=float(np.sqrt(self.norms_sq()).sum()),
            dual_norms=lambda inverse: self._dual_norms(inverse, total),
            span=lambda: span_of_chunks(self.matrix[first : first + _CHUNK].toarray() for first in firsts),
            pseudo=self.pseudo,
        )

    def _dual_norms(self, inverse: FloatArray, total: FloatArray) -> tuple[float, float]:
        """Return the largest norm of K_ψ⁻¹ψ(s), and the largest distance from the mean of all states."""
        centre = inverse @ total / self.n_states
        longest = about_mean = 0.0
        for first in range(0, self.n_states, _CHUNK):
            dual = self.matrix[first : first + _CHUNK] @ inverse
            longest = max(longest, float(np.linalg.norm(dual, axis=1).max()))
            about_mean = max(about_mean, float(np.linalg.norm(dual - centre, axis=1).max()))
        return longest, about_mean

    @property
    def table(self) -> FloatArray:
        """Features of all states, shape (S, d_psi), as a new dense array."""
        dense: FloatArray = self.matrix.toarray()
        return dense

    def rows(self, states: IntArray) -> FloatArray:
        """Return the features of some states: indices of any shape → the same shape with d_psi at the end."""
        index = np.asarray(states)
        dense: FloatArray = self.matrix[index.ravel()].toarray()
        return dense.reshape(*index.shape, self.d_psi)

    def norms_sq(self) -> FloatArray:
        """Return ‖ψ(s)‖² of all states, shape (S,)."""
        return np.asarray(self.matrix.multiply(self.matrix).sum(axis=1)).ravel()

    def project(self, values: FloatArray) -> FloatArray:
        """Return v = ΨᵀV: (B, S) → (B, d_psi)."""
        return np.ascontiguousarray((self._transposed @ values.T).T)
