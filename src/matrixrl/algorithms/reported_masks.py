"""Masks of actions that an environment reports while it is played, state by state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matrixrl.errors import InvalidInput
from matrixrl.records import BoolArray

__all__ = ["NOT_PLAYED", "REPORTED_MASKS", "TRIED", "ReportedMasks"]

REPORTED_MASKS = "told_masks"
"""Name of the array of a saved algorithm."""

TRIED = "tried_pairs"
"""Name of the array of a saved algorithm with the pairs that were learned from."""

NOT_PLAYED = (
    "the environment was not played yet, and it may report that some actions are not allowed; a proof needs them "
    "declared (allowed=…, or allowed='all')"
)
"""Why nothing is proven before the first episode in an environment that may report masks, in words."""

_UNKNOWN = -1


@dataclass(frozen=True)
class ReportedMasks:
    """Allowed actions of the states whose mask was reported; all actions of the other states.

    Attributes:
        known: (S,) Whether the mask of a state was reported, or is not needed because the state is the end state.
        allowed: (S, A) Allowed actions.
    """

    known: BoolArray
    allowed: BoolArray

    @classmethod
    def none(cls, n_states: int, n_actions: int, end_state: int | None) -> ReportedMasks:
        """Return masks of which none was reported."""
        known = np.arange(n_states) == (-1 if end_state is None else end_state)
        return cls(known, np.ones((n_states, n_actions), dtype=np.bool_))

    def with_mask(self, state: int, mask: BoolArray) -> ReportedMasks:
        """Return the masks with that of one more state."""
        known, allowed = self.known.copy(), self.allowed.copy()
        known[state], allowed[state] = True, mask
        return ReportedMasks(known, allowed)

    def regret_words(self) -> str:
        """Return why no regret bound is proven."""
        return "the environment reported allowed actions while it was played; a proof needs them declared (allowed=…)"

    def certificate_words(self, tried: BoolArray | None) -> str | None:
        """Return why a certificate is not proven, or None if it is.

        Args:
            tried: (S, A) Whether a pair was learned from; None if that is not known.
        """
        forbidden = ~self.allowed if tried is None else tried & ~self.allowed
        if forbidden.any():
            count = int(np.count_nonzero(forbidden))
            return (
                f"{count} pair{'s' * (count > 1)} of a state and an action may have been learned from that the "
                "environment reported as not allowed; report the mask at every visit, or declare it (allowed=…)"
            )
        missing = int(np.count_nonzero(~self.known))
        if not missing:
            return None
        plural = "s" * (missing > 1)
        return (
            f"the allowed actions of {missing} state{plural} were not reported yet; "
            "a proof needs them declared (allowed=…)"
        )

    def array(self) -> NDArray[np.int8]:
        """Return the masks as numbers (S, A), for saving: 1 and 0, or -1 where a mask was not reported."""
        return np.where(self.known[:, None], self.allowed, _UNKNOWN).astype(np.int8)

    def restored(self, array: NDArray[np.int8]) -> ReportedMasks:
        """Return the masks that `array` returned, in place of these, of which none was reported.

        Raises:
            InvalidInput: They cannot be masks of this problem.
        """
        if array.shape != self.allowed.shape or array.dtype != np.int8:
            raise InvalidInput(f"{REPORTED_MASKS} must be whole numbers of one byte, of shape {self.allowed.shape}")
        unknown = (array == _UNKNOWN).all(axis=1)
        is_mask = np.isin(array, (0, 1)).all(axis=1) & array.any(axis=1)
        if not (unknown | is_mask).all() or (unknown & self.known).any():
            raise InvalidInput(f"{REPORTED_MASKS} must be 0 and 1 for each action of a state, or -1 for all of them")
        return ReportedMasks(~unknown, np.where(unknown[:, None], True, array == 1))
