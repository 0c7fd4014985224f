"""Frozen records that the layers of the library exchange, with the shape of every array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matrixrl.errors import InvalidInput

__all__ = ["BoolArray", "Bounds", "FloatArray", "Guarantee", "IntArray", "Plan", "Steps"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[Any]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Whether a statement is proven; the truth value is `holds`.

    ``first and second`` is therefore the first of two guarantees that does not hold, or the last one.

    Attributes:
        holds: Whether the statement is proven, under the assumptions of the object that makes it.
        reason: Why it is not proven; empty if it is.

    >>> found = Guarantee(True) and Guarantee(False, "exploration 0.5 is below 1")
    >>> bool(found), str(found)
    (False, 'not proven: exploration 0.5 is below 1')
    """

    holds: bool
    reason: str = ""

    def __post_init__(self) -> None:
        if type(self.holds) is not bool or not isinstance(self.reason, str) or self.holds == bool(self.reason):
            rule = "must have a reason exactly if it does not hold: Guarantee(True) or Guarantee(False, 'the reason')"
            raise InvalidInput(f"guarantee {rule}; got Guarantee({self.holds!r}, {self.reason!r})")

    @classmethod
    def unless(cls, *reasons: str | None) -> Guarantee:
        """Return a guarantee that holds unless a reason is given; the first one counts."""
        reason = next(filter(None, reasons), "")
        return cls(not reason, reason)

    @classmethod
    def of(cls, owner: object) -> Guarantee:
        """Return `owner.guarantee`; any other object than a guarantee would be true without being one.

        Raises:
            InvalidInput: A user's own class declares something else.
        """
        found = owner.guarantee  # type: ignore[attr-defined]
        if not isinstance(found, cls):
            raise InvalidInput(
                f"{type(owner).__name__}.guarantee must be a matrixrl.Guarantee; got {found!r}. "
                "Write Guarantee(True) or Guarantee(False, 'the reason')."
            )
        return found

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return "proven" if self.holds else f"not proven: {self.reason}"

    def as_dict(self) -> dict[str, Any]:
        """Return both entries by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Steps:
    """Up to k steps of one episode in each of B replicas.

    Attributes:
        states: (B, k, …) States before each step: numbers or vectors.
        actions: (B, k) Actions, counted from 0.
        rewards: (B, k) Rewards in the environment's unit; 0 for a step that was not taken.
        next_states: (B, k, …) States after each step.
        ended: (B, k) Whether the environment terminated the episode with this step.
        taken: (B, k) Whether the step was taken; False after the end of an episode.
        outcomes: (B, k) Outcome of each step of a problem with known dynamics, counted from 0, −1 where it was not seen
            and does not matter; None for other problems.
    """

    states: NDArray[Any]
    actions: IntArray
    rewards: FloatArray
    next_states: NDArray[Any]
    ended: BoolArray
    taken: BoolArray
    outcomes: IntArray | None = None

    @classmethod
    def of(
        cls,
        states: NDArray[Any],
        actions: NDArray[Any],
        rewards: NDArray[Any],
        next_states: NDArray[Any],
        ended: NDArray[Any] | None = None,
        taken: NDArray[Any] | None = None,
        outcomes: NDArray[Any] | None = None,
    ) -> Steps:
        """Return steps of arrays in the types of `Steps`; by default, all were taken and none ended the episode."""
        actions = np.asarray(actions)
        no, yes = np.zeros(actions.shape, dtype=np.bool_), np.ones(actions.shape, dtype=np.bool_)
        return cls(
            np.asarray(states),
            actions,
            np.asarray(rewards, dtype=np.float64),
            np.asarray(next_states),
            no if ended is None else np.asarray(ended, dtype=np.bool_),
            yes if taken is None else np.asarray(taken, dtype=np.bool_),
            None if outcomes is None else np.asarray(outcomes),
        )

    @property
    def weights(self) -> FloatArray:
        """Weights (B, k) of the steps: 1 if the step was taken, else 0."""
        return self.taken.astype(np.float64)

    def cut(self, length: int) -> Steps:
        """Return the first `length` steps."""
        return self._changed(lambda array: array[:, :length])

    def padded(self, length: int, *, before: bool = False) -> Steps:
        """Return `length` steps, with some that were not taken after these, or before them."""
        missing = length - self.actions.shape[1]
        if missing <= 0:
            return self

        def pad(array: NDArray[Any]) -> NDArray[Any]:
            nothing = np.zeros((array.shape[0], missing, *array.shape[2:]), dtype=array.dtype)
            return np.concatenate([nothing, array] if before else [array, nothing], axis=1)

        return self._changed(pad)

    def _changed(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Steps:
        """Return the steps with every array changed."""
        needed = (self.states, self.actions, self.rewards, self.next_states, self.ended, self.taken)
        made = Steps(*map(change, needed))
        return made if self.outcomes is None else replace(made, outcomes=change(self.outcomes))


class Bounds(NamedTuple):
    """Bounds of a certificate for B replicas, in the environment's unit.

    Attributes:
        upper: (B,) Upper bound on V*(s0).
        lower: (B,) Lower bound on the value V^π(s0) of the policy.
        empty: (B,) Number of pairs that raise the misspecification alarm.
        optimal_lower: (B,) Lower bound on V*(s0), which may exceed V^π(s0); None if none but `lower` is known.
    """

    upper: FloatArray
    lower: FloatArray
    empty: IntArray
    optimal_lower: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of optimistic backward induction for B replicas.

    Attributes:
        policy: (B, H, S) Action to play at each stage and state.
        values: (B, H+1, S) Optimistic values in unit reward; `values[:, H]` is zero.
        empty: (B,) Number of pairs with an empty confidence set (misspecification alarm).
    """

    policy: IntArray
    values: FloatArray
    empty: IntArray

    def updated(self, fresh: Plan, due: BoolArray) -> Plan:
        """Return a plan with the replicas of `fresh` where `due` (B,) is True, and of this plan elsewhere."""
        tables = due[:, None, None]
        policy, values = np.where(tables, fresh.policy, self.policy), np.where(tables, fresh.values, self.values)
        return Plan(policy, values, np.where(due, fresh.empty, self.empty))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the plan by name, for saving."""
        return {"policy": self.policy, "values": self.values, "empty": self.empty}
