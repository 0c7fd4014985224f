"""Processor time and regret of the same episodes: ours and rlberry's agents in turn, from 6 to 100,000 states.

python benchmarks/peers/pace.py [--repeats 15] [--worlds river-4 river-6 river-12]
python benchmarks/peers/pace.py --repeats 3 --worlds size-100 size-1000 size-10000 size-100000

Each agent has a process of its own with one thread, which imports and compiles before the first run. Runs of all agents
alternate. Other programs on the machine make runs slower and never faster, so the least of the runs is shown, with the
median in brackets; the ratio is that of the least ones, with the range of the ratios of single repeats. rlberry gets
the lean simulator of the race and no log. Regret of the same episodes is computed off the clock as in the race.

All learn the rewards, but for ours with "rewards known" in its name. From 1,000 states on, peers that go through
S x A x S numbers in each episode are left out; with 100,000 also our sweeps and UCBVI-RTDP, which would need 700 GB.
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

FIRST_SEED, BATCH = 1000, 32
OURS = {
    "matrix-rl (default)": {},
    "matrix-rl optimistic": {"preset": "optimistic"},
    "matrix-rl tuned": {"preset": "tuned"},
}
PATH = {"planner": "path", "known_reward": True}
OURS_AT_SIZES = {
    "matrix-rl (default)": {},
    "matrix-rl (default), rewards known": {"known_reward": True},
    'matrix-rl (default), planner="path", rewards known': PATH,
    'matrix-rl optimistic, planner="path", rewards known': {"preset": "optimistic", **PATH},
}
BATCHES = {f"matrix-rl (default), {BATCH} seeds at once": {}}
PEERS = {"rlberry UCBVI": "ucbvi", "rlberry UCBVI-RTDP": "ucbvi-rtdp", "rlberry PSRL": "psrl", "rlberry OptQL": "optql"}
_DENSE = ["rlberry UCBVI", "rlberry PSRL"]  # go through S x A x S numbers in each episode
LEFT_OUT = {
    "size-1000": _DENSE,
    "size-10000": _DENSE,
    "size-100000": [*_DENSE, "rlberry UCBVI-RTDP", *list(OURS_AT_SIZES)[:2]],  # sweeps take half a second
}
Run = tuple[Callable[[], object], Callable[[], tuple[np.ndarray, np.ndarray]]]
Play = Callable[[int, int], Run]


def contestants(world: str) -> tuple[dict[str, dict[str, object]], dict[str, str]]:
    """Return ours, with their settings, and the peers, with their agents, that race on a world."""
    without = LEFT_OUT.get(world, [])
    own = OURS_AT_SIZES if world.startswith("size") else {**OURS, **BATCHES}
    return {k: v for k, v in own.items() if k not in without}, {k: v for k, v in PEERS.items() if k not in without}


def ours(name: str, world: str) -> Play:
    """Return a function of the seed that prepares a run of ours."""
    from matrixrl.play import Simulation
    from worlds import SIZES, WORLDS

    task = {**WORLDS, **SIZES}[world]
    mdp, settings = task.build(), {"known_reward": False, **contestants(world)[0][name]}
    count = BATCH if name in BATCHES else 1

    def prepare(seed: int, n_episodes: int) -> Run:
        seeds = list(range(seed, seed + count))
        run = Simulation(
            mdp, n_episodes=n_episodes, seeds=seeds, settings=settings, measure_regret=False, compiled=True
        )
        return lambda: run.advance(n_episodes), lambda: (run.last.states, run.last.actions)

    return prepare


def peer(name: str, tables_at: str) -> Play:
    """Return a function of the seed that prepares a run of a peer; it runs inside the peer's environment."""
    from peer_rlberry import Table, maker

    with np.load(tables_at) as stored:
        tables = dict(stored)

    def prepare(seed: int, n_episodes: int) -> Run:
        table = Table(tables, n_episodes, None)
        make = maker("rlberry", PEERS[name], {}, table, tables, n_episodes)
        table.begin(seed, math.inf)
        agent = make(seed)
        table.begin(seed, math.inf)

        def play() -> None:
            for _ in range(n_episodes):  # fit would also plan for a policy to recommend
                agent._run_episode()

        return play, lambda: (table.states[None], table.actions[None])

    return prepare


def work(name: str, world: str, tables_at: str, gaps_at: str, n_episodes: int) -> None:
    """Play one run for each line of standard input, a seed, and answer with its processor seconds and its regret."""
    prepare = peer(name, tables_at) if name in PEERS else ours(name, world)
    prepare(0, min(n_episodes, 100 if world.startswith("river") else 3))[0]()
    gap = np.load(gaps_at)
    print("ready", flush=True)
    for line in sys.stdin:
        play, played = prepare(int(line), n_episodes)
        began = time.process_time()
        play()
        seconds = time.process_time() - began
        states, actions = played()
        lost = gap[np.arange(len(gap)), states, actions].sum()  # worlds.regret, which the peers cannot import
        print(json.dumps([seconds * 1000.0 / n_episodes / len(states), float(lost) / len(states)]), flush=True)


def measure(world: str, repeats: int, cache: Path) -> dict[str, list[list[float]]]:
    """Return seconds per 1,000 episodes and regret of all runs of every agent on one MDP."""
    from homes import python_of, surroundings

    from worlds import SIZES, WORLDS, export, export_sparse, gaps

    tables, lost = cache / "tables" / f"{world}.npz", cache / "tables" / f"{world}-gaps.npy"
    task = {**WORLDS, **SIZES}[world]
    mdp = task.build()
    (export_sparse if world in SIZES else export)(mdp, tables)
    np.save(lost, gaps(mdp))
    workers, (own, peers) = {}, contestants(world)
    found: dict[str, list[list[float]]] = {name: [] for name in [*own, *peers]}
    try:
        for name in [*own, *peers]:
            python = python_of("rlberry" if name in peers else "ours", cache)
            given = json.dumps([name, world, str(tables), str(lost), task.n_episodes])
            command, pipe = [str(python), __file__, "--work", given], subprocess.PIPE
            workers[name] = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=surroundings())
            stdout = workers[name].stdout
            assert stdout is not None
            while stdout.readline().strip() != "ready":  # one after the other: the first of ours compiles for all
                assert workers[name].poll() is None, "a worker ended"
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
    from worlds import SIZES, WORLDS

    print("| MDP, episodes | agent | s per 1,000 episodes, least (median) | fastest peer / ours | regret |")
    print("|---|---|---|---|---|", flush=True)
    for world in chosen.worlds:
        found = {name: np.array(runs) for name, runs in measure(world, chosen.repeats, chosen.cache.resolve()).items()}
        peers, task = contestants(world)[1], {**WORLDS, **SIZES}[world]
        fastest = found[min(peers, key=lambda name: found[name][:, 0].min())][:, 0]
        for name, runs in found.items():
            pace, regret = runs.T
            ratios = fastest / pace
            shown = f"{fastest.min() / pace.min():.2g} ({ratios.min():.2g} to {ratios.max():.2g})"
            error = regret.std(ddof=1) / np.sqrt(len(regret))
            cells = [
                f"{task.label}, {task.n_episodes:,}",
                name,
                f"{pace.min():.3g} ({np.median(pace):.3g})",
                "" if name in peers else shown,
                "" if name in BATCHES else f"{regret.mean():,.1f} ± {error:.1f}",
            ]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
