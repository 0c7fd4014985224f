"""Formats of the figure for a paper: PDF, SVG, PNG, and PGF for LaTeX; the same numbers give the same file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from matrixrl.archive import atomic_write
from matrixrl.checks import fail
from matrixrl.errors import InvalidInput, MatrixRLError

__all__ = ["FIGURE_KINDS", "escaped", "kind_of", "save_figure", "style_of"]

FIGURE_KINDS = ("pdf", "svg", "pgf", "png")
"""Suffixes of figures, without the dot."""

_DPI = 600
_TEX = ("pdflatex", "xelatex", "lualatex")
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # included in matplotlib, so figures are the same on every machine
    "font.size": 8.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "pdf.fonttype": 42,  # embed TrueType fonts, which publishers require, not Type 3
    "svg.hashsalt": "matrixrl",  # ids of elements that do not change from file to file
    "axes.unicode_minus": True,
}
_TEX_ESCAPES = {
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "$": r"\textdollar{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},  # other signs in the oldest encoding, OT1
    **{"-": "-{}", "`": "`{}", "'": "'{}"},  # two of them are one sign in LaTeX
    **{c: f"\\{c}" for c in "{}#&%_"},
}


def kind_of(path: Path) -> str:
    """Return the format of a figure by the suffix of its file.

    Raises:
        InvalidInput: The suffix is not one of `FIGURE_KINDS`, or it is .pgf and no LaTeX is installed.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FIGURE_KINDS:
        *others, last = (f".{name}" for name in FIGURE_KINDS)
        fail("path", f"must end in {', '.join(others)} or {last}", repr(path.name), "Choose one of them.")
    if kind == "pgf":
        _tex_program()
    return kind


def _tex_program() -> str:
    """Return the first LaTeX program of this machine: matplotlib asks it for the size of every text."""
    found = next((name for name in _TEX if shutil.which(name)), None)
    if found is None:
        raise InvalidInput(
            f"a .pgf figure needs LaTeX on this machine, which measures its texts; found none of {', '.join(_TEX)}. "
            "Install one (Debian: apt install texlive-latex-recommended texlive-pictures), or write .pdf or .svg."
        )
    return found


def style_of(kind: str) -> dict[Any, Any]:
    """Return the settings of matplotlib for a format; a .pgf figure has the fonts of the document that includes it."""
    if kind != "pgf":
        return _STYLE
    own = {"pgf.texsystem": _tex_program(), "pgf.rcfonts": False, "font.family": "serif"}
    return {**_STYLE, **own}


def escaped(text: str, kind: str) -> str:
    r"""Return text that matplotlib and LaTeX show as it is.

    Without escaping, $ starts mathematics, a leading underscore hides the entry of a legend, and in LaTeX a backslash
    starts a command.

    >>> escaped("_a $x$", "pdf"), escaped(r"50 % \input", "pgf")
    (' _a \\$x\\$', '50 \\% \\textbackslash{}input')
    """
    if kind == "pgf":
        return "".join(_TEX_ESCAPES.get(c, c) for c in text)
    shown = text.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def save_figure(figure: Any, path: Path, kind: str) -> None:
    """Write a figure of matplotlib in one atomic step.

    Args:
        figure: The figure.
        path: File to write.
        kind: One of `FIGURE_KINDS`.
    """
    # without the date, the same numbers give the same file
    dates: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    metadata = {"metadata": dates[kind]} if kind in dates else {}

    def write(fresh: Path) -> None:
        figure.savefig(fresh, format=kind, dpi=_DPI, **metadata)

    if kind != "pgf":
        atomic_write(path, write)
        return
    from matplotlib.backends.backend_pgf import LatexError

    try:
        atomic_write(path, write)
    except (LatexError, RuntimeError, ValueError) as error:
        words = f"{_tex_program()} cannot set the texts of {path.name} ({_reason(error)})"
        raise MatrixRLError(f"{words}; write .pdf or .svg, or use ASCII ids") from error


def _reason(error: Exception) -> str:
    """Return the first error that LaTeX printed, or the first line of the message."""
    lines = str(error).splitlines()
    return next((line.removeprefix("!").strip() for line in lines if line.startswith("!")), lines[0] if lines else "")
