"""Bounds on unknown rewards that are linear in φ, by ridge regression with the same A_n."""

from __future__ import annotations

import numpy as np

from matrixrl.core.regularity import Regularity
from matrixrl.features import Phi
from matrixrl.linalg import PairDesign
from matrixrl.records import FloatArray

__all__ = ["reward_bounds", "reward_half_width", "reward_regularity"]


def reward_regularity(phi: Phi, ridge: float) -> Regularity:
    r"""Return the constants of the regression of rewards on φ, as inputs of the radii.

    Unit rewards lie in [0, 1], so their noise is ½-sub-Gaussian, and |φᵀθ*| ≤ 1 bounds ‖θ*‖ in the same way as
    ‖φᵀM*‖ ≤ C_ψ' bounds ‖M*‖_F (docs/proofs.md, sections 4 and 5). There is one output in place of d_psi; 1 replaces
    C_ψ' and ½ replaces L.

    Args:
        phi: Features φ.
        ridge: Ridge parameter λ.
    """
    return Regularity(
        d=phi.d,
        c_core=ridge / (phi.smallest_design_eigenvalue() * phi.d),
        c_phi=phi.max_norm_sq / (ridge * phi.d),
        c_psi_inv=1.0,
        noise_scale=0.5,
        c_psi=1.0,
        c_psi_is_exact=True,
        c_psi_max_norm=1.0,
        ridge=ridge,
        core_source="bound",
    )


def reward_half_width(design: PairDesign, radius: FloatArray) -> FloatArray:
    """Return the half-widths √β_r · w (B, P) of the bounds on rewards; `radius` √β_r is (B, 1) or (B, P)."""
    half: FloatArray = radius * np.sqrt(np.maximum(design.width_sq, 0.0))
    return half


def reward_bounds(
    phi: Phi, design: PairDesign, reward_moment: FloatArray, radius: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Return the bounds clip(φᵀθ_n ± √β_r w, 0, 1) on unit rewards, with \(\theta_n = A_n^{-1} \sum \phi r\).

    Args:
        phi: Features φ of the pairs.
        design: A_n with the widths of the pairs.
        reward_moment: (B, d) Σ φr over the unit rewards of the data.
        radius: (B, 1) or (B, P) Radius √β_r.

    Returns:
        Upper and lower bounds, each (B, A, S).
    """
    theta = design.solve(reward_moment[:, :, None])[:, :, 0]
    mean = phi.dot(theta)
    half = reward_half_width(design, radius).reshape(mean.shape)
    return np.clip(mean + half, 0.0, 1.0), np.clip(mean - half, 0.0, 1.0)
