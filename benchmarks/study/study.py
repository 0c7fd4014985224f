"""Run the study: all experiments of all questions, stored and resumable."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matrixrl.archive import atomic_write
from matrixrl.checks import choice
from matrixrl.errors import StoreError
from matrixrl_lab.experiments import run_experiment
from study import additions, confidence, kernels, lower_order, theorems
from study.question import SIZES, Evidence, Finding, Question, Size

__all__ = ["Section", "questions", "run_study"]

_MARK = "study.json"


@dataclass(frozen=True)
class Section:
    """A question with its answer."""

    question: Question
    answer: Finding

    @property
    def outcome(self) -> str:
        """Return whether the claim is borne out, in words."""
        if not self.answer.is_tested:
            return "Trivially true at this size"
        if self.answer.is_undecided:
            return "Too few episodes to judge"
        return f"Borne out{self.answer.scope}" if self.answer.holds else "Not borne out at this size"


def questions() -> list[Question]:
    """Return all questions of the study in the order of the report.

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
    """Run the experiments of the questions and return the answers; results in the directory are used again.

    Args:
        folder: Directory of the stores and measurements.
        size: "tiny", "quick" or "full"; a directory holds a study of one size.
        on: Executor of the experiments: "serial", "processes" or "ray".
        workers: Number of parallel workers; None chooses it.
        progress: Show a progress bar for each experiment.
        announce: Function that is called with the title of each question before its experiments start.
        only: Ids of the questions to answer; None answers all.

    Raises:
        UnknownName: The size or the id of a question is unknown.
        StoreError: The directory holds a study of another size.
    """
    chosen = SIZES[choice("size", size, SIZES)]
    asked = questions()
    if only is not None:
        ids = [choice("question", name, [q.id for q in asked]) for name in only]
        asked = [q for q in asked if q.id in ids]
    _check_size(folder, chosen)
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
        evidence = Evidence(chosen, summaries, _measurements(folder, question, chosen))
        sections.append(Section(question, question.answer(evidence)))
    return sections


def _check_size(folder: Path, size: Size) -> None:
    """Write the size into a new directory, or fail if an existing one has another size."""
    mark = folder / _MARK
    if mark.exists():
        held = json.loads(mark.read_text(encoding="utf-8")).get("size")
        if held != size.name:
            raise StoreError(f"{folder} holds a {held} study; choose another directory for a {size.name} one")
    else:
        text = json.dumps({"size": size.name})
        atomic_write(mark, lambda path: path.write_text(text, encoding="utf-8"))


def _measurements(folder: Path, question: Question, size: Size) -> dict[str, Any]:
    """Return the measurements of a question, from the directory if they are stored there."""
    if question.measure is None:
        return {}
    kept = folder / "numbers" / f"{question.id}.json"
    if not kept.exists():
        text = json.dumps(question.measure(size), allow_nan=False)
        atomic_write(kept, lambda path: path.write_text(text, encoding="utf-8"))
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return found
