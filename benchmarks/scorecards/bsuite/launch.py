"""An interpreter that has bsuite, and the worker that runs in it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matrixrl.errors import MatrixRLError
from matrixrl.references import SAFE_PATH
from scorecards import workers

__all__ = ["REQUIREMENT", "answers", "has_bsuite", "make_environment"]

REQUIREMENT = "bsuite>=0.3.6"
_WORKER = "scorecards.bsuite.worker"


def has_bsuite() -> bool:
    """Return whether this interpreter has bsuite."""
    return importlib.util.find_spec("bsuite") is not None


def make_environment(folder: Path) -> Path:
    """Return the interpreter of a virtual environment with bsuite and this library; what is missing is installed.

    Raises:
        MatrixRLError: pip could not install them; its last lines say why.
    """
    python = workers.interpreter_of(folder)
    if not python.exists():
        venv.create(folder, with_pip=True)
    own = {**os.environ, **SAFE_PATH}
    ready = subprocess.run([str(python), "-c", "import bsuite, matrixrl"], capture_output=True, check=False, env=own)
    if not ready.returncode:
        return python
    checkout = Path(__file__).resolve().parents[3]
    command = [str(python), "-m", "pip", "install", "--quiet", REQUIREMENT, "--editable", str(checkout)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    if ran.returncode:
        raise MatrixRLError(f"pip could not install {REQUIREMENT} in {folder}: {ran.stderr.strip()[-500:]}")
    return python


def answers(python: Path, verb: str, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Let the worker follow an order, and yield its answers."""
    return workers.answers(python, _WORKER, verb, order, package="bsuite")
