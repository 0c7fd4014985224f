"""Regret with a proof: balls around M_n against the likelihood sets that `optimistic` takes for indicator features.

python benchmarks/guarantees.py [--only river-6 …] [--seeds 8] [--balls]

Prints one line for each problem: mean regret of N episodes with its standard error, the share of episodes whose plan
was optimistic, and milliseconds of an episode of one seed. `--balls` also runs the normalised ball, for comparison.
delta is 0.05. Seeds begin at 1,000, and nothing was tuned on them.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

from matrixrl import run_seeds
from matrixrl.problems import tabular


def successors(n_states: int) -> Any:
    """Return a random MDP whose pairs have five successors."""
    return tabular(n_states=n_states, n_actions=2, horizon=20, n_successors=5, seed=0).mdp


PROBLEMS: dict[str, tuple[Any, dict[str, Any], int]] = {
    "river-4": ("river-swim", {"n_states": 4}, 3000),
    "river-6": ("river-swim", {"n_states": 6}, 3000),
    "river-12": ("river-swim", {"n_states": 12}, 5000),
    "deep-sea-10": ("deep-sea", {"size": 10}, 1000),
    "deep-sea-10-long": ("deep-sea", {"size": 10}, 5000),
    "four-rooms-9": ("four-rooms", {"size": 9}, 4000),
    "random-100": (successors(100), {}, 2000),
    "random-400": (successors(400), {}, 2000),
    "random-1000": (successors(1000), {}, 1000),
}
"""Environment, its settings and the number of episodes."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--balls", action="store_true")
    chosen = parser.parse_args()
    print("| problem, N | set | rewards | regret | optimistic | ms an episode |")
    print("|---|---|---|---|---|---|")
    for name in chosen.only:
        env, settings, n_episodes = PROBLEMS[name]
        for kind in ["tightest", *(["normalised"] if chosen.balls else [])]:
            for known in (True, False):
                played = partial(run_seeds, env, env_settings=settings, set=kind, known_reward=known)
                played(n_episodes=2, seeds=1, compiled=True)  # numba compiles outside the clock
                started = time.process_time()
                result = played(n_episodes=n_episodes, seeds=range(1000, 1000 + chosen.seeds))
                spent = (time.process_time() - started) / n_episodes / chosen.seeds * 1000
                error = result.final_regret.std(ddof=1) / chosen.seeds**0.5
                print(
                    f"| {name}, {n_episodes} | {kind} | {'known' if known else 'learned'} | "
                    f"{result.final_regret.mean():,.1f} ± {error:.1f} | {result.optimistic_share:.4f} | {spent:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
