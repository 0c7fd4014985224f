"""A virtual environment for each side of the race, built once under the cache directory and reused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def python_of(side: str, cache: Path) -> Path:
    """Return the interpreter of a side; peers' environments are built if they are not there.

    Raises:
        RuntimeError: the packages do not install; with what pip said.
    """
    if side == "ours":
        return Path(sys.executable)
    wanted = (HERE / f"requirements-{side}.txt").read_text()
    home = cache / "venv" / side
    python, done = home / "bin" / "python", home / "installed.txt"
    if done.exists() and done.read_text() == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "-r", str(HERE / f"requirements-{side}.txt")]
    installed = subprocess.run(command, capture_output=True, text=True, check=False)
    if installed.returncode:
        raise RuntimeError(f"the packages of {side} do not install:\n{installed.stderr[-2000:]}")
    done.write_text(wanted)
    return python


def surroundings() -> dict[str, str]:
    """Return the environment variables of every contestant: one thread, whatever the linear algebra."""
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(threads, "1")}
