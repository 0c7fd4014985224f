"""The parts of the study: a question with its claim and experiment, the evidence, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from matrixrl_lab.analysis import AgentSummary, EnvSummary

__all__ = ["SIZES", "Evidence", "Finding", "Question", "Size", "Table"]


@dataclass(frozen=True)
class Size:
    """The size of a study.

    Attributes:
        name: "tiny" (for tests), "quick" or "full".
        seeds: Number of seeds of every experiment.
        share: Number of episodes relative to the full study.
    """

    name: str
    seeds: int
    share: float

    def episodes(self, full: int) -> int:
        """Return the number of episodes of an experiment that has `full` episodes in the full study."""
        return max(10, round(self.share * full))

    def first(self, values: list[Any]) -> list[Any]:
        """Return the values of a sweep: all of them in the full study, the first ones in smaller studies."""
        return values if self.name == "full" else values[: max(2, len(values) - (1 if self.name == "quick" else 2))]


SIZES = {size.name: size for size in (Size("tiny", 2, 0.01), Size("quick", 8, 0.2), Size("full", 16, 1.0))}
"""The sizes of the study by name."""


@dataclass(frozen=True)
class Table:
    """A table of texts.

    Attributes:
        caption: Description of the table.
        head: Headings of the columns.
        rows: Cells of each row.
    """

    caption: str
    head: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Finding:
    """The result of an experiment for the claim of its question.

    Attributes:
        holds: Whether the results of this size agree with the claim.
        verdict: Sentence with the numbers and their intervals.
        tables: Tables of the numbers.
        draw: Function that draws the numbers on a matplotlib figure; None if there is no figure.
        is_tested: Whether the numbers could have contradicted the claim; they cannot if a bound is trivial.
        scope: Words after "Borne out" that say in which part of the comparisons; empty for all of them.
        can_fail: Whether the claim excludes anything at this number of episodes, by a rule that does not depend on the
            results; if not, results that do not agree with it do not contradict it.
    """

    holds: bool
    verdict: str
    tables: list[Table] = field(default_factory=list)
    draw: Callable[[Any], None] | None = None
    is_tested: bool = True
    scope: str = ""
    can_fail: bool = True

    @property
    def is_borne_out(self) -> bool:
        """Whether the claim was tested and the results agree with it."""
        return self.holds and self.is_tested

    @property
    def is_undecided(self) -> bool:
        """Whether the results do not agree with the claim and cannot contradict it either."""
        return self.is_tested and not self.holds and not self.can_fail


@dataclass(frozen=True)
class Evidence:
    """The measurements of a question.

    Attributes:
        size: Size of the study.
        summaries: Summaries of each experiment by its name.
        numbers: Result of `Question.measure`; empty without it.
    """

    size: Size
    summaries: Mapping[str, list[EnvSummary]]
    numbers: Mapping[str, Any]

    def agents(self, name: str = "runs") -> list[tuple[EnvSummary, AgentSummary]]:
        """Return all pairs of environment and agent of an experiment."""
        return [(env, agent) for env in self.summaries[name] for agent in env.agents]


@dataclass(frozen=True)
class Question:
    """One section of the study.

    Attributes:
        id: Name for files and links.
        part: Heading of the group of sections.
        title: Short title.
        claim: The claim and its source.
        method: Description of the experiment.
        answer: Function that computes the answer from the evidence.
        specs: Function that returns the specs of the experiments by name.
        measure: Function that returns further measurements as plain data, which are stored as JSON.
    """

    id: str
    part: str
    title: str
    claim: str
    method: str
    answer: Callable[[Evidence], Finding]
    specs: Callable[[Size], dict[str, dict[str, Any]]] = lambda _: {}
    measure: Callable[[Size], dict[str, Any]] | None = None
