"""The documentation site: Sphinx, furo, MyST; built by ``make docs`` with warnings as errors."""

from __future__ import annotations

import csv
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.addnodes import download_reference
from sphinx.application import Sphinx
from sphinx.util.images import get_image_size
from sphinx.util.inspect import TypeAliasForwardRef

_SOURCE = str(Path(__file__).parents[1] / "src")
sys.path.insert(0, _SOURCE)  # document this checkout, whatever is installed
os.environ["PYTHONPATH"] = os.pathsep.join([_SOURCE, *filter(None, [os.environ.get("PYTHONPATH")])])  # notebooks too
os.environ["MATRIXRL_PROGRESS_SECONDS"] = "0"  # pages do not depend on what numba has in its cache

import matrixrl  # noqa: E402
import matrixrl.problems  # noqa: E402

project = "matrixrl"
author = "the matrixrl authors"
release = version = matrixrl.__version__
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "force"  # notebooks are kept without outputs; the site shows what they print and draw now
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True
nb_number_source_lines = False
smartquotes_action = "D"  # dashes only: primes are signs of the field (s', d', C_ψ')

default_role = "py:obj"  # `name` in a docstring is code, and a link where there is something to link to
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {
    name: name for name in ("ArrayLike", "BoolArray", "FloatArray", "IntArray", "NDArray", "Phi", "Psi")
}
TypeAliasForwardRef.__repr__ = lambda self: self.name  # unions show the names of aliases
autosummary_generate = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]
python_maximum_signature_line_length = 96

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"matrixrl {release}"
html_copy_source = False
html_show_copyright = False
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"  # by browsers themselves: pages load nothing from anywhere

_VERBATIM = re.compile(r"(``.+?``|`[^`]+`|\\\(.+?\\\))")
_FORMULA = re.compile(r"\\\(.+?\\\)", flags=re.DOTALL)
_DISPLAY = re.compile(r"^([ ]*)\\\[(.+?)\\\]([.,;]?)[ ]*$", flags=re.DOTALL | re.MULTILINE)
_SYMBOL = re.compile(r"(?<![\w.])([A-Za-zα-ωΑ-Ω])(?:_([a-zα-ω])('?)|\^(\w+))(?![\w:])")
_PROMPT = re.compile(r"\s*(>>>|\.\.\.) ")
_FENCE = re.compile(r'<mo( class="mathopen")?>([‖|{}⟨⟩])</mo>')
_FUNCTION = re.compile(r"<mi>(\w+)</mi>\s*<mo>&ApplyFunction;</mo>(\s*<mo[^>]*>[(‖|])?")
_DIGITS = re.compile(r"(\\[td]?frac)(\d)(\d)")
_PRIMES = re.compile(r"(\\[a-zA-Z]+|[a-zA-Z])(_(?:\{[^{}]*\}|\\[a-zA-Z]+|\w))?('+)")
_TAG = re.compile(r"<[^>]*>|\s")
_KEYWORDS = re.compile(r"\*\*(\w+)(?:: ?~?[\w.]+(?:\[[^\]]*\])?)?")
_UNPACKED = re.compile(r"Unpack\[(?:[\w.]*\.)?(\w+)\]")
_LONG = 25  # signs of a formula, which may be too wide for a line on a phone
_SIGNS = {  # what docutils writes: what browsers draw as TeX does
    "<mo>'</mo>": '<mo lspace="0" rspace="0">′</mo>',  # raised by itself, so it is not in a superscript
    "<mo>*</mo>": "<mo>∗</mo>",  # the asterisk of text is raised by itself, that of mathematics is not
    '<mo stretchy="false">/</mo>': '<mo stretchy="false" lspace="0" rspace="0">/</mo>',
}
# docutils writes an index of a letter with an accent below the letter
_ACCENT = re.compile(
    r'<munderover>\s*(<mi>[^<]*</mi>)\s*(<m\w+>.*?)\s*(<mo stretchy="false">[ˆˉ~]</mo>)\s*</munderover>', re.DOTALL
)
_RANGE = re.compile(r"([\d.,]+ – [\d.,]+|\[[^\[\]]+\]|± [\d.,]+)")
_WIDE, _LARGE = 1.9, 800  # width over height, and pixels, of pictures with panels side by side


