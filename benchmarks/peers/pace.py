"""Processor seconds of 1,000 episodes on RiverSwim: ours and rlberry's agents in turn, the least of many short runs.

python benchmarks/peers/pace.py [--repeats 15] [--worlds river-4 river-6 river-12]

Each agent has a process of its own with one thread, which imports and compiles before the first run. Runs of all agents
alternate, and all learn the rewards. Other programs on the machine make runs slower and never faster, so the least of
the runs is shown, with the median in brackets; the ratio is that of the least ones, with the range of the ratios of
single repeats. rlberry gets the lean simulator of the race and no log. Regret is not measured on the clock.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

FIRST_SEED, N_EPISODES = 1000, 1000
OURS = {f"matrix-rl {preset}": {"preset": preset, "known_reward": False} for preset in ("guaranteed", "practical")}
PEERS = {"rlberry UCBVI": "ucbvi", "rlberry UCBVI-RTDP": "ucbvi-rtdp", "rlberry PSRL": "psrl", "rlberry OptQL": "optql"}
Play = Callable[[int], Callable[[], object]]


def ours(name: str, world: str) -> Play:
    """Return a function of the seed that prepares a run of ours."""
    from matrixrl.simulate import Simulation
    from worlds import WORLDS

    mdp = WORLDS[world].build()

    def prepare(seed: int) -> Callable[[], object]:
        settings = OURS[name]
        run = Simulation(mdp, n_episodes=N_EPISODES, seeds=[seed], settings=settings, measure_regret=False)
        return lambda: run.advance(N_EPISODES)

    return prepare


def peer(name: str, tables_at: str) -> Play:
    """Return a function of the seed that prepares a run of a peer; it runs inside the peer's environment."""
    from peer_rlberry import Table, maker

    with np.load(tables_at) as stored:
        tables = dict(stored)
    table = Table(tables, N_EPISODES, None)
    make = maker("rlberry", PEERS[name], {}, table, tables, N_EPISODES)

    def prepare(seed: int) -> Callable[[], object]:
        table.begin(seed, math.inf)
        agent = make(seed)
        table.begin(seed, math.inf)
        return lambda: agent.fit(N_EPISODES)

    return prepare


def work(name: str, world: str) -> None:
    """Play one run for each line of standard input, a seed, and answer with its processor seconds."""
    prepare = ours(name, world) if name in OURS else peer(name, world)
    prepare(0)()
    print("ready", flush=True)
    for line in sys.stdin:
        play = prepare(int(line))
        began = time.process_time()
        play()
        print(time.process_time() - began, flush=True)


def measure(world: str, repeats: int, cache: Path) -> dict[str, list[float]]:
    """Return the processor seconds of all runs of every agent on one MDP."""
    from homes import python_of, surroundings

    from worlds import WORLDS, export

    tables = cache / "tables" / f"{world}.npz"
    export(WORLDS[world].build(), tables)
    workers = {}
    for name in [*OURS, *PEERS]:
        side, where = ("ours", world) if name in OURS else ("rlberry", str(tables))
        command = [str(python_of(side, cache)), __file__, "--work", json.dumps([name, where])]
        pipe = subprocess.PIPE
        workers[name] = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=surroundings())
    found: dict[str, list[float]] = {name: [] for name in workers}
    try:
        for worker in workers.values():
            assert worker.stdout is not None
            while worker.stdout.readline().strip() != "ready":
                assert worker.poll() is None, "a worker ended"
        for seed in range(FIRST_SEED, FIRST_SEED + repeats):
            for name, worker in workers.items():
                assert worker.stdin is not None
                assert worker.stdout is not None
                print(seed, file=worker.stdin, flush=True)
                found[name].append(float(worker.stdout.readline()) * 1000.0 / N_EPISODES)
    finally:
        for worker in workers.values():
            worker.terminate()
    return found


def main() -> None:
    """Print the table, or be one of the workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--worlds", nargs="+", default=["river-4", "river-6", "river-12"])
    parser.add_argument("--cache", type=Path, default=Path("out/peers"))
    parser.add_argument("--work", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work is not None:
        work(*json.loads(chosen.work))
        return
    heads = [*OURS, *PEERS, *(f"fastest peer / {name}" for name in OURS)]
    print("| MDP | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 1) + "|", flush=True)
    for world in chosen.worlds:
        found = {name: np.array(runs) for name, runs in measure(world, chosen.repeats, chosen.cache.resolve()).items()}
        fastest = found[min(PEERS, key=lambda name: found[name].min())]
        cells = [f"{runs.min():.3f} ({np.median(runs):.3f})" for runs in found.values()]
        for name in OURS:
            ratios = fastest / found[name]
            cells.append(f"{fastest.min() / found[name].min():.1f} ({ratios.min():.1f} to {ratios.max():.1f})")
        print(f"| {world} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
