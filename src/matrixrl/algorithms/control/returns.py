"""What rewards can still amount to, from those that were seen; no range has to be declared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.records import BoolArray, FloatArray

__all__ = ["Outlook", "outlook"]

_SAME = 1e-4  # rewards that differ by less than this share of their range are equal


@dataclass(frozen=True)
class Outlook:
    """Ranges of returns, and how much new states attract.

    Attributes:
        low: (H,) smallest return from each stage on.
        high: (H,) largest return from each stage on.
        best: Largest return of an episode, without any bonus.
        bonus: Reward that is added for a state of which nothing is known.
        is_blind: Whether rewards and ends have said nothing about states yet.
    """

    low: FloatArray
    high: FloatArray
    best: float
    bonus: float
    is_blind: bool


def outlook(rewards: FloatArray, actions: FloatArray, ended: BoolArray, horizon: int, exploration: float) -> Outlook:
    """Return the ranges of returns that follow from all steps seen.

    While rewards depend on nothing but the action and no end made a difference, nothing can be gained but knowledge:
    the bonus then exceeds what any episode can cost. Afterwards it only breaks ties.

    Args:
        rewards: (n,) rewards.
        actions: (n, q) coordinates of actions.
        ended: (n,) whether the environment ended the episode.
        horizon: H.
        exploration: Bonus as a share of the range of rewards.
    """
    spread, size = float(rewards.max() - rewards.min()), float(np.abs(rewards).max())
    rows = np.column_stack([np.ones(len(rewards)), actions, actions * actions])
    fit = rows @ np.linalg.lstsq(rows, rewards, rcond=None)[0]
    by_action = bool(np.abs(rewards - fit).max() <= _SAME * max(spread, 1e-6))
    is_blind = by_action and not (ended.any() and size > 0.0)
    bonus = max(1.0, horizon * spread) if is_blind else exploration * max(spread, size)
    left = np.arange(horizon, 0, -1.0)
    on = rewards[~ended] if (~ended).any() else rewards
    best = float(on.max())
    once = max(0.0, float(rewards[ended].max()) - best) if ended.any() else 0.0
    high = np.maximum(left * best, best) + once
    low = np.minimum(left * float(rewards.min()), min(0.0, float(rewards.min())))
    return Outlook(low, np.maximum(high, low) + left * bonus, float(high[0]), bonus, is_blind)
