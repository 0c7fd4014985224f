"""Finite state sets seen through kernels: coordinates in which φᵀφ' = k_φ and ψᵀψ' = k_ψ, exactly.

Every quantity of the paper depends on features only through inner products, so any coordinates with the right Gram
matrix give the dual algorithm (YW19 Algorithm 2), with the projection on the range of k_ψ where it is singular (E3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.checks import fail, integer, number, shaped
from matrixrl.features.bundle import Features
from matrixrl.features.kernels import action_factor, as_kernel, check_gram
from matrixrl.features.phi import TablePhi
from matrixrl.features.psi import OneHotPsi, Psi, TablePsi
from matrixrl.features.state_maps import TransformerMap
from matrixrl.records import FloatArray
from matrixrl.tolerances import GRAM_RANK

__all__ = ["features_from_grams", "gram_root", "kernel_features", "transformer_features"]


def gram_root(argument: str, gram: FloatArray) -> FloatArray:
    """Return Z with ZZᵀ = gram and orthogonal columns, as many as the rank: (n, n) → (n, r).

    Directions whose eigenvalue is below 1e-10 of the largest are rounding and are dropped.

    >>> gram_root("k", np.array([[4.0, 4.0], [4.0, 4.0]])).shape
    (2, 1)
    """
    eigenvalues, vectors = np.linalg.eigh(check_gram(argument, gram))
    keep = eigenvalues > GRAM_RANK * float(eigenvalues[-1])
    if not keep.any():
        fail(argument, "must not be zero everywhere", "zeros", "Use a kernel, such as 'rbf'.")
    root: FloatArray = vectors[:, keep] * np.sqrt(eigenvalues[keep])
    return root


def features_from_grams(gram_phi: object, gram_psi: object | None, *, n_actions: int) -> Features:
    """Return features with the given Gram matrices.

    Args:
        gram_phi: (S·A, S·A) k_φ of all pairs, pair (s, a) in row s·A + a.
        gram_psi: (S, S) k_ψ of all states; None is the identity (one-hot ψ).
        n_actions: A.
    """
    count = integer("n_actions", n_actions, low=1, remedy="Give the number of actions.")
    pairs = shaped("gram_phi", gram_phi, (None, None), remedy="Give k_φ of all pairs.")
    n_states, rest = divmod(len(pairs), count)
    if pairs.shape[0] != pairs.shape[1] or rest:
        fail("gram_phi", "must have shape (S·A, S·A)", f"shape {pairs.shape}", "Row s·A + a is the pair (s, a).")
    phi = TablePhi(gram_root("gram_phi", pairs).reshape(n_states, count, -1))
    return Features(phi, _psi(gram_psi, n_states))


def kernel_features(
    points: object,
    n_actions: int,
    *,
    k_phi: Any = None,
    k_psi: Any = None,
    action_correlation: float = 0.0,
) -> Features:
    """Return the features of kernels on points: k_φ((s,a),(s',a')) = k(s,s')·(1 if a = a' else the correlation).

    Args:
        points: (S, p) where each state lies.
        n_actions: A.
        k_phi: kernel of states inside k_φ: a function, a scikit-learn kernel or a name; RBF by default.
        k_psi: kernel of next states, likewise; the identity (one-hot ψ) by default.
        action_correlation: what actions share, from 0 to below 1.

    >>> kernel_features(np.linspace(-1, 1, 6)[:, None], 2, k_phi="linear").phi.d
    2
    """
    place = _places(points)
    rho = number("action_correlation", action_correlation, low=0.0, high=0.999, remedy="Try 0.")
    count = integer("n_actions", n_actions, low=1, remedy="Give the number of actions.")
    phi = _of_pairs(gram_root("k_phi", as_kernel(k_phi, "k_phi")(place, place)), count, rho)
    gram_psi = None if k_psi is None else as_kernel(k_psi, "k_psi")(place, place)
    return Features(phi, _psi(gram_psi, len(place)))


def transformer_features(
    points: object, n_actions: int, *, phi: Any, psi: Any = None, action_correlation: float = 0.0
) -> Features:
    """Return features made by scikit-learn transformers of points: random Fourier features, Nyström, splines.

    Args:
        points: (S, p) where each state lies.
        n_actions: A.
        phi: makes the state's part of φ; it is cloned, fitted to the points and applied to them.
        psi: makes ψ, likewise; one-hot by default. Columns that depend on others are dropped (E3).
        action_correlation: what actions share, from 0 to below 1.

    >>> from sklearn.kernel_approximation import RBFSampler
    >>> transformer_features(np.eye(6), 2, phi=RBFSampler(n_components=3, random_state=0)).phi.d
    6
    """
    place = _places(points)
    rho = number("action_correlation", action_correlation, low=0.0, high=0.999, remedy="Try 0.")
    count = integer("n_actions", n_actions, low=1, remedy="Give the number of actions.")
    left = _of_pairs(_transformed(phi, place), count, rho)
    if psi is None:
        return Features(left, OneHotPsi(len(place)))
    right = _transformed(psi, place)
    return Features(left, TablePsi(gram_root("psi", right @ right.T)))


def _transformed(transformer: Any, place: FloatArray) -> FloatArray:
    chosen = TransformerMap(transformer)
    return chosen.grow(place, chosen.coordinates(place))


def _places(points: object) -> FloatArray:
    return shaped("points", points, (None, None), remedy="Give one vector for each state.")


def _of_pairs(z: FloatArray, n_actions: int, rho: float) -> TablePhi:
    """Return φ(s, a) = b_a ⊗ z(s), whose kernel is zᵀz' times 1 for equal actions and ρ for others."""
    return TablePhi(np.einsum("aj,sm->sajm", action_factor(n_actions, rho), z).reshape(len(z), n_actions, -1))


def _psi(gram: object | None, n_states: int) -> Psi:
    if gram is None:
        return OneHotPsi(n_states)
    states = shaped("gram_psi", gram, (n_states, n_states), remedy="Give k_ψ of all states.")
    return TablePsi(gram_root("k_psi", states))
