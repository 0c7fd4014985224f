"""Feature maps ψ(s') of next states, and the constants of them that the proofs use (YW19, Assumptions 2 and 2')."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from matrixrl.checks import fail, integer, shaped
from matrixrl.display import Described
from matrixrl.errors import InvalidInput
from matrixrl.linalg import span_of_chunks
from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import GRAM_RANK

__all__ = ["LatentPsi", "OneHotPsi", "Psi", "PsiConstants", "SparsePsi", "TablePsi", "latent_psi", "weighted_psi"]

_CHUNK = 1 << 16  # number of states whose dense rows are formed together
_NUMBERS = 1 << 22  # numbers of features that are formed together


@dataclass(frozen=True)
class PsiConstants:
    """Hold the constants of Ψ, the S × d_psi matrix of the features of all states.

    Attributes:
        total: Sum u = Ψᵀ1 of the features of all states, shape (d_psi,).
        gram_inverse: K_ψ⁻¹ (or its pseudo-inverse), shape (d_psi, d_psi); None if K_ψ is the identity.
        dual_norm: C_ψ', the largest ‖K_ψ⁻¹ψ(s)‖₂ (Assumption 2).
        noise_scale: Radius of a ball that contains every K_ψ⁻¹ψ(s) (L in docs/proofs.md, section 3).
        c_psi: C_ψ of Assumption 2', ‖Ψᵀv‖₂ <= C_ψ‖v‖_∞.
        c_psi_is_exact: Whether `c_psi` is the smallest such constant, up to rounding; otherwise it is an upper bound.
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


def _measure(matrix: Any, *, weights: FloatArray | None = None, pseudo: bool = False) -> PsiConstants:
    """Return the constants of Ψ, an array or a sparse matrix (S, d_psi) whose rows have weights (S,) in ΨᵀV and K_ψ."""
    weighted = matrix if weights is None else matrix * weights[:, None]
    gram, is_sparse = weighted.T @ matrix, sparse.issparse(matrix)
    gram = gram.toarray() if is_sparse else gram
    total, sums = (np.asarray(part.sum(axis=0)).ravel() for part in (weighted, abs(weighted)))
    inverse, rank = _inverted(gram, pseudo=pseudo)
    if np.linalg.norm(total) <= 1e-9 * float(np.sqrt(np.trace(gram))):
        rule = "must not sum to zero over all states (no model could give probabilities that sum to one)"
        received = f"a total of norm {np.linalg.norm(total):.2g}"
        fail("psi", rule, received, "Add a constant column, or do not centre the features.")

    def chunks() -> Iterator[FloatArray]:
        for first in range(0, matrix.shape[0], _CHUNK):
            rows = matrix[first : first + _CHUNK]
            yield rows.toarray() if is_sparse else rows

    dual_norm = about_mean = 0.0  # of K_ψ⁻¹ψ(s), and of its distance from the mean over all states
    centre = np.asarray(matrix.sum(axis=0)).ravel() @ inverse / matrix.shape[0]
    for rows in chunks():
        dual = rows @ inverse
        dual_norm = max(dual_norm, float(np.linalg.norm(dual, axis=1).max()))
        about_mean = max(about_mean, float(np.linalg.norm(dual - centre, axis=1).max()))
    # The maximum of the convex ‖Ψᵀv‖₂ over the cube ‖v‖_∞ <= 1 is at a vertex. If each feature has one sign, the
    # vertex v = 1 is the best one and the bound is exact. Otherwise the smallest of three simple bounds is taken.
    has_signs = bool((np.abs(total) >= sums * (1 - 1e-12)).all())
    bounds = [float(np.linalg.norm(sums))]
    if not has_signs:
        sizes = np.concatenate([np.linalg.norm(rows, axis=1) for rows in chunks()])
        count, norm_sum = (len(sizes), sizes.sum()) if weights is None else (weights.sum(), sizes @ weights)
        bounds += [float(np.sqrt(count * np.linalg.eigvalsh(gram)[-1])), float(norm_sum)]
    # Eigenvalues of K_ψ cannot tell linearly dependent features from nearly dependent ones; singular values of Ψ can.
    dropped = 0 if rank == len(gram) else span_of_chunks(chunks()).rank - rank
    left_out = (
        f"psi is nearly dependent: {dropped} of its {rank + dropped} directions are too small to invert K_psi "
        "in them and were left out, and P may need them. Orthogonalise psi, such as numpy.linalg.qr(psi)[0]"
    )
    return PsiConstants(
        total=total,
        gram_inverse=inverse,
        dual_norm=dual_norm,
        noise_scale=min(dual_norm, about_mean),
        c_psi=min(bounds),
        c_psi_is_exact=has_signs,
        c_psi_max_norm=float(sums.max()),
        left_out=left_out if dropped > 0 else None,
    )


