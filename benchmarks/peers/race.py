"""Ours against the public peers: the same MDPs, seeds and numbers of episodes, in turns, one thread each.

python benchmarks/peers/race.py --quick                         two small MDPs, minutes
python benchmarks/peers/race.py --out benchmarks/peers/RESULTS.md   all of them
python benchmarks/peers/race.py --control                       deep RL on the control tasks

The peers' virtual environments, the tables and every result are kept under out/peers (--cache); a race that was
interrupted goes on where it was, and one that is asked for again with the same limits only prints its table.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator
from pathlib import Path

from contestants import BASELINES, MAIN, PEERS, Contestant
from homes import HERE, python_of, surroundings
from orders import Turn, alternate, carry_out_all
from sections import put_section
from tables import write_tables

from worlds import WORLDS

QUICK = ["river-6", "random-100"]
BATCH, LARGE_BATCH = 32, 8
EXACT = Contestant("check", "ours", "matrix-rl", "tuned", {"preset": "tuned"}, knows_reward=True)


def turns(world: str, chosen: argparse.Namespace) -> Iterator[Turn]:
    """Yield who runs next, in which mode and round: runs of both libraries alternate."""
    task = WORLDS[world]
    n_episodes = min(task.n_episodes, 200) if chosen.quick else chosen.episodes or task.n_episodes
    first = chosen.first_seed
    batch = list(range(first, first + (LARGE_BATCH if task.large else BATCH)))
    for number in range(chosen.rounds):
        share = list(range(first + number, first + chosen.seeds, chosen.rounds))
        ours = [(c, "alone", [first + number]) for c in MAIN]
        if number == 0 and not chosen.alone:
            known = [c for c in BASELINES if not task.large or c.settings["preset"] == "tuned"]
            ours += [(c, "batch", batch) for c in [*MAIN, *(c for c in known if task.on_a_line or not c.on_a_line)]]
            ours += [] if task.large else [(EXACT, "check", batch)]
        peers = [c for c in PEERS if (task.on_a_line or not c.on_a_line) and (task.linear or not c.grows)]
        theirs = [(c, "alone", share) for c in peers if not (task.large and c.settings.get("as_shipped"))]
        wanted = [
            [turn for turn in side if chosen.who is None or turn[0].name in chosen.who] for side in (ours, theirs)
        ]
        for contestant, mode, seeds in alternate(*wanted):
            limit = chosen.limit / chosen.rounds if mode == "alone" else chosen.limit
            yield Turn(world, contestant, mode, number, n_episodes, seeds, limit)


def race(chosen: argparse.Namespace) -> str:
    plan = [turn for world in chosen.worlds for turn in turns(world, chosen)]
    found = carry_out_all(plan, chosen.cache, "quick" if chosen.quick else "full")
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
    parser.add_argument("--out", type=Path, help="write the tables into this file, as one section")
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), help="only these MDPs")
    parser.add_argument("--episodes", type=int, help="number of episodes N in place of that of each MDP")
    parser.add_argument("--who", nargs="+", help="only these contestants, by their names in the tables")
    parser.add_argument("--alone", action="store_true", help="one seed at a time only, no batches")
    parser.add_argument("--limit", type=float, help="processor seconds for a contestant and MDP (10 quick, else 120)")
    parser.add_argument("--rounds", type=int, help="how often each has its turn (once quick, else twice)")
    parser.add_argument("--seeds", type=int, default=8, help="of a peer, as many as fit into its limit")
    parser.add_argument(
        "--first-seed", type=int, default=0, help="first seed of both sides; the tuned preset saw 0 to 15"
    )
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
        if chosen.control:  # tables without a heading: a file of their own
            chosen.out.write_text(written)
        else:
            put_section(chosen.out, written)


if __name__ == "__main__":
    main()
