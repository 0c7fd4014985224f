"""Discounted rewards: an episode is worth Σ γ^h r_h, and its number of steps follows from γ and an accuracy."""

from __future__ import annotations

import math

from matrixrl.checks import fail, number

__all__ = ["checked_accuracy", "checked_discount", "effective_horizon", "total_weight"]

_LONGEST = 10**6  # steps of an episode


def checked_discount(value: object) -> float:
    """Return a factor γ with 0 < γ <= 1."""
    discount = number("discount", value, low=0.0, high=1.0, remedy="Give γ with 0 < γ <= 1; 1 discounts nothing.")
    if discount == 0.0:
        fail("discount", "must be above 0", 0.0, "Give a horizon of 1 if only the first reward counts.")
    return discount


def checked_accuracy(value: object) -> float:
    """Return a share strictly between 0 and 1."""
    share = number("accuracy", value, low=0.0, high=1.0, remedy="Such as 0.01.")
    if not 0.0 < share < 1.0:
        fail("accuracy", "must be strictly between 0 and 1", share, "Such as 0.01.")
    return share


def total_weight(discount: float, n_steps: int) -> float:
    """Return Σ γ^h over so many steps.

    >>> total_weight(1.0, 5), total_weight(0.5, 2)
    (5.0, 1.5)
    """
    if discount == 1.0:
        return float(n_steps)
    return -math.expm1(n_steps * math.log(discount)) / (1.0 - discount)


def effective_horizon(discount: float, accuracy: float = 0.01) -> int:
    """Return the smallest number of steps after which all later rewards weigh less than an accuracy.

    The rewards after H steps weigh γ^H/(1 − γ), which is a share γ^H of all; the result is the smallest H for which
    this share is at most `accuracy`. The value of a policy over H steps is then within `accuracy` times the largest
    possible value of its value over infinitely many steps, if rewards are at least 0.

    Args:
        discount: Factor γ with 0 < γ < 1.
        accuracy: Share of the largest possible value that may be cut off, strictly between 0 and 1.

    >>> effective_horizon(0.9, 0.01)
    44
    """
    gamma = checked_discount(discount)
    if gamma == 1.0:
        fail("discount", "must be below 1 to determine the number of steps", 1.0, "Give horizon=….")
    steps = math.ceil(math.log(checked_accuracy(accuracy)) / math.log(gamma))
    if steps > _LONGEST:
        fail("discount", f"must not need more than {_LONGEST:,} steps for the accuracy", gamma, "Give horizon=….")
    return max(steps, 1)
