"""The whole study: every question in turn, stored and resumable, ending in a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matrixrl.checks import choice
from matrixrl.errors import StoreError
from matrixrl.lab.experiments import run_experiment
from matrixrl.lab.study import additions, confidence, kernels, lower_order, theorems
from matrixrl.lab.study.question import SIZES, Answer, Evidence, Question, Size
from matrixrl.simulate.files import write_whole

__all__ = ["Section", "questions", "run_study"]

_MARK = "study.json"


@dataclass(frozen=True)
class Section:
    """A question with its answer."""

    question: Question
    answer: Answer


def questions() -> list[Question]:
    """Return every question of the study, in the order of the report.

    >>> len({question.id for question in questions()}) == len(questions())
    True
    """
    return [
        *theorems.QUESTIONS,
        *confidence.QUESTIONS,
        *kernels.QUESTIONS,
        *lower_order.QUESTIONS,
        *additions.QUESTIONS,
    ]


def run_study(
    folder: Path,
    size: str,
    *,
    on: str = "processes",
    workers: int | None = None,
    progress: bool = False,
    announce: Callable[[str], None] = lambda _: None,
    only: list[str] | None = None,
) -> list[Section]:
    """Answer every question; what is already in the directory is not done again.

    Args:
        folder: of stores and numbers.
        size: tiny, quick or full; a directory holds one size.
        on: where experiments run: serial, processes or ray.
        workers: how many at once.
        progress: draw a live bar for each experiment.
        announce: told of each question when it is begun.
        only: ids of some questions; all by default.
    """
    chosen = SIZES[choice("size", size, SIZES)]
    asked = questions()
    if only is not None:
        ids = [choice("question", name, [q.id for q in asked]) for name in only]
        asked = [q for q in asked if q.id in ids]
    _claim(folder, chosen)
    sections = []
    for question in asked:
        announce(question.title)
        summaries = {
            name: run_experiment(
                {**spec, "name": f"{question.id}-{name}", "title": question.title},
                folder / "stores" / f"{question.id}-{name}",
                on=on,
                workers=workers,
                progress=progress,
            )
            for name, spec in question.specs(chosen).items()
        }
        evidence = Evidence(chosen, summaries, _numbers(folder, question, chosen))
        sections.append(Section(question, question.answer(evidence)))
    return sections


def _claim(folder: Path, size: Size) -> None:
    """Make the directory one of this size, or refuse one of another."""
    mark = folder / _MARK
    if mark.exists():
        held = json.loads(mark.read_text(encoding="utf-8")).get("size")
        if held != size.name:
            raise StoreError(f"{folder} holds a {held} study; choose another directory for a {size.name} one")
    else:
        text = json.dumps({"size": size.name})
        write_whole(mark, lambda path: path.write_text(text, encoding="utf-8"))


def _numbers(folder: Path, question: Question, size: Size) -> dict[str, Any]:
    """Return what a question measures beside its experiments, from the directory if it is there."""
    if question.measure is None:
        return {}
    kept = folder / "numbers" / f"{question.id}.json"
    if not kept.exists():
        text = json.dumps(question.measure(size), allow_nan=False)
        write_whole(kept, lambda path: path.write_text(text, encoding="utf-8"))
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return found
