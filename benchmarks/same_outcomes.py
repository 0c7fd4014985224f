"""Months until orders that a shop learned in three months are proven better than its usual rule.

`python benchmarks/same_outcomes.py` prints them for replays of the recorded demand, for the model alone, and for
returns of months that the two policies play by turns. `--coverage` counts runs in which an interval was ever wrong.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import matrixrl
from matrixrl.agents.replay import Replay, Seen
from matrixrl.envs.shop import DAYS, WEEK, shop, usual_orders

FIXED = 3  # months after which the learned orders are fixed
GRID = np.unique(np.round(4 * 1.1 ** np.arange(60)).astype(int))  # 4 to 1,108 months


def earned(problem: Any, table: Any, rng: np.random.Generator, months: int) -> tuple[Any, tuple[float, float]]:
    """Return what actions (H, S) earn in months of new demand, and the range of all that they may earn."""
    steps = [demand(rng, months, day % WEEK) for day in range(DAYS)]
    seen = Seen(np.zeros(months, dtype=int), np.array(steps).T, np.ones(months, bool), np.zeros(months, bool))
    policy = Replay(problem, table)
    return policy.returns(seen)[0], tuple(policy.ranges[0, :, 0])


def demand(rng: np.random.Generator, n: int, weekday: int) -> Any:
    """Return n demands of a weekday, as the shop draws them."""
    return np.minimum(rng.poisson((6.0, 5.0, 5.0, 6.0, 8.0, 12.0, 9.0)[weekday], n), 25)


def months(seed: int, most: int) -> tuple[float, ...]:
    """Return the true gain of the learned orders, and the months until replays, model and returns prove it."""
    problem = shop()
    usual = np.broadcast_to(usual_orders(), (DAYS, problem.n_states))
    agent = matrixrl.MatrixRL(problem, seed=seed)
    agent.learn(FIXED)
    orders = agent.greedy().table
    gain = matrixrl.evaluate(problem.mdp, orders)[0, 0] - matrixrl.evaluate(problem.mdp, usual)[0, 0]
    found = {"replay": np.inf, "model": np.inf, "returns": np.inf}
    for month in GRID[most >= GRID]:
        agent.learn(int(month) - agent.n_episodes)
        for name, since in (("replay", FIXED), ("model", None)):
            if np.isinf(found[name]) and agent.compare(orders, usual, since=since).probably_better:
                found[name] = month
        if np.isfinite(found["replay"] + found["model"]):
            break
    rng = np.random.default_rng(seed)
    parts = [earned(problem, table, rng, 20_000) for table in (orders, usual)]
    span = min(low for _, (low, _) in parts), max(high for _, (_, high) in parts)
    for month in np.unique(np.round(10 * 1.1 ** np.arange(85)).astype(int)):
        ours, theirs = (returns[: month // 2] for returns, _ in parts)
        if matrixrl.compare_returns(ours, theirs, return_range=span).probably_better:
            found["returns"] = FIXED + month
            break
    return (float(gain), *found.values())


def coverage(runs: int) -> None:
    """Print in how many runs a comparison on a rare loss was ever wrong, at δ = 0.5, looked at after each episode."""
    problem = matrixrl.KnownDynamics(
        lambda _, a, w: (0, (1.0, -19.0)[w] if a else 0.0), outcomes=2, n_states=1, n_actions=2, horizon=1, start=0
    )
    policies = [Replay(problem, np.array([[action]])) for action in (1, 0)]
    rng, wrong = np.random.default_rng(0), {"value": 0, "difference": 0}
    for _ in range(runs):
        lost = (rng.random(300) < 0.05).astype(int)[:, None]
        missed = dict.fromkeys(wrong, False)
        for n in range(1, 301):
            seen = Seen(np.zeros(n, dtype=int), lost[:n], np.ones(n, bool), np.zeros(n, bool))
            for name, one in (
                ("value", policies[0].levels(seen)),
                ("difference", policies[0].difference(policies[1], seen)),
            ):
                low, high = one.interval(0.5)
                missed[name] |= not low <= 0.0 <= high
        for name, is_missed in missed.items():
            wrong[name] += is_missed
    print(f"delta 0.5, {runs} runs of 300 episodes, a look after each: ever wrong {wrong}")


def main() -> None:
    """Print the months of each seed, and their medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1000, 1008)))
    parser.add_argument("--months", type=int, default=400)
    parser.add_argument("--coverage", type=int, default=0)
    chosen = parser.parse_args()
    if chosen.coverage:
        coverage(chosen.coverage)
        return
    rows = []
    for seed in chosen.seeds:
        rows.append(months(seed, chosen.months))
        gain, *needed = rows[-1]
        words = ", ".join(f"{name} {n:g}" for name, n in zip(("replay", "model", "returns"), needed, strict=True))
        print(f"seed {seed}: gain {gain:.0f} a month; months until it is proven: {words}", flush=True)
    print("medians", np.median(np.array(rows), axis=0))


if __name__ == "__main__":
    main()
