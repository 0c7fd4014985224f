"""Regret bounds of Theorems 1, 2 and 3 as numbers, for comparison with measured regret. Rewards lie in [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Callable

from matrixrl.core.regularity import Regularity
from matrixrl.tolerances import TIE

__all__ = ["explicit_bound", "first_informative", "theorem_1_bound", "theorem_2_bound", "theorem_3_bound"]


def theorem_1_bound(
    constants: Regularity, *, horizon: int, n_episodes: int, c_psi: float | None = None, c: float = 1.0
) -> float:
    r"""Return c·C_ψ √(C_M + C_ψ'²) ln(C_φ T) H² √(d³T), with C_ψ outside the root (E5).

    The paper proves it for some absolute constant c.

    Args:
        constants: Constants of Assumption 2.
        horizon: Number of steps H of an episode.
        n_episodes: Number of episodes N; T = NH.
        c_psi: C_ψ; by default the constant of Assumption 2.
        c: Absolute constant c, whose value the paper does not give.
    """
    chosen = constants.c_psi_max_norm if c_psi is None else c_psi
    return _order(constants, chosen, horizon, n_episodes, c) * math.sqrt(constants.d**3)


def theorem_2_bound(
    constants: Regularity, *, horizon: int, n_episodes: int, c_psi: float | None = None, c: float = 1.0
) -> float:
    """Return c·C_ψ √(C_M + C_ψ'²) ln(C_φ T) d H² √T, with C_ψ of Assumption 2' outside the root (E5).

    Args:
        constants: Constants of Assumption 2'.
        horizon: Number of steps H of an episode.
        n_episodes: Number of episodes N; T = NH.
        c_psi: C_ψ; by default the constant of Assumption 2'.
        c: Absolute constant c, whose value the paper does not give.
    """
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

    Args:
        c_psi: C_ψ of Assumption 3.
        norm: Norm ‖P‖ in the product of the two Hilbert spaces.
        effective_dim: Effective dimension d̃.
        horizon: Number of steps H of an episode.
        n_episodes: Number of episodes N; T = NH.
        c: Absolute constant c, whose value the paper does not give.

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
    """Return the smallest N at which a regret bound is below NH, or None if there is none up to 2⁶³.

    Args:
        bound: Function of N that returns the bound or None; bound/N must not increase from where it is below H.
        horizon: Number of steps H of an episode, or the sum of their discounted weights.

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
