"""Kernel of actions inside a kernel of state-action pairs."""

from __future__ import annotations

import numpy as np

from matrixrl.records import FloatArray

__all__ = ["action_factor"]


def action_factor(n_actions: int, correlation: float) -> FloatArray:
    """Return an (A, A) matrix with rows b_a such that b_aᵀb_a' is 1 for equal actions and ρ for different ones.

    Args:
        n_actions: Number of actions A.
        correlation: Kernel ρ of two different actions, in [0, 1).

    >>> b = action_factor(2, 0.5)
    >>> (b @ b.T).round(12)
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    kappa = np.full((n_actions, n_actions), correlation)
    np.fill_diagonal(kappa, 1.0)
    return np.linalg.cholesky(kappa)
