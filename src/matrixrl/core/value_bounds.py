"""What backward induction asks of any confidence set: bounds on Q from values of the next stage."""

from __future__ import annotations

from abc import ABC, abstractmethod

from matrixrl.records import FloatArray, IntArray

__all__ = ["ValueBounds"]


class ValueBounds(ABC):
    """Bounds on Q of B replicas, given their data.

    Attributes:
        n_replicas: Number of replicas B.
        is_normalised: Whether bounds on expected next values are inside the range of the values.
        empty: (B,) Number of pairs that contradict the features (misspecification alarm).
    """

    @property
    @abstractmethod
    def n_replicas(self) -> int:
        """Number of replicas B."""

    @property
    @abstractmethod
    def is_normalised(self) -> bool:
        """Whether bounds on expected next values are inside the range of the values."""

    @property
    @abstractmethod
    def empty(self) -> IntArray:
        """Number (B,) of pairs that contradict the features (misspecification alarm)."""

    @abstractmethod
    def q(self, values: FloatArray | None, *, sign: float = 1.0) -> FloatArray:
        """Return bounds on Q (B, A, S): upper for values above V* (sign 1), or lower (sign -1) for any policy.

        Args:
            values: (B, S) Values of the next stage, or None at the last stage, whose next values are 0.
            sign: 1 for upper bounds, -1 for lower bounds.
        """

    def has_compiled_form(self) -> bool:
        """Return whether there is a compiled backup for these bounds that is faster than NumPy."""
        return False

    def fill_in_compiled(
        self,
        tie_break: FloatArray,
        ends: tuple[int, float],
        values: FloatArray,
        policy: IntArray,
        preference: FloatArray | None = None,
        q_out: FloatArray | None = None,
    ) -> None:
        """Fill in optimistic values and policy with the compiled backup.

        Args:
            tie_break: (B, A) Numbers that are added to Q to break ties.
            ends: End state, or -1 if there is none, and its unit reward.
            values: (B, H+1, S) Array that is filled in; `values[:, H]` must be zero.
            policy: (B, H, S) Array that is filled in.
            preference: (B, H, A, S) Preferences in [0, H] that break ties before `tie_break`, or None.
            q_out: (B, H, A, S) Array that is filled in with the optimistic Q, or None.
        """
        raise NotImplementedError
