"""Constants of Assumptions 2 and 2', and of the regression of rewards, computed from the features without P."""

from __future__ import annotations

import math
from dataclasses import dataclass

from matrixrl.checks import number
from matrixrl.features import Features, Phi

__all__ = ["REWARD_NOISE", "Regularity", "regularity", "reward_regularity"]

REWARD_NOISE = 0.5
"""Unit rewards lie in [0, 1], so their noise is ½-sub-Gaussian (Hoeffding)."""


@dataclass(frozen=True, slots=True)
class Regularity:
    """Constants of the features that the radii and the regret bounds use.

    The ridge parameter λ with features φ is equivalent to the ridge parameter 1 with features φ/√λ and matrix √λM*.
    Every formula of the paper therefore holds with λC_M in place of C_M and C_φ/λ in place of C_φ; the constants here
    include these factors (docs/proofs.md, section 3).

    Attributes:
        d: Number of features φ.
        c_core: Constant C_M, with λ‖M*‖_F² <= C_M d.
        c_phi: Constant C_φ, with ‖φ‖²/λ <= C_φ d.
        c_psi_inv: Constant C_ψ', with ‖K_ψ⁻¹ψ(s)‖ <= C_ψ'.
        noise_scale: Radius L <= C_ψ' of a ball that contains all K_ψ⁻¹ψ(s).
        c_psi: Constant C_ψ of Assumption 2', or an upper bound on it.
        c_psi_is_exact: Whether `c_psi` is exact.
        c_psi_max_norm: Constant C_ψ of Assumption 2, exact.
        ridge: Ridge parameter λ.
        core_source: "given" if the user gave C_M, or "bound" if it was computed from the features.
    """

    d: int
    c_core: float
    c_phi: float
    c_psi_inv: float
    noise_scale: float
    c_psi: float
    c_psi_is_exact: bool
    c_psi_max_norm: float
    ridge: float
    core_source: str

    @property
    def core_norm(self) -> float:
        """Upper bound on √λ‖M*‖_F, and hence on √λ times the operator norm of M*."""
        return math.sqrt(self.c_core * self.d)

    def largest_logdet(self, n_steps: int, size: int | None = None) -> float:
        """Return the largest ln det(A/λ) of any data: m ln(1 + T C_φ d/m) for m features.

        Args:
            n_steps: Number of steps T.
            size: Number of features m of a block; by default all d.
        """
        m = self.d if size is None else size
        return m * math.log1p(n_steps * self.c_phi * self.d / m)


def regularity(features: Features, *, c_core: float | None = None, ridge: float = 1.0) -> Regularity:
    r"""Return the constants of features; C_M is bounded without knowledge of P unless it is given.

    Every φᵀM* is a mean of points K_ψ⁻¹ψ(s'), so its norm is at most C_ψ'. For any weights w >= 0 on pairs with sum 1,
    \(\|M^*\|_F^2 \lambda_{\min}(\sum w\phi\phi^\top) \le \sum w \|\phi^\top M^*\|^2 \le C_\psi'^2\). The bound on
    ‖M*‖_F² is C_ψ'²/λ_min, with weights that make λ_min large (docs/proofs.md, section 4).

    Args:
        features: Features φ and ψ.
        c_core: Constant C_M with ‖M*‖_F² <= C_M d; by default the bound above divided by d.
        ridge: Ridge parameter λ.

    >>> from matrixrl.features import one_hot
    >>> regularity(one_hot(n_states=3, n_actions=2)).c_core
    1.0
    """
    phi, psi = features.phi, features.psi
    if c_core is None:
        core = psi.constants.dual_norm**2 / (phi.smallest_design_eigenvalue() * phi.d)
    else:
        remedy = "Give C_M with ‖M*‖_F² <= C_M·d."
        core = number("c_core", c_core, low=0.0, high=math.inf, open_ends=True, remedy=remedy)
    return Regularity(
        d=phi.d,
        c_core=ridge * core,
        c_phi=phi.max_norm_sq / (ridge * phi.d),
        c_psi_inv=psi.constants.dual_norm,
        noise_scale=psi.constants.noise_scale,
        c_psi=psi.constants.c_psi,
        c_psi_is_exact=psi.constants.c_psi_is_exact,
        c_psi_max_norm=psi.constants.c_psi_max_norm,
        ridge=ridge,
        core_source="bound" if c_core is None else "given",
    )


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
        noise_scale=REWARD_NOISE,
        c_psi=1.0,
        c_psi_is_exact=True,
        c_psi_max_norm=1.0,
        ridge=ridge,
        core_source="bound",
    )
