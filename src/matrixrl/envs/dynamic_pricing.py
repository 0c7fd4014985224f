"""DynamicPricing: which price to ask for a stock that must be sold before a deadline."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import poisson

from matrixrl.checks import fail, fits_memory, integer, number, shaped, within
from matrixrl.envs.cases import range_of, table_of
from matrixrl.problems import FiniteMDP, MDPEnv
from matrixrl.records import FloatArray

__all__ = ["DynamicPricing"]


class DynamicPricing(MDPEnv):
    r"""Units that are sold over some periods, such as the seats of a flight; the action is the price of a period.

    In period h the number of customers who buy at price p is Poisson with mean \(\lambda e^{-p/w_h}\): λ customers look
    at the price, and each pays at most an exponential amount with mean \(w_h\), which goes from `early` in the first
    period to `late` in the last one in equal steps. Units that are not sold at the deadline are worth nothing. The
    reward is the expected revenue of the period. Laws and rewards depend on the period, so that the MDP has one table
    for each stage.

    The state is the number of units that are left; an episode ends when all are sold. With one willingness to pay for
    all periods and short periods this is the problem of Gallego and van Ryzin (1994, Optimal Dynamic Pricing of
    Inventories with Stochastic Demand over Finite Horizons, Management Science 40(8)) with exponential demand.

    Args:
        capacity: Units to sell.
        horizon: Periods until the deadline.
        prices: Prices to choose from, in increasing order.
        customers: Mean number λ of customers in a period.
        early: Mean willingness to pay in the first period.
        late: Mean willingness to pay in the last period.
        noisy_rewards: Whether rewards are drawn from the ends of their range, with the given means.

    Attributes:
        prices: (A,) The prices.
        willingness: (H,) Mean willingness to pay in each period.
        demand: (H, A) Mean number of customers who buy, if there are enough units.

    >>> import matrixrl
    >>> env = matrixrl.make("dynamic-pricing").unwrapped
    >>> env.mdp.n_states, int(env.action_space.n), env.mdp.stages.n_classes
    (11, 6, 20)
    """

    def __init__(
        self,
        capacity: int = 10,
        horizon: int = 20,
        *,
        prices: ArrayLike = (40.0, 60.0, 80.0, 110.0, 150.0, 200.0),
        customers: float = 2.0,
        early: float = 50.0,
        late: float = 120.0,
        noisy_rewards: bool = False,
    ) -> None:
        self.capacity = most = integer("capacity", capacity, low=1, remedy="Give at least one unit.")
        n_periods = integer("horizon", horizon, low=1, remedy="Give the number of periods.")
        self.prices: FloatArray = shaped("prices", prices, (None,), remedy="Give some prices.")
        within("prices", self.prices, 1e-9, 1e9, remedy="Give prices above 0.")
        if (np.diff(self.prices) <= 0.0).any():
            fail("prices", "must increase", self.prices.tolist(), "Sort them, and leave out repeated ones.")
        mean = number("customers", customers, low=0.0, high=1e4, open_ends=True, remedy="Such as 2.")
        ends = [
            number(name, value, low=1e-9, high=1e9, remedy="Give an amount above 0.")
            for name, value in (("early", early), ("late", late))
        ]
        fits_memory(
            "capacity", 2.0 * n_periods * len(self.prices) * (most + 1.0) ** 2, f"{most:,}", remedy="Make it smaller."
        )
        self.willingness: FloatArray = np.linspace(ends[0], ends[1], n_periods)
        self.demand: FloatArray = mean * np.exp(-self.prices / self.willingness[:, None])
        laws, rewards = zip(*(self._period(demand) for demand in self.demand), strict=True)
        reward = np.stack(rewards)
        mdp = FiniteMDP(
            list(laws),
            reward,
            n_periods,
            reward_range=range_of(reward),
            start=most,
            end_state=0,
            noisy_rewards=noisy_rewards,
        )
        super().__init__(mdp)

    def _period(self, demand: FloatArray) -> tuple[Any, FloatArray]:
        """Return P as a sparse matrix (S·A, S) and the expected revenue (S, A) of a period with mean demands (A,)."""
        left = np.arange(self.capacity + 1)[:, None]
        outcomes = []
        for sold in range(self.capacity + 1):
            exactly, more = poisson.pmf(sold, demand), poisson.sf(sold - 1, demand)
            chance = np.where(left > sold, exactly, np.where(left == sold, more, 0.0))
            outcomes.append(
                (chance, np.maximum(left - sold, 0) + np.zeros_like(demand, dtype=np.int64), self.prices * sold)
            )
        table, reward = table_of(outcomes)
        return table, reward
