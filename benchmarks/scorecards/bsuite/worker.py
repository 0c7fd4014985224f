"""Runs and scores experiments of bsuite, in an interpreter that has bsuite; `launch` starts it."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

from scorecards.bsuite.ids import chosen_experiments
from scorecards.learners import EnvLearner, RandomLearner, choose_learner
from scorecards.probe import PROBE_EPISODES
from scorecards.results import keep, read_kept
from scorecards.workers import follow, tell

__all__ = ["main"]

_TELL_EVERY = 1.0  # seconds between two lines about progress


class _Rows:
    """A logger of bsuite that keeps its rows."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def write(self, data: dict[str, Any]) -> None:
        """Keep one row."""
        self.rows.append({name: float(value) for name, value in data.items()})


def main() -> None:
    """Follow the order on the command line."""
    follow({"run": run, "score": score})


def run(order: dict[str, Any]) -> None:
    """Play what is missing: the order names folder, agents, experiments, `every` and `vector_episodes`."""
    sweep = importlib.import_module("bsuite.sweep")
    numbers = {name: [i for i in sweep.SWEEP if i.rpartition("/")[0] == name] for name in order["experiments"]}
    ids = [i for name in chosen_experiments(order["experiments"]) for i in numbers[name][:: order["every"]]]
    cells = [(agent, i) for i in ids for agent in order["agents"]]
    for k, (agent, name) in enumerate(cells):
        cap = order["vector_episodes"]
        path = Path(order["folder"]) / agent / f"{name.replace('/', '-')}.json"
        question = {"id": name, "agent": agent, "settings": sweep.SETTINGS[name], "vector_episodes": cap}
        kept = read_kept(path)
        if kept is None or not _answers(kept, question):
            tell(cell=k, of=len(cells), agent=agent, id=name)
            keep(path, {"asked": question, **play(name, agent, sweep.EPISODES[name], cap)})
    tell(cell=len(cells), of=len(cells), agent="", id="")


def _answers(kept: dict[str, Any], question: dict[str, Any]) -> bool:
    """Return whether a result is that of a question; one with all episodes also answers for fewer."""
    asked = {**kept["asked"], "vector_episodes": question["vector_episodes"]}
    return asked == question and (kept["asked"] == question or kept["episodes"] == kept["of"])


def play(name: str, agent: str, n_episodes: int, vector_episodes: int | None) -> dict[str, Any]:
    """Play one experiment, and return bsuite's rows and how they were made."""
    suite, wrappers = importlib.import_module("bsuite"), importlib.import_module("bsuite.utils.wrappers")
    rows = _Rows()
    began, told = time.process_time(), time.perf_counter()
    env = wrappers.Logging(suite.load_from_id(name), rows)
    seed = int(name.rpartition("/")[2])
    learner, used, played = _learner(env, agent, seed)
    last = n_episodes if vector_episodes is None or used != "kernel-control" else min(vector_episodes, n_episodes)
    for episode in range(played, last):
        learner.play()
        if time.perf_counter() > told + _TELL_EVERY:
            told = time.perf_counter()
            tell(episode=episode + 1, last=last)
    seconds = time.process_time() - began
    return {"learner": used, "episodes": last, "of": n_episodes, "seconds": round(seconds, 1), "rows": rows.rows}


def _learner(env: Any, agent: str, seed: int) -> tuple[EnvLearner, str, int]:
    """Return what plays, its name, and the number of episodes that were played to choose it."""
    if agent == "random":
        return RandomLearner(env, seed), agent, 0
    return (*choose_learner(env, seed), PROBE_EPISODES)


def score(order: dict[str, Any]) -> None:
    """Score all results of the folder by bsuite's own analysis, and tell scores by experiment and by tag."""
    pandas, analysis = _modules()
    for agent in order["agents"]:
        results = [read_kept(path) for path in sorted((Path(order["folder"]) / agent).glob("*.json"))]
        frames = [_frame(pandas, kept) for kept in results if kept is not None]
        if not frames:
            continue
        table = analysis.bsuite_score(pandas.concat(frames, ignore_index=True))
        tags = analysis.ave_score_by_tag(table, None)
        runs: dict[str, list[dict[str, Any]]] = {}
        for kept in results:
            if kept is not None:
                runs.setdefault(kept["asked"]["id"].rpartition("/")[0], []).append(kept)
        for row in table.to_dict("records"):
            own = runs[row["bsuite_env"]]
            tell(
                agent=agent,
                experiment=row["bsuite_env"],
                score=float(row["score"]),
                finished=bool(row["finished"]),
                ids=[int(kept["asked"]["id"].rpartition("/")[2]) for kept in own],
                learners=sorted({kept["learner"] for kept in own}),
                episodes=[min(kept["episodes"] for kept in own), own[0]["of"]],
                seconds=sum(kept["seconds"] for kept in own),
                tags=list(analysis.BSUITE_INFO[row["bsuite_env"]].tags),
            )
        for row in tags.to_dict("records"):
            if row["score"] == row["score"]:  # a tag without experiments has no score
                tell(agent=agent, tag=row["tag"], score=float(row["score"]))


def _modules() -> tuple[Any, Any]:
    """Return pandas and bsuite's analysis, which needs a method that pandas 2 removed."""
    pandas: Any = importlib.import_module("pandas")
    if not hasattr(pandas.Series, "append"):
        pandas.Series.append = lambda self, other: pandas.concat([self, other])
    return pandas, importlib.import_module("bsuite.experiments.summary_analysis")


def _frame(pandas: Any, kept: dict[str, Any]) -> Any:
    """Return the rows of one run as bsuite's loaders return them: with its name, experiment and settings."""
    name = kept["asked"]["id"]
    frame = pandas.DataFrame(kept["rows"])
    return frame.assign(bsuite_id=name, bsuite_env=name.rpartition("/")[0], **kept["asked"]["settings"])


if __name__ == "__main__":
    main()