def _inverted(gram: FloatArray, *, pseudo: bool) -> tuple[FloatArray, int]:
    """Return K_ψ⁻¹ and the rank of K_ψ, or the pseudo-inverse if K_ψ is singular and `pseudo` is True."""
    eigenvalues, vectors = np.linalg.eigh(gram)
    largest = max(float(eigenvalues[-1]), np.finfo(np.float64).tiny)
    keep = eigenvalues > GRAM_RANK * largest
    if not keep.all() and not pseudo:
        direction = vectors[:, 0]
        order = np.argsort(-np.abs(direction))[:4]
        terms = " ".join(f"{direction[i]:+.3g}·psi[{i}]" for i in order if abs(direction[i]) > 1e-6)
        if (np.abs(direction) > 1e-6).sum() > len(order):
            terms += " + …"
        raise InvalidInput(
            f"psi must have linearly independent features (K_psi invertible); got {terms} ≈ 0 on every state "
            f"(smallest/largest eigenvalue {eigenvalues[0] / largest:.1e}). Drop one of those features, orthogonalise "
            "them (numpy.linalg.qr(psi)[0]), or pass psi_pinv=True to work on the span of the features."
        )
    basis = vectors[:, keep]
    return (basis / eigenvalues[keep]) @ basis.T, int(keep.sum())


