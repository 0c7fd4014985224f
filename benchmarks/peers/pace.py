"""Processor seconds of 1,000 episodes on RiverSwim: ours and rlberry's agents in turn, the least of many short runs.

python benchmarks/peers/pace.py [--repeats 15] [--worlds river-4 river-6 river-12]

Each agent has a process of its own with one thread, which imports and compiles before the first run. Runs of all agents
alternate, and all learn the rewards. Other programs on the machine make runs slower and never faster, so the least of
the runs is shown, with the median in brackets; the ratio is that of the least ones, with the range of the ratios of
single repeats. rlberry gets the lean simulator of the race and no log. Regret of the same episodes is computed off the
clock as in the race.
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
PRESETS = ("budget", "optimistic", "tuned")  # the first one is the default
OURS = {f"matrix-rl {preset}": {"preset": preset, "known_reward": False} for preset in PRESETS}
PEERS = {"rlberry UCBVI": "ucbvi", "rlberry UCBVI-RTDP": "ucbvi-rtdp", "rlberry PSRL": "psrl", "rlberry OptQL": "optql"}
Run = tuple[Callable[[], object], Callable[[], tuple[np.ndarray, np.ndarray]]]
Play = Callable[[int], Run]


def ours(name: str, world: str) -> Play:
    """Return a function of the seed that prepares a run of ours."""
    from matrixrl.play import Simulation
    from worlds import WORLDS

    mdp = WORLDS[world].build()

    def prepare(seed: int) -> Run:
        settings = OURS[name]
        run = Simulation(mdp, n_episodes=N_EPISODES, seeds=[seed], settings=settings, measure_regret=False)
        return lambda: run.advance(N_EPISODES), lambda: (run.last.states[0], run.last.actions[0])

    return prepare


def peer(name: str, tables_at: str) -> Play:
    """Return a function of the seed that prepares a run of a peer; it runs inside the peer's environment."""
    from peer_rlberry import Table, maker

    with np.load(tables_at) as stored:
        tables = dict(stored)
    table = Table(tables, N_EPISODES, None)
    make = maker("rlberry", PEERS[name], {}, table, tables, N_EPISODES)

    def prepare(seed: int) -> Run:
        table.begin(seed, math.inf)
        agent = make(seed)
        table.begin(seed, math.inf)
        return lambda: agent.fit(N_EPISODES), lambda: (table.states, table.actions)

    return prepare


def work(name: str, world: str, gaps_at: str) -> None:
    """Play one run for each line of standard input, a seed, and answer with its processor seconds and its regret."""
    prepare = ours(name, world) if name in OURS else peer(name, world)
    prepare(0)[0]()
    gap = np.load(gaps_at)
    print("ready", flush=True)
    for line in sys.stdin:
        play, played = prepare(int(line))
        began = time.process_time()
        play()
        seconds = time.process_time() - began
        states, actions = played()
        lost = gap[np.arange(len(gap)), states, actions].sum()  # worlds.regret, which the peers cannot import
        print(json.dumps([seconds * 1000.0 / N_EPISODES, float(lost)]), flush=True)


def measure(world: str, repeats: int, cache: Path) -> dict[str, list[list[float]]]:
    """Return seconds per 1,000 episodes and regret of all runs of every agent on one MDP."""
    from homes import python_of, surroundings

    from worlds import WORLDS, export, gaps

    tables = cache / "tables" / f"{world}.npz"
    mdp, lost = WORLDS[world].build(), cache / "tables" / f"{world}-gaps.npy"
    export(mdp, tables)
    np.save(lost, gaps(mdp))
    workers = {}
    for name in [*OURS, *PEERS]:
        side, where = ("ours", world) if name in OURS else ("rlberry", str(tables))
        command = [str(python_of(side, cache)), __file__, "--work", json.dumps([name, where, str(lost)])]
        pipe = subprocess.PIPE
        workers[name] = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=surroundings())
    found: dict[str, list[list[float]]] = {name: [] for name in workers}
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
                found[name].append(json.loads(worker.stdout.readline()))
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
    print("| MDP | agent | s per 1,000 episodes, least (median) | fastest peer / ours | regret of 1,000 episodes |")
    print("|---|---|---|---|---|", flush=True)
    for world in chosen.worlds:
        found = {name: np.array(runs) for name, runs in measure(world, chosen.repeats, chosen.cache.resolve()).items()}
        fastest = found[min(PEERS, key=lambda name: found[name][:, 0].min())][:, 0]
        for name, runs in found.items():
            pace, regret = runs.T
            ratios = fastest / pace
            shown = (
                f"{fastest.min() / pace.min():.1f} ({ratios.min():.1f} to {ratios.max():.1f})" if name in OURS else ""
            )
            error = regret.std(ddof=1) / np.sqrt(len(regret))
            cells = [
                world,
                name,
                f"{pace.min():.3f} ({np.median(pace):.3f})",
                shown,
                f"{regret.mean():,.1f} ± {error:.1f}",
            ]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
