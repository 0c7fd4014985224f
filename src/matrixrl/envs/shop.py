"""The shop of `matrixrl demo`: stock of one product, ordered by the box, and a demand that depends on the weekday."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import poisson

from matrixrl.problems import KnownDynamics
from matrixrl.records import IntArray

__all__ = ["shop", "usual_orders"]

SHELF, DAYS, BOX, WEEK = 25, 28, 5, 7
MEANS = (6.0, 5.0, 5.0, 6.0, 8.0, 12.0, 9.0)  # demand of the days of the week
_USUAL = 10  # the mean demand of a day, 7.3 pieces, in whole boxes


def step(state: Any, boxes: Any, demand: Any) -> tuple[Any, Any]:
    """Return stock and weekday of tomorrow, and the euros earned today.

    A piece costs 12 euros and sells for 25; one that is left costs 0.5 a day, and a lost sale 3.
    """
    stock, day = state
    delivered = np.minimum(BOX * boxes, SHELF - stock)
    sold = np.minimum(stock + delivered, demand)
    left = stock + delivered - sold
    return (left, (day + 1) % WEEK), 25.0 * sold - 12.0 * delivered - 0.5 * left - 3.0 * (demand - sold)


def shop() -> KnownDynamics:
    """Return the shop: 182 states (stock and weekday), orders of 0 … 5 boxes, months of 28 days.

    Demand is Poisson with a mean for each day of the week, which agents do not know, and at most what the shelf holds.

    >>> import matrixrl
    >>> round(matrixrl.solve(shop().mdp).start_value)
    2515
    """
    demands = np.arange(SHELF + 1)
    law = poisson.pmf(demands, np.array(MEANS)[:, None])
    law[:, -1] += poisson.sf(SHELF, MEANS)
    return KnownDynamics(
        step,
        outcomes=len(demands),
        states=(SHELF + 1, WEEK),
        n_actions=6,
        horizon=DAYS,
        start=(0, 0),
        laws=lambda state, boxes: state[1] + 0 * boxes,
        law=law,
        vectorized=True,
    )


def usual_orders() -> IntArray:
    """Return the rule that the shop has used so far, as (S,) boxes: at least 10 pieces on the shelf, on every day.

    >>> usual_orders().reshape(26, 7)[:, 0].tolist()[:12]
    [2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 0, 0]
    """
    stock = np.arange((SHELF + 1) * WEEK) // WEEK
    return np.asarray(np.maximum(-(-(_USUAL - stock) // BOX), 0))
