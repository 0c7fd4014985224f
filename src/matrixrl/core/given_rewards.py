"""A test of rewards that were given: do observed rewards have the means that the user claims?"""

from __future__ import annotations

import numpy as np
from scipy.special import rel_entr

from matrixrl.core.likelihood.radii import log_mixture_gain
from matrixrl.records import FloatArray
from matrixrl.tolerances import GIVEN_REWARD

__all__ = ["N_BETS", "log_bets", "log_evidence"]

_FRACTIONS = (0.95, 0.3)  # of the largest bets: near 1 for rewards with little noise, small for much noise
_OF_MEANS = 0.5  # weight of the mixture of which the mean alone is known; the other bets share the rest
N_BETS = 2 * len(_FRACTIONS)
"""Number of bets whose gains are kept for each pair, half of them on larger rewards, half on smaller ones."""


def log_bets(rewards: FloatArray, given: FloatArray) -> FloatArray:
    r"""Return ln of the factors by which bets against given rewards multiply their capital: (…, N_BETS).

    A fraction f that is bet on a larger mean has the factor \(1 - f + f x/(r + \tau)\), and on a smaller mean
    \(1 - f + f(1 - x)/(1 - r + \tau)\). If the mean of x is within τ of r, neither is larger than 1 on average.

    Args:
        rewards: (…) Observed unit rewards x in [0, 1].
        given: (…) Given unit rewards r of the same pairs.
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

    Args:
        visits: (…) Number n of rewards of each pair, at least 1.
        sums: (…) Sums of the unit rewards.
        gains: (…, N_BETS) Sums of `log_bets` over the rewards.
        given: (…) Given unit rewards r.
    """
    mean = np.clip(sums / visits, 0.0, 1.0)
    near = np.clip(mean, np.maximum(given - GIVEN_REWARD, 0.0), np.minimum(given + GIVEN_REWARD, 1.0))
    of_mean = visits * (rel_entr(mean, near) + rel_entr(1.0 - mean, 1.0 - near)) - log_mixture_gain(visits)
    of_bets = np.logaddexp.reduce(gains, axis=-1) + np.log((1.0 - _OF_MEANS) / N_BETS)
    evidence: FloatArray = np.logaddexp(of_mean + np.log(_OF_MEANS), of_bets)
    return evidence
