"""The usual policies of the cases, with their parameters chosen by the known P, and logs of policies.

An agent that knows nothing is compared with them; see docs/cases.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import matrixrl
from matrixrl.envs import PerishableStock
from matrixrl.envs.icu_sepsis import clinicians_policy
from matrixrl.problems import evaluate_batch

MOST_VALUES = 1 << 22  # numbers of values that are computed together
MOST_POLICIES = 200_000  # that are tried
HALVINGS = 100  # of the interval of the value of a unit


def best_of(mdp: matrixrl.FiniteMDP, family: Iterable[tuple[str, Any]]) -> matrixrl.Policy:
    """Return the policy of a family with the largest value V^π(s0), computed exactly from the known P.

    Args:
        mdp: Known MDP.
        family: Description and actions (S,) of each policy, counted from 0, which are the same at all stages. The first
            one of several best policies is taken.

    >>> mdp = matrixrl.make("river-swim").unwrapped.mdp
    >>> best_of(mdp, [("left", np.zeros(6, dtype=int)), ("right", np.ones(6, dtype=int))]).description
    'right'
    """
    names, rows = zip(*family, strict=True)
    tables = np.stack(rows)
    step = max(1, MOST_VALUES // (mdp.n_states * (mdp.horizon + 1)))
    values = []
    for first in range(0, len(tables), step):
        some = tables[first : first + step]
        policies = np.broadcast_to(some[:, None, :], (len(some), mdp.horizon, mdp.n_states))
        policies = mdp.stages.inner_policy(policies)
        values.append(evaluate_batch(mdp, policies)[:, 0] @ mdp.task.start)
    best = int(np.argmax(np.concatenate(values)))
    n_actions = mdp.task.n_own_actions
    return matrixrl.Policy(np.tile(tables[best], (mdp.horizon, 1)), n_actions=n_actions, description=names[best])


def best_level(mdp: matrixrl.FiniteMDP, position: Any, most: Any, *, suffix: str = "") -> matrixrl.Policy:
    """Return the base-stock policy with the largest value: order up to one level, as far as the largest orders allow.

    Args:
        mdp: Known MDP whose actions are the sizes of orders.
        position: (S,) Stock on hand and on order, which the order raises to the level.
        most: Largest order, for each state or for all.
        suffix: End of the description of the policy, which begins with "base stock" and the level.
    """
    family = [
        (f"base stock {level}{suffix}", np.clip(level - position, 0, most).astype(np.int64))
        for level in range(int(position.max()) + 1)
    ]
    return best_of(mdp, family)


def best_base_stock(env: Any) -> matrixrl.Policy:
    """Return the base-stock policy with the largest value: order up to one level of stock and orders on their way.

    It is found by trying all levels with the known demand, and optimal in the long run where pieces arrive at once and
    never expire; elsewhere it is what practice uses.

    Args:
        env: A `LostSales` or `PerishableStock` environment, wrapped or not.

    >>> best_base_stock(matrixrl.make("lost-sales")).description
    'base stock 12'
    """
    shop = env.unwrapped
    if isinstance(shop, PerishableStock):
        return best_level(shop.mdp, shop.pieces.sum(axis=1), shop.max_order)
    position = shop.stock + shop.on_order
    return best_level(shop.mdp, position, shop.capacity - position)


def best_base_stock_with_waste(env: Any) -> matrixrl.Policy:
    """Return the best base-stock policy that adds the waste to be expected until the order arrives to each order.

    The waste is that of days whose demand is the mean, rounded (the idea of Broekmeulen and van Donselaar 2009, A
    Heuristic to Manage Perishable Inventory with Batch Ordering, Positive Lead-Times, and Time-Varying Demand,
    Computers & Operations Research 36(11)).

    Args:
        env: A `PerishableStock` environment, wrapped or not.

    >>> best_base_stock_with_waste(matrixrl.make("perishable-stock")).description
    'base stock 5, expected waste added'
    """
    shop = env.unwrapped
    typical = round(float(shop.demand @ np.arange(len(shop.demand))))
    pieces, wasted = shop.pieces, np.zeros(len(shop.pieces), dtype=np.int64)
    for _ in range(shop.lead_time):
        kept, _, expired = shop.after_demand(pieces, typical)
        wasted += expired
        nothing = np.zeros((len(pieces), 1), dtype=np.int64)
        pieces = np.concatenate([nothing, pieces[:, : shop.lead_time - 1], kept], axis=1)
    position = shop.pieces.sum(axis=1) - wasted
    return best_level(shop.mdp, position, shop.max_order, suffix=", expected waste added")


def best_thresholds(env: Any) -> matrixrl.Policy:
    """Return the best policy that admits a class while there are fewer customers than its threshold.

    A class that pays more has a threshold that is at least as large (trunk reservation). All such thresholds are tried
    with the known rates.

    Args:
        env: A `QueueAdmission` environment, wrapped or not.

    >>> best_thresholds(matrixrl.make("queue-admission")).description
    'thresholds 10, 6'
    """
    queue = env.unwrapped
    most, n_classes = queue.capacity, len(queue.revenues)
    count = math.comb(most + n_classes, n_classes)
    if count > MOST_POLICIES:
        raise matrixrl.InvalidInput(f"there must be at most {MOST_POLICIES:,} policies with thresholds; got {count:,}")
    cheapest_first = np.argsort(queue.revenues, kind="stable")
    family = []
    for ordered in itertools.combinations_with_replacement(range(most + 1), n_classes):
        thresholds = np.empty(n_classes, dtype=np.int64)
        thresholds[cheapest_first] = ordered
        admits = queue.customers < np.append(0, thresholds)[queue.arriving]
        family.append((f"thresholds {', '.join(map(str, thresholds))}", admits.astype(np.int64)))
    return best_of(queue.mdp, family)


def best_fixed_price(env: Any) -> matrixrl.Policy:
    """Return the best policy that asks one price in all periods, found by trying all prices with the known demand.

    Args:
        env: A `DynamicPricing` environment, wrapped or not.

    >>> best_fixed_price(matrixrl.make("dynamic-pricing")).description
    'price 110'
    """
    shop = env.unwrapped
    constant = np.ones(shop.mdp.n_states, dtype=np.int64)
    return best_of(shop.mdp, [(f"price {price:g}", a * constant) for a, price in enumerate(shop.prices)])


def fluid_prices(env: Any) -> matrixrl.Policy:
    r"""Return the prices of the fluid problem, which is solved again in every period for the units that are left.

    The fluid problem replaces demand by its mean: \(\max \sum_k p_k d_k(p_k)\) with \(\sum_k d_k(p_k) \le n\) over the
    periods that are left. With the value v of a unit, which makes the sum fit, the price of each period maximises
    \((p - v)\,d_k(p)\). This is the heuristic of Gallego and van Ryzin (1994) on a grid of prices, with the known
    demand of every period.

    Args:
        env: A `DynamicPricing` environment, wrapped or not.

    >>> fluid_prices(matrixrl.make("dynamic-pricing")).table[:, 10].tolist()[::5]
    [2, 2, 2, 3]
    """
    shop = env.unwrapped
    table = np.zeros((shop.horizon, shop.mdp.n_states), dtype=np.int64)
    for stage in range(shop.horizon):
        for units in range(1, shop.mdp.n_states):
            table[stage, units] = first_price(shop.prices, shop.demand[stage:], units)
    return matrixrl.Policy(table, n_actions=len(shop.prices), description="fluid prices, solved again in every period")


def first_price(prices: Any, demand: Any, units: int) -> int:
    """Return the price of the first period in the fluid problem with mean demands (H, A) of the periods left."""

    def chosen(value: float) -> Any:
        return np.argmax((prices - value) * demand, axis=1)

    def sold(value: float) -> float:
        return float(demand[np.arange(len(demand)), chosen(value)].sum())

    low, high = 0.0, float(prices[-1])
    if sold(low) <= units:
        return int(chosen(low)[0])
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if sold(middle) > units else (low, middle)
    return int(chosen(high)[0])


def policy_log(mdp: matrixrl.FiniteMDP, policy: Any, n_episodes: int, seed: int) -> dict[str, Any]:
    """Return simulated episodes of a policy as a log that `Agent.learn_from` reads.

    Args:
        mdp: Known MDP.
        policy: A `Policy`, its table (H, S), or the probabilities (S, A) of a random policy.
        n_episodes: Number of episodes.
        seed: Seed of all random numbers.

    Returns:
        The columns episode, step, state, action, reward, next_state and terminated, one row for each step.

    >>> mdp = matrixrl.make("river-swim").unwrapped.mdp
    >>> log = policy_log(mdp, np.full((6, 2), 0.5), n_episodes=3, seed=0)
    >>> matrixrl.MatrixRL("river-swim", seed=0).plan_log(log).n_steps
    72
    """
    random, given = np.random.default_rng(seed), np.asarray(policy)
    chances = np.eye(mdp.task.n_own_actions)[given] if given.dtype.kind in "iu" else given[None]
    cumulated = np.cumsum(chances, axis=-1)
    cumulated /= cumulated[..., -1:]  # exactly 1 from the last action on that is ever taken

    def act(stage: int, states: Any) -> Any:
        rows = cumulated[stage % len(cumulated), states]
        chosen = (rows <= random.random((len(states), 1))).sum(axis=1)
        return mdp.stages.inner(chosen, np.full(len(chosen), stage))

    steps = mdp.rollout(random.random((n_episodes, mdp.draws_per_episode)), act)
    episodes, stages = np.nonzero(steps.taken)
    actions = steps.actions[steps.taken]
    return {
        "episode": episodes,
        "step": stages,
        "state": steps.states[steps.taken],
        "action": mdp.stages.own(actions),
        "reward": steps.rewards[steps.taken],
        "next_state": steps.next_states[steps.taken],
        "terminated": steps.ended[steps.taken],
    }


def clinicians_log(n_episodes: int, seed: int, *, horizon: int = 31) -> dict[str, Any]:
    """Return simulated episodes of the clinicians' policy as a log that `Agent.learn_from` reads.

    Args:
        n_episodes: Number of episodes.
        seed: Seed of all random numbers.
        horizon: Steps in an episode, as in `ICUSepsis`.

    Returns:
        The columns episode, step, state, action, reward, next_state and terminated, one row for each step.

    >>> log = clinicians_log(3, seed=0)
    >>> sorted(log), set(log["episode"].tolist())
    (['action', 'episode', 'next_state', 'reward', 'state', 'step', 'terminated'], {0, 1, 2})
    """
    return policy_log(matrixrl.make("icu-sepsis", horizon=horizon).unwrapped.mdp, clinicians_policy(), n_episodes, seed)
