"""A regret bound of the likelihood sets that is known before any data (docs/proofs.md, section 9.5)."""

from __future__ import annotations

import math

from matrixrl.core.likelihood.confidence import LikelihoodConfidence
from matrixrl.core.likelihood.radii import log_bet_gain
from matrixrl.tolerances import TIE

__all__ = ["likelihood_regret_bound"]


def likelihood_regret_bound(
    confidence: LikelihoodConfidence, *, n_episodes: int, switch_growth: float, path_delta: float, delay: int = 0
) -> float:
    """Return a number that the regret of N episodes exceeds with probability at most δ + δ', in unit rewards.

    Args:
        confidence: Likelihood set.
        n_episodes: Number of episodes N.
        switch_growth: κ of rare switching.
        path_delta: Probability δ' that is allowed for chance along the played steps.
        delay: Largest number D of earlier episodes that a plan did not know of; 0 if no episodes overlap.
    """
    k, horizon, steps = confidence.n_groups, confidence.horizon, n_episodes * confidence.horizon
    half, s = 0.5, confidence.n_states
    redundancy = math.lgamma(steps + half * s) - math.lgamma(half * s) - math.lgamma(steps + half) + math.lgamma(half)
    beta = confidence.log_events(confidence.parts.all_functions) + redundancy + math.log(s * (s + 1) / (1.0 + 1.0 / s))
    root, each = horizon * math.sqrt(beta), float(horizon)
    if not confidence.known_reward:
        of_reward = confidence.log_events(confidence.parts.rewards) + float(log_bet_gain(steps))
        root, each = root + math.sqrt(of_reward), each + 1.0
    first = (2.0 + delay) * horizon * k * each  # visits that a plan with fewer than H of them does not know of
    known = 2.0 if delay == 0 else 3.0  # at the j-th visit of a group, data of at least j/known visits were there
    later = 2.0 * math.sqrt(2.0 * known) * confidence.exploration * root * math.sqrt((1.0 + switch_growth) * k * steps)
    late = 0.0 if delay == 0 else (delay + 1.0) * horizon * k * math.log2(max(n_episodes, 1))
    ties = 2.0 * TIE * horizon * steps  # preference and ranking together are below 2 TIE H
    return first + later + late + ties + horizon * math.sqrt(0.5 * steps * math.log(1.0 / path_delta))