class Psi(Described, ABC):
    """Base class of feature maps of next states.

    Ψ is the S × d_psi matrix with rows ψ(s), and K_ψ = ΨᵀΨ. A subclass sets `n_states` and `d_psi`, and implements
    `rows`. Products with Ψ have defaults that form it once; override them where the features have more structure.

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
        return _measure(self.table, pseudo=self.pseudo)

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
        chosen: FloatArray = (np.asarray(states)[..., None] == np.arange(self.d_psi)).astype(np.float64)
        return chosen

    def project(self, values: FloatArray) -> FloatArray:
        return values

    def norms_sq(self) -> FloatArray:
        return np.ones(self.n_states)


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
        self, table: object, *, pseudo: bool = False, weights: FloatArray | None = None, left_out: str | None = None
    ) -> None:
        array = shaped("psi", table, (None, None), remedy="Give one vector of numbers for each state.")
        self.n_states, self.d_psi = array.shape
        self._dense = array
        self.weighted = array if weights is None else array * weights[:, None]
        self.pseudo = pseudo
        measured = _measure(array, weights=weights, pseudo=pseudo)
        self.constants = measured if left_out is None else replace(measured, left_out=left_out)

    def project(self, values: FloatArray) -> FloatArray:
        return values @ self.weighted

    def rows(self, states: IntArray) -> FloatArray:
        return self._dense[states]


class SparsePsi(Psi):
    """Feature map that stores the features of all states in a sparse matrix.

    Args:
        matrix: Features ψ(s), shape (S, d_psi), in any scipy.sparse format.
        pseudo: Whether linearly dependent features are accepted, and K_ψ is inverted on its range.
        weights: Weight of each row in ΨᵀV and K_ψ, shape (S,), as in `TablePsi`; 1 if None.

    Raises:
        InvalidInput: K_ψ is singular and `pseudo` is False, or the features sum to zero over all states.

    >>> psi = SparsePsi(sparse.csr_array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]))
    >>> psi.total, psi.project(np.array([[1.0, 0.0, 1.0]]))
    (array([2., 3.]), array([[1., 2.]]))
    """

    def __init__(
        self, matrix: sparse.sparray | sparse.spmatrix, *, pseudo: bool = False, weights: FloatArray | None = None
    ) -> None:
        if np.iscomplexobj(matrix):
            fail("psi", "must be real numbers", "complex ones", "Give real features.")
        csr = sparse.csr_array(matrix, dtype=np.float64)
        if csr.ndim != 2 or 0 in csr.shape:
            fail("psi", "must be a matrix with rows and columns", f"shape {csr.shape}", "Give one row for each state.")
        if not np.isfinite(csr.data).all():
            fail("psi", "must be finite", "NaN or infinity", "Remove or replace those entries.")
        self.n_states, self.d_psi = csr.shape
        self.matrix = csr
        self.weighted = csr if weights is None else csr * weights[:, None]
        self._transposed = self.weighted.T.tocsr()
        self.pseudo = pseudo
        self.constants = _measure(csr, weights=weights, pseudo=pseudo)

    @property
    def table(self) -> FloatArray:
        """Features of all states, shape (S, d_psi), as a new dense array."""
        dense: FloatArray = self.matrix.toarray()
        return dense

    def rows(self, states: IntArray) -> FloatArray:
        index = np.asarray(states)
        dense: FloatArray = self.matrix[index.ravel()].toarray()
        return dense.reshape(*index.shape, self.d_psi)

    def norms_sq(self) -> FloatArray:
        return np.asarray(self.matrix.multiply(self.matrix).sum(axis=1)).ravel()

    def project(self, values: FloatArray) -> FloatArray:
        return np.ascontiguousarray((self._transposed @ values.T).T)


class LatentPsi(Psi):
    """Feature map with one feature for each latent next state z: ψ(s') = P(s'|z) e_z, so Ψᵀ V has the means of V.

    Args:
        latent: Latent state of each state, from 0 on, shape (S,).
        weights: Weight of each state among those of its latent state, positive, shape (S,).

    Attributes:
        latent: (S,) Latent state of each state.
        chances: (S,) Probability P(s'|z) of each state in its latent state.

    >>> LatentPsi(np.array([0, 1, 1]), np.array([2.0, 1.0, 3.0])).project(np.array([[5.0, 0.0, 8.0]]))
    array([[5., 6.]])
    """

    def __init__(self, latent: IntArray, weights: FloatArray) -> None:
        self.latent, self.n_states, self.d_psi = latent, len(latent), int(latent.max()) + 1
        self.chances = weights / np.bincount(latent, weights)[latent]
        means = (self.chances, (latent, np.arange(self.n_states)))
        self._means = sparse.csr_array(means, shape=(self.d_psi, self.n_states))

    def rows(self, states: IntArray) -> FloatArray:
        index = np.asarray(states)
        one_hot = self.latent[index][..., None] == np.arange(self.d_psi)
        found: FloatArray = np.where(one_hot, self.chances[index][..., None], 0.0)
        return found

    def project(self, values: FloatArray) -> FloatArray:
        return np.ascontiguousarray((self._means @ values.T).T)


def latent_psi(psi: Psi) -> LatentPsi | OneHotPsi:
    """Return the features in which every law over latent next states is a row φᵀM, none of which ψ rules out.

    States whose ψ point in one direction are one latent state: whatever φᵀM is, their probabilities are in the ratio
    of their ‖ψ‖ (docs/proofs.md, section 9.7). A state with ψ = 0 is a latent state of its own. If no two states share
    one, the features are one-hot.

    >>> latent_psi(TablePsi([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])).latent
    array([0, 1, 1])
    """
    if isinstance(psi, OneHotPsi):
        return psi
    n, step = psi.n_states, max(1, _NUMBERS // psi.d_psi)
    norms, latent = np.empty(n), np.empty(n, dtype=np.int64)
    known: dict[bytes | int, int] = {}
    for first in range(0, n, step):
        states = np.arange(first, min(first + step, n))
        rows = np.asarray(psi.rows(states), dtype=np.float64)
        norms[states] = np.linalg.norm(rows, axis=1)
        for s, row in zip(states.tolist(), rows, strict=True):
            # Directions that agree to twelve digits are one; adding 0 makes -0 the same as 0.
            unit = None if norms[s] == 0.0 else np.round(row / norms[s], 12) + 0.0
            key = s if unit is None else hashlib.blake2b(unit.tobytes(), digest_size=16).digest()
            latent[s] = known.setdefault(key, len(known))
    return OneHotPsi(n) if len(known) == n else LatentPsi(latent, np.where(norms > 0.0, norms, 1.0))


def weighted_psi(psi: Psi) -> Psi:
    r"""Return ψ with the weights 1/‖ψ(s')‖ of next states in the estimate, if its radius is then smaller, else ψ.

    M_n regresses x(s') = K⁻¹Dψ(s'), K = ΨᵀDΨ, on φ. Its mean is φᵀM* for any weights D (docs/proofs.md, section 3), and
    the radius is proportional to the largest ‖x‖, that of the longest ψ if D = I. Features that have weights keep them.

    >>> psi = TablePsi([[0.1, 0.0], [0.9, 0.0], [0.0, 0.9], [0.0, 0.1]])
    >>> round(psi.constants.dual_norm, 3), weighted_psi(psi).constants.dual_norm
    (1.098, 1.0)
    """
    if isinstance(psi, OneHotPsi):
        return psi
    given = psi.matrix if isinstance(psi, SparsePsi) else psi.table
    if getattr(psi, "weighted", given) is not given:
        return psi
    norms = np.sqrt(psi.norms_sq())
    norms[norms == 0.0] = 1.0
    if np.allclose(norms, norms[0], rtol=1e-9):
        return psi
    made: Psi
    if isinstance(psi, SparsePsi):
        made = SparsePsi(psi.matrix / norms[:, None], pseudo=psi.pseudo, weights=norms)
    else:
        made = TablePsi(psi.table / norms[:, None], pseudo=psi.pseudo, weights=norms, left_out=psi.left_out)
    return made if made.constants.noise_scale < psi.constants.noise_scale else psi
