"""Decisions for the real world: a durable log, a learner that is a fold of it, and answers over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from matrixrl.errors import MissingExtra

if TYPE_CHECKING:
    from matrixrl.service.client import AsyncClient, Client
    from matrixrl.service.http import make_app
    from matrixrl.service.log_replay import replay
    from matrixrl.service.problem import ProblemFile, read_problem
    from matrixrl.service.runner import Service

_MODULES = {
    "AsyncClient": "client",
    "Client": "client",
    "ProblemFile": "problem",
    "Service": "runner",
    "make_app": "http",
    "read_problem": "problem",
    "replay": "log_replay",
}

__all__ = ["AsyncClient", "Client", "ProblemFile", "Service", "make_app", "read_problem", "replay"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with naming_missing_packages():
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


@contextmanager
def naming_missing_packages() -> Iterator[None]:
    """Raise `MissingExtra` if a package of the extra `serve` is missing in the block."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != "matrixrl":
            raise MissingExtra(f"the service needs {error.name}; pip install 'matrixrl[serve]'") from error
        raise
