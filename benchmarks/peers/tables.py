"""From what was measured to Markdown: one table for each MDP, and the ratios that the race is about."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from contestants import Contestant

from worlds import WORLDS


@dataclass(frozen=True)
class Line:
    """What all turns of one contestant on one MDP say.

    Attributes:
        alone: processor seconds per 1,000 episodes of one seed on its own; NaN if it was not run so.
        rounds: the same in each round, of which `alone` is the least.
        batch: the same for each seed of a batch; NaN if it was not run so.
        growth: p where the time of n episodes grows like n^p; 1 unless the contestant is known to grow.
        done: episodes of the longest run.
        memory: peak MB of one seed on its own (of the batch where there was no other).
        regret: mean over the seeds that played all N episodes; NaN if none did.
        error: its standard error.
        seeds: how many those are.
        failed: why it did not run, if so.
    """

    contestant: Contestant
    alone: float
    batch: float
    growth: float
    done: int
    memory: float
    regret: float
    error: float
    seeds: int
    rounds: tuple[float, ...] = ()
    failed: str = ""


def _pace(turns: list[dict[str, Any]], grows: bool) -> tuple[float, float]:
    """Return the best seconds per 1,000 episodes, and the growth."""
    runs = [run for turn in turns for run in turn["runs"] if run["done"] > 0]
    if not runs:
        return math.nan, 1.0
    if not grows:
        totals = [(sum(r["seconds"] for r in t["runs"]), sum(r["done"] for r in t["runs"])) for t in turns]
        return min(1000.0 * seconds / episodes for seconds, episodes in totals if episodes), 1.0
    longest = max(runs, key=lambda run: run["done"])
    if longest["done"] < 4 or longest["half"] <= 0.0:
        return 1000.0 * longest["seconds"] / longest["done"], math.nan
    power = math.log(longest["seconds"] / longest["half"]) / math.log(longest["done"] / (longest["done"] // 2))
    return longest["seconds"] * (1000.0 / longest["done"]) ** power, power


def summarise(turns: list[dict[str, Any]]) -> Line:
    contestant: Contestant = turns[0]["contestant"]
    ran = [turn for turn in turns if "failed" not in turn]
    if not ran:
        nothing = (math.nan, math.nan, 1.0, 0, math.nan, math.nan, math.nan, 0)
        return Line(contestant, *nothing, failed=turns[0]["failed"])
    single, many = ([t for t in ran if t["mode"] == mode] for mode in ("alone", "batch"))
    alone, growth = _pace(single, contestant.grows)
    batch, _ = _pace(many, False)
    goal = ran[0]["order"]["n_episodes"]
    # The batch of ours holds the seed that ran alone.
    by_seed = {run["seed"]: run["regret"] for t in [*single, *many] for run in t["runs"] if run["done"] == goal}
    values = np.array(list(by_seed.values()))
    return Line(
        contestant=contestant,
        alone=alone,
        batch=batch,
        growth=growth,
        done=max(run["done"] for turn in ran for run in turn["runs"]),
        memory=min(turn["peak_mb"] for turn in (single or many)),
        regret=float(values.mean()) if len(values) else math.nan,
        error=float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan,
        seeds=len(values),
        rounds=tuple(_pace([turn], contestant.grows)[0] for turn in single),
    )


def number_text(value: float, digits: int = 3) -> str:
    if math.isnan(value):
        return ""
    if value == 0.0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(places, 4)}f}"


def regret_text(line: Line) -> str:
    if math.isnan(line.regret):
        return f"({line.done:,} episodes in the limit)"
    spread = "" if math.isnan(line.error) else f" ± {number_text(line.error, 2)}"
    return f"{number_text(line.regret)}{spread} ({line.seeds})"


def world_table(world: str, lines: list[Line], n_episodes: int) -> str:
    rows = [
        f"### {WORLDS[world].label}, N = {n_episodes:,}",
        "",
        "| who | class | s per 1,000 episodes, one seed | the same, each of a batch | peak MB | regret at N (seeds) |",
        "|---|---|---|---|---|---|",
    ]
    for line in lines:
        who = line.contestant.name
        if line.failed:
            rows.append(f"| {who} | {line.contestant.guarantee} | did not run | | | |")
            continue
        pace = number_text(line.alone)
        if line.contestant.grows and not math.isnan(line.growth):
            pace = f"≈ {pace} (n^{line.growth:.1f}, {line.done} episodes measured)"
        elif pace and line.done < n_episodes:
            pace += f" ({line.done} episodes measured)"
        cells = [
            who,
            line.contestant.guarantee,
            pace,
            number_text(line.batch),
            f"{line.memory:,.0f}",
            regret_text(line),
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _find(lines: list[Line], name: str) -> Line | None:
    return next((line for line in lines if line.contestant.name == name), None)


def _versus(ours: Line, peers: list[Line]) -> list[str]:
    """Return the cells that compare one of ours with the fastest and the best of some peers."""
    timed = [line for line in peers if not math.isnan(line.alone)]
    if not timed:
        return [""] * 5
    fastest = min(timed, key=lambda line: line.alone)
    judged = [line for line in peers if not math.isnan(line.regret)]
    best = min(judged, key=lambda line: line.regret) if judged else None
    regret = ""
    if best is not None and not math.isnan(ours.regret):
        regret = f"{number_text(ours.regret)} : {number_text(best.regret)} ({best.contestant.name})"
    ratios = [theirs / own for theirs, own in zip(fastest.rounds, ours.rounds, strict=False)]
    spread = f" ({number_text(min(ratios))} to {number_text(max(ratios))})" if len(ratios) > 1 else ""
    return [
        f"{fastest.contestant.name}, {number_text(fastest.alone)} s",
        number_text(fastest.alone / ours.alone) + spread,
        number_text(fastest.alone / ours.batch),
        number_text(fastest.memory / ours.memory, 2),
        regret,
    ]


def ratio_table(by_world: dict[str, list[Line]], guarantee: str, who: str, title: str, keep: Any) -> str:
    head = (
        "| MDP | fastest peer | ours alone faster by | in a batch by | less memory by | regret at N, ours : best peer |"
    )
    rows = [f"### {title}", "", head, "|---|---|---|---|---|---|"]
    for world, lines in by_world.items():
        ours = _find(lines, f"matrix-rl {who}")
        if ours is None or ours.failed:
            continue
        peers = [
            line
            for line in lines
            if line.contestant.side != "ours"
            and line.contestant.guarantee == guarantee
            and not line.contestant.settings.get("as_shipped")
            and keep(line)
        ]
        if peers:
            rows.append("| " + " | ".join([WORLDS[world].label, *_versus(ours, peers)]) + " |")
    return "\n".join(rows) if len(rows) > 4 else ""


def write_tables(found: list[dict[str, Any]], chosen: argparse.Namespace) -> str:
    """Return the whole report."""
    by_world: dict[str, list[Line]] = {}
    checks = []
    for world in chosen.worlds:
        here = [turn for turn in found if turn["world"] == world]
        names = list(dict.fromkeys(turn["contestant"].name for turn in here if turn["mode"] != "check"))
        groups = [[turn for turn in here if turn["contestant"].name == name] for name in names]
        ranks = {"ours": 0, "rlberry": 1, "scool": 2}
        by_world[world] = sorted((summarise(group) for group in groups), key=lambda x: ranks[x.contestant.side])
        for turn in here:
            if turn["mode"] == "check" and turn.get("exact"):
                judged = np.mean([run["regret"] for run in turn["runs"]])
                checks.append(
                    f"{WORLDS[world].label} {number_text(float(judged))} : {number_text(float(np.mean(turn['exact'])))}"
                )
    lengths = {turn["world"]: turn["order"]["n_episodes"] for turn in found}

    def plans(line: Line) -> bool:
        return "ucbvi" in line.contestant.agent and "rtdp" not in line.contestant.agent

    parts = [
        "# The race against the public peers",
        f"`{command(chosen)}`: one process at a time, one thread, runs of both libraries alternate, "
        f"{chosen.rounds} rounds, "
        f"at most {chosen.limit:g} s of processor time for a contestant and MDP. Read [README.md](README.md) for what "
        "the columns and classes mean.",
        "## Ratios",
        'Ours learns the rewards here, as every peer does. "Fastest peer" is the one with the fewest seconds per 1,000 '
        "episodes of one seed, whatever it learns; below 1 it is faster than ours. The ratio is that of the best "
        "rounds, with the smallest and largest ratio of a round in brackets. Memory is that of one seed.",
        ratio_table(
            by_world,
            "proof",
            "optimistic, rewards learned",
            "With a proof: `optimistic` against peers with the paper's bonus",
            lambda _: True,
        ),
        ratio_table(
            by_world,
            "proof",
            "optimistic, rewards learned",
            "The same, against peers that plan by full backward induction",
            plans,
        ),
        ratio_table(
            by_world,
            "proof",
            "optimistic, rewards learned, ties by estimate",
            'The same with `ties="estimate"`: the proof of `optimistic`, two plans an episode',
            plans,
        ),
        ratio_table(
            by_world,
            "tuned",
            "tuned, rewards learned",
            "Tuned: `tuned` against peers as they are shipped",
            lambda _: True,
        ),
        ratio_table(
            by_world,
            "tuned",
            "tuned, rewards learned",
            "The same, against peers that use features (LSVI-UCB; time grows with n², at n = 1,000)",
            lambda x: x.contestant.agent == "lsvi-ucb",
        ),
        ratio_table(
            by_world,
            "tuned",
            "tuned, rewards learned",
            "The same, against rlberry-scool alone, the newest release",
            lambda x: x.contestant.side == "scool",
        ),
        "## Every contestant",
        *(world_table(world, lines, lengths[world]) for world, lines in by_world.items()),
    ]
    if checks:
        parts.append(
            "The regret evaluator of the race against the exact V* − V^π of the library, `tuned`, "
            "the same episodes: " + "; ".join(checks) + "."
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def command(chosen: argparse.Namespace) -> str:
    """Return the command that repeats the race."""
    words = ["python benchmarks/peers/race.py", *(["--quick"] if chosen.quick else [f"--limit {chosen.limit:g}"])]
    words += [f"--rounds {chosen.rounds}", f"--first-seed {chosen.first_seed}"]
    words += ["--alone"] if chosen.alone else []
    words += [] if chosen.episodes is None else [f"--episodes {chosen.episodes}"]
    words += [] if chosen.worlds == list(WORLDS) else ["--worlds", *chosen.worlds]
    words += [] if chosen.who is None else ["--who", *(f'"{name}"' for name in chosen.who)]
    return " ".join(words)
