"""Decisions for the real world: a durable log, a learner that is a fold of it, and answers over HTTP."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from matrixrl.extras import later_names, naming_the_extra

if TYPE_CHECKING:
    from matrixrl_serve.client import Client
    from matrixrl_serve.http import make_app
    from matrixrl_serve.log_replay import replay
    from matrixrl_serve.problem import ProblemFile, read_problem
    from matrixrl_serve.service import Service

NEEDED = ("fastapi", "httptools", "jinja2", "plotly", "pyarrow", "pydantic", "sqlalchemy", "uvicorn")
"""Packages of the extra `serve`, by the names that are imported."""

_MODULES = {
    "Client": "client",
    "ProblemFile": "problem",
    "Service": "service",
    "make_app": "http",
    "read_problem": "problem",
    "replay": "log_replay",
}

__all__ = ["Client", "ProblemFile", "Service", "make_app", "read_problem", "replay"]

__getattr__ = later_names(__name__, _MODULES, partial(naming_the_extra, "serve", "the service"))
