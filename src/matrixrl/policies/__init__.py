"""Policies to deploy, without anything that learns: act, save, load, export, and the result of a comparison.

This package needs NumPy only. It imports neither agents nor algorithms.
"""

from matrixrl.policies.given import PolicySpace, read_actions
from matrixrl.policies.policy import FORMAT, VERSION, Policy
from matrixrl.records import Comparison

__all__ = ["FORMAT", "VERSION", "Comparison", "Policy", "PolicySpace", "read_actions"]
