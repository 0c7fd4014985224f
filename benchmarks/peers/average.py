"""Ours against average-reward learners (statisticalrl) on RiverSwim with restarts after every H steps, δ = 0.05.

python benchmarks/peers/average.py --out benchmarks/peers/RESULTS.md

Runs of both libraries alternate. Everything is kept under out/peers (--cache), as in race.py.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from contestants import AVERAGE_REWARD, MAIN
from orders import Turn, alternate, carry_out_all
from sections import put_section
from tables import Line, number_text, regret_text, summarise

from worlds import WORLDS, gaps

LENGTHS = {"river-4": 3000, "river-6": 3000, "river-12": 5000}
FIRST_SEED = 1000
"""No preset was chosen on these seeds."""
OURS = [contestant for contestant in MAIN if "ties" not in contestant.settings]
CLASSES = {"proof": "proof", "average": "proof for average reward", "tuned": "no proof"}


def turns(world: str, chosen: argparse.Namespace) -> Iterator[Turn]:
    """Yield who runs next; in each round ours and theirs alternate."""
    seeds = range(FIRST_SEED, FIRST_SEED + chosen.seeds)
    for number in range(chosen.rounds):
        share = list(seeds[number :: chosen.rounds])
        for contestant in alternate(OURS, AVERAGE_REWARD):
            limit = chosen.stage_limit if contestant.settings.get("view") == "stage" else chosen.limit
            yield Turn(world, contestant, "alone", number, LENGTHS[world], share, limit / chosen.rounds)


def _partial(turns_of_one: list[dict[str, Any]]) -> str:
    """Return the regret of the longest of the runs that were stopped."""
    runs = [run for turn in turns_of_one for run in turn.get("runs", []) if run["done"]]
    if not runs:
        return "no episode ended in the limit"
    longest = max(runs, key=lambda run: run["done"])
    return f"{number_text(longest['regret'])} after {longest['done']:,} episodes, one seed, then stopped by the limit"


def world_table(world: str, found: list[dict[str, Any]], lines: list[Line]) -> str:
    rows = [
        f"### {WORLDS[world].label}, N = {LENGTHS[world]:,}",
        "",
        "| who | class | s per 1,000 episodes of one seed | regret at N (seeds) |",
        "|---|---|---|---|",
    ]
    for line in lines:
        name, kind = line.contestant.name, CLASSES[line.contestant.guarantee]
        turns_of_one = [turn for turn in found if turn["contestant"].name == name]
        if line.failed:
            rows.append(f"| {name} | {kind} | did not run | |")
            continue
        regret = _partial(turns_of_one) if math.isnan(line.regret) else regret_text(line)
        rows.append(f"| {name} | {kind} | {number_text(line.alone)} | {regret} |")
    return "\n".join(rows)


def _best(lines: list[Line], keep: Any) -> Line | None:
    kept = [line for line in lines if not math.isnan(line.regret) and keep(line)]
    return min(kept, key=lambda line: line.regret, default=None)


def _against(ours: Line, theirs: Line | None) -> str:
    if theirs is None:
        return "none finished"
    regret = f"{number_text(theirs.regret)} ({theirs.contestant.name})"
    return f"{regret}: {number_text(ours.regret / theirs.regret)}"


def least_without_stages(world: str) -> float:
    """Return the least expected regret of N episodes by a deterministic policy that does not see the stage."""
    mdp = WORLDS[world].build()
    states, actions = np.divmod(np.arange(mdp.n_states * mdp.n_actions), mdp.n_actions)
    law = mdp.transitions.rows(states, actions).reshape(mdp.n_states, mdp.n_actions, mdp.n_states)
    every, gap = np.arange(mdp.n_states), gaps(mdp)
    policies = np.array(list(product(range(mdp.n_actions), repeat=mdp.n_states)))
    lost, reached = np.zeros(len(policies)), np.tile(mdp.task.start, (len(policies), 1))
    for stage in range(mdp.horizon):
        lost += (reached * gap[stage, every, policies]).sum(axis=1)
        reached = np.einsum("ps,psn->pn", reached, law[every, policies])
    return LENGTHS[world] * float(lost.min())


def summary_table(by_world: dict[str, list[Line]]) -> str:
    """Return the regret of ours against the best rival of each class, and their ratio."""
    head = "| MDP | ours | regret | best rival with a proof, ratio | UCRL3 as shipped, ratio | best without a proof |"
    rows = [head, "|---|---|---|---|---|---|"]
    for world, lines in by_world.items():
        rivals = [line for line in lines if line.contestant.side != "ours"]
        best = [
            _best(rivals, lambda line: line.contestant.guarantee != "tuned"),
            _best(rivals, lambda line: line.contestant.agent == "ucrl3"),
            _best(rivals, lambda line: line.contestant.guarantee == "tuned"),
        ]
        for ours in lines:
            if ours.contestant.side == "ours" and not ours.contestant.knows_reward:
                cells = [WORLDS[world].label, ours.contestant.name, regret_text(ours)]
                rows.append("| " + " | ".join([*cells, *(_against(ours, line) for line in best)]) + " |")
    return "\n".join(rows)


def report(found: list[dict[str, Any]], chosen: argparse.Namespace) -> str:
    """Return the section of RESULTS.md."""
    by_world: dict[str, list[Line]] = {}
    tables = []
    for world in chosen.worlds:
        here = [turn for turn in found if turn["world"] == world]
        names = [contestant.name for contestant in [*OURS, *AVERAGE_REWARD]]
        lines = [summarise([turn for turn in here if turn["contestant"].name == name]) for name in names]
        by_world[world] = lines
        tables.append(world_table(world, here, lines))
    command = f"python benchmarks/peers/average.py --limit {chosen.limit:g} --stage-limit {chosen.stage_limit:g}"
    least = [f"{number_text(least_without_stages(world))} on {WORLDS[world].label}" for world in chosen.worlds]
    if list(chosen.worlds) != list(LENGTHS):
        command += f" --worlds {' '.join(chosen.worlds)}"
    parts = [
        "# Against average-reward learners",
        f"`{command}`: statisticalrl-learners 2.2507, δ = 0.05, one process at a time, one thread, runs of both "
        f"libraries alternate, {chosen.rounds} rounds, at most {chosen.limit:g} s of processor time for a contestant "
        f"and MDP, {chosen.stage_limit:g} s with the stage in the state (fewer than {chosen.seeds} seeds where they do "
        'not fit). Ours plays the seeds of a round side by side. Rewards are learned except for "matrix-rl optimistic" '
        'and "matrix-rl tuned". Read [README.md](README.md) for what the learners see and what the classes mean.',
        "Ratios are ours to theirs, both with learned rewards: below 1, ours has less regret.",
        summary_table(by_world),
        "The best deterministic policy that sees the state but not the stage has an expected regret of "
        f"{', '.join(least)}.",
        *tables,
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the tables into this file, as one section")
    parser.add_argument("--worlds", nargs="+", choices=list(LENGTHS), default=list(LENGTHS))
    parser.add_argument("--limit", type=float, default=600.0, help="processor seconds for a contestant and MDP")
    parser.add_argument("--stage-limit", type=float, default=120.0, help="the same for H times as many states")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=8, help="as many as fit into the limit")
    parser.add_argument("--cache", type=Path, default=Path("out/peers"))
    chosen = parser.parse_args()
    plan = [turn for world in chosen.worlds for turn in turns(world, chosen)]
    written = report(carry_out_all(plan, chosen.cache.resolve(), "average"), chosen)
    print(written)
    if chosen.out is not None:
        put_section(chosen.out, written)


if __name__ == "__main__":
    main()
