"""The learner of a service: a fold of its log."""

from matrixrl.service.learning.learner import Learner
from matrixrl.service.learning.publication import Publication

__all__ = ["Learner", "Publication"]
