"""What backward induction asks of any confidence set: bounds on Q from values of the next stage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from matrixrl.records import BoolArray, FloatArray, IntArray
from matrixrl.tolerances import TIE

__all__ = ["Ends", "OptimalBounds", "PlanArrays", "ValueBounds"]


class OptimalBounds(NamedTuple):
    """Bounds on Q* of one stage.

    Attributes:
        lower: (B, A, S) Lower bounds on Q*, not on the Q of a policy.
        upper: (B, A, S) Upper bounds on Q*.
        contradicted: (B,) Number of pairs whose bounds contradict the features (misspecification alarm).
    """

    lower: FloatArray
    upper: FloatArray
    contradicted: IntArray


class Ends(NamedTuple):
    """The end state, and the discount, as compiled backups take them.

    Attributes:
        state: Number of the end state, or -1 if there is none.
        values: (H,) Its unit value at every stage.
        discount: Factor γ of the values of the next stage.
    """

    state: int
    values: FloatArray
    discount: float


class PlanArrays(NamedTuple):
    """Arrays that a compiled backup reads and fills in.

    Attributes:
        tie_break: (B, A) Numbers that are added to Q to break ties.
        ends: End state and discount.
        values: (B, H+1, S) Array that is filled in; `values[:, H]` must be zero.
        policy: (B, H, S) Array that is filled in.
        choices: (H, 2) First action of each stage, and the one after its last.
        preference: (B, H, A, S) Preferences in [0, H] that break ties before `tie_break`, or None.
        q_out: (B, H, A, S) Array that is filled in with the optimistic Q, or None.
        allowed: (A, S) Allowed actions of each state, or None if all are.
    """

    tie_break: FloatArray
    ends: Ends
    values: FloatArray
    policy: IntArray
    choices: IntArray
    preference: FloatArray | None = None
    q_out: FloatArray | None = None
    allowed: BoolArray | None = None

    def rewards(self, believed: FloatArray) -> FloatArray:
        """Return the rewards that a compiled backup adds to next values: (B, P), −∞ for actions that are not allowed.

        Args:
            believed: (A, S) or (B, A, S) Bounds on unit rewards.
        """
        n_replicas = len(self.values)
        if self.allowed is not None:
            believed = np.where(self.allowed, believed, -np.inf)
        by_replica = np.broadcast_to(believed, (n_replicas, *believed.shape[-2:]))
        return np.ascontiguousarray(by_replica.reshape(n_replicas, -1))

    def arguments(self) -> tuple[Any, ...]:
        """Return the last arguments of a compiled backup, from ties to Q, for the first replica on."""
        return (
            0,
            self.tie_break,
            *self.ends,
            self.choices,
            self.values,
            self.policy,
            _by_pairs(self.preference),
            TIE,
            _by_pairs(self.q_out),
        )


def _by_pairs(table: FloatArray | None) -> FloatArray:
    """Return an array (B, H, A, S) reshaped to (B, H, P), or an empty array for None."""
    return np.zeros((0, 0, 0)) if table is None else table.reshape(*table.shape[:2], -1)


class ValueBounds(ABC):
    """Bounds on Q of B replicas, given their data.

    Attributes:
        n_replicas: Number of replicas B.
        is_normalised: Whether bounds on expected next values are inside the range of the values.
        is_two_sided: Whether upper bounds on V* need lower bounds on V*, so that both are backed up together.
        empty: (B,) Number of pairs that contradict the features (misspecification alarm).
        most: (A, S) or (B, A, S) Upper bounds on unit rewards.
        least: (A, S) or (B, A, S) Lower bounds on unit rewards.
    """

    n_replicas: int
    is_normalised: bool
    is_two_sided: ClassVar[bool] = False
    empty: IntArray
    most: FloatArray
    least: FloatArray

    @abstractmethod
    def q(self, values: FloatArray | None, *, sign: float = 1.0) -> FloatArray:
        """Return bounds on Q (B, A, S): upper for values above V* (sign 1), or lower (sign -1) for any policy.

        Args:
            values: (B, S) Values of the next stage, or None at the last stage, whose next values are 0.
            sign: 1 for upper bounds, -1 for lower bounds.
        """

    @abstractmethod
    def bound(self, values: FloatArray, *, sign: float = 1.0) -> FloatArray:
        """Return bounds on the expected next value of all pairs (B, A, S) that hold for any values, also negative ones.

        Args:
            values: (B, S) Values of the next stage, such as those of a policy that was chosen by the data.
            sign: 1 for upper bounds, -1 for lower bounds.
        """

    def restricted(self, pairs: BoolArray) -> ValueBounds:
        """Return the same bounds for some pairs (B, A, S), which may be faster; those of others may be any number."""
        del pairs
        return self

    def optimal_q(self, lower: FloatArray | None, upper: FloatArray | None) -> OptimalBounds:
        """Return lower and upper bounds on Q* from bounds on V* of the next stage.

        By default each side is backed up by itself: what holds for any values holds for V*.

        Args:
            lower: (B, S) Lower bounds on V* of the next stage, or None at the last stage.
            upper: (B, S) Upper bounds on V* of the next stage, or None at the last stage.
        """
        nothing = np.zeros(self.n_replicas, dtype=np.int64)
        return OptimalBounds(self.q(lower, sign=-1.0), self.q(upper), nothing)

    def has_compiled_form(self, *, sign: float = 1.0) -> bool:
        """Return whether there is a compiled backup for these bounds that is faster than NumPy.

        Args:
            sign: 1 for upper bounds, -1 for lower bounds.
        """
        del sign
        return False

    def fill_in_compiled(self, plan: PlanArrays, *, sign: float = 1.0) -> None:
        """Fill in values and policy with the compiled backup: optimistic (sign 1) or pessimistic (sign -1)."""
        raise NotImplementedError

    def fill_in_lower_values(self, policy: IntArray, ends: Ends, values: FloatArray) -> None:
        """Fill in lower bounds on the values of a policy with the compiled backup, where there is one for sign -1.

        Args:
            policy: (B, H, S) Action of each stage and state.
            ends: End state and discount.
            values: (B, H+1, S) Array that is filled in; `values[:, H]` must be zero.
        """
        raise NotImplementedError
