"""The report of the study: an HTML page with its figures inside, and Markdown with figures in separate files."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from matrixrl.archive import atomic_write
from matrixrl.pages import PageFolder
from matrixrl.plots.style import require_matplotlib
from study.question import Table
from study.study import Section

__all__ = ["write_pages"]

_PAGES = PageFolder("study", extra="lab")
_INDEX = re.compile(r"([CK])_([φψ])")
_HEADING = "The theorems, measured"
_INTRODUCTION = (
    "For each claim of Yang and Wang 2019 that can be measured, this page states the claim, the experiment, the "
    "numbers, and whether they support the claim. Intervals are 95 % over seeds. A verdict is about these "
    "experiments; a theorem is about all problems. The claims are about balls: the proven ball is the preset "
    "optimistic with set=normalised, and the tuned ball is the preset tuned with it. By default both presets take "
    "likelihood sets for one-hot features, so regret on this page is not that of the default."
)


def write_pages(sections: Sequence[Section], folder: Path, *, size: str, command: str) -> list[Path]:
    """Write report.html, study.md and figures/, and return the paths of the two pages.

    Args:
        sections: Questions with their answers.
        folder: Directory to write to.
        size: Name of the size of the study.
        command: Command that repeats the study.

    Raises:
        MissingExtra: matplotlib or jinja2 is not installed.
    """
    pictures = {s.question.id: _draw(s) for s in sections if s.answer.draw is not None}
    for name, (png, _) in pictures.items():
        atomic_write(folder / "figures" / f"{name}.png", partial(_write, png))
    pages = {
        "report.html": _html(sections, {name: svg for name, (_, svg) in pictures.items()}, size, command),
        "study.md": _markdown(sections, set(pictures), size, command),
    }
    for name, text in pages.items():
        atomic_write(folder / name, partial(_write, text.encode()))
    return [folder / name for name in pages]


def _write(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def _draw(section: Section) -> tuple[bytes, str]:
    """Return the figure of a section as PNG and as SVG."""
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    assert section.answer.draw is not None
    # with a fixed salt and without a date, the same numbers give the same file
    with matplotlib.rc_context({"font.size": 8, "svg.hashsalt": section.question.id, "svg.fonttype": "none"}):
        figure = Figure(figsize=(6.4, 3.2), layout="constrained")
        section.answer.draw(figure)
        png, svg = io.BytesIO(), io.BytesIO()
        figure.savefig(png, format="png", dpi=110, metadata={"Software": None})
        figure.savefig(svg, format="svg", metadata={"Date": None})
    text = svg.getvalue().decode("utf-8")
    return png.getvalue(), text[text.index("<svg") :]


def _html(sections: Sequence[Section], pictures: dict[str, str], size: str, command: str) -> str:
    return _PAGES.render(
        "study.html.j2",
        title="matrixrl: the theorems, measured",
        style=_PAGES.stylesheet("study"),
        heading=_HEADING,
        introduction=_INTRODUCTION,
        summary=_summary(sections, size),
        contents=[{"id": s.question.id, "text": s.question.title, "note": f": {s.outcome.lower()}"} for s in sections],
        parts=[{"name": part, "sections": own} for part, own in _parts(sections)],
        pictures=pictures,
        command=command,
    )


def _markdown(sections: Sequence[Section], pictures: set[str], size: str, command: str) -> str:
    lines = [f"# {_HEADING}", "", _INTRODUCTION, "", _summary(sections, size), "", f"```console\n$ {command}\n```", ""]
    lines += ["| question | verdict |", "|---|---|"]
    lines += [f"| {_escape_cell(s.question.title)} | {s.outcome.lower()} |" for s in sections]
    for part, own in _parts(sections):
        lines += ["", f"## {part}"]
        for section in own:
            question, answer = section.question, section.answer
            title = _escape(question.title)
            lines += ["", f"### {title}", "", f"**Claim.** {_escape(question.claim)}"]
            lines += ["", f"**Experiment.** {_escape(question.method)}"]
            if question.id in pictures:
                lines += ["", f"![{title}](figures/{question.id}.png)"]
            for table in answer.tables:
                lines += ["", f"*{_escape(table.caption)}*" if table.caption else "", "", *_markdown_table(table)]
            lines += ["", f"**{section.outcome}.** {_escape(answer.verdict)}"]
    return "\n".join(lines) + "\n"


def _markdown_table(table: Table) -> list[str]:
    def row(cells: Sequence[Any]) -> str:
        return "| " + " | ".join(_escape_cell(cell) for cell in cells) + " |"

    return [row(table.head), "|" + "---|" * len(table.head), *(row(cells) for cells in table.rows)]


def _escape(text: str) -> str:
    """Escape asterisks, as in V*, which Markdown would read as emphasis, and set indices such as that of C_ψ."""
    return _INDEX.sub(r"\1<sub>\2</sub>", text.replace("*", "\\*"))


def _escape_cell(text: str) -> str:
    """Escape the text of a cell, in which a vertical bar would start the next cell."""
    return _escape(text).replace("|", "∣")


def _parts(sections: Sequence[Section]) -> list[tuple[str, list[Section]]]:
    return [(part, list(own)) for part, own in groupby(sections, key=lambda s: s.question.part)]


def _summary(sections: Sequence[Section], size: str) -> str:
    held = sum(s.answer.is_borne_out for s in sections)
    trivial = sum(not s.answer.is_tested for s in sections)
    untested = f" {trivial} more {'is' if trivial == 1 else 'are'} trivially true at this size." if trivial else ""
    open_ones = sum(s.answer.is_undecided for s in sections)
    undecided = f" {open_ones} {'has' if open_ones == 1 else 'have'} too few episodes to judge." if open_ones else ""
    return f"The {size} study: {held} of {len(sections)} claims are borne out.{untested}{undecided}"
