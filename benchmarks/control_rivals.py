"""KernelControl beside Stable-Baselines3 and a public Gaussian-process MPC: steps until solved, and time per step.

Run each agent in the environment that has its packages. Results are kept in `out/` and continued, and every run prints
the table of all that is there.

    python benchmarks/control_rivals.py --who kernel-control --seeds 5
    python -m venv .venv-deep && .venv-deep/bin/pip install -r benchmarks/peers/requirements-control.txt .
    .venv-deep/bin/python benchmarks/control_rivals.py --who sac ppo dqn
    .venv-deep/bin/pip install gpytorch gym==0.26.2 imageio matplotlib moviepy
    .venv-deep/bin/python benchmarks/control_rivals.py --who gp-mpc --gp-mpc DIR --tasks pendulum

DIR is a clone, from GitHub, of
SimonRennotte/Data-Efficient-Reinforcement-Learning-with-Probabilistic-Model-Predictive-Control.
"Solved" is the first episode after which the mean return of the last five is high enough; five more are played.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from first_solved import first_at
from recorded import WINDOW, Record, Recorded
from rival_players import Player, deep, gp_mpc, kernel_control

TASKS: dict[str, tuple[tuple[float, ...], int]] = {"pendulum": ((-250.0,), 0), "swing-up": ((60.0, 100.0), 2)}
"""For each task: returns that count as solved, and which coordinate is the cosine of the angle.

A pole that turns round and round earns about 75 in the swing-up; 100 takes a pole that is up within 2 s and held.
"""
CAPS = {"kernel-control": 8_000, "ppo": 60_000, "sac": 20_000, "dqn": 60_000, "gp-mpc": 1_400}


def made(task: str) -> gym.Env:
    if task == "pendulum":
        return gym.make("Pendulum-v1")
    from matrixrl.envs import CartPoleSwingUp

    return CartPoleSwingUp()


def players(folder: Path | None) -> dict[str, Player]:
    found = {"kernel-control": kernel_control, "ppo": deep("ppo"), "sac": deep("sac"), "dqn": deep("dqn", points=5)}
    return found if folder is None else found | {"gp-mpc": gp_mpc(folder)}


def _used() -> float:
    """Return the processor time of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def play(task: str, player: Player, seed: int, cap: int) -> dict[str, Any]:
    """Play one seed of one task until it is over."""
    bars, cosine = TASKS[task]
    record = Record(bars[-1], cap)
    wall, cpu = time.perf_counter(), _used()
    player(task, lambda: Recorded(made(task), record, cosine), record, seed)
    return record.summary() | {"seconds": time.perf_counter() - wall, "cpu": _used() - cpu, "cap": cap}


def measured(bar: float, run: dict[str, Any]) -> dict[str, float | None]:
    """Return what the table says about one run: steps to each event, the last returns, and times."""
    returns = np.array(run["returns"])
    good, solved = first_at(returns, bar, 1), first_at(returns, bar, WINDOW)
    return {
        "held": next((step for step in run["up_since"] if step is not None), None),
        "good": None if good is None else run["ends"][good - 1],
        "solved": None if solved is None else run["ends"][solved - 1],
        "last": float(returns[-WINDOW:].mean()),
        "wall": 1e3 * run["seconds"] / run["n_steps"],
        "cpu": 1e3 * run["cpu"] / run["n_steps"],
    }


def _each(values: list[float | None]) -> str:
    return "; ".join("never" if value is None else f"{value:,.0f}" for value in values)


def table(results: dict[str, Any], tasks: list[str]) -> str:
    """Return the table of all results in Markdown."""
    head = ["task", "return", "agent", "steps to solve, each seed", "to the first good episode"]
    head += ["until the pole is up and stays", f"held at the end of the last {WINDOW} episodes", "mean return of those"]
    head += ["CPU ms per step", "steps at most"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for task, bar, who in ((one, bar, who) for one in tasks for bar in TASKS[one][0] for who in CAPS):
        runs = [run for key, run in sorted(results.items()) if key.startswith(f"{task}/{who}/")]
        if not runs:
            continue
        found = [measured(bar, run) for run in runs]
        cells = [task, f"≥ {bar:g}", who, *(_each([one[name] for one in found]) for name in ("solved", "good", "held"))]
        if all(len(run["returns"]) < WINDOW for run in runs):
            cells[3] = f"– (fewer than {WINDOW} episodes)"
        last = [step for run in runs for step in run["up_since"][-WINDOW:]]
        cells += [f"{len(last) - last.count(None)} of {len(last)}", _each([one["last"] for one in found])]
        cells += [f"{np.mean([one['cpu'] for one in found]):.3g}", f"{max(run['cap'] for run in runs):,}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(chosen: argparse.Namespace) -> None:
    chosen.out.mkdir(parents=True, exist_ok=True)
    file, known = chosen.out / "results.json", players(chosen.gp_mpc)
    results = json.loads(file.read_text()) if file.exists() else {}
    for who in chosen.who:
        if who not in known:
            raise SystemExit(f"'{who}' needs the folder of its code: pass --gp-mpc DIR.")
        for task in chosen.tasks:
            if who == "gp-mpc" and task != "pendulum":
                raise SystemExit("'gp-mpc' is configured for the pendulum only: pass --tasks pendulum.")
            for seed in range(chosen.first, chosen.first + chosen.seeds):
                key = f"{task}/{who}/{seed}"
                if key not in results:
                    results[key] = play(task, known[who], seed, chosen.cap or CAPS[who])
                    print(key, json.dumps(measured(TASKS[task][0][-1], results[key])), flush=True)
                    file.with_suffix(".part").write_text(json.dumps(results))
                    file.with_suffix(".part").replace(file)
    print(table(results, list(TASKS)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--who", nargs="*", default=[], choices=list(CAPS), help="Agents to run; none prints the table."
    )
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--first", type=int, default=600, help="First seed.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--cap",
        type=int,
        default=None,
        help="Steps at most; its own for each agent by default.",
    )
    parser.add_argument("--gp-mpc", type=Path, default=None, help="Folder with the code of the Gaussian-process MPC.")
    parser.add_argument("--out", type=Path, default=Path("out/control-rivals"))
    main(parser.parse_args())
