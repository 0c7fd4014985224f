"""Confidence sets from the likelihood of indicator features: Kullback-Leibler balls, their radii and bounds."""

from __future__ import annotations

from matrixrl.core.likelihood.belief import JointLaw, LikelihoodBelief
from matrixrl.core.likelihood.confidence import LikelihoodConfidence
from matrixrl.core.likelihood.kl_ball import KLBall, extreme_means
from matrixrl.core.likelihood.radii import dirichlet_excess, log_marginal, log_mixture_gain, targeted_beta

__all__ = [
    "JointLaw",
    "KLBall",
    "LikelihoodBelief",
    "LikelihoodConfidence",
    "dirichlet_excess",
    "extreme_means",
    "log_marginal",
    "log_mixture_gain",
    "targeted_beta",
]
