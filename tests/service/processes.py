"""Services in processes of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
from typer.testing import CliRunner
from worlds_of_service import outcome

from matrixrl.cli.main import app
from matrixrl.errors import MatrixRLError

SHOP = """
name = "shop"
states = 3
actions = ["wait", "order"]
horizon = 3
start = 0
time_out = 60
default_reward = 0.0
"""


def launch(folder, *arguments, problem=None, own_group=False):
    """Start ``matrixrl serve`` on a free port; a signal can reach all processes of a group of its own."""
    command = [sys.executable, "-m", "matrixrl", "serve", *([] if problem is None else [str(problem)])]
    return subprocess.Popen(
        [*command, "--data", str(folder), "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=own_group,
    )


def start(folder, *arguments, problem=None, own_group=False):
    """Start ``matrixrl serve`` on a free port, and return the process and its address."""
    process = launch(folder, *arguments, problem=problem, own_group=own_group)
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


def end(process, how=signal.SIGINT, within=30):
    """Send a signal to a process, and wait for its end."""
    process.send_signal(how)
    process.wait(within)
    process.stdout.close()
    process.stderr.close()


def run(*arguments):
    """Run a command of ``matrixrl serve`` in this process."""
    return CliRunner().invoke(app, ["serve", *map(str, arguments)])


def play(client, seed, acknowledged, stop=None):
    """Play episodes, and note everything that the service acknowledged."""
    rng, k = np.random.default_rng(seed), 0
    while stop is None or not stop.is_set():
        try:
            episode = client.open(f"{seed}-{k}-{rng.integers(1 << 40)}")
            acknowledged.append(("opened", episode.name, None, episode.opened.plan))
            state = 0
            for step in range(3):
                answer = episode.ask(state, step=step)
                acknowledged.append(("asked", episode.name, step, answer.action))
                reward, state = outcome(rng, state, ["wait", "order"].index(answer.action))
                episode.tell(reward, next_state=state, step=step)
                acknowledged.append(("told", episode.name, step, reward))
        except MatrixRLError:  # the service was killed
            return
        k += 1
        if stop is None:
            return


def until(condition, seconds=60.0):
    """Wait until a condition holds; a fixed time would be too short on a busy machine."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def content(event):
    """Return an event in the form of what `play` notes."""
    value = {"opened": "plan", "asked": "action", "told": "reward"}[event.kind]
    found = event.body[value]
    return event.kind, event.episode, event.step, ["wait", "order"][found] if event.kind == "asked" else found
