"""Tests of the figure for a paper: size, fonts and curves."""

from __future__ import annotations

import re
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from matrixrl.errors import InvalidInput, MatrixRLError, MissingExtra, UnknownName
from matrixrl_lab.execution import Campaign, make_executor
from matrixrl_lab.report import draw_paper_figure
from matrixrl_lab.report.charts import looks_of
from matrixrl_lab.report.figure_files import escaped
from matrixrl_lab.spec import read_spec, work_out
from matrixrl_lab.store import Store

_SPEC = """
name = "figure"
episodes = 80
seeds = 3
[[env]]
name = "river-swim"
settings = { n_states = 4 }
[[env]]
name = "river-swim"
id = "longer $x$ <b>"
[[agent]]
name = "psrl"
id = "_hidden $y$"
[[agent]]
name = "random"
id = "an agent whose name is as long as a name of an agent may be, which is much too long"
[[agent]]
name = "random"
sweep = { n_episodes = [80] }
"""
_DPI = 600
_WIDTHS = {1: 3.25, 2: 6.75}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figure")
    spec = folder / "spec.toml"
    spec.write_text(_SPEC.replace("which is much too long", "too long"), encoding="utf-8")
    with Store.create(folder / "store", work_out(read_spec(spec))) as made:
        Campaign(made, make_executor("serial")).run()
        yield made


def pixels(path):
    from matplotlib.image import imread

    return imread(path)[:, :, :3]


@pytest.mark.parametrize("columns", [1, 2])
def test_both_kinds_of_file_have_the_width_of_the_column(store, tmp_path, columns):
    image = pixels(draw_paper_figure(store, tmp_path / "a.png", columns=columns))
    assert image.shape[1] == round(_WIDTHS[columns] * _DPI)
    data = draw_paper_figure(store, tmp_path / "a.pdf", columns=columns).read_bytes()
    box = [float(x) for x in re.search(rb"/MediaBox \[([^\]]*)\]", data)[1].split()]
    assert box[:2] == [0.0, 0.0]
    assert box[2] == pytest.approx(72 * _WIDTHS[columns])
    assert box[3] == pytest.approx(72 * image.shape[0] / _DPI, abs=0.2)


def test_the_pdf_is_vectors_with_truetype_fonts_inside(store, tmp_path):
    data = draw_paper_figure(store, tmp_path / "a.pdf").read_bytes()
    assert b"/FontFile2" in data  # an embedded TrueType font
    assert b"/Type3" not in data
    assert b"/Subtype /Image" not in data


def test_the_same_numbers_give_the_same_file(store, tmp_path):
    for kind in ("pdf", "svg"):
        names = (f"a.{kind}", f"b.{kind}")
        first, second = (draw_paper_figure(store, tmp_path / name, profile=True).read_bytes() for name in names)
        assert first == second


def test_an_svg_is_vectors_in_the_width_of_the_column_with_a_line_for_every_agent(store, tmp_path):
    root = ElementTree.parse(draw_paper_figure(store, tmp_path / "a.svg")).getroot()
    assert float(root.attrib["width"].removesuffix("pt")) == pytest.approx(72 * _WIDTHS[1])
    assert not list(root.iter("{http://www.w3.org/2000/svg}image"))
    drawn = ElementTree.tostring(root, encoding="unicode").lower()
    for look in looks_of(store.experiment).values():
        assert f"stroke: {look.colour.lower()}" in drawn


