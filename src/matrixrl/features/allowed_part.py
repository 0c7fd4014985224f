"""Allowed pairs and groups of pairs: φ of the allowed pairs, and indicator features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.features.bundle import Features
from matrixrl.features.phi import Blocks, OneHotPhi, Phi, TablePhi
from matrixrl.records import BoolArray, IntArray

__all__ = ["AllowedPart", "allowed_part", "indicator_groups"]


@dataclass(frozen=True)
class AllowedPart:
    """φ of the allowed pairs, without features that none of them has.

    Attributes:
        phi: φ of the K allowed pairs, numbered again as K states with one action, so that only its constants have a
            meaning; φ itself if all pairs are allowed.
        pairs: (K,) Numbers of the allowed pairs among all; None if all are allowed.
        used: (d,) Numbers of their features among all; None likewise.
        n_pairs: Number P of all pairs.
    """

    phi: Phi
    pairs: IntArray | None
    used: IntArray | None
    n_pairs: int

    def mask(self) -> BoolArray:
        """Return whether each of the P pairs is allowed."""
        allowed = np.zeros(self.n_pairs, dtype=np.bool_)
        allowed[slice(None) if self.pairs is None else self.pairs] = True
        return allowed

    def features(self, features: Features) -> Features:
        """Return φ of the allowed pairs with ψ of some features."""
        return features if self.pairs is None else Features(self.phi, features.psi)

    def blocks(self) -> Blocks:
        """Return the blocks of features of allowed pairs; a pair that is not allowed counts to the first block."""
        part = self.phi.blocks()
        if self.pairs is None or self.used is None:
            return part
        pair_block = np.zeros(self.n_pairs, dtype=np.int64)
        pair_block[self.pairs] = part.pair_block
        members = [self.used[own] for own in part.members]
        return Blocks(pair_block, members, part.eigenvalues, part.one_pair_each)


def allowed_part(phi: Phi, allowed: BoolArray | None) -> AllowedPart:
    """Return φ of the allowed pairs; `allowed` (A, S) is None if all are.

    >>> part = allowed_part(OneHotPhi(n_states=2, n_actions=2), np.array([[True, True], [True, False]]))
    >>> part.phi.d, part.blocks().count
    (3, 3)
    """
    n_pairs = phi.n_states * phi.n_actions
    if allowed is None:
        return AllowedPart(phi, None, None, n_pairs)
    pairs = np.flatnonzero(allowed)
    if isinstance(phi, OneHotPhi):
        return AllowedPart(OneHotPhi(len(pairs), 1), pairs, pairs, n_pairs)
    rows = phi.flat[pairs]
    used = np.flatnonzero(rows.any(axis=0))
    part = TablePhi(rows[:, None, used] if len(used) else rows[:, None, :1], left_out=phi.left_out)
    return AllowedPart(part, pairs, used, n_pairs)


_CHUNK = 1 << 22  # numbers of features that are formed together


def indicator_groups(phi: Phi, allowed: BoolArray | None = None) -> IntArray | None:
    """Return the group of each pair, (A, S), or None if the features are not indicators.

    Features are indicators if every pair has exactly one feature that is not zero, with the same value for all pairs
    that have it. One-hot pairs, state aggregation and post-decision states are examples. Groups are numbered from 0
    in the order of their features; a feature that no pair has is no group. Features of a pair that is not allowed may
    be anything; it is put into the first group, which it never has data for.

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
