"""Changes of the problem: false alarms of stationary runs, delay of four kinds of change, a demand that falls, cost.

    python benchmarks/drift.py --part alarms --runs 400 --episodes 10000
    python benchmarks/drift.py --part delay --runs 5
    python benchmarks/drift.py --part shop --runs 5
    python benchmarks/drift.py --part cost

`alarms` gives streams of outcomes to the evidence of a change, as an agent with one law does, and counts the runs in
which it ever passes the threshold at some δ. `delay` and `shop` are agents at δ = 0.05 that ask and tell.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import xlogy
from scipy.stats import poisson

import matrixrl
from matrixrl.core.drift import log_marginals, log_split_weight, split_is_kept

_DAYS, _SHELF, _ORDERS = 7, 25, 11
_STEPS, _ENDS = 24, 5
Table = np.ndarray[Any, np.dtype[np.float64]]


def demand(mean: float) -> Table:
    """Return the probabilities of the demands 0 … 25."""
    law: Table = poisson.pmf(np.arange(_SHELF + 1), mean)
    return law / law.sum()


def alarms(runs: int, n_episodes: int) -> None:
    """Print in how many stationary runs the evidence ever passes the threshold; all runs go on side by side."""
    streams: dict[str, tuple[Table, int]] = {
        "a fair coin, one toss an episode": (np.array([0.5, 0.5]), 1),
        "a demand of mean 8, seven days an episode": (demand(8.0), _DAYS),
    }
    for name, (law, size) in streams.items():
        rng, d = np.random.default_rng(7), len(law)
        total, most = np.zeros((runs, d)), np.full(runs, -np.inf)
        splits, before, weights = np.zeros(0, dtype=np.int64), np.zeros((0, runs, d)), np.zeros((0, runs))
        for n in range(1, n_episodes + 1):
            total = total + rng.multinomial(size, law, size=runs)
            after = (total - before).reshape(-1, d)
            log_m = log_marginals(np.concatenate([total, after]), d).reshape(-1, runs)
            if n > 1:
                largest = xlogy(total, total / (n * size)).sum(axis=1)
                most = np.maximum(most, np.logaddexp.reduce(weights + log_m[1:], axis=0) - largest)
            kept = split_is_kept(splits, n)
            splits = np.append(splits[kept], n)
            before = np.concatenate([before[kept], total[None]])
            weights = np.concatenate([weights[kept], log_split_weight(n) + log_m[:1]])
        most -= math.log(2.0)  # the first run has half of δ
        counts = {delta: int((most >= math.log(1.0 / delta)).sum()) for delta in (0.5, 0.05)}
        shown = ", ".join(f"{count} at δ = {delta}" for delta, count in counts.items())
        print(
            f"{name}: alarms in {shown} of {runs} runs of {n_episodes:,} episodes; largest {most.max():.2f}", flush=True
        )


def river(current: float) -> Table:
    """Return P (A, S, S) of RiverSwim-6 in which swimming to the right fails more often with the current."""
    n = _ENDS + 1
    table = np.zeros((2, n, n))
    for s in range(n):
        left, right = max(s - 1, 0), min(s + 1, _ENDS)
        table[0, s, left] = 1.0
        table[1, s, right] += 0.35
        table[1, s, left] += current
        table[1, s, s] += 0.65 - current
    return table


def changed(kind: str, episode: int, change: int) -> tuple[Table, float]:
    """Return P and the mean reward at the right end in an episode, counted from 0."""
    before, after, paid = river(0.05), river(0.45), 0.9
    if kind == "mean reward":
        return before, paid if episode < change else 0.5
    share = float(np.clip((episode - change) / 300.0, 0.0, 1.0)) if kind == "slow ramp" else float(episode >= change)
    now = (1.0 - share) * before + share * after
    if kind == "one pair":
        now[:, :_ENDS], now[0] = before[:, :_ENDS], before[0]
    return now, paid


def delay(runs: int, change: int, most: int) -> None:
    """Print the number of episodes between a change and the first alarm, for four kinds of change."""
    for kind in ("one pair", "all pairs", "mean reward", "slow ramp"):
        delays, errors, false = [], [], 0
        for seed in range(runs):
            rng = np.random.default_rng([11, seed])
            task = matrixrl.Task(None, _STEPS, n_states=6, n_actions=2, start=0)
            agent = matrixrl.MatrixRL(task, drift="watch", seed=seed, known_reward=False)
            for n in range(change + most):
                table, paid = changed(kind, n, change)
                cumulative = table.cumsum(axis=2)
                episode, state = agent.begin_episode(), 0
                while not episode.is_finished:
                    action = episode.act(state)
                    following = int((rng.random() > cumulative[action, state]).sum())
                    reward = float(rng.random() < paid) if (state, action) == (_ENDS, 1) else 0.0
                    episode.observe(state, action, reward, min(following, _ENDS))
                    state = min(following, _ENDS)
                episode.end()
                if agent.changes:
                    break
            found = agent.changes
            if found and found[0].noticed <= change:
                false += 1
            elif found:
                delays.append(found[0].noticed - change)
                errors.append(found[0].since - change)
        spread = f"{min(delays)}, {np.median(delays):g}, {max(delays)}" if delays else "none"
        print(
            f"{kind:12} after {change:,} episodes: noticed in {len(delays)} of {runs} runs, false alarms {false}, "
            f"delay {spread} episodes (least, median, most), estimated time of the change off by "
            f"{np.median(errors) if errors else float('nan'):g} (median)",
            flush=True,
        )


def shelf() -> matrixrl.KnownDynamics:
    """Return a shelf of 25 places and seven days: a piece earns 4, costs 2, and 0.5 for each day that it stays."""

    def step(stock: Any, order: Any, wanted: Any) -> tuple[Any, Any]:
        delivered = np.minimum(order, _SHELF - stock)
        sold = np.minimum(stock + delivered, wanted)
        left = stock + delivered - sold
        return left, 4.0 * sold - 2.0 * delivered - 0.5 * left

    return matrixrl.KnownDynamics(
        step,
        outcomes=_SHELF + 1,
        n_states=_SHELF + 1,
        n_actions=_ORDERS,
        horizon=_DAYS,
        start=0,
        vectorized=True,
    )


def week(agent: Any, draw: Callable[[], int], tables: Any) -> float:
    """Play one week and return what it earned."""
    episode, stock = agent.begin_episode(), 0
    while not episode.is_finished:
        order, wanted = episode.act(stock), draw()
        left = int(tables.next_states[order, stock, wanted])
        episode.observe(stock, order, float(tables.rewards[order, stock, wanted]), left, outcome=wanted)
        stock = left
    return float(episode.end().episode_return)


def shop(runs: int, before: int, after: int) -> None:
    """Print what a shop earns before and after its demand falls from 8 to 2 pieces a day."""
    known = shelf()
    tables = known.dynamics
    print(f"demand falls after {before} weeks; earned per week: last 50 before, weeks 1-20, 21-60, last 50 of {after}")
    for mode in ("off", "watch", "restart"):
        rows = []
        for seed in range(runs):
            agent = matrixrl.MatrixRL(known, drift=mode, seed=seed)
            earned: list[float] = []
            for n in range(before + after):
                law = demand(8.0 if n < before else 2.0)
                rng = np.random.default_rng([13, seed, n])
                earned.append(week(agent, lambda rng=rng, law=law: int(rng.choice(len(law), p=law)), tables))
            parts = earned[before - 50 : before], earned[before : before + 20], earned[before + 20 : before + 60]
            noticed = agent.changes[0].noticed - before if mode != "off" and agent.changes else -1
            rows.append([*(float(np.mean(one)) for one in (*parts, earned[-50:])), noticed])
        mean = np.mean(rows, axis=0)
        delays = "" if mode == "off" else f"; noticed after {[int(row[-1]) for row in rows]} weeks"
        print(f"{mode:8} " + " ".join(f"{one:8.1f}" for one in mean[:-1]) + delays, flush=True)
        print(f"         {agent.certificate()}", flush=True)


def cost() -> None:
    """Print the time of an episode without and with the watch."""
    for name in ("river-swim", "four-rooms"):
        for known in (True, False):
            seconds = []
            for mode in ("off", "watch"):
                agent = matrixrl.MatrixRL(name, drift=mode, seed=0, known_reward=known)
                agent.learn(1000)
                began = time.process_time()
                agent.learn(1000)
                seconds.append(time.process_time() - began)
            rewards = "known" if known else "learned"
            print(f"{name}, rewards {rewards}: {seconds[0]:.2f} and {seconds[1]:.2f} ms an episode", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("alarms", "delay", "shop", "cost"), required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=10_000, help="of a stationary run")
    parser.add_argument("--change", type=int, default=500, help="episodes before the change")
    parser.add_argument("--after", type=int, default=1000, help="episodes after the change")
    given = parser.parse_args()
    if given.part == "alarms":
        alarms(given.runs, given.episodes)
    elif given.part == "delay":
        delay(given.runs, given.change, given.after)
    elif given.part == "shop":
        shop(given.runs, given.change, given.after)
    else:
        cost()


if __name__ == "__main__":
    main()
