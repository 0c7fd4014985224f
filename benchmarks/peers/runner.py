"""What the runners of all peers share: the simulator, the loop over seeds, and the form of the answer.

It is imported inside the peers' environments, so it needs NumPy only and imports nothing of matrixrl.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


class OutOfTime(Exception):
    """Raised when the processor time of a run is used up; the episodes that ended before count."""


class Simulator:
    """A finite MDP from plain tables, which records what is played and when each episode began.

    Next states are found by bisection in the distribution function: a simulator that costs as little as it can, so
    that the comparison is between the algorithms.
    """

    def __init__(self, tables: dict[str, np.ndarray], n_episodes: int) -> None:
        self.following = tables.get("following")  # (S, A, K) successors, if P has their probabilities alone
        self.law = np.cumsum(tables["P"], axis=2)
        self.law[:, :, -1] = 1.0
        self.reward, self.horizon = tables["R"], int(tables["H"])
        self.start = np.cumsum(tables["start"])
        self.states = np.zeros((n_episodes, self.horizon), dtype=np.int32)
        self.actions = np.zeros((n_episodes, self.horizon), dtype=np.int32)
        self.stamps = np.zeros(n_episodes + 1)
        self.begin(0, float("inf"))

    def begin(self, seed: int, deadline: float) -> None:
        """Start a new run; no episode begins after `deadline` on the processor's clock."""
        self.rng, self.deadline = np.random.default_rng(seed), deadline
        self.episode, self.step_number, self.state = -1, 0, 0

    def record_start(self) -> None:
        """Record the time at which the next episode begins.

        Raises:
            OutOfTime: the deadline has passed.
        """
        now = time.process_time()
        self.episode += 1
        self.stamps[self.episode] = now
        if now > self.deadline:
            raise OutOfTime
        self.step_number = 0

    def begin_episode(self) -> int:
        """Begin the next episode and return its first state."""
        self.record_start()
        self.draws = self.rng.random(self.horizon + 1)
        self.state = int(self.start.searchsorted(self.draws[-1], side="right"))
        return self.state

    def record_action(self, action: int) -> None:
        """Record the action that is played in the current state."""
        self.states[self.episode, self.step_number] = self.state
        self.actions[self.episode, self.step_number] = action
        self.step_number += 1

    def play(self, action: int) -> float:
        """Play one step, move to the next state and return the reward."""
        state, draw = self.state, self.draws[self.step_number]
        self.record_action(action)
        place = int(self.law[state, action].searchsorted(draw, side="right"))
        self.state = place if self.following is None else int(self.following[state, action, place])
        return float(self.reward[state, action])


def read_order() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the order from standard input and the tables that it names.

    An order is one JSON object: side, agent, settings, tables (npz), n_episodes, seeds, limit (processor seconds), keep
    (npz for the states and actions that were played).
    """
    order = json.load(sys.stdin)
    with np.load(order["tables"]) as stored:
        return order, dict(stored)


def play_seeds(order: dict[str, Any], simulator: Simulator, prepare: Callable[[int], Callable[[], None]]) -> None:
    """Play the seeds that fit into the limit and write the answer to standard output.

    Args:
        order: see `read_order`.
        simulator: the MDP.
        prepare: a function of the seed that makes an agent and returns the function that plays all episodes with it.
            What it does itself is not timed.
    """
    n_episodes, limit = order["n_episodes"], order["limit"]
    began, runs, kept = time.process_time(), [], {}
    for seed in order["seeds"]:
        spent = time.process_time() - began
        if runs and spent + max(run["seconds"] for run in runs) > limit:
            break
        simulator.begin(seed, float("inf"))  # some agents reset the environment when they are built
        play_all = prepare(seed)
        simulator.begin(seed, began + limit)
        try:
            play_all()
            simulator.stamps[n_episodes] = time.process_time()
            done = n_episodes
        except OutOfTime:
            done = max(simulator.episode, 0)
        marks = simulator.stamps[: done + 1]
        total, half = float(marks[-1] - marks[0]), float(marks[done // 2] - marks[0])
        runs.append({"seed": seed, "done": done, "seconds": total, "half": half})
        kept |= {f"states{seed}": simulator.states[:done].copy(), f"actions{seed}": simulator.actions[:done].copy()}
    np.savez(order["keep"], **kept)
    json.dump({"runs": runs, "peak_mb": peak_mb()}, sys.stdout)


def peak_mb() -> float:
    """Return the most memory that this process held; not ru_maxrss, which starts with that of the parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM"))
