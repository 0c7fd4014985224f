"""Features φ given as an array."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from matrixrl.checks import fail, shaped
from matrixrl.features.phi import Phi
from matrixrl.records import FloatArray, IntArray

__all__ = ["TablePhi", "tensor_product"]


class TablePhi(Phi):
    """Feature map that stores the features of all pairs.

    Args:
        table: Features φ(s, a), shape (S, A, d).
        left_out: What the table leaves out of the kernel that it was computed from, in words; None if nothing.

    >>> phi = TablePhi(np.ones((4, 2, 3)))
    >>> phi.d, phi.dot(np.ones((1, 3))).shape
    (3, (1, 2, 4))
    """

    def __init__(self, table: object, *, left_out: str | None = None) -> None:
        array = shaped("phi", table, (None, None, None), remedy="Give one vector of d numbers for each (s, a).")
        self.n_states, self.n_actions, self.d = array.shape
        largest = max(array.max(), -array.min())
        if not 1e-100 < largest < 1e100:
            fail("phi", "must have a largest entry between 1e-100 and 1e100", f"{largest:.3g}", "Rescale it.")
        self.flat = np.ascontiguousarray(array.transpose(1, 0, 2)).reshape(-1, self.d)
        self.left_out = left_out

    @classmethod
    def of_states(cls, features: FloatArray) -> TablePhi:
        """Return the map of k states from their features of shape (A, k, d), which are not checked again."""
        phi = cls.__new__(cls)
        phi.n_actions, phi.n_states, phi.d = features.shape
        phi.flat = features.reshape(-1, phi.d)
        return phi

    @cached_property
    def feature_rows(self) -> FloatArray:
        """Features of all pairs, shape (d, S·A), each feature in contiguous memory."""
        return np.ascontiguousarray(self.flat.T)

    def rows(self, pairs: IntArray) -> FloatArray:
        """Return the features of some pairs: indices of any shape → the same shape with d at the end."""
        return self.flat[pairs]


def tensor_product(state_features: object, action_features: object) -> TablePhi:
    """Return φ(s, a) = f(s) ⊗ g(a), of dimension d_f · d_g.

    Args:
        state_features: Features f of states, shape (S, d_f).
        action_features: Features g of actions, shape (A, d_g); the identity matrix gives every action its own copy of
            the state features.

    >>> tensor_product(np.ones((5, 3)), np.eye(2)).d
    6
    """
    f = shaped("state_features", state_features, (None, None), remedy="Give one row for each state.")
    g = shaped("action_features", action_features, (None, None), remedy="Give one row for each action.")
    product = np.einsum("si,aj->saij", f, g)
    return TablePhi(product.reshape(f.shape[0], g.shape[0], -1))
