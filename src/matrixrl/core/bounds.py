"""Regret bounds of Theorems 1, 2 and 3 as numbers, for comparison with measured regret. Rewards lie in [0, 1]."""

from __future__ import annotations

import math

from matrixrl.core.regularity import Regularity

__all__ = ["a_priori_bound", "explicit_bound", "theorem_1_bound", "theorem_2_bound", "theorem_3_bound"]


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
    logdet: float | None = None,
) -> float:
    """Return the bound on the expected regret from the proof of Theorem 2, with explicit constants.

    It is the Lemma "conditioning regret" with the constants of the Frobenius ball (docs/proofs.md, section 7): with
    probability 1 − δ the regret is at most 2 C_ψ H √β_N √(NH · 2H ln det A_{N+1}), and it is never more than N·H. The
    expected regret is therefore at most the first bound plus δNH. The smaller of that and N·H is returned.

    Args:
        constants: Constants of Assumption 2'.
        horizon: Number of steps H of an episode.
        n_episodes: Number of episodes N.
        radius: Largest radius √β_N; a radius below 1 is replaced by 1.
        delta: Probability δ with which the radius may fail.
        logdet: ln det A_{N+1}; by default its upper bound d ln(NHC_φ + 1).
    """
    steps = n_episodes * horizon
    potential = constants.d * math.log(steps * constants.c_phi + 1.0) if logdet is None else logdet
    good = 2.0 * constants.c_psi * horizon * max(radius, 1.0) * math.sqrt(steps * 2.0 * horizon * potential)
    return min(good + delta * steps, float(steps))


def a_priori_bound(constants: Regularity, *, horizon: int, n_episodes: int, delta: float) -> float:
    """Return `explicit_bound` before any data, for the self-normalised radius.

    ln det A_{N+1} is replaced by its upper bound d ln(NHC_φ + 1), both in the bound and in the radius.

    Args:
        constants: Constants of Assumption 2'.
        horizon: Number of steps H of an episode.
        n_episodes: Number of episodes N.
        delta: Probability δ with which the radius may fail.
    """
    potential = constants.d * math.log(n_episodes * horizon * constants.c_phi + 1.0)
    radius = constants.core_norm + constants.noise_scale * math.sqrt(2.0 * math.log(1.0 / delta) + potential)
    return explicit_bound(constants, horizon=horizon, n_episodes=n_episodes, radius=radius, delta=delta)