def plain_to_rst(lines: list[str]) -> Iterator[str]:
    r"""Yield docstring lines as reStructuredText.

    ``\( … \)`` becomes mathematics, and so does a letter with an index (A_n); stars and bars outside code are signs of
    the field (M*, V*, |x|), not markup. Examples and literal blocks stay as they are.
    """
    is_example, literal_indent, announced = False, -1, False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            is_example = False
        elif literal_indent >= 0 and indent <= literal_indent:
            literal_indent = -1
        if line.strip() and announced:
            literal_indent, announced = indent - 1, False
        is_example = is_example or bool(_PROMPT.match(line))
        if is_example or literal_indent >= 0 or not line.strip():
            yield line
            continue
        parts = _VERBATIM.split(line)
        yield "".join(_verbatim(part) if place % 2 else _escaped(part) for place, part in enumerate(parts))
        announced = line.rstrip().endswith("::")


def _as_directive(found: re.Match[str]) -> str:
    r"""Return a display ``\[ … \]``, which has its own lines, as a directive; plain_to_rst leaves those alone."""
    margin, formula, stop = found[1], " ".join(found[2].split()), found[3]
    return f"\n{margin}.. math::\n\n{margin}   {formula}{stop}\n"


def _verbatim(part: str) -> str:
    return f":math:`{part[2:-2].strip()}`" if part.startswith("\\(") else part


def _escaped(part: str) -> str:
    part = _SYMBOL.sub(_as_symbol, part.replace("*", "\\*").replace("|", "\\|"))
    return re.sub(r"_(?=\W|$)", r"\\_", part.replace("‖_∞", "‖\\ :sub:`∞`\\ "))


def _as_symbol(found: re.Match[str]) -> str:
    """Return a letter with one index or exponent, as in ``M_n`` and ``V^π``, as mathematics."""
    letter, index, prime, power = found.groups()
    script = f"{prime}_{index}" if index else rf"^{{\mathrm{{{power}}}}}" if len(power) > 1 else f"^{power}"
    return rf"\ :math:`{letter}{script}`\ "


def _rewrite_docstring(_app: Sphinx, what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    # A formula may go over a line break; it is one piece of mathematics all the same.
    joined = _FORMULA.sub(lambda found: " ".join(found[0].split()), "\n".join(lines))
    displayed = _DISPLAY.sub(_as_directive, joined)
    lines[:] = plain_to_rst(displayed.split("\n"))
    if what in ("attribute", "data", "property") and lines:  # napoleon takes words before a colon in a line for a type
        lines[:1] = lines[0].replace(": ", ":\n", 1).split("\n")


def _show_results(app: Sphinx, document: nodes.document) -> None:
    """Add the table of each CSV file of docs/results that a paragraph links to, folded, below that paragraph."""
    folder = Path(app.srcdir) / "results"
    for link in reversed(list(document.findall(download_reference))):  # each table goes directly below the paragraph
        file, paragraph = folder / Path(link["reftarget"]).name, link.parent
        if not file.is_file() or not isinstance(paragraph, nodes.paragraph):
            continue
        app.env.note_dependency(str(file))
        with file.open(encoding="utf-8", newline="") as lines:
            head, *rows = list(csv.reader(lines))
        summary = f"<details><summary>Table: {file.name}, {len(rows)} rows</summary>"
        folded = [nodes.raw("", summary, format="html"), _table(head, rows), nodes.raw("", "</details>", format="html")]
        place = paragraph.parent.index(paragraph) + 1
        paragraph.parent[place:place] = folded


def _table(head: list[str], rows: list[list[str]]) -> nodes.table:
    group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in head), cols=len(head))
    for part, lines in ((nodes.thead(), [head]), (nodes.tbody(), rows)):
        for line in lines:
            part += nodes.row("", *(nodes.entry("", nodes.paragraph("", cell)) for cell in line))
        group += part
    return nodes.table("", group, classes=["colwidths-auto"])


def _keep_ranges_together(_app: Sphinx, document: nodes.document) -> None:
    """Mark ``1 – 2``, ``[1, 2]`` and ``± 1`` in tables, so that lines break before them and not inside."""
    for entry in document.findall(nodes.entry):
        for text in list(entry.findall(nodes.Text)):
            parts = _RANGE.split(text)
            if len(parts) > 1 and not isinstance(text.parent, nodes.literal):
                marked = [
                    nodes.inline("", part, classes=["together"] * (i % 2)) for i, part in enumerate(parts) if part
                ]
                text.parent.replace(text, marked)


