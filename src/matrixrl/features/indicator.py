"""Indicator features: every pair belongs to one group, and the pairs of a group share the law of the next state."""

from __future__ import annotations

import numpy as np

from matrixrl.features.bundle import Features
from matrixrl.features.one_hot import OneHotPhi, OneHotPsi
from matrixrl.features.phi import Phi
from matrixrl.records import BoolArray, IntArray

__all__ = ["indicator_groups", "is_indicator"]

_CHUNK = 1 << 22  # numbers of features that are formed together


def indicator_groups(phi: Phi, allowed: BoolArray | None = None) -> IntArray | None:
    """Return the group of each pair, (A, S), or None if the features are not indicators.

    Features are indicators if every pair has exactly one feature that is not zero, with the same value for all pairs
    that have it. One-hot pairs, state aggregation and post-decision states are examples. Groups are numbered from 0
    in the order of their features; a feature that no pair has is no group. Features of a pair that is not allowed may
    be anything; it is put into the first group, which it never has data for.

    Args:
        phi: Features φ.
        allowed: (A, S) Allowed actions of each state; None if all are.

    >>> indicator_groups(OneHotPhi(n_states=2, n_actions=2))
    array([[0, 1],
           [2, 3]])
    """
    n_pairs, shape = phi.n_states * phi.n_actions, (phi.n_actions, phi.n_states)
    if isinstance(phi, OneHotPhi):
        return np.arange(n_pairs).reshape(shape)
    feature = np.empty(n_pairs, dtype=np.int64)
    value = np.full(phi.d, np.nan)
    step = max(1, _CHUNK // phi.d)
    for first in range(0, n_pairs, step):
        pairs = np.arange(first, min(first + step, n_pairs))
        pairs = pairs if allowed is None else pairs[allowed.ravel()[pairs]]
        rows = np.asarray(phi.rows(pairs))
        if (np.count_nonzero(rows, axis=1) != 1).any():
            return None
        place = np.argmax(rows != 0.0, axis=1)
        found = rows[np.arange(len(pairs)), place]
        value[place] = np.where(np.isnan(value[place]), found, value[place])
        if not np.array_equal(value[place], found):
            return None
        feature[pairs] = place
    if allowed is not None:
        feature[~allowed.ravel()] = feature[allowed.ravel()].min()
    return np.unique(feature, return_inverse=True)[1].reshape(shape)


def is_indicator(features: Features, allowed: BoolArray | None = None) -> bool:
    """Return whether φ are indicators and ψ is one-hot: the next states of a group of pairs are a multinomial.

    Args:
        features: Features φ and ψ.
        allowed: (A, S) Allowed actions of each state; None if all are.
    """
    return isinstance(features.psi, OneHotPsi) and indicator_groups(features.phi, allowed) is not None
