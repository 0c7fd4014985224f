"""Services in processes of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager


def start(folder, *arguments, problem=None):
    """Start ``matrixrl serve`` on a free port, and return the process and its address."""
    command = [sys.executable, "-m", "matrixrl", "serve", *([] if problem is None else [str(problem)])]
    process = subprocess.Popen(
        [*command, "--data", str(folder), "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    line = process.stdout.readline()
    found = re.search(r"http://\S+", line)
    if found is None:
        raise RuntimeError(line + process.stderr.read())
    return process, found[0]


@contextmanager
def serving(folder, *arguments, problem=None):
    """Run a service in the block, and end it in order."""
    process, url = start(folder, *arguments, problem=problem)
    try:
        yield url
    finally:
        end(process)


def end(process, how=signal.SIGINT):
    """Send a signal to a process, and wait for its end."""
    process.send_signal(how)
    process.wait(30)
    process.stdout.close()
    process.stderr.close()
