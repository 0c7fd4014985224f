"""The lab: run experiments that are described by specs, store their results, analyse and report them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from matrixrl.extras import require_packages

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


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_packages(NEEDED, extra="lab", purpose="the lab")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
