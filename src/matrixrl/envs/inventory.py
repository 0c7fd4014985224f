"""Inventory: how much to order while demand that is not met is lost, and of a product that expires."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.stats import gamma, poisson

from matrixrl.checks import choice, fits_memory, integer, number
from matrixrl.envs.cases import Outcome, range_of, table_of
from matrixrl.problems import FiniteMDP, MDPEnv
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["LostSales", "PerishableStock"]

_TAIL = 1e-9  # probability of the demands that are counted as the largest one
_LARGEST_DEMAND = 100
_COSTS = ("order_cost", "shortage_cost", "waste_cost", "holding_cost")


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


class PerishableStock(MDPEnv):
    """Stock of a product that expires after a few days; the action is the size of the order.

    Each day an order is placed, demand is met from stock, what has reached its age is thrown away, and the order that
    was placed `lead_time` − 1 days ago arrives overnight. The reward is minus the expected cost of the pieces that are
    ordered, missing, wasted and held overnight. Demand is gamma distributed and rounded to whole pieces. The state
    is the number of pieces on their way and of each age; nothing is forbidden up to the largest order.

    The defaults are experiment 1 with a shelf life of two days of De Moor, Gijsbrechts and Boute (2022, Reward Shaping
    to Improve the Performance of Deep Reinforcement Learning in Perishable Inventory Management, European Journal of
    Operational Research 301(2)): customers take the freshest piece first, which is the hard case. Their experiment 2
    has `issuing` "fifo". The same numbers are in the public scenario definitions of Farrington et al. (2023, Going
    Faster to See Further, the package viso_jax).

    Args:
        shelf_life: Days after which a piece expires, at least 1; the number of states is (max_order + 1) to the power
            shelf_life + lead_time − 1.
        lead_time: Days from an order to its arrival, at least 1.
        horizon: Days in an episode.
        max_order: Largest order.
        issuing: "lifo" if customers take the freshest piece, "fifo" if they take the oldest one.
        mean_demand: Mean of the demand of a day.
        variation: Coefficient of variation of the demand: its standard deviation divided by its mean.
        order_cost: Cost of a piece that is ordered.
        shortage_cost: Cost of a piece that is missing.
        waste_cost: Cost of a piece that expires.
        holding_cost: Cost of a piece that is held overnight.
        noisy_rewards: Whether rewards are drawn from the ends of their range, with the given means.

    Attributes:
        pieces: (S, lead_time − 1 + shelf_life) Pieces on their way, the latest order first, and then pieces in stock,
            the freshest first.
        demand: Probabilities of the demands 0, 1, …, 100.

    >>> import matrixrl
    >>> matrixrl.make("perishable-stock").unwrapped.mdp.n_states
    121
    """

    def __init__(
        self,
        shelf_life: int = 2,
        lead_time: int = 1,
        horizon: int = 30,
        *,
        max_order: int = 10,
        issuing: str = "lifo",
        mean_demand: float = 4.0,
        variation: float = 0.5,
        order_cost: float = 3.0,
        shortage_cost: float = 5.0,
        waste_cost: float = 7.0,
        holding_cost: float = 1.0,
        noisy_rewards: bool = False,
    ) -> None:
        self.shelf_life = integer("shelf_life", shelf_life, low=1, high=50, remedy="Give days, such as 2.")
        self.lead_time = integer("lead_time", lead_time, low=1, high=50, remedy="Give days, such as 1.")
        self.max_order = most = integer("max_order", max_order, low=1, remedy="Try 10.")
        self.issuing = choice("issuing", issuing, ("lifo", "fifo"))
        given = (order_cost, shortage_cost, waste_cost, holding_cost)
        costs = np.array(
            [
                number(name, value, low=0.0, high=1e9, remedy="Give a cost of at least 0.")
                for name, value in zip(_COSTS, given, strict=True)
            ]
        )
        self.demand = _gamma_demand(mean_demand, variation)
        parts = self.lead_time - 1 + self.shelf_life
        n_pairs = (most + 1.0) ** (parts + 1)
        fits_memory("max_order", 3.0 * n_pairs * len(self.demand), f"{most:,}", remedy="Make it smaller.")
        self._sizes = (most + 1,) * parts
        self.pieces: IntArray = np.stack(np.unravel_index(np.arange((most + 1) ** parts), self._sizes), axis=1)
        outcomes = (self._outcome(d, chance, costs) for d, chance in enumerate(self.demand) if chance > 0.0)
        table, reward = table_of(outcomes)
        mdp = FiniteMDP(table, reward, horizon, reward_range=range_of(reward), noisy_rewards=noisy_rewards)
        super().__init__(mdp)

    def _outcome(self, demand: int, chance: float, costs: FloatArray) -> Outcome:
        """Return what a demand leads to and costs at every pair."""
        n_states, orders = len(self.pieces), np.arange(self.max_order + 1)
        kept, missing, wasted = self.after_demand(self.pieces, demand)
        n_coming = self.lead_time - 1
        moved = np.concatenate([self.pieces[:, :n_coming], kept], axis=1)  # one place to the right, behind the order
        following = np.stack(
            [np.ravel_multi_index((np.full(n_states, q), *moved.T), self._sizes) for q in orders], axis=1
        )
        daily = costs[1] * missing + costs[2] * wasted + costs[3] * kept.sum(axis=1)
        return chance, following, -(costs[0] * orders[None, :] + daily[:, None])

    def after_demand(self, pieces: IntArray, demand: int) -> tuple[IntArray, IntArray, IntArray]:
        """Return what a demand leaves of pieces (S, …): those kept (S, shelf_life − 1), those missing and wasted (S,).

        Args:
            pieces: Pieces on their way and of each age, as in the attribute `pieces`.
            demand: Demand of the day.
        """
        left = pieces[:, self.lead_time - 1 :].copy()
        wanted = np.full(len(pieces), demand)
        ages = range(self.shelf_life)
        for age in ages if self.issuing == "lifo" else reversed(ages):
            taken = np.minimum(left[:, age], wanted)
            left[:, age] -= taken
            wanted -= taken
        return left[:, :-1], wanted, left[:, -1]


def _gamma_demand(mean_demand: float, variation: float) -> FloatArray:
    """Return the probabilities of a gamma law rounded to 0, 1, …, 100; what is above counts as 100."""
    mean = number("mean_demand", mean_demand, low=1e-3, high=_LARGEST_DEMAND / 2, remedy="Such as 4.")
    spread = number("variation", variation, low=1e-2, high=10.0, remedy="Such as 0.5.")
    edges = np.append(np.arange(_LARGEST_DEMAND) + 0.5, np.inf)
    below = gamma.cdf(edges, spread**-2.0, scale=mean * spread**2)
    chances: FloatArray = np.diff(below, prepend=0.0)
    return chances