def _mark_wide_pictures(app: Sphinx, document: nodes.document, _name: str) -> None:
    """Mark pictures that are too wide for a phone."""
    for image in document.findall(nodes.image):
        size = get_image_size(Path(app.srcdir) / image["uri"])
        if size is not None and size[0] > max(_LARGE, _WIDE * size[1]):
            image["classes"].append("wide")


def _show_options(
    _app: Sphinx, _what: str, _name: str, obj: Any, _options: Any, args: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """Replace ``**more: Unpack[…]`` and ``**settings`` in a signature by the names that they stand for."""
    if args is None:
        return None
    found = _KEYWORDS.search(args)
    named = _options_of(obj, found[1]) if found else []
    if found and named:
        args = args.replace(found[0], ", ".join(named))
        args = args if "*, " in args or "*args" in args else args.replace("(", "(*, ", 1)
    return args.replace("<factory>", "..."), returns


def _options_of(obj: Any, name: str) -> list[str]:
    """Return the keyword options of a callable as parameters: those of a typed dictionary, or of its settings."""
    function = obj.__init__ if isinstance(obj, type) else obj
    given = getattr(function, "__annotations__", {}).get(name)
    names = {**vars(matrixrl.problems), **getattr(function, "__globals__", {})}  # some are imported for types only
    found = _UNPACKED.search(str(given))
    options = names.get(found[1]) if found else None
    if options is not None:
        types = {name: getattr(kind, "__forward_arg__", "Any") for name, kind in options.__annotations__.items()}
        return [f"{name}: {kind} = ..." for name, kind in types.items()]
    settings = getattr(obj, "settings_class", None)
    declared = fields(settings) if is_dataclass(settings) else ()
    return [f"{field.name}: {field.type} = {field.default!r}" for field in declared]


def _as_docutils_reads(formula: str) -> str:
    r"""Return a formula with ``C_a'^2`` as ``{C'}_a^2``, ``\tfrac12`` with braces and ``\ldots`` for ``\dots``.

    TeX reads both forms alike; docutils gives the exponent to the prime, and takes 12 for one argument.
    """
    return _PRIMES.sub(r"{\1\3}\2", _DIGITS.sub(r"\1{\2}{\3}", formula.replace(r"\dots", r"\ldots")))


def _spaced(found: re.Match[str]) -> str:
    """Return the name of a function (ln, det) with the thin spaces that TeX sets around it, none before a fence."""
    after = "0" if found[2] else "0.1667em"
    return f'<mo form="prefix" lspace="0.1667em" rspace="{after}">{found[1]}</mo>{found[2] or ""}'


def _mathml(as_block: bool) -> Callable[[Any, nodes.Element], None]:
    def visit(translator: Any, node: nodes.Element) -> None:
        tex = node.astext()
        formula = tex2mathml(_as_docutils_reads(tex), as_block=as_block)
        if "\\left" not in tex:  # browsers stretch these to the height of the line, TeX only after \left
            formula = _FENCE.sub(r'<mo\1 stretchy="false" lspace="0" rspace="0">\2</mo>', formula)
        formula = _ACCENT.sub(r'<msub><mover accent="true">\1\3</mover>\2</msub>', _FUNCTION.sub(_spaced, formula))
        for written, drawn in _SIGNS.items():
            formula = formula.replace(written, drawn)
        if as_block:
            formula = f'<div class="formula">{formula}</div>'
        elif len(_TAG.sub("", formula)) > _LONG:
            formula = f'<span class="long-formula">{formula}</span>'
        translator.body.append(formula)
        raise nodes.SkipNode

    return visit


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect docstrings (before napoleon reads them), tables and mathematics."""
    app.connect("autodoc-process-docstring", _rewrite_docstring, priority=400)
    app.connect("doctree-read", _show_results)
    app.connect("doctree-read", _keep_ranges_together)
    app.connect("doctree-resolved", _mark_wide_pictures)
    app.connect("autodoc-process-signature", _show_options)
    app.add_html_math_renderer("mathml", (_mathml(False), None), (_mathml(True), None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
