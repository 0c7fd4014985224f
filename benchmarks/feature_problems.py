"""Regret on problems that need exploration in feature space, and what makes the certificates of balls wide.

python benchmarks/feature_problems.py regret [--seeds 8] [--first-seed 100] [--episodes 2000] [problem ...]
"""

from __future__ import annotations

import argparse
from typing import Any

from matrixrl import make, run_seeds, solve

PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "emission-river": ("emission-river", {}),
    "emission-river, overlap 0.2": ("emission-river", {"overlap": 0.2}),
    "linear-lock": ("linear-lock", {}),
    "hypercube": ("hypercube", {}),
    "factors": ("factors", {}),
}
AGENTS: dict[str, dict[str, Any]] = {
    "optimistic": {"preset": "optimistic"},
    "budget": {"preset": "budget"},
    "tuned": {"preset": "tuned"},
    "lsvi-ucb, tuned": {"agent": "lsvi-ucb", "preset": "tuned"},
    "rlsvi, tuned": {"agent": "rlsvi", "preset": "tuned"},
    "random": {"agent": "random"},
}


def regret(names: list[str], seeds: range, n_episodes: int) -> None:
    """Print the regret of every agent on every problem, as a table in Markdown."""
    print("| problem | V\\* | " + " | ".join(AGENTS) + " |\n" + "|---" * (len(AGENTS) + 2) + "|")
    for name in names:
        env, settings = PROBLEMS[name]
        cells = [name, f"{solve(make(env, **settings).unwrapped.mdp).start_value:.2f}"]
        for options in AGENTS.values():
            found = run_seeds(env, env_settings=settings, n_episodes=n_episodes, seeds=seeds, **options).final_regret
            cells.append(f"{found.mean():,.0f} ± {found.std(ddof=1) / len(found) ** 0.5:,.0f}")
            print(cells[0], cells[-1], flush=True)
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["regret"])
    parser.add_argument("problems", nargs="*", help=", ".join(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--episodes", type=int, default=2000)
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    regret(given.problems or list(PROBLEMS), seeds, given.episodes)
