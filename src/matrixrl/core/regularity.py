"""Constants of Assumptions 2 and 2' and of the regression of rewards, and the regret bounds that follow from them.

Constants are computed from the features without P. Rewards lie in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from matrixrl.checks import number
from matrixrl.features import Features, Phi
from matrixrl.tolerances import TIE

__all__ = [
    "REWARD_NOISE",
    "Regularity",
    "explicit_bound",
    "first_informative",
    "regularity",
    "reward_regularity",
    "theorem_1_bound",
    "theorem_2_bound",
    "theorem_3_bound",
]

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
        """Return the largest ln det(A/λ) of any T steps: m ln(1 + T C_φ d/m) for m features, by default all d."""
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


def theorem_1_bound(
    constants: Regularity, *, horizon: int, n_episodes: int, c_psi: float | None = None, c: float = 1.0
) -> float:
    r"""Return c·C_ψ √(C_M + C_ψ'²) ln(C_φ T) H² √(d³T), with C_ψ outside the root (E5).

    The paper proves it for some absolute constant c.
    """
    chosen = constants.c_psi_max_norm if c_psi is None else c_psi
    return _order(constants, chosen, horizon, n_episodes, c) * math.sqrt(constants.d**3)


def theorem_2_bound(
    constants: Regularity, *, horizon: int, n_episodes: int, c_psi: float | None = None, c: float = 1.0
) -> float:
    """Return c·C_ψ √(C_M + C_ψ'²) ln(C_φ T) d H² √T, with C_ψ of Assumption 2' outside the root (E5)."""
    chosen = constants.c_psi if c_psi is None else c_psi
    return _order(constants, chosen, horizon, n_episodes, c) * constants.d


def _order(constants: Regularity, c_psi: float, horizon: int, n_episodes: int, c: float) -> float:
    steps = n_episodes * horizon
    size = math.sqrt(constants.c_core + constants.c_psi_inv**2)
    return c * c_psi * size * math.log(max(constants.c_phi * steps, math.e)) * horizon**2 * math.sqrt(steps)


def theorem_3_bound(
    *, c_psi: float, norm: float, effective_dim: float, horizon: int, n_episodes: int, c: float = 1.0
) -> float:
    """Return the bound of Theorem 3 (kernels), c·C_ψ ‖P‖ ln(T) d̃ H² √T.

    >>> theorem_3_bound(c_psi=1.0, norm=1.0, effective_dim=2.0, horizon=1, n_episodes=1) > 0
    True
    """
    steps = n_episodes * horizon
    return c * c_psi * norm * math.log(max(steps, math.e)) * effective_dim * horizon**2 * math.sqrt(steps)


def explicit_bound(
    constants: Regularity,
    *,
    horizon: int,
    n_episodes: int,
    radius: float,
    delta: float,
    surplus: float | None = None,
    reward_radius: float = 0.0,
    switch_growth: float = 0.0,
    path_delta: float | None = None,
    logdet: float | None = None,
    delay: int = 0,
) -> float:
    r"""Return the regret bound of the proof of Theorem 2 with explicit constants (docs/proofs.md, section 7).

    On the event that all radii hold, whose probability is 1 − δ, the surplus of a step is at most
    \((k\sqrt\beta + 2\sqrt{\beta_r})\sqrt{1+\kappa}\, w\), and at most H. Its sum along the played steps is at most
    \(\max(k\sqrt\beta + 2\sqrt{\beta_r}, H)\sqrt{1+\kappa}\sqrt{2HT\ln\det A_{N+1}}\). The expected regret is at most
    this sum plus δT. With probability 1 − δ − δ', the regret is at most this sum plus \(H\sqrt{T\ln(1/\delta')/2}\),
    because the surplus of the played steps differs from its mean. Regret is never more than NH.

    Args:
        constants: Constants of Assumption 2'.
        horizon: Number of steps H of an episode.
        n_episodes: Number of episodes N; T = NH.
        radius: Largest radius √β of the N episodes.
        delta: Probability δ with which any of the radii may fail.
        surplus: Factor k of the confidence set; by default 2 C_ψ H, that of the Frobenius ball.
        reward_radius: Largest radius √β_r of learned rewards; 0 if rewards are known.
        switch_growth: Growth κ of det A_n up to which a plan is kept.
        path_delta: Probability δ' for a bound that holds with probability 1 − δ − δ'; None bounds the expected regret.
        logdet: ln det A after N episodes; by default its upper bound d ln(1 + NHC_φ).
        delay: Largest number D of earlier episodes that a plan did not know of; 0 if no episodes overlap.
    """
    steps = n_episodes * horizon
    potential = constants.largest_logdet(steps) if logdet is None else logdet
    factor = 2.0 * constants.c_psi * horizon if surplus is None else surplus
    largest = max(factor * radius + 2.0 * reward_radius, float(horizon))
    played = largest * math.sqrt((1.0 + switch_growth) * 2.0 * horizon * steps * potential)
    if delay:
        played = math.sqrt(2.0) * played + (delay + 1.0) * horizon * potential / math.log(2.0)
    ties = 2.0 * TIE * horizon * steps  # preference and ranking together are below 2 TIE H
    chance = delta * steps if path_delta is None else horizon * math.sqrt(steps * math.log(1.0 / path_delta) / 2.0)
    return min(played + ties + chance, float(steps))


def first_informative(bound: Callable[[int], float | None], horizon: float) -> int | None:
    """Return the smallest N at which a regret bound, a function of N, is below NH, or None if there is none up to 2⁶³.

    bound/N must not increase from where it is below H.

    >>> first_informative(lambda n: min(10.0 * n**0.5, 4.0 * n), horizon=4)
    7
    """

    def says_something(n: int) -> bool:
        value = bound(n)
        return value is not None and value < float(n * horizon)

    high = 1
    while not says_something(high):
        if high >= 1 << 63:
            return None
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if says_something(middle) else (middle, high)
    return high
