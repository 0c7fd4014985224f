"""The study as a page (HTML with its figures inside) and as Markdown with figures beside it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from matrixrl.lab.plots import require_matplotlib
from matrixrl.lab.study.question import Table
from matrixrl.lab.study.study import Section
from matrixrl.simulate.files import write_whole

__all__ = ["write_pages"]

_INTRODUCTION = (
    "Every claim of Yang and Wang 2019 that can be measured, measured: the claim, the experiment, the numbers, "
    "and whether they "
    "bear it out. Intervals are 95 % over seeds. A verdict is about these experiments; a theorem is about all "
    "problems."
)
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --ground: #ffffff; --line: #c9ced6; --yes: #00664a; --no: #9c2f00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --ground: #16181c; --line: #454b54; --yes: #4fd1a8; --no: #ff9a66; }
}
body { margin: 0 auto; max-width: 60rem; padding: 1rem; color: var(--ink); background: var(--ground);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; margin: .5rem 0; }
caption { text-align: left; font-style: italic; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .6rem; text-align: left; white-space: nowrap; }
img, svg { max-width: 100%; height: auto; background: #ffffff; border-radius: .3rem; }
.verdict { border-left: .3rem solid var(--yes); padding-left: .8rem; } .verdict.no { border-color: var(--no); }
"""


def write_pages(sections: Sequence[Section], folder: Path, *, size: str, command: str) -> list[Path]:
    """Write report.html, study.md and figures/, and return the two pages.

    Args:
        sections: what was found.
        folder: where to.
        size: of the study, for the text.
        command: that makes it again.
    """
    pictures = {s.question.id: _draw(s) for s in sections if s.answer.draw is not None}
    for name, (png, _) in pictures.items():
        write_whole(folder / "figures" / f"{name}.png", partial(_put, png))
    text = {
        "report.html": _html(sections, {name: svg for name, (_, svg) in pictures.items()}, size, command),
        "study.md": _markdown(sections, set(pictures), size, command),
    }
    for name, page in text.items():
        write_whole(folder / name, partial(_put, page.encode()))
    return [folder / name for name in text]


def _put(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def _draw(section: Section) -> tuple[bytes, str]:
    """Return the figure of a section as PNG and as SVG."""
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    assert section.answer.draw is not None
    # a fixed salt and no date: the same numbers give the same file
    with matplotlib.rc_context({"font.size": 8, "svg.hashsalt": section.question.id, "svg.fonttype": "none"}):
        figure = Figure(figsize=(6.4, 3.2), layout="constrained")
        section.answer.draw(figure)
        png, svg = io.BytesIO(), io.BytesIO()
        figure.savefig(png, format="png", dpi=110, metadata={"Software": None})
        figure.savefig(svg, format="svg", metadata={"Date": None})
    drawn = svg.getvalue().decode("utf-8")
    return png.getvalue(), drawn[drawn.index("<svg") :]


def _html(sections: Sequence[Section], pictures: dict[str, str], size: str, command: str) -> str:
    body = [
        f"<h1>The theorems, seen</h1><p>{escape(_INTRODUCTION)}</p><p>{escape(_summary(sections, size))}</p>",
        _contents(sections),
    ]
    for part, own in groupby(sections, key=lambda s: s.question.part):
        body.append(f"<h2>{escape(part)}</h2>")
        for section in own:
            question, answer = section.question, section.answer
            mark = "" if answer.holds else " no"
            body.append(
                f'<section id="{question.id}"><h3>{escape(question.title)}</h3>'
                f"<p><strong>Claim.</strong> {escape(question.claim)}</p>"
                f"<p><strong>Experiment.</strong> {escape(question.method)}</p>"
                f'<div role="img" aria-label="{escape(question.title)}">{pictures.get(question.id, "")}</div>'
                + "".join(_html_table(table) for table in answer.tables)
                + f'<p class="verdict{mark}"><strong>{_word(section)}.</strong> {escape(answer.verdict)}</p></section>'
            )
    body.append(f"<h2>How to make this again</h2><pre>{escape(command)}</pre>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>matrixrl: the theorems, seen</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><style>{_STYLE}</style></head><body>{"".join(body)}</body></html>\n'
    )


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    caption = f"<caption>{escape(table.caption)}</caption>"
    return f'<div class="wide"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _contents(sections: Sequence[Section]) -> str:
    items = "".join(
        f'<li><a href="#{s.question.id}">{escape(s.question.title)}</a>: {_word(s).lower()}</li>' for s in sections
    )
    return f"<nav aria-label='Contents'><ol>{items}</ol></nav>"


def _markdown(sections: Sequence[Section], pictures: set[str], size: str, command: str) -> str:
    lines = [
        "# The theorems, seen",
        "",
        _INTRODUCTION,
        "",
        _summary(sections, size),
        "",
        f"```console\n$ {command}\n```",
        "",
    ]
    lines += ["| question | verdict |", "|---|---|"]
    lines += [f"| {_cell(s.question.title)} | {_word(s).lower()} |" for s in sections]
    for part, own in groupby(sections, key=lambda s: s.question.part):
        lines += ["", f"## {part}"]
        for section in own:
            question, answer = section.question, section.answer
            lines += [
                "",
                f"### {_starred(question.title)}",
                "",
                f"**Claim.** {_starred(question.claim)}",
                "",
                f"**Experiment.** {_starred(question.method)}",
            ]
            if question.id in pictures:
                lines += ["", f"![{_starred(question.title)}](figures/{question.id}.png)"]
            for table in answer.tables:
                lines += ["", f"*{_starred(table.caption)}*" if table.caption else "", "", *_markdown_table(table)]
            lines += ["", f"**{_word(section)}.** {_starred(answer.verdict)}"]
    return "\n".join(lines) + "\n"


def _starred(text: str) -> str:
    """Return text whose stars are stars: V* and M* must not make the words between them italic."""
    return text.replace("*", "\\*")


def _cell(text: str) -> str:
    """Return text for a cell, in which a bar would begin the next one."""
    return _starred(text).replace("|", "∣")


def _markdown_table(table: Table) -> list[str]:
    def row(cells: Sequence[Any]) -> str:
        return "| " + " | ".join(_cell(cell) for cell in cells) + " |"

    return [row(table.head), "|" + "---|" * len(table.head), *(row(cells) for cells in table.rows)]


def _word(section: Section) -> str:
    return "Borne out" if section.answer.holds else "Not borne out at this size"


def _summary(sections: Sequence[Section], size: str) -> str:
    held = sum(s.answer.holds for s in sections)
    return f"The {size} study: {held} of {len(sections)} claims are borne out."
