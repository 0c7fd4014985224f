"""Ours against the public peers: the same MDPs, seeds and numbers of episodes, in turns, one thread each.

python benchmarks/peers/race.py --quick                         two small MDPs, minutes
python benchmarks/peers/race.py --out benchmarks/peers/RESULTS.md   all of them
python benchmarks/peers/race.py --control                       deep RL on the control tasks

The peers' virtual environments, the tables and every result are kept under out/peers (--cache); a race that was
interrupted goes on where it was, and one that is asked for again with the same limits only prints its table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from contestants import BASELINES, MAIN, PEERS, Contestant
from homes import HERE, python_of, surroundings
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from tables import write_tables

from worlds import WORLDS, export, gaps, regret

QUICK = ["river-6", "random-100"]
BATCH, LARGE_BATCH = 32, 8
EXACT = Contestant("check", "ours", "matrix-rl", "tuned", {"preset": "practical"}, knows_reward=True)


def turns(world: str, rounds: int) -> Iterator[tuple[Contestant, str, int]]:
    """Yield who runs next, in which mode and round: runs of both libraries alternate.

    Modes: "alone" is one seed, "batch" many seeds at once (ours only), "check" a batch judged by the library as well.
    """
    task = WORLDS[world]
    for number in range(rounds):
        ours: list[tuple[Contestant, str]] = [(c, "alone") for c in MAIN]
        if number == 0:
            known = [c for c in BASELINES if not task.large or c.settings["preset"] == "tuned"]
            ours += [(c, "batch") for c in [*MAIN, *(c for c in known if task.on_a_line or not c.on_a_line)]]
            ours += [] if task.large else [(EXACT, "check")]
        peers = [c for c in PEERS if (task.on_a_line or not c.on_a_line) and (task.linear or not c.grows)]
        theirs = [(c, "alone") for c in peers if not (task.large and c.settings.get("as_shipped"))]
        while ours or theirs:
            for side in (ours, theirs):
                if side:
                    contestant, mode = side.pop(0)
                    yield contestant, mode, number


def play(contestant: Contestant, mode: str, number: int, world: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """Run one contestant in a process of its own and judge what it played; or take the result that is there."""
    cache: Path = chosen.cache
    task = WORLDS[world]
    n_episodes = min(task.n_episodes, 200) if chosen.quick else task.n_episodes
    limit = chosen.limit if mode in ("batch", "check") else chosen.limit / chosen.rounds
    if contestant.side != "ours":
        seeds = list(range(number, chosen.seeds, chosen.rounds))
    else:
        seeds = [number] if mode == "alone" else list(range(LARGE_BATCH if task.large else BATCH))
    order = {
        **asdict(contestant),
        "world": world,
        "n_episodes": n_episodes,
        "seeds": seeds,
        "limit": limit,
        "exact": mode == "check",
    }
    stem = f"{world}--{contestant.name}--{mode}-{number}".replace(" ", "_").replace("'", "").replace(",", "")
    path = cache / ("quick" if chosen.quick else "full") / f"{stem}.json"
    if path.exists():
        stored: dict[str, Any] = json.loads(path.read_text())
        if stored["order"] == order:
            return stored
    path.parent.mkdir(parents=True, exist_ok=True)
    tables, keep = cache / "tables" / f"{world}.npz", path.with_suffix(".npz")
    script = HERE / ("ours.py" if contestant.side == "ours" else "peer.py")
    sent = json.dumps({**order, "tables": str(tables), "keep": str(keep)})
    command = [str(python_of(contestant.side, cache)), str(script)]
    ran = subprocess.run(command, input=sent, capture_output=True, text=True, env=surroundings(), check=False)
    if ran.returncode:
        return {"order": order, "failed": ran.stderr.strip()[-400:]}  # not kept: the next race tries again
    answer: dict[str, Any] = {"order": order, **json.loads(ran.stdout.splitlines()[-1])}
    gap = np.load(cache / "tables" / f"{world}-gaps.npy")
    with np.load(keep) as played:
        for run in answer["runs"]:
            lost = regret(gap, played[f"states{run['seed']}"], played[f"actions{run['seed']}"])
            run["regret"] = float(lost.sum())
    keep.unlink()
    path.write_text(json.dumps(answer))
    return answer


def race(chosen: argparse.Namespace) -> str:
    console = Console(stderr=True)
    with console.status("environments of the peers") as status:
        for side in ("rlberry", "scool"):
            status.update(f"environment of {side} (installed once)")
            python_of(side, chosen.cache)
        for world in chosen.worlds:
            status.update(f"tables of {WORLDS[world].label}")
            mdp = WORLDS[world].build()
            export(mdp, chosen.cache / "tables" / f"{world}.npz")
            np.save(chosen.cache / "tables" / f"{world}-gaps.npy", gaps(mdp))
    plan = [(world, *turn) for world in chosen.worlds for turn in turns(world, chosen.rounds)]
    found: list[dict[str, Any]] = []
    columns = (TextColumn("{task.description:<70}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("race", total=len(plan))
        for world, contestant, mode, number in plan:
            progress.update(bar, description=f"{WORLDS[world].label}: {contestant.name} ({mode})")
            answer = play(contestant, mode, number, world, chosen)
            if "failed" in answer:
                progress.console.print(f"{contestant.name} on {world} failed: {answer['failed']}", markup=False)
            found.append({"world": world, "contestant": contestant, "mode": mode, **answer})
            progress.advance(bar)
    return write_tables(found, chosen)


def control(chosen: argparse.Namespace) -> str:
    """Return the tables of benchmarks/control.py (ours) and benchmarks/deep_rl.py (theirs), run in turn."""
    parts = []
    seeds = ["--seeds", str(chosen.control_seeds)]
    for side, script, more in (
        ("ours", "control.py", seeds),
        ("control", "deep_rl.py", [*seeds, "--steps", str(chosen.control_steps)]),
    ):
        command = [str(python_of(side, chosen.cache)), str(HERE.parent / script), *more]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=surroundings(), check=True)
        parts.append(ran.stdout.strip())
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two MDPs, at most 200 episodes")
    parser.add_argument("--out", type=Path, help="write the tables to this file as well")
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), help="only these MDPs")
    parser.add_argument("--limit", type=float, help="processor seconds for a contestant and MDP (10 quick, else 120)")
    parser.add_argument("--rounds", type=int, help="how often each has its turn (once quick, else twice)")
    parser.add_argument("--seeds", type=int, default=8, help="of a peer, as many as fit into its limit")
    parser.add_argument("--control", action="store_true", help="race the control tasks in place of the finite ones")
    parser.add_argument("--control-steps", type=int, default=50_000)
    parser.add_argument("--control-seeds", type=int, default=3)
    parser.add_argument("--cache", type=Path, default=Path("out/peers"))
    chosen = parser.parse_args()
    chosen.limit = chosen.limit or (10.0 if chosen.quick else 120.0)
    chosen.rounds = chosen.rounds or (1 if chosen.quick else 2)
    chosen.worlds = chosen.worlds or (QUICK if chosen.quick else list(WORLDS))

    chosen.cache = chosen.cache.resolve()
    written = control(chosen) if chosen.control else race(chosen)
    print(written)
    if chosen.out is not None:
        chosen.out.write_text(written)


if __name__ == "__main__":
    main()
