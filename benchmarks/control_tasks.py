"""KernelControl on nine control tasks with one configuration: returns, targets, times, a table and a picture.

python benchmarks/control_tasks.py                        reporting seeds 100–109; results are kept and continued
python benchmarks/control_tasks.py --tuning               seeds 0–9, on which settings may be chosen
python benchmarks/control_tasks.py --agent kernel-matrix-rl --tasks cart-pole-200 mountain-car
python benchmarks/control_tasks.py --set revise=false --label "no revision"
python benchmarks/control_tasks.py --tasks pendulum --grid 3 --label "three torques"
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import matrixrl
from matrixrl.agents import Agent
from matrixrl.colours import COLOURS
from matrixrl.envs import CartPoleSwingUp, GridActions, PointObservations


class UnitRewards(gym.RewardWrapper):
    """Map the rewards of the pendulum to [0, 1]."""

    def reward(self, reward: Any) -> float:
        return 1.0 + float(reward) / 16.2736044


class GoalReward(gym.Wrapper):
    """Pay 1 at the end that the environment declares, and 0 otherwise; nothing else is declared."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, _, terminated, truncated, info = self.env.step(action)
        return obs, float(terminated), terminated, truncated, info


def _from(returns: np.ndarray, first: int, bar: float) -> bool:
    """Return whether the mean return from an episode on (counted from 1) reaches a bar."""
    return bool(returns[first - 1 :].mean() >= bar)


Task = tuple[Callable[[], gym.Env], int, str, Callable[[np.ndarray], bool], float]
TASKS: dict[str, Task] = {
    "cart-pole-200": (
        lambda: gym.make("CartPole-v1", max_episode_steps=200),
        25,
        "mean of episodes 11–25 ≥ 195",
        lambda r: _from(r, 11, 195.0),
        195.0,
    ),
    "cart-pole-500": (
        lambda: gym.make("CartPole-v1", max_episode_steps=500),
        25,
        "mean of episodes 15–25 ≥ 475",
        lambda r: _from(r, 15, 475.0),
        475.0,
    ),
    "mountain-car": (
        lambda: GoalReward(gym.make("MountainCar-v0", max_episode_steps=200)),
        25,
        "goal by episode 2, then in ≥ 95 %",
        lambda r: r[:2].max() > 0 and r[2:].mean() >= 0.95,
        1.0,
    ),
    "mountain-car-continuous": (
        lambda: gym.make("MountainCarContinuous-v0"),
        15,
        "mean of episodes 5–15 ≥ 90",
        lambda r: _from(r, 5, 90.0),
        90.0,
    ),
    "acrobot": (
        lambda: GoalReward(gym.make("Acrobot-v1", max_episode_steps=300)),
        25,
        "goal by episode 4; in ≥ 90 % of episodes 11–25",
        lambda r: r[:4].max() > 0 and r[10:].mean() >= 0.9,
        1.0,
    ),
    "pendulum": (
        lambda: gym.make("Pendulum-v1"),
        25,
        "mean of episodes 11–25 ≥ −250",
        lambda r: _from(r, 11, -250.0),
        -250.0,
    ),
    "pendulum-3-torques": (
        lambda: UnitRewards(GridActions(gym.make("Pendulum-v1", max_episode_steps=150), 3)),
        25,
        "mean of episodes 11–25 ≥ 135",
        lambda r: _from(r, 11, 135.0),
        142.0,
    ),
    "swing-up": (
        CartPoleSwingUp,
        25,
        "mean of episodes 13–25 ≥ 60",
        lambda r: _from(r, 13, 60.0),
        60.0,
    ),
    "double-integrator": (
        lambda: PointObservations(matrixrl.make("double-integrator")),
        60,
        "regret of episodes 31–60 ≤ 0.3 on average",
        lambda r: bool(r[30:].mean() <= 0.3),
        np.nan,
    ),
}
"""For each task: environment, episodes, target, whether returns (or regret) reach it, and what a good return is."""


