"""Regret and processor time of the default, an optimism budget of α = 1.25, beside pure optimism and the tuned plan.

python benchmarks/optimism_budget.py [problem ...] [--seeds 16] [--first-seed 100] [--learn-rewards] [--alphas 1 1.5 2]

With `--alphas` the budget is played for each of them: so α was chosen, on seeds up to 99. With `--coverage` 400 runs
of the default at δ = 0.5 are certified in every episode, on two small problems, and the share of runs is printed in
which any plan was not optimistic or any certificate was wrong, at any time.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from matrixrl import FiniteMDP, run_seeds
from matrixrl.problems import tabular


def bets(chances: list[float], safe: float, horizon: int) -> FiniteMDP:
    """Return a safe reward beside bets that must all be won; the tuned plan does not try a lost one again."""
    k = len(chances)
    settled, won, lost = k, k + 1, k + 2
    law, reward = np.zeros((k + 3, 2, k + 3)), np.zeros((k + 3, 2))
    for i, chance in enumerate(chances):
        law[i, 0, settled], law[i, 1, i + 1 if i < k - 1 else won], law[i, 1, lost] = 1.0, chance, 1.0 - chance
    for state in (settled, won, lost):
        law[state, :, state] = 1.0
    reward[settled], reward[won] = safe, 1.0
    return FiniteMDP(law, reward, horizon, start=0)


PROBLEMS: dict[str, tuple[Any, dict[str, Any], int]] = {
    "river-swim-6": ("river-swim", {}, 3000),
    "deep-sea-10": ("deep-sea", {"size": 10}, 1000),
    "random-8": (tabular(n_states=8, n_actions=3, horizon=12, seed=5).mdp, {}, 3000),
    "random-20": (tabular(n_states=20, n_actions=4, horizon=10, seed=3).mdp, {}, 3000),
    "river-swim-12": ("river-swim", {"n_states": 12}, 5000),
    "four-rooms-9": ("four-rooms", {"size": 9}, 4000),
    "trap-0.6": (bets([0.6], 0.5, 10), {}, 3000),
    "trap-0.8": (bets([0.8], 0.5, 10), {}, 3000),
    "trap-0.9": (bets([0.9], 0.5, 20), {}, 3000),
    "two-bets": (bets([0.85, 0.85], 0.4, 12), {}, 3000),
}


def print_coverage() -> None:
    """Print the share of runs in which anything that is claimed at δ = 0.5 was wrong in any episode."""
    small: dict[str, tuple[Any, dict[str, Any] | None]] = {
        "river-swim-3": ("river-swim", {"n_states": 3, "horizon": 6}),
        "trap-0.6": (bets([0.6], 0.5, 4), None),
    }
    for name, (problem, env_settings) in small.items():
        for known in (None, False):
            options = {"env_settings": env_settings, "known_reward": known, "delta": 0.5, "certify": True}
            found = run_seeds(problem, n_episodes=300, seeds=range(100, 500), compiled=True, **options)
            best = found.known_optimum
            lower, upper = found.certified[..., 0], found.certified[..., 1]
            wrong = (found.upper < best - 1e-9) | (lower > best - found.regret + 1e-9) | (upper < best - 1e-9)
            print(f"{name:<14} {'known' if known is None else 'learned':<8} {wrong.any(axis=1).mean():.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", help=", ".join(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--learn-rewards", action="store_true")
    parser.add_argument("--alphas", type=float, nargs="*", default=())
    parser.add_argument("--coverage", action="store_true")
    given = parser.parse_args()
    if given.coverage:
        print_coverage()
        raise SystemExit
    rows: dict[str, dict[str, Any]] = {
        "optimistic": {"preset": "optimistic"},
        "default": {},
        **{f"α = {alpha:g}": {"optimism_budget": alpha} for alpha in given.alphas},
        "tuned": {"preset": "tuned"},
    }
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    for name in given.problems or PROBLEMS:
        problem, env_settings, n_episodes = PROBLEMS[name]
        options = {"env_settings": env_settings or None, "known_reward": False if given.learn_rewards else None}
        for row, settings in rows.items():
            run_seeds(problem, n_episodes=2, seeds=1, compiled=True, **options, **settings)  # compiles
            began = time.process_time()
            found = run_seeds(problem, n_episodes=n_episodes, seeds=seeds, compiled=True, **options, **settings)
            spent = (time.process_time() - began) / (n_episodes * given.seeds)
            regret = found.final_regret
            spread = f"{regret.mean():10,.1f} ± {regret.std(ddof=1) / len(regret) ** 0.5:,.1f}"
            print(f"{name:<14} {row:<12} {spread:<20} {1e6 * spent:8.0f} µs an episode", flush=True)
