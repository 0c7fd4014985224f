"""Every numerical tolerance of the library, each with its reason."""

from __future__ import annotations

from typing import Final

__all__ = ["EMPTY_SET", "GRAM_RANK", "PROBABILITY", "TIE"]

PROBABILITY: Final = 1e-8
"""Rows of P may miss 1, or fall below 0, by this much: float32 tables and long sums stay within it."""

TIE: Final = 1e-9
"""Actions whose values differ by less than this times the horizon count as equal. Rounding in a matrix
product is about 1e-13 of the horizon, so decisions do not depend on how many replicas run at once; what a
policy can lose by it in one episode is at most ``horizon**2`` times this."""

GRAM_RANK: Final = 1e-10
"""Eigenvalues of K_psi below this share of the largest count as zero: its inverse would amplify the rounding
of the features (1e-16) beyond six digits."""

EMPTY_SET: Final = 1e-9
"""The root of the normalised set must be this much (relative) below zero before the misspecification
alarm is raised, so that rounding alone never raises it."""
