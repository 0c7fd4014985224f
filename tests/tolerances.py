"""Tolerances of the tests, each with its reason."""

from __future__ import annotations

EXACT = 1e-12
"""Two formulas for one number, both a handful of well-conditioned operations."""

ALGEBRA = 1e-9
"""Two routes that differ by a matrix inverse or thousands of updates (the promise of the incremental widths)."""

SOLVER = 2e-6
"""Against an interior-point solver: what such a solver reaches, not what we do."""
