"""The ball B1 as the paper prints it, which is no set of the library: the lemma about its members is false (E1)."""

from __future__ import annotations

import math

import numpy as np

from matrixrl.core.sets import FrobeniusBall, Reach
from matrixrl.core.sets.base import column_sums
from matrixrl.records import Guarantee

WORDS = "the printed ball B1 sums row norms, and the lemma that bounds its members is false (erratum E1)"


class PrintedColumnBall(FrobeniusBall):
    """The ball of YW19 (5) as printed: the sum of the row norms of A_n^{1/2}(M − M_n) is at most √(dβ).

    Its exact maximum is φᵀM_n v + √(dβ) ‖A_n^{-1/2}φ‖_∞ ‖v‖₂, with the symmetric root. It contains M*, but
    ‖φᵀ(M − M_n)‖₁ ≤ √(dβ) w does not hold for its members.
    """

    name = "column-printed"
    guarantee = Guarantee(False, WORDS)

    def reach(self, design, radius, alarm_radius, slack):
        return Reach(math.sqrt(self.context.d) * radius * root_max_norms(design))

    def contains(self, error, radius):
        return column_sums(error.swapaxes(1, 2)) <= math.sqrt(self.context.d) * radius


def root_max_norms(design):
    """Return ‖A^{-1/2}φ‖_∞ of every pair, with the symmetric root: (B, P)."""
    if hasattr(design, "counts"):
        return np.sqrt(design.width_sq)
    eigenvalues, vectors = np.linalg.eigh(design.matrix)
    root = (vectors / np.sqrt(eigenvalues)[:, None, :]) @ vectors.transpose(0, 2, 1)
    return np.stack([np.abs(design.rows @ r).max(axis=1) for r in root])