def test_four_panels_fill_two_rows_of_two_columns(store, tmp_path):
    image = pixels(draw_paper_figure(store, tmp_path / "a.png", columns=2, profile=True))
    rows, width = slice(int(2.3 * _DPI), int(4.0 * _DPI)), image.shape[1]
    for part in (slice(width // 4), slice(3 * width // 4, width)):
        assert (image[rows, part] < 0.5).any(), "the second row is as wide as the first"


def test_a_profile_adds_two_panels_to_the_figure(store, tmp_path):
    without, added = (
        pixels(draw_paper_figure(store, tmp_path / "a.png", profile=profile)).shape[0] for profile in (False, True)
    )
    assert added == pytest.approx(without + 2 * 2.1 * _DPI, abs=2)


_TEX = r"""#!PYTHON
# Answers as LaTeX does when it is asked for the size of a text: a prompt, then width, height and depth.
import sys
print("*pgf_backend_query_start\n\n*", end="", flush=True)
for line in sys.stdin:
    if "@@end" in line:
        sys.exit(0)
    if "typeout" in line and "query_start" not in line:
        print("10.0pt,6.0pt,1.0pt\n\n*", end="", flush=True)
"""


@pytest.fixture
def latex(tmp_path, monkeypatch):
    """A program that answers as LaTeX does and stands for it, so that tests need none."""
    program = tmp_path / "bin" / "pdflatex"
    program.parent.mkdir()
    program.write_text(_TEX.replace("PYTHON", sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return program


@pytest.mark.usefixtures("latex")
def test_negative_numbers_of_a_pgf_have_a_minus_sign_and_no_hyphen(tmp_path):
    spec = tmp_path / "spec.toml"
    text = 'name = "n"\nepisodes = 2\nseeds = 1\n[[env]]\nname = "gym:MountainCar-v0"\n[[agent]]\nname = "random"\n'
    spec.write_text(text, encoding="utf-8")
    with Store.create(tmp_path / "store", work_out(read_spec(spec))) as made:
        Campaign(made, make_executor("serial")).run()
        text = draw_paper_figure(made, tmp_path / "a.pgf").read_text()
    assert r"\ensuremath{-}200" in text
    assert not re.search(r"[ {}]-\d+}?%", text)


def test_an_error_of_latex_is_quoted_without_the_rest_of_its_log(store, tmp_path, latex):
    words = r"! LaTeX Error: Unicode character \u03b5 (U+03B5)\n               not set up for use with LaTeX.\n\n*"
    latex.write_text(latex.read_text().replace(r"10.0pt,6.0pt,1.0pt\n\n*", words))
    latex.rename(latex.with_name("xelatex"))  # matplotlib keeps the processes of the first one, and its answers
    reason = r"xelatex cannot set the texts of a.pgf \(LaTeX Error: Unicode character ε \(U\+03B5\)\); write .pdf or"
    with pytest.raises(MatrixRLError, match=reason):
        draw_paper_figure(store, tmp_path / "a.pgf")
    assert not (tmp_path / "a.pgf").exists()


@pytest.mark.usefixtures("latex")
def test_a_pgf_holds_the_curves_and_its_texts_cannot_be_commands(store, tmp_path):
    text = draw_paper_figure(store, tmp_path / "a.pgf", profile=True).read_text()
    assert text.count(r"\begin{pgfpicture}") == text.count(r"\end{pgfpicture}") == 1
    for look in looks_of(store.experiment).values():
        parts = [int(look.colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        assert "{rgb}{" + ",".join(f"{part:f}" for part in parts) + "}" in text
    assert r"\_hidden \textdollar{}y\textdollar{}" in text
    assert r"\includegraphics" not in text


def test_without_latex_a_pgf_is_refused_in_one_sentence_with_the_way_out(store, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidInput, match=r"a .pgf figure needs LaTeX .* found none of pdflatex.* write .pdf or .svg"):
        draw_paper_figure(store, tmp_path / "a.pgf")
    assert not (tmp_path / "a.pgf").exists()


def test_text_for_latex_is_escaped():
    wanted = r"\textbackslash{}input\{a\}\#\&\%\_\textasciitilde{}\textasciicircum{}\textdollar{}"
    assert escaped(r"\input{a}#&%_~^$", "pgf") == wanted
    assert escaped("a--b <c> |``", "pgf") == r"a-{}-{}b \textless{}c\textgreater{} \textbar{}`{}`{}"


def test_every_agent_is_drawn_in_its_colour_and_nothing_is_cut_off(store, tmp_path):
    image = pixels(draw_paper_figure(store, tmp_path / "a.png"))
    for look in looks_of(store.experiment).values():
        wanted = np.array([int(look.colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        assert (np.abs(image - wanted).max(axis=2) < 0.02).sum() > 500
    edges = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
    assert (edges == 1.0).all()  # a name that is cut off would touch the edge


def test_one_environment_can_be_named(store, tmp_path):
    both = pixels(draw_paper_figure(store, tmp_path / "both.png"))
    one = pixels(draw_paper_figure(store, tmp_path / "one.png", env="longer $x$ <b>"))
    assert one.shape[0] < 0.7 * both.shape[0]


def test_what_cannot_be_drawn_is_refused_before_anything_is_written(store, tmp_path):
    with pytest.raises(UnknownName, match=r"env must be one of .*; got 'river'"):
        draw_paper_figure(store, tmp_path / "a.png", env="river")
    with pytest.raises(InvalidInput, match=r"path must end in .pdf, .svg, .pgf or .png; got 'a.jpg'"):
        draw_paper_figure(store, tmp_path / "a.jpg")
    with pytest.raises(InvalidInput, match="columns must be 1 or 2; got 3"):
        draw_paper_figure(store, tmp_path / "a.png", columns=3)
    with (
        Store.create(tmp_path / "empty", store.experiment) as empty,
        pytest.raises(InvalidInput, match="store must have results to draw"),
    ):
        draw_paper_figure(empty, tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()


def test_without_matplotlib_the_way_out_is_said(store, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"matrixrl\[viz\]"):
        draw_paper_figure(store, tmp_path / "a.png")
