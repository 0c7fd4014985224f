"""Twenty public MDPs (Colosseum, Conserva & Rauber 2022): the regret of agents as a share of uniform play's.

python benchmarks/colosseum.py [--data ../shared/data/colosseum] [--out out/colosseum] [--seeds 8] [--large-seeds 2]
                               [--only Taxi …] [--agents tuned …]

The result of an agent on an MDP is a small JSON file in the folder `--out`. Seeds that are there, of the same table
and settings, are not played again, so an interrupted benchmark continues and seeds can be added; delete the folder
after a change of the library. At the end tables are printed, and a picture is drawn in `--out`.

Share: regret of n episodes / (n · (V* − value of uniform play)). 1 is uniform play, 0 the best policy.
Episodes to 5 %: the first episode n such that the policies of the episodes n, …, n + 99 have a mean value of at least
0.95 V*; for each seed, then the median over seeds. A seed without such an episode counts as infinite.
Rewards are learned (agents named "… (R known)" are given them), a step pays its mean reward, and delta is 0.05.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from colosseum_report import draw, summary
from matrixrl import FiniteMDP, run_seeds, solve
from matrixrl.algorithms import make_algorithm
from matrixrl.records import FloatArray
from scorecards.tables import read_table, uniform_value
from sparse_psrl import SparsePSRL

ROOT = Path(__file__).parents[1]
N_EPISODES = 10_000
MARKS = (1_000, 10_000)
"""Numbers of episodes at which the share is reported."""
WINDOW = 100
"""Episodes over which a policy must be within 5 % of V* on average."""
FIRST_SEED = 100
ROUNDING = 1e-9
"""Relative tolerance of the comparison of optimistic values with V*."""
LARGE = 60
"""An MDP with more states is played with `--large-seeds` seeds."""

AGENTS: dict[str, dict[str, Any]] = {
    "default": {"known_reward": False, "delta": 0.05},
    "tuned": {"preset": "tuned", "known_reward": False, "delta": 0.05},
    "q-learning": {"agent": "q-learning", "preset": "tuned", "known_reward": False, "delta": 0.05},
    "ucbvi": {"agent": "ucbvi", "preset": "tuned", "known_reward": False, "delta": 0.05},
    "psrl": {"agent": "psrl", "preset": "tuned", "known_reward": False},
    "optimistic (R known)": {"preset": "optimistic", "known_reward": True, "delta": 0.05},
    "optimistic": {"preset": "optimistic", "known_reward": False, "delta": 0.05},
    "tuned (R known)": {"preset": "tuned", "known_reward": True, "delta": 0.05},
    "ucbvi-bf": {"agent": "ucbvi", "bonus": "bernstein", "preset": "tuned", "known_reward": False, "delta": 0.05},
    "q-learning (paper)": {"agent": "q-learning", "preset": "paper", "known_reward": False, "delta": 0.05},
    "ucbvi (paper)": {"agent": "ucbvi", "preset": "paper", "known_reward": False, "delta": 0.05},
}
"""Settings of `run_seeds` by the name of the row, in the order in which they are played."""


def share(regret: FloatArray, n: int, optimum: float, uniform: float) -> FloatArray:
    """Return the regret of the first n episodes as a share of uniform play's: (K, N) → (K,)."""
    if n > regret.shape[1]:
        raise ValueError(f"{n} episodes were asked for, and {regret.shape[1]} were played")
    shares: FloatArray = regret[:, :n].sum(axis=1) / (n * (optimum - uniform))
    return shares


def first_within(regret: FloatArray, optimum: float) -> int | None:
    """Return the first episode, from 1, whose policy and the next 99 are within 5 % of V* on average; None if never.

    Args:
        regret: (N,) Regret of each episode.
        optimum: V*(s0).
    """
    if len(regret) < WINDOW:
        return None
    sums = np.cumsum(np.concatenate([[0.0], regret]))
    near = np.flatnonzero((sums[WINDOW:] - sums[:-WINDOW]) / WINDOW <= 0.05 * optimum)
    return int(near[0]) + 1 if near.size else None


