"""How the exploration of `preset=tuned` was chosen: every candidate on every environment.

python benchmarks/presets.py counts [--seeds 16]
python benchmarks/presets.py balls [--seeds 8]
python benchmarks/presets.py others [--seeds 16] [--first-seed 100] [--e 0.3 0.45]

`counts` and `balls` print a Markdown table of mean regret, and for each candidate its worst and its mean ratio to the
best candidate of each environment. One unit of regret is added, which keeps ratios of zeros sane.

`counts`: likelihood sets. The candidate whose worst ratio is smallest is taken. The last column is the constant radius
of balls, e = 0.05, for all features: the preset before likelihood sets.

`balls`: dense features φ. The radius is e/6 in units of the features and the ridge (e/6)², so that a pair of which
nothing is known keeps its whole bonus whatever e is. All problems need exploration in feature space. The rule, written
down before the first run: among the candidates whose ratio is at most 1.5 on every problem (or, if there is none, those
with the smallest worst ratio), the one with the least mean ratio; 0.3, in use before, stays if its mean ratio is within
2 % of that one's and it is never above 1.5 either. Seeds 0 to 7, N = 1,000.

`others` plays the chosen values on problems and seeds that chose nothing, as `tuned` and within the default.
"""

from __future__ import annotations

import argparse

import numpy as np

from matrixrl import FiniteMDP, run_seeds
from matrixrl.algorithms.matrix_rl.settings import MatrixRLSettings
from matrixrl.problems import tabular

CANDIDATES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7, 1.0)
OF_BALLS = (0.1, 0.15, 0.2, 0.3, 0.45, 0.6, 0.9, 1.2, 1.8, 2.4)


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
}

DENSE = {
    "linear-lock": ("linear-lock", {}),
    "linear-lock, 3 positions, 6 actions": ("linear-lock", {"length": 3, "n_actions": 6, "seed": 1}),
    "linear-lock, mixing 0.3, slip 0.2": ("linear-lock", {"mixing": 0.3, "slip": 0.2, "seed": 2}),
    "factors": ("factors", {}),
    "factors, d = 20": ("factors", {"d": 20, "seed": 1}),
    "factors, 12 of them, H = 30": ("factors", {"n_factors": 12, "horizon": 30, "seed": 2}),
}
OTHERS = {
    "emission-river, normalised ball": ("emission-river", {}),
    "emission-river, overlap 0.1": ("emission-river", {"overlap": 0.1}),
    "emission-river, overlap 0.2": ("emission-river", {"overlap": 0.2}),
    "emission-river, overlap 0.4": ("emission-river", {"overlap": 0.4}),
    "hypercube": ("hypercube", {}),
    "hypercube, d = 3, H = 6": ("hypercube", {"dimension": 3, "horizon": 6}),
}


def settings_of(exploration: float, *, balls: bool) -> dict[str, float]:
    """Return the settings of a candidate: a factor of the likelihood sets, or the radius and ridge of balls."""
    return {"exploration": exploration, **({"beta": 1 / 36, "ridge": (exploration / 6.0) ** 2} if balls else {})}


def print_ratios(table: list[list[float]], candidates: tuple[float, ...], *, more: str = "") -> None:
    """Print the worst and the mean ratio of each candidate to the best one of each row."""
    regret = np.array(table)[:, : len(candidates)] + 1.0
    ratio = regret / regret.min(axis=1, keepdims=True)
    for name, found in (
        ("worst ratio", ratio.max(axis=0)),
        ("mean ratio", ratio.mean(axis=0)),
        ("geometric mean", np.exp(np.log(ratio).mean(axis=0))),
    ):
        print(f"| {name} | " + " | ".join(f"{x:.2f}" for x in found) + f" |{more}")


def counts(seeds: range) -> None:
    """Print the table of likelihood sets."""
    print("| environment, N | " + " | ".join(f"{e:g}" for e in CANDIDATES) + " | balls |")
    print("|---" * (len(CANDIDATES) + 2) + "|")
    table = []
    for label, (env, settings, n) in SUITE.items():
        row = []
        for chosen in [*(settings_of(e, balls=False) for e in CANDIDATES), {"set": "normalised"}]:
            result = run_seeds(env, n_episodes=n, seeds=seeds, env_settings=settings, preset="tuned", **chosen)
            row.append(result.final_regret.mean())
        table.append(row)
        print(f"| {label}, {n} | " + " | ".join(f"{x:,.1f}" for x in row) + " |", flush=True)
    print_ratios(table, CANDIDATES, more=" |")


def balls(seeds: range) -> None:
    """Print the table of balls, with known and with learned rewards."""
    print("| environment, N = 1,000 | " + " | ".join(f"{e:g}" for e in OF_BALLS) + " |")
    print("|---" * (len(OF_BALLS) + 1) + "|")
    table = []
    for label, (env, settings) in DENSE.items():
        for known in (True, False):
            noisy = {**settings, "noisy_rewards": not known}
            options = {"n_episodes": 1000, "seeds": seeds, "env_settings": noisy, "known_reward": known}
            found = [
                run_seeds(env, preset="tuned", **options, **settings_of(e, balls=True)).final_regret for e in OF_BALLS
            ]
            table.append([float(regret.mean()) for regret in found])
            words = label if known else f"{label}, noisy rewards learned"
            print(f"| {words} | " + " | ".join(f"{x:,.1f}" for x in table[-1]) + " |", flush=True)
    print_ratios(table, OF_BALLS)


def others(seeds: range, candidates: list[float]) -> None:
    """Print the regret of `tuned` and of the default with each candidate, on problems that chose nothing."""
    tuned = MatrixRLSettings.PRESETS["tuned"]
    columns = [f"{preset}, {e:g}" for preset in ("tuned", "default") for e in candidates]
    print("| environment, N = 2,000 | " + " | ".join(columns) + " |\n" + "|---" * (len(columns) + 1) + "|")
    for label, (env, settings) in OTHERS.items():
        cells, chosen = [], {"set": "normalised"} if label.endswith("ball") else {}  # its φ are indicators
        for preset in ("tuned", "budget"):
            for e in candidates:
                tuned |= {"beta": (e / (6.0 * tuned["exploration"])) ** 2, "ridge": (e / 6.0) ** 2}
                options = {"n_episodes": 2000, "seeds": seeds, "env_settings": settings, "preset": preset, **chosen}
                found = run_seeds(env, **options).final_regret
                error = found.std(ddof=1) / len(found) ** 0.5
                cells.append(f"{found.mean():,.0f} ± {error:,.0f} ({found.max():,.0f})")
        print(f"| {label} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["counts", "balls", "others"])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--first-seed", type=int)
    parser.add_argument("--e", type=float, nargs="*", default=[0.3, 0.45])
    given = parser.parse_args()
    n_seeds = given.seeds or (8 if given.what == "balls" else 16)
    first = given.first_seed if given.first_seed is not None else 100 if given.what == "others" else 0
    if given.what == "others":
        others(range(first, first + n_seeds), given.e)
    else:
        {"counts": counts, "balls": balls}[given.what](range(first, first + n_seeds))
