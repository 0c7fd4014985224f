"""Rewards: bounds on learned ones that are linear in φ, and tests of learned and of given ones."""

from __future__ import annotations

import numpy as np
from scipy.special import rel_entr

from matrixrl.core.likelihood.radii import log_mixture_gain
from matrixrl.core.regularity import REWARD_NOISE
from matrixrl.features import Phi
from matrixrl.linalg import PairDesign, widths
from matrixrl.records import BoolArray, FloatArray
from matrixrl.tolerances import EMPTY_SET, GIVEN_REWARD

__all__ = ["N_BETS", "log_bets", "log_evidence", "reward_bounds", "rewards_misfit"]

_FRACTIONS = (0.95, 0.3)  # of the largest bets: near 1 for rewards with little noise, small for much noise
_OF_MEANS = 0.5  # weight of the mixture of which the mean alone is known; the other bets share the rest
N_BETS = 2 * len(_FRACTIONS)
"""Number of bets whose gains are kept for each pair, half of them on larger rewards, half on smaller ones."""


def reward_bounds(
    phi: Phi, design: PairDesign, reward_moment: FloatArray, radius: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Return the bounds clip(φᵀθ_n ± √β_r w, 0, 1) on unit rewards, with \(\theta_n = A_n^{-1} \sum \phi r\)."""
    theta = design.solve(reward_moment[:, :, None])[:, :, 0]
    mean = phi.dot(theta)
    half = (radius * widths(design)).reshape(mean.shape)
    return np.clip(mean + half, 0.0, 1.0), np.clip(mean - half, 0.0, 1.0)


def rewards_misfit(phi: Phi, counts: FloatArray, sums: FloatArray, *, delta: float) -> BoolArray:
    r"""Return whether the rewards of visited pairs refute that they are linear in φ, for each replica.

    With n visits and the mean reward r̄ of each visited pair, rewards are refuted if

    .. math:: \min_\theta \sum_p \frac{n_p^2}{1 + n_p} (\bar r_p - \phi_p^\top\theta)^2
            > \tfrac14 \Bigl(2\ln\frac1\delta + \sum_p \ln(1 + n_p)\Bigr).

    If E r = φᵀθ* for some θ*, this happens at any time with probability at most δ (docs/proofs.md, section 5).
    """
    found = np.zeros(len(counts), dtype=np.bool_)
    for b, (visits, paid) in enumerate(zip(counts, sums, strict=True)):
        pairs = np.flatnonzero(visits)
        n = visits[pairs]
        weight = n / np.sqrt(1.0 + n)
        rows, targets = phi.rows(pairs) * weight[:, None], paid[pairs] / n * weight
        off = targets - rows @ np.linalg.lstsq(rows, targets, rcond=None)[0]
        level = REWARD_NOISE**2 * (2.0 * np.log(1.0 / delta) + np.log1p(n).sum())
        found[b] = off @ off > level * (1.0 + EMPTY_SET)
    return found


def log_bets(rewards: FloatArray, given: FloatArray) -> FloatArray:
    r"""Return ln of the factors by which bets against given rewards multiply their capital: (…, N_BETS).

    A fraction f that is bet on a larger mean has the factor \(1 - f + f x/(r + \tau)\), and on a smaller mean
    \(1 - f + f(1 - x)/(1 - r + \tau)\). If the mean of x is within τ of r, neither is larger than 1 on average.
    """
    fraction = np.array(_FRACTIONS)
    larger = (rewards / (given + GIVEN_REWARD))[..., None]
    smaller = ((1.0 - rewards) / (1.0 - given + GIVEN_REWARD))[..., None]
    factors = np.concatenate([1.0 + fraction * (larger - 1.0), 1.0 + fraction * (smaller - 1.0)], axis=-1)
    logs: FloatArray = np.log(factors)
    return logs


def log_evidence(visits: FloatArray, sums: FloatArray, gains: FloatArray, given: FloatArray) -> FloatArray:
    r"""Return ln of the evidence against given rewards, for each pair.

    The evidence is at most the capital of a mixture of bets that starts with 1 (docs/proofs.md, section 5): if the mean
    reward of a pair is within τ of the given one, it ever exceeds 1/δ with probability at most δ.

    .. math:: \ln\Bigl(\tfrac12 e^{n\,\mathrm{kl}(\bar x \Vert r) - g(n)} + \tfrac18 \sum_j e^{G_j}\Bigr),
            \qquad g(n) = \ln\bigl(\sqrt\pi\,\Gamma(n+1)/\Gamma(n+\tfrac12)\bigr),

    where G_j is the gain of bet j, and kl is the binary divergence from the nearest mean within τ of r.
    """
    mean = np.clip(sums / visits, 0.0, 1.0)
    near = np.clip(mean, np.maximum(given - GIVEN_REWARD, 0.0), np.minimum(given + GIVEN_REWARD, 1.0))
    of_mean = visits * (rel_entr(mean, near) + rel_entr(1.0 - mean, 1.0 - near)) - log_mixture_gain(visits)
    of_bets = np.logaddexp.reduce(gains, axis=-1) + np.log((1.0 - _OF_MEANS) / N_BETS)
    evidence: FloatArray = np.logaddexp(of_mean + np.log(_OF_MEANS), of_bets)
    return evidence
