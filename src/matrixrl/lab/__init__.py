"""The lab: run experiments that are described by specs, store their results, analyse and report them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matrixrl.lab.analysis import EnvSummary, summarise
    from matrixrl.lab.experiments import play, run_experiment
    from matrixrl.lab.export import export
    from matrixrl.lab.report import draw_paper_figure, write_bibtex, write_report, write_table
    from matrixrl.lab.spec import Experiment, read_spec, work_out
    from matrixrl.lab.store import Store

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
        raise AttributeError(f"module 'matrixrl.lab' has no attribute {name!r}")
    from matrixrl.lab.requirements import require_lab

    require_lab()
    return getattr(import_module(f"matrixrl.lab.{_MODULES[name]}"), name)
