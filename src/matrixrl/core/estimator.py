"""The ridge estimate of the core matrix, YW19 (2) and (3)."""

from __future__ import annotations

from matrixrl.features import Psi
from matrixrl.linalg import PairDesign
from matrixrl.records import FloatArray

__all__ = ["core_matrix"]


def core_matrix(design: PairDesign, cross_moment: FloatArray, psi: Psi) -> FloatArray:
    r"""Return the estimate of M* in every replica, \(M_n = A_n^{-1} (\sum \phi\psi^\top) K_\psi^{-1}\).

    It minimises \(\sum \|K_\psi^{-1}\psi - M^\top\phi\|^2 + \lambda\|M\|_F^2\) (YW19 (3), where λ = 1).

    Args:
        design: A_n of every replica.
        cross_moment: (B, d, d_psi) Σ φψᵀ over the data.
        psi: Features ψ, with K_ψ.

    Returns:
        Estimates M_n (B, d, d_psi).

    >>> import numpy as np
    >>> from matrixrl.features import one_hot
    >>> features = one_hot(n_states=2, n_actions=1)
    >>> design, moment = features.phi.design(1), np.zeros((1, 2, 2))
    >>> pair, following, once = np.array([[0]]), np.array([[1]]), np.ones((1, 1))
    >>> design.update(pair, once)
    >>> features.phi.accumulate(moment, features.psi, pair, following, once)
    >>> core_matrix(design, moment, features.psi)[0]
    array([[0. , 0.5],
           [0. , 0. ]])
    """
    return psi.solve_gram(design.solve(cross_moment))  # YW19 (2)
