"""The tables of the report as a file of Markdown or LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matrixrl.archive import atomic_write
from matrixrl.checks import fail
from matrixrl.display import printable
from matrixrl_lab.analysis import aggregate, summarise
from matrixrl_lab.report.charts import looks_of
from matrixrl_lab.report.tables import PlainTable, aggregate_table, final_table, table_notes
from matrixrl_lab.store import Store

__all__ = ["as_latex", "latex_text", "table_form", "write_table"]

_FORMS = {".md": "Markdown", ".tex": "LaTeX"}
_MARKDOWN = r"\`*_{}<>#|~"


def write_table(store: Store, path: Path) -> Path:
    """Write one table for each environment and one for all of them together, and return the path.

    Footnotes of all tables are at the end.

    Args:
        store: Store, open for reading or writing.
        path: File to write, as Markdown (.md) or LaTeX (.tex); an existing file is replaced.

    Raises:
        InvalidInput: The name of the file ends otherwise.
    """
    form, experiment = table_form(path), store.experiment
    environments = summarise(store)
    tables = [
        _plain_table(env.id, final_table(env, looks_of(experiment), experiment.episodes, len(experiment.seeds)))
        for env in environments
    ]
    together = aggregate(environments)
    if together is not None:
        found = aggregate_table(together)
        tables.append(PlainTable("All environments together", found["caption"], found["head"], found["rows"]))
    text = (as_latex if form == "LaTeX" else as_markdown)(experiment.title, tables, table_notes(environments))
    data = text.encode("utf-8", errors="backslashreplace")
    atomic_write(path, lambda fresh: fresh.write_bytes(data))
    return path


def table_form(path: Path) -> str:
    """Return the form of the tables that a name of a file asks for; refuse another one."""
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        rule = f"must end in {' or '.join(f'{suffix} ({name})' for suffix, name in _FORMS.items())}"
        fail("table", rule, path.name, "Rename the file.")
    return form


def _plain_table(heading: str, table: dict[str, Any]) -> PlainTable:
    rows = [
        [row["agent"] + (f" ({row['note']})" if row["note"] else ""), row["proof"]["label"]]
        + [f"{cell['value']} {cell['interval']}".rstrip() for cell in row["cells"]]
        for row in table["rows"]
    ]
    caption = table["caption"].replace(" Click on a heading to sort.", "")
    return PlainTable(heading, caption, [text for text, _ in table["headings"]], rows)


def as_markdown(title: str, tables: Sequence[PlainTable], notes: Sequence[str]) -> str:
    """Return tables as Markdown, with the notes at the end."""
    blocks = [f"# {_plain(title)}"]
    for table in tables:
        blocks += [f"## {_plain(table.heading)}", _plain(table.caption), _table(table.head, table.rows)]
    return "\n\n".join([*blocks, *map(_plain, notes)]) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *([_plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return "".join(f"\\{c}" if c in _MARKDOWN else c for c in printable(text)).replace("](", "]\\(")


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "`": r"\textasciigrave{}",
    },
    **{"−": "$-$", "–": "--", "†": r"\textdagger{}", "…": r"\dots{}", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$"},
    **{"≤": r"$\le$", "≥": r"$\ge$", "∞": r"$\infty$", "√": r"$\surd$", "²": "$^2$", "Σ": r"$\Sigma$", "τ": r"$\tau$"},
    **{"δ": r"$\delta$", "γ": r"$\gamma$", "φ": r"$\varphi$", "ψ": r"$\psi$", "λ": r"$\lambda$", "β": r"$\beta$"},
    **{"κ": r"$\kappa$", "ε": r"$\varepsilon$", "π": r"$\pi$", "σ": r"$\sigma$", "α": r"$\alpha$"},
}


def as_latex(title: str, tables: Sequence[PlainTable], notes: Sequence[str]) -> str:
    """Return tables as floats of LaTeX, with the notes as paragraphs after them.

    Args:
        title: Title of the experiment, for a comment.
        tables: The tables.
        notes: Footnotes of all tables.
    """
    lines = [f"% {printable(title)}", r"% The preamble needs \usepackage{booktabs} and, for †, \usepackage{textcomp}."]
    for table in tables:
        caption = f"{latex_text(table.heading)}. {latex_text(table.caption)}"
        lines += ["", r"\begin{table}", r"  \centering\footnotesize", f"  \\caption{{{caption}}}"]
        lines += [f"  \\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}", r"    \toprule", _row(table.head)]
        lines += [r"    \midrule", *map(_row, table.rows), r"    \bottomrule", r"  \end{tabular}", r"\end{table}"]
    for note in notes:
        lines += ["", latex_text(note)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"    {' & '.join(map(latex_text, cells))} \\\\"


def latex_text(text: str) -> str:
    r"""Return text that LaTeX shows as it is.

    >>> print(latex_text("a_1 & 95 %"))
    a\_1 \& 95 \%
    """
    shown = "".join(_LATEX.get(character, character) for character in printable(text))
    return f"{{}}{shown}" if shown.startswith("[") else shown  # after a line break a bracket would be read as a length
