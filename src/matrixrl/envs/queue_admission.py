"""QueueAdmission: which customers to let into a queue with several servers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from matrixrl.checks import fail, fits_memory, flag, integer, number, shaped, within
from matrixrl.envs.cases import Outcome, range_of, table_of
from matrixrl.features import Features, OneHotPsi
from matrixrl.problems import FiniteMDP, MDPEnv
from matrixrl.records import FloatArray, IntArray

__all__ = ["QueueAdmission"]


class QueueAdmission(MDPEnv):
    r"""Queue M/M/c/K with classes of customers; action 1 admits the customer who arrives, action 0 turns them away.

    Customers of class j arrive at rate \(\lambda_j\) and pay \(r_j\) when they are admitted. Each of c servers
    finishes at rate μ, and every customer who waits costs w per unit of time. The chain is uniformised with
    \(\Lambda = \sum_j \lambda_j + c\mu\): with y customers in the system after the decision, the next event is an
    arrival of class j with probability \(\lambda_j/\Lambda\), a departure with probability
    \(\min(y, c)\,\mu/\Lambda\), and nothing otherwise. A step earns the payment of an admitted customer less
    \(w\,(y - c)^+/\Lambda\), the expected cost of waiting until the next event.

    The state is the number n of customers in the system and the class that arrives (0 if nobody does), with the number
    n·(J + 1) + class. Admitting is allowed if somebody arrives and the system is not full. With equal service rates and
    no waiting cost, the optimal policy in the long run is a threshold for each class (Miller 1969, A Queueing Reward
    System with Several Customer Classes, Management Science 16(3)).

    Args:
        servers: Number c of servers.
        capacity: Largest number K of customers in the system, at least c.
        horizon: Events in an episode.
        arrival_rates: Rates λ of the classes.
        revenues: Payments r of the classes.
        service_rate: Rate μ of a server.
        waiting_cost: Cost w of a customer who waits, per unit of time.
        post_decision: Whether the features of a pair are those of its number y of customers after the decision. Pairs
            with the same y share their transition probabilities, so K + 1 vectors are learned; rewards must be known.
        noisy_rewards: Whether rewards are drawn from the ends of their range, with the given means.

    Attributes:
        customers: (S,) Customers in the system in each state.
        arriving: (S,) Class that arrives in each state, counted from 1; 0 for nobody.

    >>> import matrixrl
    >>> env = matrixrl.make("queue-admission").unwrapped
    >>> env.mdp.n_states, env.mdp.task.n_pairs
    (33, 53)
    """

    def __init__(
        self,
        servers: int = 5,
        capacity: int = 10,
        horizon: int = 100,
        *,
        arrival_rates: ArrayLike = (2.0, 6.0),
        revenues: ArrayLike = (10.0, 3.0),
        service_rate: float = 1.0,
        waiting_cost: float = 1.0,
        post_decision: bool = False,
        noisy_rewards: bool = False,
    ) -> None:
        self.servers = c = integer("servers", servers, low=1, remedy="Give at least one server.")
        self.capacity = most = integer("capacity", capacity, low=c, remedy="Give at least as many as servers.")
        rates = shaped("arrival_rates", arrival_rates, (None,), remedy="Give one rate for each class.")
        self.revenues: FloatArray = shaped("revenues", revenues, (len(rates),), remedy="Give one for each class.")
        if not len(rates):
            fail("arrival_rates", "must have at least one class", "none", "Such as (2.0, 6.0).")
        within("arrival_rates", rates, 1e-9, 1e9, remedy="Give rates above 0.")
        within("revenues", self.revenues, 0.0, 1e9, remedy="Give payments of at least 0.")
        rate = number("service_rate", service_rate, low=1e-9, high=1e9, remedy="Give a rate above 0.")
        waiting = number("waiting_cost", waiting_cost, low=0.0, high=1e9, remedy="Give a cost of at least 0.")
        n_states = (most + 1.0) * (len(rates) + 1.0)
        fits_memory("capacity", 8.0 * n_states * (len(rates) + 3), f"{most:,}", remedy="Make it smaller.")
        n_classes = len(rates)
        self.customers, self.arriving = np.divmod(np.arange((most + 1) * (n_classes + 1)), n_classes + 1)
        allowed = np.stack([np.ones_like(self.arriving, dtype=bool), (self.arriving > 0) & (self.customers < most)], 1)
        after = np.minimum(self.customers[:, None] + np.array([0, 1]), most)
        total = float(rates.sum() + c * rate)
        paid = np.append(0.0, self.revenues)[self.arriving][:, None] * np.array([0.0, 1.0])
        reward = paid - waiting / total * np.maximum(after - c, 0)
        busy = np.minimum(after, c) * rate / total
        table, _ = table_of(_events(after, rates / total, busy))
        features = None
        if flag("post_decision", post_decision):
            features = Features(np.eye(most + 1)[after], OneHotPsi(len(self.customers)))
        mdp = FiniteMDP(
            table,
            reward,
            horizon,
            reward_range=range_of(reward, allowed),
            allowed=allowed,
            features=features,
            noisy_rewards=noisy_rewards,
        )
        super().__init__(mdp)


def _events(after: IntArray, chances: FloatArray, busy: FloatArray) -> Iterator[Outcome]:
    """Return the events after a decision (S, A): arrivals of each class (J,), a departure (S, A), and nothing."""
    first = after * (len(chances) + 1)  # the state with so many customers in which nobody arrives
    for j, chance in enumerate(chances):
        yield chance, first + j + 1, 0.0
    yield busy, np.maximum(after - 1, 0) * (len(chances) + 1), 0.0
    yield 1.0 - chances.sum() - busy, first, 0.0
