"""What is kept of a stretch of episodes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["Stretch"]


@dataclass(frozen=True)
class Stretch:
    """n episodes of B replicas, in the environment's unit.

    Attributes:
        states: (B, n, H, …) states before each step.
        actions: (B, n, H) actions.
        regret: (B, n) exact regret; NaN where it is not measured.
        returns: (B, n) realised returns.
        lengths: (B, n) number of steps taken.
        upper: (B, n) optimistic value of the start; NaN where an algorithm has none.
        alarms: (B, n) whether the misspecification alarm was on.
        certified: (B, n, 2) lower and upper bound of each episode's certificate; NaN where there is none.
    """

    states: NDArray[Any]
    actions: IntArray
    regret: FloatArray
    returns: FloatArray
    lengths: IntArray
    upper: FloatArray
    alarms: BoolArray
    certified: FloatArray

    @classmethod
    def join(cls, stretches: list[Stretch]) -> Stretch:
        """Return consecutive stretches as one."""
        if len(stretches) == 1:
            return stretches[0]
        return cls(*(np.concatenate([getattr(s, f.name) for s in stretches], axis=1) for f in fields(cls)))
