"""Runs one agent of matrixrl; it takes the same orders and gives the same answers as the runners of the peers.

All seeds of an order are played side by side. States and actions are kept, and the race computes the regret from them;
the regret that the library would measure is left out of the clock, because the peers measure none.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
from runner import peak_mb

from matrixrl.play import Simulation
from matrixrl.problems import FiniteMDP
from worlds import WORLDS


def make(order: dict[str, Any], world: FiniteMDP, n_episodes: int, seeds: list[int], exact: bool) -> Simulation:
    return Simulation(
        world,
        n_episodes=n_episodes,
        seeds=seeds,
        agent=order["agent"],
        settings=order["settings"],
        measure_regret=exact,
    )


def main() -> None:
    order = json.load(sys.stdin)
    n_episodes, seeds = order["n_episodes"], order["seeds"]
    exact, world = bool(order.get("exact")), WORLDS[order["world"]].build()
    simulation = make(order, world, n_episodes, seeds, exact)
    make(order, world, n_episodes, seeds, exact).advance(2)  # as with the peers, numba compiles outside the clock
    visited: list[tuple[np.ndarray, np.ndarray]] = []
    began, count = time.process_time(), 1
    while simulation.played < n_episodes and (spent := time.process_time() - began) < order["limit"]:
        simulation.advance(count)
        visited.append((simulation.last.states, simulation.last.actions))
        count *= 2 if time.process_time() - began - spent < 0.1 else 1
    seconds, done = time.process_time() - began, simulation.played
    states, actions = (np.concatenate(steps, axis=1) for steps in zip(*visited, strict=True))
    kept = {f"states{seed}": states[i] for i, seed in enumerate(seeds)}
    kept |= {f"actions{seed}": actions[i] for i, seed in enumerate(seeds)}
    np.savez(order["keep"], **kept)
    runs = [{"seed": seed, "done": done, "seconds": seconds / len(seeds)} for seed in seeds]
    found = simulation.result().final_regret.tolist() if exact else None
    json.dump({"runs": runs, "peak_mb": peak_mb(), "exact": found}, sys.stdout)


if __name__ == "__main__":
    main()
