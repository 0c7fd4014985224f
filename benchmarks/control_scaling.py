"""Time of an episode and memory of KernelControl against the number of steps that it has seen.

python benchmarks/control_scaling.py                      250 episodes of Pendulum; kept in out/ and continued
python benchmarks/control_scaling.py --task cart-pole --episodes 250
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import gymnasium as gym
import numpy as np

from matrixrl import KernelControl

TASKS = {
    "pendulum": lambda: gym.make("Pendulum-v1"),
    "cart-pole": lambda: gym.make("CartPole-v1", max_episode_steps=200),
    "mountain-car-continuous": lambda: gym.make("MountainCarContinuous-v0"),
}
MARKS = (1_000, 5_000, 10_000, 25_000, 50_000)
_AROUND = 5  # episodes on either side of a mark whose median is shown
_BLOCK = 25  # episodes between two saves


def table(rows: list[dict[str, float]]) -> str:
    """Return seconds of CPU for each episode, and memory, at some numbers of steps, in Markdown."""
    steps = np.array([row["steps"] for row in rows])
    lines = ["| steps seen | CPU s per episode (median) | largest | peak MB | mean return |", "|---|---|---|---|---|"]
    for mark in MARKS:
        if steps[-1] < mark:
            break
        at = int(np.searchsorted(steps, mark))
        near = rows[max(0, at - _AROUND) : at + _AROUND + 1]
        cpu = [row["cpu"] for row in near]
        cells = [f"{mark:,}", f"{np.median(cpu):.2f}", f"{max(cpu):.2f}", f"{near[-1]['megabytes']:.0f}"]
        lines.append("| " + " | ".join([*cells, f"{np.mean([row['return'] for row in near]):.4g}"]) + " |")
    return "\n".join(lines)


def main(chosen: argparse.Namespace) -> None:
    chosen.out.mkdir(parents=True, exist_ok=True)
    stem = chosen.out / f"{chosen.label}{chosen.task}-{chosen.seed}"
    file, saved = stem.with_suffix(".json"), stem.with_suffix(".agent")
    rows = json.loads(file.read_text()) if file.exists() else []
    env = TASKS[chosen.task]()
    agent = KernelControl.load(saved, env) if rows else KernelControl(env, seed=chosen.seed, keep_log=False)
    steps, before = (rows[-1]["steps"] if rows else 0), time.process_time()

    def note(episode: object) -> None:
        del episode
        nonlocal steps, before
        now, history = time.process_time(), agent.history
        steps += int(history.lengths[-1])
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        row = {"steps": steps, "cpu": now - before, "megabytes": memory, "return": float(history.returns[-1])}
        rows.append(row)
        before = time.process_time()

    while len(rows) < chosen.episodes:
        before = time.process_time()
        agent.learn(n_episodes=min(_BLOCK, chosen.episodes - len(rows)), callback=note)
        agent.save(saved)
        file.write_text(json.dumps(rows))
    print(table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="pendulum", choices=list(TASKS))
    parser.add_argument("--seed", type=int, default=500)
    parser.add_argument("--episodes", type=int, default=250)
    parser.add_argument("--label", default="", help="Start of the names of files.")
    parser.add_argument("--out", type=Path, default=Path("out/control-scaling"))
    main(parser.parse_args())
