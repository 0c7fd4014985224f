"""Constants of the features of next states that the proofs use (YW19, Assumptions 2 and 2')."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from matrixrl.checks import fail
from matrixrl.linalg import GramInverse, Span, span_of
from matrixrl.records import FloatArray

__all__ = ["PsiConstants", "bound_c_psi", "check_total", "measure_psi", "words_left_out"]


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
    gram = weighted.T @ table
    inverted = GramInverse(gram, pseudo=pseudo)
    inverse = inverted.matrix
    total = weighted.sum(axis=0)
    check_total(total, gram)
    dual = table @ inverse
    dual_norm = float(np.linalg.norm(dual, axis=1).max())
    about_mean = float(np.linalg.norm(dual - dual.mean(axis=0), axis=1).max())
    sums = np.abs(weighted).sum(axis=0)
    is_exact = bool(((weighted >= 0).all(axis=0) | (weighted <= 0).all(axis=0)).all())
    count = float(len(table) if weights is None else weights.sum())
    return PsiConstants(
        total=total,
        gram_inverse=inverse,
        dual_norm=dual_norm,
        noise_scale=min(dual_norm, about_mean),
        c_psi=bound_c_psi(sums, is_exact, gram, count, float(np.linalg.norm(weighted, axis=1).sum())),
        c_psi_is_exact=is_exact,
        c_psi_max_norm=float(sums.max()),
        left_out=words_left_out(inverted.rank, table.shape[1], lambda: span_of(table)),
    )


def words_left_out(kept: int, n_features: int, span: Callable[[], Span]) -> str | None:
    """Return, in words, how many directions of ψ the inverse of K_ψ leaves out; None if all of them are zero.

    Eigenvalues of K_ψ cannot tell linearly dependent features from nearly dependent ones; singular values of Ψ can.

    Args:
        kept: Number of directions in which K_ψ was inverted.
        n_features: Number of features d_psi.
        span: Function that returns the span of the rows of Ψ; called only if directions were left out.
    """
    if kept == n_features:
        return None
    dropped = span().rank - kept
    if dropped <= 0:
        return None
    return (
        f"psi is nearly dependent: {dropped} of its {kept + dropped} directions are too small to invert K_psi in them "
        "and were left out, and P may need them. Orthogonalise psi, such as numpy.linalg.qr(psi)[0]"
    )


def check_total(total: FloatArray, gram: FloatArray) -> None:
    """Raise if the features sum to zero over all states: no model could then give probabilities that sum to one."""
    if np.linalg.norm(total) <= 1e-9 * float(np.sqrt(np.trace(gram))):
        fail(
            "psi",
            "must not sum to zero over all states (no model could give probabilities that sum to one)",
            f"a total of norm {np.linalg.norm(total):.2g}",
            "Add a constant column, or do not centre the features.",
        )


def bound_c_psi(sums: FloatArray, is_exact: bool, gram: FloatArray, count: float, norm_sum: float) -> float:
    """Return the smallest known bound on ‖Ψᵀv‖₂ over ‖v‖_∞ <= 1.

    The maximum of a convex function over the cube is at a vertex. If each feature has one sign, the vertex v = 1 is the
    best one and the bound is exact. Otherwise three simple bounds are compared.

    Args:
        sums: Sum of the absolute values of each feature, shape (d_psi,).
        is_exact: Whether each feature has one sign.
        gram: K_ψ, shape (d_psi, d_psi).
        count: Number of states, or the sum of their weights.
        norm_sum: Sum of ‖ψ(s)‖₂ over all states.
    """
    bounds = [float(np.linalg.norm(sums))]
    if not is_exact:
        bounds.append(float(np.sqrt(count * np.linalg.eigvalsh(gram)[-1])))
        bounds.append(norm_sum)
    return min(bounds)
