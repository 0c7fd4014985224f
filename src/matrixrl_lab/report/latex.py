"""Tables as LaTeX with booktabs, for a paper."""

from __future__ import annotations

from collections.abc import Sequence

from matrixrl.display import printable
from matrixrl_lab.report.tables import PlainTable

__all__ = ["as_latex", "latex_text"]

_SPECIAL = {
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
    shown = "".join(_SPECIAL.get(character, character) for character in printable(text))
    return f"{{}}{shown}" if shown.startswith("[") else shown  # after a line break a bracket would be read as a length
