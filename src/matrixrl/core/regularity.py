"""The constants of Assumption 2 and 2', computed from the features alone: agents never see P."""

from __future__ import annotations

import math
from dataclasses import dataclass

from matrixrl.checks import number
from matrixrl.features import Features

__all__ = ["Regularity", "regularity"]


@dataclass(frozen=True, slots=True)
class Regularity:
    """What the radii need to know of the features, as if they were scaled so that the ridge is 1.

    A ridge λ with features φ is a ridge 1 with features φ/√λ and core √λM*, so that every formula of the paper
    holds with λC_M for C_M and C_φ/λ for C_φ.

    Attributes:
        d: number of features φ.
        c_core: C_M, with λ‖M*‖_F² <= C_M d.
        c_phi: C_φ, with ‖φ‖²/λ <= C_φ d.
        c_psi_inv: C_ψ', with ‖K_ψ⁻¹ψ(s)‖ <= C_ψ'.
        noise_scale: L <= C_ψ', the radius of a ball that holds every K_ψ⁻¹ψ(s).
        c_psi: C_ψ of Assumption 2' (exact or a bound: `c_psi_is_exact`).
        c_psi_columns: C_ψ of Assumption 2, exact.
        ridge: λ.
        core_source: "given" by the user, or "bound" from the features.
    """

    d: int
    c_core: float
    c_phi: float
    c_psi_inv: float
    noise_scale: float
    c_psi: float
    c_psi_is_exact: bool
    c_psi_columns: float
    ridge: float
    core_source: str

    @property
    def core_norm(self) -> float:
        """An upper bound on √λ‖M*‖_F, and so on √λ times the operator norm."""
        return math.sqrt(self.c_core * self.d)


def regularity(features: Features, *, c_core: float | None = None, ridge: float = 1.0) -> Regularity:
    r"""Return the constants; C_M is bounded without knowing P unless it is given.

    Every φᵀM* is the mean of points K_ψ⁻¹ψ(s'), hence at most C_ψ' long. So for any weights w on pairs,
    \(\|M^*\|_F^2 \lambda_{\min}(\sum w\phi\phi^\top) \le \sum w \|\phi^\top M^*\|^2 \le C_\psi'^2\): the bound is
    C_ψ'²/λ_min, with weights chosen to make λ_min large (docs/proofs.md).

    >>> from matrixrl.features import one_hot
    >>> regularity(one_hot(n_states=3, n_actions=2)).c_core
    1.0
    """
    phi, psi = features.phi, features.psi
    if c_core is None:
        core = psi.dual_norm**2 / (phi.smallest_design_eigenvalue() * phi.d)
    else:
        remedy = "Give C_M with ‖M*‖_F² <= C_M·d."
        core = number("c_core", c_core, low=0.0, high=math.inf, open_ends=True, remedy=remedy)
    return Regularity(
        d=phi.d,
        c_core=ridge * core,
        c_phi=phi.max_norm_sq / (ridge * phi.d),
        c_psi_inv=psi.dual_norm,
        noise_scale=psi.noise_scale,
        c_psi=psi.c_psi,
        c_psi_is_exact=psi.c_psi_is_exact,
        c_psi_columns=psi.c_psi_max_norm,
        ridge=ridge,
        core_source="bound" if c_core is None else "given",
    )
