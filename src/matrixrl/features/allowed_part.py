"""Features of the allowed pairs alone, from which the constants of the proofs are computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.features.blocks import Blocks
from matrixrl.features.bundle import Features
from matrixrl.features.one_hot import OneHotPhi
from matrixrl.features.phi import Phi
from matrixrl.features.table_phi import TablePhi
from matrixrl.records import BoolArray, IntArray

__all__ = ["AllowedPart", "allowed_part"]


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
        return features if self.pairs is None else Features(self.phi, features.psi, same_states=False)

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
    """Return φ of the allowed pairs.

    Args:
        phi: Features φ of all pairs.
        allowed: (A, S) Allowed actions of each state; None if all are.

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
