"""A regret bound of the likelihood sets that is known before any data (docs/proofs.md, section 9.5)."""

from __future__ import annotations

import math

from matrixrl.core.likelihood.confidence import LikelihoodConfidence
from matrixrl.core.likelihood.radii import log_mixture_gain

__all__ = ["likelihood_regret_bound"]


def likelihood_regret_bound(
    confidence: LikelihoodConfidence, *, n_episodes: int, switch_growth: float, path_delta: float
) -> float:
    """Return a number that the regret of N episodes exceeds with probability at most δ + δ', in unit rewards.

    Args:
        confidence: Likelihood set.
        n_episodes: Number of episodes N.
        switch_growth: κ of rare switching.
        path_delta: Probability δ' that is allowed for chance along the played steps.
    """
    k, horizon, steps = confidence.n_groups, confidence.horizon, n_episodes * confidence.horizon
    half, s = 0.5, confidence.n_states
    redundancy = math.lgamma(steps + half * s) - math.lgamma(half * s) - math.lgamma(steps + half) + math.lgamma(half)
    beta = confidence.log_events(confidence.parts.all_functions) + redundancy + math.log(s * (s + 1) / (1.0 + 1.0 / s))
    first, root = 2.0 * horizon**2 * k, horizon * math.sqrt(beta)
    if not confidence.known_reward:
        of_reward = confidence.log_events(confidence.parts.rewards) + float(log_mixture_gain(steps))
        first, root = first + 2.0 * horizon * k, root + math.sqrt(of_reward)
    later = 4.0 * root * math.sqrt((1.0 + switch_growth) * k * steps)
    return first + later + horizon * math.sqrt(0.5 * steps * math.log(1.0 / path_delta))
