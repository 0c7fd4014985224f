"""When a control task counts as solved; numpy only, because environments with other packages share it."""

from __future__ import annotations

import numpy as np


def first_at(returns: np.ndarray, bar: float, window: int) -> int | None:
    """Return the first episode, counted from 1, after which the mean of the last `window` returns is at least `bar`."""
    for n in range(window, len(returns) + 1):
        if np.mean(returns[n - window : n]) >= bar:
            return n
    return None


def first_solved(task: str, returns: np.ndarray) -> int | None:
    """Return the first episode after which the last ten are at 195 on average, or reach the goal in 80 %."""
    return first_at(returns, 195.0 if task == "cart-pole" else 0.8, 10)
