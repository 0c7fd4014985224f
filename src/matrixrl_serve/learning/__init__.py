"""The learner of a service: a fold of its log."""

from matrixrl_serve.learning.learner import Learner
from matrixrl_serve.learning.publication import Publication

__all__ = ["Learner", "Publication"]
