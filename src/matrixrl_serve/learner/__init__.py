"""The learner of a service: a fold of its log."""

from matrixrl_serve.learner.learner import Learner
from matrixrl_serve.learner.publication import Publication

__all__ = ["Learner", "Publication"]
