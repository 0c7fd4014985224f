"""LostSales: how much to order while demand that is not met is lost."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.stats import poisson

from matrixrl.checks import fits_memory, integer, number
from matrixrl.envs.cases import Outcome, range_of, table_of
from matrixrl.problems import FiniteMDP, MDPEnv
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["LostSales"]

_TAIL = 1e-9  # probability of the demands that are counted as the largest one


class LostSales(MDPEnv):
    r"""Stock of one product with Poisson demand, lost sales and a lead time; the action is the size of the order.

    Each day an order is placed, demand D is met from stock as far as it lasts, and the rest is lost. An order arrives
    before the demand of the same day (`lead_time` 0), of the next day (1) or of the day after that (2). With y pieces
    available on a day the reward is minus the expected cost \(h\,E(y - D)^+ + p\,E(D - y)^+\) of holding and of lost
    sales. The price of a piece is left out, as usual: in the long run it only makes p smaller. An order may not exceed
    what the store can hold besides the stock and the orders on their way, so that large orders are not allowed in most
    states.

    The state is the stock on hand, which includes the orders that have arrived, and, with lead time 2, the order that
    arrives tomorrow. Lead times are counted as by Zipkin (2008, Old and New Methods for Lost-Sales Inventory Systems,
    Operations Research 56(5)), who studies such problems.

    Args:
        capacity: Largest stock, orders on their way included.
        lead_time: Days from an order to its arrival: 0, 1 or 2.
        horizon: Days in an episode.
        mean_demand: Mean of the Poisson demand of a day. Demands beyond the quantile 1 − 10⁻⁹ count as that quantile.
        holding: Cost h of a piece that is left at the end of a day.
        penalty: Cost p of a lost sale.
        noisy_rewards: Whether rewards are drawn from the ends of their range, with the given means.

    Attributes:
        stock: (S,) Pieces on hand in each state.
        on_order: (S,) Pieces that arrive tomorrow.
        demand: Probabilities of the demands 0, 1, 2, ….

    >>> import matrixrl
    >>> env = matrixrl.make("lost-sales").unwrapped
    >>> env.mdp.n_states, env.mdp.task.n_pairs
    (21, 231)
    """

    def __init__(
        self,
        capacity: int = 20,
        lead_time: int = 1,
        horizon: int = 30,
        *,
        mean_demand: float = 5.0,
        holding: float = 1.0,
        penalty: float = 4.0,
        noisy_rewards: bool = False,
    ) -> None:
        self.capacity = most = integer("capacity", capacity, low=1, remedy="Try 20.")
        self.lead_time = integer("lead_time", lead_time, low=0, high=2, remedy="Give 0, 1 or 2 days.")
        mean = number("mean_demand", mean_demand, low=0.0, high=1e4, open_ends=True, remedy="Such as 5.")
        holding = number("holding", holding, low=0.0, high=1e9, remedy="Give a cost of at least 0.")
        penalty = number("penalty", penalty, low=0.0, high=1e9, open_ends=True, remedy="Give a cost above 0.")
        largest = int(poisson.ppf(1.0 - _TAIL, mean))
        size = (most + 1.0) * (most + 2.0) / 2.0 if self.lead_time == 2 else most + 1.0
        fits_memory("capacity", 4.0 * size * (most + 1) * (largest + 1), f"{most:,}", remedy="Make it smaller.")
        pairs = itertools.product(range(most + 1), range(most + 1 if self.lead_time == 2 else 1))
        self.stock, self.on_order = np.array([(x, q) for x, q in pairs if x + q <= most], dtype=np.int64).T
        self.demand: FloatArray = poisson.pmf(np.arange(largest + 1), mean)
        self.demand[-1] += poisson.sf(largest, mean)
        outcomes = [self._outcome(d, chance, holding, penalty) for d, chance in enumerate(self.demand)]
        table, reward = table_of(outcomes)
        allowed: BoolArray = self.stock[:, None] + self.on_order[:, None] + np.arange(most + 1) <= most
        mdp = FiniteMDP(
            table, reward, horizon, reward_range=range_of(reward, allowed), allowed=allowed, noisy_rewards=noisy_rewards
        )
        super().__init__(mdp)

    def _outcome(self, demand: int, chance: float, holding: float, penalty: float) -> Outcome:
        """Return what a demand leads to and costs at every pair; pairs that are not allowed are cut to the capacity."""
        orders = np.arange(self.capacity + 1)[None, :]
        stock, coming = self.stock[:, None], self.on_order[:, None]
        available = stock + (orders if self.lead_time == 0 else 0 * orders)
        left = np.maximum(available - demand, 0)
        cost = holding * left + penalty * np.maximum(demand - available, 0)
        if self.lead_time == 2:
            following = self._number(left + coming, 0 * left + orders)
        else:
            following = np.minimum(left + (orders if self.lead_time == 1 else 0), self.capacity)
        return chance, following, -cost

    def _number(self, stock: IntArray, on_order: IntArray) -> IntArray:
        """Return the numbers of states with lead time 2; what does not fit is cut."""
        table = np.zeros((self.capacity + 1, self.capacity + 1), dtype=np.int64)
        table[self.stock, self.on_order] = np.arange(len(self.stock))
        numbers: IntArray = table[stock, np.minimum(on_order, self.capacity - stock)]
        return numbers
