"""A claim, the experiment that could refute it, and what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from matrixrl.lab.analysis import AgentSummary, EnvSummary

__all__ = ["SIZES", "Answer", "Evidence", "Question", "Size", "Table"]


@dataclass(frozen=True)
class Size:
    """How much is played.

    Attributes:
        name: tiny (for tests), quick or full.
        seeds: of every run.
        share: of the episodes of the full study.
    """

    name: str
    seeds: int
    share: float

    def episodes(self, full: int) -> int:
        """Return how many episodes are played where the full study plays `full`."""
        return max(10, round(self.share * full))

    def first(self, values: list[Any]) -> list[Any]:
        """Return the values of a sweep: all, but for small studies the first ones only."""
        return values if self.name == "full" else values[: max(2, len(values) - (1 if self.name == "quick" else 2))]


SIZES = {size.name: size for size in (Size("tiny", 2, 0.01), Size("quick", 8, 0.2), Size("full", 16, 1.0))}
"""The sizes of the study by name."""


@dataclass(frozen=True)
class Table:
    """A small table: what it shows, headings, rows of text."""

    caption: str
    head: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Answer:
    """What the experiment says of the claim.

    Attributes:
        holds: whether it bears the claim out, at this size.
        verdict: in words, with the numbers and their intervals.
        tables: the numbers.
        draw: draws them on a matplotlib figure; None where a table says it all.
    """

    holds: bool
    verdict: str
    tables: list[Table] = field(default_factory=list)
    draw: Callable[[Any], None] | None = None


@dataclass(frozen=True)
class Evidence:
    """What was measured for a question.

    Attributes:
        size: how much was played.
        summaries: of each experiment of the question, by its name.
        numbers: what `measure` returned; {} without it.
    """

    size: Size
    summaries: Mapping[str, list[EnvSummary]]
    numbers: Mapping[str, Any]

    def agents(self, name: str = "runs") -> list[tuple[EnvSummary, AgentSummary]]:
        """Return every agent of an experiment with its environment."""
        return [(env, agent) for env in self.summaries[name] for agent in env.agents]


@dataclass(frozen=True)
class Question:
    """One section of the study.

    Attributes:
        id: for files.
        part: the heading that it stands under.
        title: short.
        claim: what is claimed, and where.
        method: what is done to see it.
        specs: experiments of the lab, by name.
        measure: other numbers, as plain data; kept beside the stores.
        answer: from what was measured to what it says.
    """

    id: str
    part: str
    title: str
    claim: str
    method: str
    answer: Callable[[Evidence], Answer]
    specs: Callable[[Size], dict[str, dict[str, Any]]] = lambda _: {}
    measure: Callable[[Size], dict[str, Any]] | None = None
