"""One-hot features: everything that sets and radii say of a pair, tabulated by its number of visits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.core.confidence import Clock, Confidence, Level
from matrixrl.core.reward import reward_half_width
from matrixrl.linalg import DiagonalPairs
from matrixrl.records import FloatArray

__all__ = ["HalfWidthTable"]

_BLOCK = 1 << 16  # numbers of visits that are computed together


@dataclass(frozen=True)
class HalfWidthTable:
    """Half-widths of a pair's bound by visits 0, 1, …, T − 1.

    Attributes:
        half_width: (m, T) for each member of the set.
        reward_half_width: (T,) of the estimated reward; empty where rewards are known.
    """

    half_width: FloatArray
    reward_half_width: FloatArray

    @property
    def size(self) -> int:
        """Number of rows T."""
        return int(self.half_width.shape[1])

    @classmethod
    def of(
        cls, confidence: Confidence, size: int, *, ridge: float, clock: Clock, level: Level = "agent"
    ) -> HalfWidthTable:
        """Return the table of a set and a radius that depend on nothing but a pair's own visits.

        Args:
            confidence: Set and radius.
            size: Number of rows T.
            ridge: λ.
            clock: n and N, of which a local radius may read N.
            level: Which radius.
        """
        half_width = np.empty((len(confidence.set.members), size))
        reward = np.empty(0 if confidence.known_reward else size)
        for first in range(0, size, _BLOCK):
            visits = np.arange(first, min(first + _BLOCK, size), dtype=np.float64)
            here = slice(first, first + len(visits))
            design = DiagonalPairs(len(visits), 1, ridge=ridge)
            design.restore({"counts": visits[None]})
            radii = confidence.radii(design, clock, level=level)
            reaches = confidence.reaches(design, ridge * design.width_sq, radii)
            # docs/proofs.md, 5: the proven radius covers the bias λ/(λ + n) of a one-hot pair: its ball is never empty.
            assert all(reach.empty is None for reach in reaches)
            for m, reach in enumerate(reaches):
                half_width[m, here] = reach.half_width
            if radii.rewards is not None:
                reward[here] = reward_half_width(design, radii.rewards)[0]
        return cls(half_width, reward)
