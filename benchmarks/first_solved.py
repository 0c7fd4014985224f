"""When a control task counts as solved; numpy only, because two environments share it."""

from __future__ import annotations

import numpy as np


def first_solved(task: str, returns: np.ndarray) -> int | None:
    """Return the first episode after which the last ten are at 195 on average, or reach the goal in 80 %."""
    bar = 195.0 if task == "cart-pole" else 0.8
    for n in range(10, len(returns) + 1):
        if returns[n - 10 : n].mean() >= bar:
            return n
    return None