def play(task: str, agent: str, seed: int, settings: dict[str, Any], torques: int | None) -> dict[str, Any]:
    """Play one seed of one task; regret in place of returns where the optimum is known."""
    make, n_episodes, *_ = TASKS[task]
    env = make()
    if torques is not None and isinstance(env.action_space, gym.spaces.Box):
        env = GridActions(env, torques)
    made = Agent(env, agent, seed=seed, **settings)
    wall, cpu, before = time.perf_counter(), time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    history = made.learn(n_episodes=n_episodes)
    found = {
        "returns": [float(x) for x in history.returns],
        "steps": [int(x) for x in history.lengths],
        "seconds": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "megabytes": max(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1e3,
    }
    if task == "double-integrator":
        found["regret"] = [float(x) for x in history.regret]
    scales = getattr(made.algorithm, "length_scales", None)
    found["length_scales"] = [] if scales is None else [float(x) for x in scales()[0]]
    return found


def table(results: dict[str, Any], tasks: list[str], seeds: list[int]) -> str:
    """Return the table of all tasks in Markdown."""
    head = ["task", "target", "seeds that reach it", "first good episode (median)", "mean return at the end"]
    lines = ["| " + " | ".join([*head, "s per run (CPU)", "MB"]) + " |", "|---|---|---|---|---|---|---|"]
    for task in tasks:
        runs = [results[f"{task}/{seed}"] for seed in seeds if f"{task}/{seed}" in results]
        if not runs:
            continue
        _, n_episodes, target, reaches, good = TASKS[task]
        measured = [np.array(run.get("regret", run["returns"])) for run in runs]
        reached = sum(reaches(one) for one in measured)
        firsts = [int(np.argmax(one >= good)) + 1 if (one >= good).any() else np.inf for one in measured]
        first = "–" if np.isnan(good) else f"{np.median(firsts):g}"
        last = np.mean([one[n_episodes // 2 :].mean() for one in measured])
        cpu, memory = np.mean([run["cpu"] for run in runs]), max(run["megabytes"] for run in runs)
        cells = [task, target, f"{reached} of {len(runs)}", first, f"{last:.4g}", f"{cpu:.1f}", f"{memory:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(results: dict[str, Any], tasks: list[str], seeds: list[int], file: Path) -> None:
    """Draw the returns of all seeds, one panel for each task."""
    import matplotlib.pyplot as plt

    shown = [task for task in tasks if any(f"{task}/{seed}" in results for seed in seeds)]
    rows = -(-len(shown) // 3)
    figure, axes = plt.subplots(rows, 3, figsize=(11, 2.6 * rows), squeeze=False)
    for axis in axes.flat[len(shown) :]:
        axis.set_axis_off()
    for task, axis in zip(shown, axes.flat, strict=False):
        runs = [results[f"{task}/{seed}"] for seed in seeds if f"{task}/{seed}" in results]
        values = np.array([run.get("regret", run["returns"]) for run in runs])
        episodes = np.arange(1, values.shape[1] + 1)
        axis.plot(episodes, values.T, color=COLOURS[0], alpha=0.25, linewidth=0.8)
        axis.plot(episodes, np.median(values, axis=0), color=COLOURS[0], linewidth=1.8)
        axis.set_title(task + (" (regret)" if "regret" in runs[0] else ""), fontsize=9)
        axis.set_xlabel("episode", fontsize=8)
        axis.tick_params(labelsize=7)
    figure.tight_layout()
    figure.savefig(file, dpi=130)
    plt.close(figure)


def main(chosen: argparse.Namespace) -> None:
    first = 0 if chosen.tuning else chosen.first
    seeds = list(range(first, first + chosen.seeds))
    settings = {key: json.loads(value) for key, value in (pair.split("=", 1) for pair in chosen.set)}
    chosen.out.mkdir(parents=True, exist_ok=True)
    label = chosen.label or chosen.agent
    file = chosen.out / f"{label.replace(' ', '-')}{'-tuning' if chosen.tuning else ''}.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    for task in chosen.tasks:
        for seed in seeds:
            if f"{task}/{seed}" not in results:
                results[f"{task}/{seed}"] = play(task, chosen.agent, seed, settings, chosen.grid)
                file.with_suffix(".part").write_text(json.dumps(results))
                file.with_suffix(".part").replace(file)
    print(table(results, chosen.tasks, seeds))
    draw(results, chosen.tasks, seeds, file.with_suffix(".png"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--agent", default="kernel-control")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=100, help="First reporting seed.")
    parser.add_argument("--tuning", action="store_true", help="Seeds 0, 1, … in place of 100, 101, …")
    parser.add_argument("--set", nargs="*", default=[], help="Settings of the agent, such as revise=false.")
    parser.add_argument("--grid", type=int, default=None, help="Points of a grid in place of continuous actions.")
    parser.add_argument("--label", default=None, help="Name of the files of results; the agent by default.")
    parser.add_argument("--out", type=Path, default=Path("out/control-tasks"))
    main(parser.parse_args())
