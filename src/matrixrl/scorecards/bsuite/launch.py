"""Starts the worker in an interpreter that has bsuite, and reads what it tells."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matrixrl.errors import MatrixRLError

__all__ = ["REQUIREMENT", "answers", "has_bsuite", "interpreter_of", "make_environment"]

REQUIREMENT = "bsuite>=0.3.6"
_WORKER = "matrixrl.scorecards.bsuite.worker"


def has_bsuite() -> bool:
    """Return whether this interpreter has bsuite."""
    return importlib.util.find_spec("bsuite") is not None


def interpreter_of(folder: Path) -> Path:
    """Return the interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def own_requirement() -> list[str]:
    """Return what pip installs to have this library in another environment: the source tree, or this version."""
    root = Path(__file__).resolve().parents[4]
    if (root / "pyproject.toml").is_file() and (root / "src" / "matrixrl").is_dir():
        return ["--editable", f"{root}[fast]"]
    return [f"matrixrl[fast]=={importlib.metadata.version('matrixrl')}"]


def make_environment(folder: Path) -> Path:
    """Return the interpreter of a virtual environment with bsuite and this library; what is missing is installed.

    Raises:
        MatrixRLError: pip could not install them; its last lines say why.
    """
    python = interpreter_of(folder)
    if not python.exists():
        venv.create(folder, with_pip=True)
    ready = subprocess.run([str(python), "-c", "import bsuite, matrixrl"], capture_output=True, check=False)
    if not ready.returncode:
        return python
    command = [str(python), "-m", "pip", "install", "--quiet", REQUIREMENT, *own_requirement()]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise MatrixRLError(f"pip could not install {REQUIREMENT} in {folder}: {ran.stderr.strip()[-500:]}")
    return python


def answers(python: Path, verb: str, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Let a worker follow an order, and yield what it tells.

    Raises:
        MatrixRLError: The worker failed; its last line says why.
    """
    command = [str(python), "-m", _WORKER, verb, json.dumps(order)]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as worker:
            try:
                for line in worker.stdout or ():
                    yield json.loads(line)
            except BaseException:
                worker.terminate()
                raise
        if worker.returncode:
            errors.seek(0)
            last = (errors.read().strip().splitlines() or [f"exit code {worker.returncode}"])[-1]
            raise MatrixRLError(f"the worker of bsuite failed: {last[:500]}")
