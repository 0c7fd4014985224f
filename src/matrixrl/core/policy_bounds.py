"""Bounds on the values of two given policies and on their difference, from one confidence set (docs/proofs.md, 12)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matrixrl.core.backup import Frame
from matrixrl.core.value_bounds import ValueBounds
from matrixrl.records import FloatArray, IntArray

__all__ = ["PolicyBounds", "PolicyIntervals", "policy_bounds"]

_FIRST, _SECOND, _DIFFERENCE = range(3)


class PolicyBounds(NamedTuple):
    """Bounds on the values of two policies and on their difference, in unit reward.

    Attributes:
        lower: (3, B, H+1, S) Lower bounds on the values of the first and the second policy, and on their difference.
        upper: (3, B, H+1, S) Upper bounds, likewise.
    """

    lower: FloatArray
    upper: FloatArray


class PolicyIntervals(NamedTuple):
    """Bounds on V(s0) of two policies and on their difference for B replicas, in the environment's unit.

    Attributes:
        lower: (3, B) Lower bounds for the first policy, for the second one, and on their difference.
        upper: (3, B) Upper bounds, likewise.
        empty: (B,) Number of pairs that raise the misspecification alarm.
    """

    lower: FloatArray
    upper: FloatArray
    empty: IntArray


def policy_bounds(
    bounds: ValueBounds,
    first: IntArray | FloatArray,
    second: IntArray | FloatArray,
    frame: Frame,
    *,
    ceiling: FloatArray | None = None,
) -> PolicyBounds:
    """Return bounds that hold for any two policies together wherever the confidence set holds.

    The policies may have been chosen by the data, as the bounds on next values hold for all values at once. The
    probability with which both policies take the same action is backed up with the difference of the next stage, and
    the rest with the bounds of each policy; the result is never wider than the difference of the separate bounds.

    Args:
        bounds: Bounds on next values and rewards.
        first: (B, H, S) Actions, or (B, H, A, S) probabilities of actions.
        second: Likewise, of the other policy.
        frame: Horizon and sizes.
        ceiling: (B, H, A, S) Upper bounds on Q*, which no policy exceeds.
    """
    n, horizon = bounds.n_replicas, frame.horizon
    lower, upper = np.zeros((2, 3, n, horizon + 1, frame.n_states))
    for h in reversed(range(horizon)):
        weights = np.stack([_weights(policy, h, frame.n_actions) for policy in (first, second)])  # (2, B, A, S)
        common = weights.min(axis=0)
        alone = weights - common
        low, high = np.zeros((2, 3, *common.shape))
        if h < horizon - 1:
            used = bounds.restricted(weights.max(axis=0) > 0.0)
            sides = ((lower, -1.0), (upper, 1.0))
            low, high = (_next_values(used, frame.discount * side[:, :, h + 1], sign) for side, sign in sides)
        low[:_DIFFERENCE] += bounds.least
        high[:_DIFFERENCE] += bounds.most
        if ceiling is not None:
            np.minimum(high[:_DIFFERENCE], ceiling[:, h], out=high[:_DIFFERENCE])
        for policy in (_FIRST, _SECOND):
            most = frame.left(h)  # rewards are in [0, 1]
            lower[policy, :, h] = np.clip(_mean(weights[policy], low[policy]), 0.0, most)
            upper[policy, :, h] = np.clip(_mean(weights[policy], high[policy]), 0.0, most)
        together = _mean(common, low[_DIFFERENCE]), _mean(common, high[_DIFFERENCE])
        apart_low = _mean(alone[_FIRST], low[_FIRST]) - _mean(alone[_SECOND], high[_SECOND])
        apart_high = _mean(alone[_FIRST], high[_FIRST]) - _mean(alone[_SECOND], low[_SECOND])
        lower[_DIFFERENCE, :, h] = np.maximum(together[0] + apart_low, lower[_FIRST, :, h] - upper[_SECOND, :, h])
        upper[_DIFFERENCE, :, h] = np.minimum(together[1] + apart_high, upper[_FIRST, :, h] - lower[_SECOND, :, h])
        if frame.end_state is not None:
            known = frame.left(h) * frame.end_reward
            lower[..., h, frame.end_state] = upper[..., h, frame.end_state] = np.array([[known], [known], [0.0]])
    return PolicyBounds(lower, upper)


def _weights(policy: IntArray | FloatArray, stage: int, n_actions: int) -> FloatArray:
    """Return the probability of each action of a policy at a stage: (B, A, S)."""
    if policy.ndim == 4:
        probabilities: FloatArray = policy[:, stage]
        return probabilities
    taken = policy[:, stage][:, None, :] == np.arange(n_actions)[:, None]
    return np.asarray(taken, dtype=np.float64)


def _next_values(bounds: ValueBounds, values: FloatArray, sign: float) -> FloatArray:
    """Return bounds on the expected next values of all pairs: (3, B, S) → (3, B, A, S)."""
    found = [
        np.clip(
            bounds.bound(one, sign=sign),
            one.min(axis=1)[:, None, None],  # P V is an average of V, also where the set does not use it
            one.max(axis=1)[:, None, None],
        )
        for one in values
    ]
    return np.stack(found)


def _mean(weights: FloatArray, q: FloatArray) -> FloatArray:
    """Return the sum of q (B, A, S) over actions, with weights (B, A, S): (B, S)."""
    total: FloatArray = np.einsum("bas,bas->bs", weights, q)
    return total
