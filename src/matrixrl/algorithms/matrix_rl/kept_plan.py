"""Rare switching: a plan is kept until the data have grown by 1 + κ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from matrixrl.records import BoolArray, FloatArray

__all__ = ["KeptPlan"]


@dataclass(frozen=True)
class KeptPlan:
    """The plan that is being played, and how much data there was when it was made.

    The size of the data is ln det(A_n / λ), or for counts the number of visits of any group. YW19 plans before every
    episode, κ = 0; Abbasi-Yadkori et al. 2011, section 5.1, bound the cost of κ > 0 by a factor √(1 + κ) of the widths.

    Attributes:
        plan: The plan of all replicas; None before the first one.
        sizes: (B, …) Sizes of the data at the last plan of each replica; None if a plan is due in all of them.
    """

    plan: Any = None
    sizes: FloatArray | None = None

    def due_again(self) -> KeptPlan:
        """Return the same, with a new plan due in every replica."""
        return KeptPlan(self.plan)

    def sizes_after(self, sizes: FloatArray, due: BoolArray) -> FloatArray:
        """Return the sizes to keep after new plans were made where they were due (B,)."""
        if self.sizes is None:
            return sizes.copy()
        return np.where(due.reshape(-1, *(1,) * (sizes.ndim - 1)), sizes, self.sizes)
