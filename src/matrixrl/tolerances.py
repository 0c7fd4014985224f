"""Numerical tolerances that several modules share, each with its reason."""

from __future__ import annotations

from typing import Final

__all__ = ["EMPTY_SET", "EQUAL_REWARDS", "GIVEN_REWARD", "GRAM_RANK", "PROBABILITY", "ROUNDING", "TIE"]

PROBABILITY: Final = 1e-8
"""Largest error of the sum of a row of P, and largest negative probability. Rounding of long sums is smaller."""

ROUNDING: Final = 1e-3
"""Largest bound on the relative rounding error of a half-width that does not count as one. Beyond it A_n is factorised
from visits, or every guarantee is withdrawn (docs/proofs.md, section 18). The bound adds up all errors as if they had
one sign; they are one to three orders of magnitude smaller."""

TIE: Final = 1e-9
"""Actions whose values differ by less than this times the horizon count as equal. Rounding in a matrix product is
about 1e-13 times the horizon, so the policy does not depend on the number of replicas that are simulated together. The
loss of a policy in one episode is at most about ``horizon**2`` times this (docs/proofs.md, section 8)."""

GRAM_RANK: Final = 1e-10
"""Eigenvalues of K_psi below this fraction of the largest one count as zero: inverting them would amplify the rounding
errors of the features (1e-16) to more than 1e-6. Directions that are left out by this rule and are larger than rounding
errors withdraw every guarantee, because P may need them (docs/proofs.md, section 4)."""

EMPTY_SET: Final = 1e-9
"""Relative excess of ε²/‖u‖² over βw² above which the normalised set counts as empty and the misspecification alarm
is raised (docs/proofs.md, section 2), so that rounding alone never raises it. The alarm on rewards (section 5) has the
same relative slack."""

GIVEN_REWARD: Final = 1e-6
"""Largest difference between a given reward and the expected one, as a share of the range of rewards, that does not
count as one (docs/proofs.md, section 5). Rewards in single precision are rounded by less than a tenth of it, and so is
the slack of the declared range."""

EQUAL_REWARDS: Final = 1e-12
"""Largest difference between the rewards that a user's function returns for the outcomes of one state and action, as a
share of the largest reward, that counts as rounding: they become one number. A few additions err by less than 1e-15."""