def asked(path: Path, name: str) -> dict[str, Any]:
    """Return what determines the runs of an agent: stored with them, and compared before they are used again."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    settings = dict(AGENTS[name])
    made = make_algorithm(settings.pop("agent", "matrix-rl"), settings)
    resolved = made.settings.as_dict()  # values of the preset too: a preset may change
    return {"mdp": path.stem, "data": digest, "agent": name, "settings": resolved, "n_episodes": N_EPISODES}


def play(mdp: FiniteMDP, name: str, seeds: Sequence[int], n_episodes: int) -> dict[str, dict[str, Any]]:
    """Play one agent on one MDP and return the numbers of the report for each seed."""
    settings = dict(AGENTS[name])
    options: dict[str, Any] = {"n_episodes": n_episodes, "seeds": seeds}
    if settings.get("agent") == "psrl":
        del settings["agent"]
        result = run_seeds(mdp, agent=SparsePSRL(**settings), **options)
    else:
        result = run_seeds(mdp, compiled=None if "agent" in settings else True, **options, **settings)
    optimum, uniform = result.known_optimum, uniform_value(mdp)
    shares = {str(n): share(result.regret, n, optimum, uniform).tolist() for n in MARKS if n <= n_episodes}
    return {
        str(seed): {
            "share": {n: values[k] for n, values in shares.items()},
            "within": first_within(result.regret[k], optimum),
            "final_value": optimum - float(result.regret[k, -WINDOW:].mean()),
            "optimistic_share": float((result.upper[k] >= optimum - ROUNDING * max(1.0, optimum)).mean()),
            "guarantee": result.guarantee.as_dict(),
            "ms": 1e3 * float(result.seconds[k].mean()),
        }
        for k, seed in enumerate(result.seeds)
    }


def complete(file: Path, mdp: FiniteMDP, question: dict[str, Any], seeds: Sequence[int]) -> tuple[dict[str, Any], int]:
    """Return the result of some seeds, from the file as far as it has them, and how many had to be played."""
    runs: dict[str, dict[str, Any]] = {}
    if file.exists():
        found = json.loads(file.read_text(encoding="utf-8"))
        runs = found["runs"] if found["asked"] == question else {}
    missing = [seed for seed in seeds if str(seed) not in runs]
    result = {
        "asked": question,
        "sizes": [mdp.n_states, mdp.n_actions, mdp.horizon],
        "optimal_value": solve(mdp).start_value,
        "uniform_value": uniform_value(mdp),
    }
    if missing:
        runs |= play(mdp, question["agent"], missing, question["n_episodes"])
        keep(file, {**result, "runs": runs})
    return {**result, "runs": {str(seed): runs[str(seed)] for seed in seeds}}, len(missing)


def keep(file: Path, result: dict[str, Any]) -> None:
    """Write a result so that an interrupt leaves a whole file or none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1), encoding="utf-8")
    part.replace(file)


def tables(folder: Path, only: Sequence[str]) -> list[Path]:
    """Return the tables whose names contain one of the words, or stop with a message if there are none."""
    found = [p for p in sorted(folder.glob("*.npz")) if not only or any(word in p.stem for word in only)]
    if not found:
        chosen = f" whose name contains {' or '.join(only)}" if only else ""
        raise SystemExit(
            f"no table (*.npz){chosen} in {folder}; give the folder of the exported Colosseum MDPs with --data"
        )
    return found


def main() -> None:
    """Play what is missing, then print the tables and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "colosseum")
    parser.add_argument("--out", type=Path, default=Path("out") / "colosseum")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--large-seeds", type=int, default=2, help=f"seeds of an MDP with more than {LARGE} states")
    parser.add_argument("--only", nargs="*", default=[], help="words of names of MDPs")
    parser.add_argument("--agents", nargs="*", default=list(AGENTS), choices=list(AGENTS))
    chosen = parser.parse_args()
    mdps = [(path, read_table(path)) for path in tables(chosen.data, chosen.only)]
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    results: list[dict[str, Any]] = []
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=len(mdps) * len(chosen.agents))
        for name in chosen.agents:
            for path, mdp in mdps:
                n_seeds = chosen.large_seeds if mdp.n_states > LARGE else chosen.seeds
                bar.update(task, description=f"{name} on {path.stem}")
                seeds = range(FIRST_SEED, FIRST_SEED + n_seeds)
                file = chosen.out / path.stem / f"{name}.json"
                result, n_played = complete(file, mdp, asked(path, name), seeds)
                if n_played:
                    runs = result["runs"].values()
                    reached = np.mean([run["share"][str(N_EPISODES)] for run in runs])
                    spent = np.mean([run["ms"] for run in runs])
                    console.print(f"{name} on {path.stem}: share {reached:.3f}, {spent:.2f} ms an episode")
                results.append(result)
                bar.advance(task)
    print(summary(results))
    picture = chosen.out / "colosseum.png"
    draw(results, picture)
    console.print(f"picture: {picture}")


if __name__ == "__main__":
    main()
