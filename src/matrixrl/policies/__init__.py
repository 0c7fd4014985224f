"""Policies to deploy, without anything that learns: act, save, load, export, and the result of a comparison.

This package needs NumPy only. It imports neither agents nor algorithms.
"""

from matrixrl.policies.comparison import Comparison
from matrixrl.policies.files import FORMAT, VERSION
from matrixrl.policies.policy import Policy
from matrixrl.policies.reading import Numbering, read_actions

__all__ = ["FORMAT", "VERSION", "Comparison", "Numbering", "Policy", "read_actions"]
