"""Likelihood sets of indicator features: Kullback-Leibler balls, their radii and bounds."""

from __future__ import annotations

from matrixrl.core.likelihood.bounds import JointLaw, LikelihoodBounds, reward_bounds
from matrixrl.core.likelihood.kl_ball import KLBall, extreme_means
from matrixrl.core.likelihood.radii import (
    dirichlet_excess,
    log_bet_gain,
    log_marginal,
    log_mixture_gain,
    log_shared_law_ratio,
    targeted_beta,
    top_beta,
)

__all__ = [
    "JointLaw",
    "KLBall",
    "LikelihoodBounds",
    "dirichlet_excess",
    "extreme_means",
    "log_bet_gain",
    "log_marginal",
    "log_mixture_gain",
    "log_shared_law_ratio",
    "reward_bounds",
    "targeted_beta",
    "top_beta",
]
