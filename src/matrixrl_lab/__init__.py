"""The lab: run experiments that are described by specs, store their results, analyse and report them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from matrixrl.extras import later_names, naming_the_extra

if TYPE_CHECKING:
    from matrixrl_lab.analysis import EnvSummary, summarise
    from matrixrl_lab.experiments import play, run_experiment
    from matrixrl_lab.export import export
    from matrixrl_lab.report import draw_paper_figure, write_bibtex, write_report, write_table
    from matrixrl_lab.spec import Experiment, read_spec, work_out
    from matrixrl_lab.store import Store

NEEDED = ("pydantic", "yaml", "loky", "plotly", "matplotlib", "fastapi", "jinja2", "uvicorn")
"""Packages of the extra `lab`, by the names that are imported."""

_MODULES = {
    "EnvSummary": "analysis",
    "Experiment": "spec",
    "Store": "store",
    "draw_paper_figure": "report",
    "export": "export",
    "play": "experiments",
    "read_spec": "spec",
    "run_experiment": "experiments",
    "summarise": "analysis",
    "work_out": "spec",
    "write_bibtex": "report",
    "write_report": "report",
    "write_table": "report",
}

__all__ = [
    "EnvSummary",
    "Experiment",
    "Store",
    "draw_paper_figure",
    "export",
    "play",
    "read_spec",
    "run_experiment",
    "summarise",
    "work_out",
    "write_bibtex",
    "write_report",
    "write_table",
]

__getattr__ = later_names(__name__, _MODULES, partial(naming_the_extra, "lab", "the lab"))
