"""Workers in other interpreters: one JSON order as the last argument, one JSON answer on each line of output."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from matrixrl.errors import MatrixRLError
from matrixrl.interrupts import ending_in_order
from matrixrl.references import SAFE_PATH
from matrixrl.threads import limited_threads

__all__ = ["answers", "follow", "interpreter_of", "missing_packages", "tell"]

_BENCHMARKS = Path(__file__).parents[1]
# This directory is the last on the path: its colosseum.py must not hide the package of that name.
_RUN = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
_CHECK = "import importlib.util, sys; print(*(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))"


def interpreter_of(folder: Path) -> Path:
    """Return the interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def missing_packages(python: Path, names: Sequence[str]) -> list[str]:
    """Return those of some packages that an interpreter does not have; all of them if it does not run."""
    try:
        command = [str(python), "-c", _CHECK, *names]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **SAFE_PATH})
    except OSError:
        return list(names)
    return ran.stdout.split() if ran.returncode == 0 else list(names)


def answers(python: Path, module: str, verb: str, order: dict[str, Any], *, package: str) -> Iterator[dict[str, Any]]:
    """Let a worker follow an order, and yield its answers.

    Args:
        python: Interpreter that has this library and the package.
        module: Module of the worker, which calls `follow`.
        verb: What the worker does.
        order: All that it needs to know, as JSON.
        package: Name of the package for messages.

    Raises:
        MatrixRLError: The worker failed; its last line says why.
    """
    command = [str(python), "-c", _RUN, str(_BENCHMARKS), module, verb, json.dumps(order)]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        own = {**os.environ, **SAFE_PATH}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=own) as worker:
            try:
                for line in worker.stdout or ():
                    yield _answer(line, package)
            except BaseException:
                worker.terminate()
                raise
        if worker.returncode:
            errors.seek(0)
            last = (errors.read().strip().splitlines() or [f"exit code {worker.returncode}"])[-1]
            raise MatrixRLError(f"the worker of {package} failed: {last[:500]}")


def _answer(line: str, package: str) -> dict[str, Any]:
    """Return the answer on a line."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise MatrixRLError(f"the worker of {package} wrote {line.strip()[:200]!r} in place of an answer")
    return found


def follow(verbs: Mapping[str, Callable[[dict[str, Any]], None]]) -> None:
    """Follow the order on the command line: its verb, and what it needs to know."""
    verb, order = sys.argv[1], json.loads(sys.argv[2])
    # What packages print goes to standard error; SIGTERM, by which an interrupted command ends its worker, cleans up.
    with ending_in_order(), contextlib.redirect_stdout(sys.stderr), limited_threads(1):
        verbs[verb](order)


def tell(**answer: Any) -> None:
    """Write one answer."""
    print(json.dumps(answer), file=sys.__stdout__, flush=True)
