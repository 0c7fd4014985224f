"""Problems with known dynamics and unknown noise: how good the greedy policy is, and what is proven, by episode.

`python benchmarks/known_dynamics.py --problems shop` prints a table: KnownDynamics beside an agent that learns every
pair by itself. `--proof 120` says after how many months of lost sales a policy is proven to beat a base stock policy,
`--coverage 100` counts the runs of all problems in which some bound is wrong at δ = 0.5, and `--speed 1000` measures a
problem of 100,000 states.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, poisson

import matrixrl
from matrixrl.envs.shop import BOX, DAYS, MEANS, SHELF, WEEK, shop, step

_ROOM, _SEATS, _WORN = 20, 30, 15


def _cut_poisson(means: Any, most: int) -> NDArray[Any]:
    """Return Poisson laws (K, most + 1) of numbers that are cut at the largest one."""
    law = poisson.pmf(np.arange(most + 1), np.asarray(means)[:, None])
    law[:, -1] += poisson.sf(most, means)
    return law


def lost_sales() -> matrixrl.KnownDynamics:
    """Return the shop where lost sales cost nothing, and nobody sees them."""

    def free(state: Any, boxes: Any, demand: Any) -> tuple[Any, Any]:
        following, euros = step(state, boxes, demand)
        return following, euros + 3.0 * np.maximum(demand - np.minimum(state[0] + BOX * boxes, SHELF), 0)

    return matrixrl.KnownDynamics(
        free,
        outcomes=SHELF + 1,
        states=(SHELF + 1, WEEK),
        n_actions=6,
        horizon=DAYS,
        start=(0, 0),
        laws=lambda state, boxes: state[1] + 0 * boxes,
        law=_cut_poisson(MEANS, SHELF),
        vectorized=True,
        censored=True,
    )


def queue() -> matrixrl.KnownDynamics:
    """Return a queue: serve 0 to 4 customers an hour, who pay 5; servers cost 1.5 and waiting costs 0.3."""

    def step(waiting: Any, servers: Any, arrivals: Any) -> tuple[Any, Any]:
        served = np.minimum(waiting, servers)
        return np.minimum(waiting - served + arrivals, _ROOM), 5.0 * served - 1.5 * servers - 0.3 * waiting

    return matrixrl.KnownDynamics(
        step,
        outcomes=7,
        n_states=_ROOM + 1,
        n_actions=5,
        horizon=24,
        start=0,
        law=_cut_poisson([2.2], 6),
        vectorized=True,
        censored=True,  # those who find the room full leave unseen
    )


def pricing() -> matrixrl.KnownDynamics:
    """Return 30 seats that are sold within 20 days at one of four prices; each price has a law of its demand."""
    prices = np.array([40.0, 60.0, 80.0, 120.0])

    def step(seats: Any, price: Any, demand: Any) -> tuple[Any, Any]:
        sold = np.minimum(seats, demand)
        return seats - sold, prices[price] * sold

    return matrixrl.KnownDynamics(
        step,
        outcomes=9,
        n_states=_SEATS + 1,
        n_actions=4,
        horizon=20,
        start=_SEATS,
        laws=lambda seats, price: price + 0 * seats,
        law=_cut_poisson([3.0, 2.1, 1.5, 0.6], 8),
        vectorized=True,
        censored=True,  # nobody counts who would have bought a seat that is sold
    )


def maintenance() -> matrixrl.KnownDynamics:
    """Return a machine that wears by a random amount: run it, slow it down, or repair it; a breakdown costs 60."""

    def step(wear: Any, action: Any, amount: Any) -> tuple[Any, Any]:
        after = np.where(action == 2, 0, wear + np.where(action == 1, (amount + 1) // 2, amount))
        broken = after >= _WORN
        earned = np.array([10.0, 6.0, -8.0])[action] - 0.2 * wear - 60.0 * broken
        return np.where(broken, 0, after), earned

    return matrixrl.KnownDynamics(
        step,
        outcomes=7,
        n_states=_WORN,
        n_actions=3,
        horizon=30,
        start=0,
        law=binom.pmf(np.arange(7), 6, 0.25)[None],
        vectorized=True,
        censored=True,
    )


PROBLEMS: dict[str, Callable[[], matrixrl.KnownDynamics]] = {
    "shop": shop,
    "lost-sales": lost_sales,
    "queue": queue,
    "pricing": pricing,
    "maintenance": maintenance,
}


class Measured(NamedTuple):
    """Value of the greedy policy, lower and upper bound, and seconds, after some number of episodes."""

    value: float
    lower: float
    upper: float
    seconds: float


def measured(problem: Any, mdp: Any, seed: int, episodes: list[int], **settings: Any) -> list[Measured]:
    """Return what was measured after each of some numbers of episodes."""
    agent, found, seconds = matrixrl.MatrixRL(problem, seed=seed, **settings), [], 0.0
    first = int(np.argmax(mdp.task.start))
    for count in episodes:
        began = time.perf_counter()
        agent.learn(n_episodes=count - agent.n_episodes)
        seconds += time.perf_counter() - began
        value = matrixrl.evaluate(mdp, agent.greedy().table)[0, first]
        certificate = agent.recommend().certificate
        found.append(Measured(float(value), certificate.lower, certificate.upper, seconds))
    return found


def print_table(name: str, seeds: list[int], episodes: list[int]) -> None:
    """Print the table of one problem."""
    began = time.perf_counter()
    known = PROBLEMS[name]()
    print(f"{name}: {known.n_states} states, tabulated in {time.perf_counter() - began:.2f} s")
    best, steps = matrixrl.solve(known.mdp).start_value, known.horizon
    low, high = (steps * bound for bound in known.reward_range)
    print(f"V* {best:,.0f}; without data [{low:,.0f}, {high:,.0f}]; seeds {seeds}")
    for way, problem, settings in (
        ("known dynamics", known, {"compiled": True}),
        ("one-hot pairs", known.mdp, {"known_reward": False}),
    ):
        runs = np.array([measured(problem, known.mdp, seed, episodes, **settings) for seed in seeds])
        for i, count in enumerate(episodes):
            value, lower, upper, seconds = runs[:, i].T
            share, width = value / best, (upper - lower) / (high - low)
            print(
                f"{way:15} {count:4} episodes: greedy {share.mean():6.3f} V* (worst {share.min():6.3f}), "
                f"proven [{lower.mean():6,.0f}, {upper.mean():6,.0f}], width {width.mean():.3f} of the trivial one, "
                f"{seconds.mean():5.1f} s, bounds wrong in {int(((upper < best) | (lower > best)).sum())}",
                flush=True,
            )


def lead_time(*, censored: bool) -> matrixrl.KnownDynamics:
    """Return the `lost-sales` environment of matrixrl; censored, sales pay 4 in place of lost sales that cost 4."""

    def step(stock: Any, order: Any, demand: Any) -> tuple[Any, Any]:
        sold = np.minimum(stock, demand)
        left = stock - sold
        return left + order, (4.0 * sold if censored else -4.0 * (demand - sold)) - left

    return matrixrl.KnownDynamics(
        step,
        outcomes=18,
        n_states=_ROOM + 1,
        n_actions=_ROOM + 1,
        horizon=30,
        start=0,
        allowed=lambda stock: range(_ROOM + 1 - stock),
        law=_cut_poisson([5.0], 17),
        vectorized=True,
        censored=censored,
    )


def print_proofs(seeds: list[int], most: int) -> None:
    """Print after how many months a policy is proven to earn more than the best base stock."""
    for censored in (False, True):
        known = lead_time(censored=censored)
        tables = [np.tile(np.maximum(level - np.arange(_ROOM + 1), 0), (30, 1)) for level in range(_ROOM + 1)]
        values = [matrixrl.evaluate(known.mdp, table)[0, 0] for table in tables]
        table, best = tables[int(np.argmax(values))], matrixrl.solve(known.mdp).start_value
        print(f"censored={censored}: the best base stock earns {best - max(values):.1f} less than V* {best:.1f}")
        for seed in seeds:
            agent = matrixrl.MatrixRL(known, seed=seed, compiled=True)
            while agent.n_episodes < most:
                agent.learn(n_episodes=10)
                found = agent.compare(agent.greedy(), table)
                if found.lower > 0.0:
                    break
            what = f"proven to earn {found.lower:.1f} to {found.upper:.1f} more"
            print(f"seed {seed}, {agent.n_episodes} months: {what}", flush=True)


def print_coverage(n_runs: int) -> None:
    """Print in how many runs some bound is wrong at δ = 0.5."""
    for name, make in PROBLEMS.items():
        known, wrong = make(), 0
        best = matrixrl.solve(known.mdp).start_value
        first = int(np.argmax(known.start))
        for seed in range(n_runs):
            agent = matrixrl.MatrixRL(known, seed=5000 + seed, delta=0.5, compiled=True)
            fails = False
            for _ in range(4):
                agent.learn(n_episodes=3)
                found = agent.recommend()
                value = matrixrl.evaluate(known.mdp, found.table)[0, first]
                fails |= found.certificate.upper < best - 1e-6 or found.certificate.lower > value + 1e-6
            wrong += fails
        print(f"{name}: some bound wrong in {wrong} of {n_runs} runs at δ = 0.5", flush=True)


def print_speed(n_episodes: int) -> None:
    """Print milliseconds an episode of 100,000 states, 4 actions, 20 outcomes and 20 steps."""
    n = 10_000

    def step(state: Any, boxes: Any, demand: Any) -> tuple[Any, Any]:
        stock, season = state
        have = np.minimum(stock + 4 * boxes, n - 1)
        sold = np.minimum(have, demand)
        return (have - sold, (season + demand) % 10), 5.0 * sold - 2.0 * (have - stock) - 0.01 * (have - sold)

    began = time.process_time()
    known = matrixrl.KnownDynamics(
        step,
        outcomes=20,
        states=(n, 10),
        n_actions=4,
        horizon=20,
        start=(0, 0),
        law=_cut_poisson([6.0], 19),
        vectorized=True,
    )
    print(f"tabulated in {time.process_time() - began:.1f} s of the processor")
    agent = matrixrl.MatrixRL(known, seed=0, compiled=True)
    agent.learn(n_episodes=1)  # loads or compiles the loops, and solves the problem for regret
    at = time.perf_counter(), time.process_time(), agent.algorithm.n_plans.sum()
    agent.learn(n_episodes=n_episodes)
    now = time.perf_counter(), time.process_time()
    spent = [1e3 * (end - begin) / n_episodes for end, begin in zip(now, at[:2], strict=True)]
    plans = agent.algorithm.n_plans.sum() - at[2]
    print(f"{n_episodes} episodes: {spent[0]:.1f} ms an episode ({spent[1]:.1f} ms of the processor), {plans} plans")


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=["shop"])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1000, 1008)))
    parser.add_argument("--episodes", type=int, nargs="+", default=[1, 4, 12, 200])
    parser.add_argument("--proof", type=int, default=0, metavar="MONTHS", help="months of lost sales to play at most")
    parser.add_argument("--coverage", type=int, default=0, metavar="RUNS")
    parser.add_argument("--speed", type=int, default=0, metavar="EPISODES")
    chosen = parser.parse_args()
    if chosen.proof:
        print_proofs(chosen.seeds, chosen.proof)
    if chosen.coverage:
        print_coverage(chosen.coverage)
    if chosen.speed:
        print_speed(chosen.speed)
    if not (chosen.proof or chosen.coverage or chosen.speed):
        for name in chosen.problems:
            print_table(name, chosen.seeds, chosen.episodes)


if __name__ == "__main__":
    main()
