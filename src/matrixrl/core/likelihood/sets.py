"""Names of the likelihood sets, beside those of the balls around M_n."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LIKELIHOOD_SETS", "LikelihoodSet"]


@dataclass(frozen=True)
class LikelihoodSet:
    """A set of laws near the empirical one, for indicator features.

    Attributes:
        name: Name in Python and on the command line.
        summary: One-line description for the command line.
        targeted: Whether upper bounds use the smaller of β₁ (for V* alone) and β_D (for all values), else β_D.
    """

    name: str
    summary: str
    targeted: bool


LIKELIHOOD_SETS = {
    kind.name: kind
    for kind in (
        LikelihoodSet(
            "value-targeted", "laws near the empirical one, at a radius for V* alone (indicator features)", True
        ),
        LikelihoodSet(
            "likelihood", "laws near the empirical one, at a radius for all values (indicator features)", False
        ),
    )
}
"""Likelihood sets by their names in Python and on the command line."""
