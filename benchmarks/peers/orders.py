"""Carries out orders: one contestant, one MDP, some seeds, in a process of its own; and keeps the answers.

An answer that is kept is taken again if the order is the same, so that an interrupted race goes on where it was.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from contestants import Contestant
from homes import HERE, python_of, surroundings
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from worlds import WORLDS, export, gaps, regret

SCRIPTS = {
    "ours": "ours.py",
    "rlberry": "peer_rlberry.py",
    "scool": "peer_rlberry.py",
    "statisticalrl": "peer_statisticalrl.py",
}


@dataclass(frozen=True)
class Turn:
    """One turn of one contestant.

    Attributes:
        world: a key of WORLDS.
        contestant: who plays.
        mode: "alone", "batch" (many seeds at once, ours only) or "check" (a batch that the library measures as well).
        number: of the round.
        n_episodes: N.
        seeds: in the order in which they are played.
        limit: processor seconds.
    """

    world: str
    contestant: Contestant
    mode: str
    number: int
    n_episodes: int
    seeds: list[int]
    limit: float

    def order(self) -> dict[str, Any]:
        return {
            **asdict(self.contestant),
            "world": self.world,
            "n_episodes": self.n_episodes,
            "seeds": self.seeds,
            "limit": self.limit,
            "exact": self.mode == "check",
        }

    def stem(self) -> str:
        stem = f"{self.world}--{self.contestant.name}--{self.mode}-{self.number}"
        return stem.replace(" ", "_").replace("'", "").replace(",", "")


def carry_out(turn: Turn, cache: Path, folder: str) -> dict[str, Any]:
    """Run one turn and compute the regret of what was played; or return the answer that is kept in `cache / folder`."""
    order, path = turn.order(), cache / folder / f"{turn.stem()}.json"
    if path.exists():
        stored: dict[str, Any] = json.loads(path.read_text())
        if stored["order"] == order:
            return stored
    path.parent.mkdir(parents=True, exist_ok=True)
    tables, keep = cache / "tables" / f"{turn.world}.npz", path.with_suffix(".npz")
    side = turn.contestant.side
    sent = json.dumps({**order, "tables": str(tables), "keep": str(keep)})
    command = [str(python_of(side, cache)), str(HERE / SCRIPTS[side])]
    ran = subprocess.run(command, input=sent, capture_output=True, text=True, env=surroundings(), check=False)
    if ran.returncode:
        return {"order": order, "failed": ran.stderr.strip()[-400:]}  # not kept: the next race tries again
    answer: dict[str, Any] = {"order": order, **json.loads(ran.stdout.splitlines()[-1])}
    gap = np.load(cache / "tables" / f"{turn.world}-gaps.npy")
    with np.load(keep) as played:
        for run in answer["runs"]:
            lost = regret(gap, played[f"states{run['seed']}"], played[f"actions{run['seed']}"])
            run["regret"] = float(lost.sum())
    keep.unlink()
    path.write_text(json.dumps(answer))
    return answer


def carry_out_all(turns: list[Turn], cache: Path, folder: str) -> list[dict[str, Any]]:
    """Build environments and tables, run all turns one after the other and return their answers."""
    console = Console(stderr=True)
    with console.status("environments of the peers") as status:
        _prepare(turns, cache, status.update)
    found: list[dict[str, Any]] = []
    columns = (TextColumn("{task.description:<70}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("race", total=len(turns))
        for turn in turns:
            name = turn.contestant.name
            progress.update(bar, description=f"{WORLDS[turn.world].label}: {name} ({turn.mode})")
            answer = carry_out(turn, cache, folder)
            if "failed" in answer:
                progress.console.print(f"{name} on {turn.world} failed: {answer['failed']}", markup=False)
            found.append({"world": turn.world, "contestant": turn.contestant, "mode": turn.mode, **answer})
            progress.advance(bar)
    return found


def _prepare(turns: list[Turn], cache: Path, report: Callable[[str], None]) -> None:
    for side in dict.fromkeys(turn.contestant.side for turn in turns):
        report(f"environment of {side} (installed once)")
        python_of(side, cache)
    for world in dict.fromkeys(turn.world for turn in turns):
        report(f"tables of {WORLDS[world].label}")
        mdp = WORLDS[world].build()
        export(mdp, cache / "tables" / f"{world}.npz")
        np.save(cache / "tables" / f"{world}-gaps.npy", gaps(mdp))


def alternate(*sides: list[Any]) -> list[Any]:
    """Return the members of several lists in turn: the first of each, then the second of each, and so on."""
    longest = max(map(len, sides))
    return [side[i] for i in range(longest) for side in sides if i < len(side)]
