"""Policies to deploy, without anything that learns: act, save, load, export, and the result of a comparison.

This package needs NumPy only. It imports neither agents nor algorithms.
"""

from matrixrl.certificates import Comparison
from matrixrl.policies.given import PolicySpace, read_actions
from matrixrl.policies.policy import FORMAT, VERSION, Policy

__all__ = ["FORMAT", "VERSION", "Comparison", "Policy", "PolicySpace", "read_actions"]
