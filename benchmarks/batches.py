"""How much numbers depend on the number of seeds that are simulated together.

python benchmarks/batches.py [episodes]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from matrixrl.records import FloatArray
from matrixrl_lab import Store, run_experiment

ENVS = ("river-swim", "linear-mdp")
AGENTS = ("psrl", "ucbvi", "random", "q-learning", "rlsvi", "lsvi-ucb", "ucrl2", "ucrl-vtr", "epsilon-greedy")
KERNELS = ("kernel-matrix-rl", "kernel-ucbvi")
SEEDS = 8
SERIES = ("return", "regret", "optimistic")


def played(episodes: int, batch: int) -> dict[tuple[str, str], FloatArray]:
    """Return the series of every cell, (SEEDS, episodes)."""
    agents = [{"name": "matrix-rl", "sweep": {"preset": ["optimistic", "tuned"]}}]
    spec = {
        **{"name": "batches", "episodes": episodes, "seeds": SEEDS, "batch": batch},
        "env": [{"name": name} for name in ENVS],
        "agent": [*agents, *({"name": name} for name in (*AGENTS, *KERNELS))],
    }
    with tempfile.TemporaryDirectory() as folder:
        run_experiment(spec, folder, on="serial")
        with Store.open_to_read(Path(folder)) as store:
            cells = enumerate(store.experiment.cells)
            return {(cell.id, name): store.read(number, name) for number, cell in cells for name in SERIES}


def main() -> None:
    """Print the largest difference of each series between batches."""
    episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    whole = played(episodes, SEEDS)
    for batch in (1, 3):
        parts = played(episodes, batch)
        for series in SERIES:
            largest = {key: float(np.abs(parts[key] - whole[key]).max()) for key in whole if key[1] == series}
            (cell, _), most = max(largest.items(), key=lambda item: item[1])
            differ = sum(value > 0.0 for value in largest.values())
            print(f"batch {batch}, {series}: {differ} of {len(largest)} cells differ, at most by {most:.2g} ({cell})")


if __name__ == "__main__":
    main()
