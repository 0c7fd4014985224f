"""The block radius with the bias of the ridge at each pair in place of its largest value."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from matrixrl.core.radius import BlockRadius, RadiusInputs
from matrixrl.records import FloatArray

__all__ = ["PairwiseRadius"]


class PairwiseRadius(BlockRadius):
    r"""Block radius whose bias is that of the pair, \(\lambda\|A_n^{-1}\phi\|\,\|M^*\|/w\), which is at most √λ‖M*‖.

    The noise and the parts of δ are those of `BlockRadius`. The ridge moves φᵀM_n by λφᵀA_n⁻¹M*, whose norm is at most
    λ‖A_n⁻¹φ‖‖M*‖; it decreases with the number of visits, while √λ‖M*‖ does not (docs/proofs.md, section 10).
    """

    name = "pairwise"
    summary = "block radius with the bias of each pair, λ‖A_n⁻¹φ‖·‖M*‖; proven if P = φᵀM*ψ"

    @property
    def guarantee(self) -> Literal[True]:
        """True: the radius is proven with its constants."""
        return True

    is_local = BlockRadius.is_local
    at_most = BlockRadius.at_most  # the bias of a pair is at most that of the block radius

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        """Return √β_n of each pair, of shape (B, P)."""
        k, blocks, design = inputs.regularity, inputs.blocks, inputs.design
        whole = super().__call__(inputs)
        if blocks.one_pair_each:  # whose bias is already that of the pair
            return whole
        core_norm = math.sqrt(k.ridge) * k.c_psi_inv / np.sqrt(blocks.eigenvalues)
        core_norm = np.minimum(core_norm, k.core_norm)[blocks.pair_block]
        width_sq = np.maximum(design.width_sq, np.finfo(np.float64).tiny)
        shrunk = np.sqrt(np.minimum(k.ridge * design.inverse_norms_sq() / width_sq, 1.0))  # √λ‖A⁻¹φ‖/w
        radius: FloatArray = whole - core_norm * (1.0 - shrunk)
        return radius
