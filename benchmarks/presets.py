"""How the exploration of `preset=tuned` was chosen: every candidate on every environment.

python benchmarks/presets.py [--seeds 16]

Prints a Markdown table of mean regret, and for each candidate its worst and its mean ratio to the best
candidate of each environment. The preset is the candidate whose worst ratio is smallest. The last column is the
constant radius of balls, e = 0.05, for all features: the preset before likelihood sets.
"""

from __future__ import annotations

import argparse

import numpy as np

from matrixrl import FiniteMDP, run_seeds
from matrixrl.problems import tabular

CANDIDATES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7, 1.0)


def worn_machine() -> FiniteMDP:
    """Run or repair: a problem whose average state is bad, where pessimism about the unknown is fatal."""
    transitions, reward = np.zeros((5, 2, 5)), np.zeros((5, 2))
    for s in range(5):
        transitions[s, 0, s] += 0.6
        transitions[s, 0, min(s + 1, 4)] += 0.4
        transitions[s, 1, 0] = 1.0
        reward[s] = 1.0 - s / 4, 0.3
    return FiniteMDP(transitions, reward, 20)


SUITE = {
    "worn machine": (worn_machine(), {}, 1000),
    "random S=10": (tabular(n_states=10, n_actions=4, n_successors=3, horizon=15, seed=1).mdp, {}, 1000),
    "random S=20": (tabular(n_states=20, n_actions=3, n_successors=2, horizon=20, seed=2).mdp, {}, 1000),
    "RiverSwim (4, 20)": ("river-swim", {"n_states": 4, "horizon": 20}, 1000),
    "RiverSwim (6, 24)": ("river-swim", {"n_states": 6, "horizon": 24}, 1000),
    "RiverSwim (12, 48)": ("river-swim", {"n_states": 12, "horizon": 48}, 1000),
    "DeepSea 8": ("deep-sea", {"size": 8}, 1000),
    "DeepSea 10": ("deep-sea", {"size": 10, "seed": 1}, 1000),
    "CombinationLock": ("combination-lock", {}, 1000),
    "FourRooms 7": ("four-rooms", {"size": 7}, 1000),
    "FrozenLake": ("gym:FrozenLake-v1", {"horizon": 30}, 1000),
    "LinearMDP d=5": ("linear-mdp", {}, 500),
    "LinearMDP d=20": ("linear-mdp", {"d": 20, "n_states": 100, "horizon": 20, "concentration": 0.1}, 500),
}


def settings_of(exploration: float, label: str) -> dict[str, float]:
    """Return the settings of a candidate: a factor of the likelihood sets, or the radius and ridge of balls."""
    ridge = {"ridge": (exploration / 6.0) ** 2} if label.startswith("LinearMDP") else {}
    return {"exploration": exploration, **ridge}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=16)
    seeds = parser.parse_args().seeds
    print("| environment, N | " + " | ".join(f"{e:g}" for e in CANDIDATES) + " | balls |")
    print("|---" * (len(CANDIDATES) + 2) + "|")
    table = []
    for label, (env, settings, n) in SUITE.items():
        row = []
        for chosen in [*(settings_of(e, label) for e in CANDIDATES), {"set": "normalised"}]:
            result = run_seeds(env, n_episodes=n, seeds=seeds, env_settings=settings, preset="tuned", **chosen)
            row.append(result.final_regret.mean())
        table.append(row)
        print(f"| {label}, {n} | " + " | ".join(f"{x:,.1f}" for x in row) + " |", flush=True)
    regret = np.array(table)[:, :-1] + 1.0  # one unit of regret is nothing: it keeps ratios of zeros sane
    ratio = regret / regret.min(axis=1, keepdims=True)
    print("| worst ratio | " + " | ".join(f"{x:.2f}" for x in ratio.max(axis=0)) + " | |")
    mean = np.exp(np.log(ratio).mean(axis=0))
    print("| mean ratio | " + " | ".join(f"{x:.2f}" for x in mean) + " | |")


if __name__ == "__main__":
    main()
