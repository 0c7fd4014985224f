"""Runs one agent of matrixrl; the same order in, the same answer out, as peer.py.

All seeds of an order are played side by side. What is played is noted for the judge of the race, and the regret that
the library would measure is left out of the clock: the peers measure none.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.mdp import Judge
from matrixrl.run import Simulation
from worlds import WORLDS


class NoJudge(Judge):
    """Measures nothing."""

    def regret(self, policies: np.ndarray) -> np.ndarray:
        return np.zeros(len(policies))


def peak_mb() -> float:
    """Return the most memory that this process held; not ru_maxrss, which starts with that of the parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM"))


def main() -> None:
    order = json.load(sys.stdin)
    n_episodes, seeds = order["n_episodes"], order["seeds"]
    simulation = Simulation(
        WORLDS[order["world"]].build(),
        n_episodes=n_episodes,
        seeds=seeds,
        agent=order["agent"],
        settings=order["settings"],
    )
    if not order.get("exact"):
        simulation.judge = NoJudge(simulation.mdp)
    states = np.zeros((len(seeds), n_episodes, simulation.mdp.horizon), dtype=np.int32)
    actions = np.zeros_like(states)
    learn = simulation.engine.update

    def update(before: np.ndarray, taken: np.ndarray, *rest: Any) -> None:
        states[:, simulation.played], actions[:, simulation.played] = before, taken
        learn(before, taken, *rest)

    simulation.engine.update = update  # type: ignore[method-assign]
    began = time.process_time()
    result = simulation.run(callback=lambda _: time.process_time() - began < order["limit"])
    seconds, done = time.process_time() - began, simulation.played
    kept = {f"states{seed}": states[i, :done] for i, seed in enumerate(seeds)}
    kept |= {f"actions{seed}": actions[i, :done] for i, seed in enumerate(seeds)}
    np.savez(order["keep"], **kept)
    runs = [{"seed": seed, "done": done, "seconds": seconds / len(seeds)} for seed in seeds]
    exact = result.final_regret.tolist() if order.get("exact") else None
    json.dump({"runs": runs, "peak_mb": peak_mb(), "exact": exact}, sys.stdout)


if __name__ == "__main__":
    main()
