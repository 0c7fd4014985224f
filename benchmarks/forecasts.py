"""Forecasts of `Agent.forecast` beside the number of episodes that it then took.

python benchmarks/forecasts.py tuned      problems on which the method was chosen
python benchmarks/forecasts.py gap        other problems: episodes until a gap
python benchmarks/forecasts.py decide     other problems: episodes until two given policies are told apart

Seeds begin at 7,000. Every run has its own seed and one goal, and plays at most 16 times the episodes so far.
"""

from __future__ import annotations

import argparse
import math
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import poisson

from matrixrl import KnownDynamics, MatrixRL
from matrixrl.certificates import Forecast
from matrixrl.problems import tabular

FIRST_SEED, LONGEST = 7000, 16
SHELF, DAYS = 8, 6


def sell(stock: int, order: int, demand: int) -> tuple[int, float]:
    """Return the stock after a day of a small shop, and what it earned."""
    delivered = min(order, SHELF - stock)
    sold = min(stock + delivered, demand)
    left = stock + delivered - sold
    return left, 5.0 * sold - 2.0 * delivered - 0.5 * left


DEMAND = poisson.pmf(np.arange(SHELF + 1), 2.5)
DEMAND /= DEMAND.sum()
SHOP: dict[str, Any] = {"n_states": SHELF + 1, "n_actions": 4, "outcomes": SHELF + 1, "horizon": DAYS, "start": 0}
TUNED: dict[str, Any] = {
    "RiverSwim (4, 20)": ("river-swim", {"n_states": 4, "horizon": 20}, {}),
    "random S=5, A=2": (tabular(n_states=5, n_actions=2, horizon=6, seed=FIRST_SEED).mdp, None, {}),
}
OTHERS: dict[str, Any] = {
    "shop, known dynamics": (KnownDynamics(sell, law=DEMAND, **SHOP), None, {}),
    "FrozenLake 4x4, rewards learned": ("gym:FrozenLake-v1", {"horizon": 20}, {"known_reward": False}),
    "DeepSea(5)": ("deep-sea", {"size": 5}, {}),
    "random S=8, A=3, tuned preset": (
        tabular(n_states=8, n_actions=3, horizon=5, seed=FIRST_SEED + 1).mdp,
        None,
        {"preset": "tuned"},
    ),
}


def show(rows: dict[str, list[tuple[Forecast, float]]]) -> None:
    """Print one line for each problem, and the share of runs in the spread."""
    inside = total = 0
    print("| problem | runs | expected / came, median (10 to 90 %) | most / fewest, median | in the spread |")
    print("|---|---|---|---|---|")
    for name, runs in rows.items():
        ends = [[math.inf if one is None else one for one in (f.fewest, f.episodes, f.most)] for f, _ in runs]
        (low, middle, high), came = np.array(ends).T, np.array([count for _, count in runs])
        held = int(((low <= came) & (came <= high)).sum())
        with np.errstate(invalid="ignore"):
            off = np.quantile(np.nan_to_num(middle / came, nan=1.0), [0.1, 0.5, 0.9], method="nearest")
            wide = np.quantile(high / low, 0.5, method="nearest")
        print(
            f"| {name} | {len(runs)} | {off[1]:.2f} ({off[0]:.2f} to {off[2]:.2f}) | {wide:.2f} | {held} |", flush=True
        )
        inside, total = inside + held, total + len(runs)
    print(f"in the spread: {inside} of {total}")


def gaps(problems: dict[str, Any], runs: int) -> None:
    """Forecast how long a gap takes to shrink to some share."""
    rows: dict[str, list[tuple[Forecast, float]]] = {name: [] for name in problems}
    goals = list(product((200, 600), (0.8, 0.6)))
    for place, (name, (problem, env_settings, settings)) in enumerate(problems.items()):
        for run in range(runs):
            played, share = goals[run % len(goals)]
            agent = MatrixRL(problem, env_settings=env_settings, seed=FIRST_SEED + 100 * place + run, **settings)
            agent.learn(played)
            goal = share * agent.recommend().certificate.gap
            found = agent.forecast(gap=goal)
            agent.learn(LONGEST * played, until_gap=goal)
            is_there = agent.recommend().certificate.gap <= goal
            rows[name].append((found, agent.n_episodes - played if is_there else math.inf))
            print(name, played, share, found.episodes, found.fewest, found.most, rows[name][-1][1], flush=True)
    show(rows)


def decide(runs: int) -> None:
    """Forecast how long two given policies that are played in turns take to be told apart, by their returns."""
    rows: dict[str, list[tuple[Forecast, float]]] = {name: [] for name in OTHERS}
    for place, (name, (problem, env_settings, settings)) in enumerate(OTHERS.items()):
        for run in range(runs):
            seed = FIRST_SEED + 100 * place + run
            agent = MatrixRL(problem, env_settings=env_settings, seed=seed, **settings)
            task = agent.problem.finite_task
            rng = np.random.default_rng(seed)
            pair = [rng.integers(0, task.n_actions, task.n_states) for _ in range(2)]
            play_in_turns(agent, pair, 100)
            found, n = agent.forecast(decide=pair), agent.n_episodes
            if found.episodes == 0:
                continue
            came = math.inf
            while agent.n_episodes < (1 + LONGEST) * n:
                play_in_turns(agent, pair, max(agent.n_episodes // 100, 1))
                if abs(agent.compare(*pair).probably_better - agent.compare(*pair).probably_worse):
                    came = agent.n_episodes - n
                    break
            rows[name].append((found, came))
            print(name, found.episodes, found.fewest, found.most, came, flush=True)
    show({name: found for name, found in rows.items() if found})


def play_in_turns(agent: MatrixRL, pair: list[np.ndarray], times: int) -> None:
    for _ in range(times):
        for policy in pair:
            agent.learn(1, policy=policy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["tuned", "gap", "decide"])
    parser.add_argument("--runs", type=int, default=10, help="Runs of each problem.")
    given = parser.parse_args()
    if given.part == "decide":
        decide(given.runs)
    else:
        gaps(TUNED if given.part == "tuned" else OTHERS, given.runs)


if __name__ == "__main__":
    main()
