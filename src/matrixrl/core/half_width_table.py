"""Half-widths of the bounds for one-hot features, tabulated by the number of visits of a pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.core.confidence import Clock, Confidence, Level
from matrixrl.core.reward import reward_half_width
from matrixrl.linalg import DiagonalPairs
from matrixrl.records import FloatArray

__all__ = ["HalfWidthTable"]

_BLOCK = 1 << 16  # number of rows that are computed together


@dataclass(frozen=True)
class HalfWidthTable:
    """Half-widths of the bounds of a pair with 0, 1, …, T − 1 visits.

    Attributes:
        half_width: (m, T) Half-width for each of the m members of the confidence set.
        reward_half_width: (T,) Half-width of the bounds on the reward; empty if rewards are known.
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
        """Return the table of a set and a radius that depend only on the number of visits of the pair.

        Args:
            confidence: Confidence set and radius.
            size: Number of rows T.
            ridge: Ridge parameter λ.
            clock: Number of the episode n, and number of episodes N; a local radius may depend on N but not on n.
            level: Choice of the radius.
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
            # docs/proofs.md, section 5: the proven radius covers ε = λ/(λ + n) of a one-hot pair with n visits, so its
            # normalised set is never empty.
            assert all(reach.empty is None for reach in reaches)
            for m, reach in enumerate(reaches):
                half_width[m, here] = reach.half_width
            if radii.rewards is not None:
                reward[here] = reward_half_width(design, radii.rewards)[0]
        return cls(half_width, reward)
