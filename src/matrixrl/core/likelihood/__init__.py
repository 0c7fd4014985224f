"""Confidence sets from the likelihood of indicator features: Kullback-Leibler balls, their radii and bounds."""

from __future__ import annotations

from matrixrl.core.likelihood.belief import JointLaw, LikelihoodBelief
from matrixrl.core.likelihood.confidence import LikelihoodConfidence
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
from matrixrl.core.likelihood.regret import likelihood_regret_bound
from matrixrl.core.likelihood.reward import reward_bounds
from matrixrl.core.likelihood.sets import LIKELIHOOD_SETS, LikelihoodSet

__all__ = [
    "LIKELIHOOD_SETS",
    "JointLaw",
    "KLBall",
    "LikelihoodBelief",
    "LikelihoodConfidence",
    "LikelihoodSet",
    "dirichlet_excess",
    "extreme_means",
    "likelihood_regret_bound",
    "log_bet_gain",
    "log_marginal",
    "log_mixture_gain",
    "log_shared_law_ratio",
    "reward_bounds",
    "targeted_beta",
    "top_beta",
]
