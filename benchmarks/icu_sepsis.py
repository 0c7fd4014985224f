"""ICU-Sepsis: episodes a second, and the value of the policy against the number of episodes.

    python benchmarks/icu_sepsis.py speed     # one seed, without regret, processor time, each in a process of its own
    python benchmarks/icu_sepsis.py value     # tuned, optimistic, PSRL, UCBVI and Q-learning
    python benchmarks/icu_sepsis.py warm      # after episodes of the clinicians
    python benchmarks/icu_sepsis.py parts     # what the mask and rare switching each buy
    python benchmarks/icu_sepsis.py picture   # docs/images/icu-sepsis.png from what value and warm have measured

The problem has 716 states, 25 actions, 30 treatments and the admissible actions of the package icu-sepsis as its mask;
rewards are learned. Seeds begin at 100, and no setting was chosen on them. Every run of one learner with one seed is a
process of its own and a file under out/icu-sepsis; runs that are there are not repeated, so an interrupted command
goes on. `--only NAME …` leaves out other rows.

A value is exact: regret is measured in every 100th episode, and the value of the policy that was played after n
episodes is V* minus the regret of episode n + 1. "Greedy" is the policy that is best in the estimated model.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

HOME = Path("out/icu-sepsis")
PICTURE = Path("docs/images/icu-sepsis.png")
SEEDS = range(100, 108)
MARKS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
EVERY = 100  # episodes from one whose regret is measured to the next
DOUBLED = {"switch_growth": 1.0}  # a new plan once some pair has twice the visits of the last one
TUNED: dict[str, Any] = {"preset": "tuned", **DOUBLED}
OPTIMISTIC: dict[str, Any] = {"preset": "optimistic", **DOUBLED}
DEFAULT: dict[str, Any] = {**DOUBLED}

VALUE: dict[str, dict[str, Any]] = {
    "tuned": {"settings": TUNED, "episodes": 100_000},
    "default": {"settings": DEFAULT, "episodes": 30_000},
    "optimistic": {"settings": OPTIMISTIC, "episodes": 30_000},
    **{
        name: {"agent": name.lower(), "settings": {"preset": "tuned"}, "episodes": 10_000}
        for name in ("PSRL", "UCBVI", "Q-learning")
    },
}
WARM: dict[str, dict[str, Any]] = {
    f"tuned after {n:,} logged": {"settings": TUNED, "episodes": 30_000, "logged": n} for n in (1_000, 10_000)
}
PARTS: dict[str, dict[str, Any]] = {
    f"{'mask' if mask else 'no mask'}, {'a plan for each episode' if growth == 0.0 else f'switch_growth {growth:g}'}": {
        "settings": {"preset": "tuned", "switch_growth": growth},
        "episodes": 10_000,
        "mask": mask,
    }
    for mask in (True, False)
    for growth in (0.0, 0.1, 1.0)
}
SPEED: dict[str, dict[str, Any]] = {
    f"{name}, {n:,} episodes": {"settings": settings, "episodes": n, "regret": False}
    for name, settings, n in (
        ("tuned", TUNED, 10_000),
        ("tuned", TUNED, 30_000),
        ("tuned", TUNED, 100_000),
        ("optimistic", OPTIMISTIC, 30_000),
    )
}
COMMANDS = {"value": VALUE, "warm": WARM, "parts": PARTS, "speed": SPEED}
N_SEEDS = {"value": 8, "warm": 8, "parts": 3, "speed": 3}


def problem(mask: bool) -> Any:
    """Return the MDP; without the mask every action is allowed, and P of an action that is not admissible is the
    mean of those that are, as in the package."""
    from matrixrl.envs import make
    from matrixrl.problems import FiniteMDP

    mdp = make("icu-sepsis").unwrapped.mdp
    if mask:
        return mdp
    n_states, n_actions, allowed = mdp.n_states, mdp.n_actions, mdp.allowed
    states, actions = np.divmod(np.arange(n_states * n_actions), n_actions)
    table = mdp.transitions.rows(states, actions).reshape(n_states, n_actions, n_states)
    for state in range(n_states):
        table[state, ~allowed[state]] = table[state, allowed[state]].mean(axis=0)
    task = mdp.task
    return FiniteMDP(table, task.reward, task.horizon, start=task.start, end_state=task.end_state)


def run(cell: dict[str, Any]) -> dict[str, Any]:
    """Play one learner with one seed, and return what was measured."""
    from matrixrl.play import Simulation

    settings = {**cell["settings"], "known_reward": False}
    mdp, measures = problem(cell.get("mask", True)), cell.get("regret", True)

    def make(n_episodes: int) -> Simulation:
        every = EVERY if measures else False
        agent = cell.get("agent", "matrix-rl")
        return Simulation(
            mdp, n_episodes=n_episodes, seeds=[cell["seed"]], agent=agent, settings=settings, measure_regret=every
        )

    total = cell["episodes"] + measures  # one more episode plays the policy that is measured last
    make(total).advance(2)  # compiles and loads outside the clock
    simulation, seconds = make(total), 0.0
    greedy: dict[str, float] = {}
    if cell.get("logged"):
        learn_from_clinicians(simulation, cell["logged"], cell["seed"])
        greedy["0"] = greedy_value(mdp, simulation.algorithm)
    for n in [m for m in MARKS if m < cell["episodes"]] + [cell["episodes"]]:
        began = time.process_time()
        while simulation.played < n:
            simulation.advance(min(n - simulation.played, 500))
        seconds += time.process_time() - began
        if measures and simulation.agent != "q-learning":  # which has no model
            greedy[str(n)] = greedy_value(mdp, simulation.algorithm)
    if measures:
        simulation.advance(1)
    found: dict[str, Any] = {"seconds": seconds, "plans": int(simulation.algorithm.n_plans[0]), "greedy": greedy}
    if measures:
        optimum = simulation.optimal_value
        found |= {"optimum": optimum, "values": played(optimum, simulation.series.regret[0])}
    return found


def learn_from_clinicians(simulation: Any, n_episodes: int, seed: int) -> None:
    """Let a simulation begin with what simulated episodes of clinicians show."""
    sys.path.append(str(Path(__file__).parents[1] / "examples"))
    from matrixrl.logs import read_log
    from usual_policies import clinicians_log

    simulation.algorithm.update_from_log(read_log(clinicians_log(n_episodes, seed), simulation.problem).steps)


def greedy_value(mdp: Any, algorithm: Any) -> float:
    """Return the exact value of the policy that is best in the estimated model."""
    from matrixrl.problems import evaluate

    return float(evaluate(mdp, algorithm.estimated_plan().policy[0])[0] @ mdp.task.start)


def played(optimum: float, regret: np.ndarray) -> dict[str, float]:
    """Return the value of the policy that was played after so many episodes."""
    places = range(0, len(regret), EVERY)
    return {str(n): optimum - float(regret[n]) for n in places if n in MARKS or n % 1_000 == 0}


def path_of(command: str, name: str, seed: int) -> Path:
    return HOME / command / f"{name.replace(' ', '_').replace(',', '')}-{seed}.json"


def measure(command: str, chosen: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Run what is missing and return the measurements of each row."""
    rows = {name: cell for name, cell in COMMANDS[command].items() if not chosen.only or name in chosen.only}
    orders = [
        (name, {**rows[name], "seed": seed}) for seed in SEEDS[: chosen.seeds or N_SEEDS[command]] for name in rows
    ]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in rows}
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<50}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(command, total=len(orders))
        for name, cell in orders:
            progress.update(bar, description=f"{name}, seed {cell['seed']}")
            path = path_of(command, name, cell["seed"])
            kept = json.loads(path.read_text()) if path.exists() else None
            if kept is None or kept["cell"] != cell:
                kept = None if chosen.table else in_a_process(cell, path)
            if kept is not None:
                found[name].append(kept)
            progress.advance(bar)
    return found


def in_a_process(cell: dict[str, Any], path: Path) -> dict[str, Any]:
    """Run one cell in a process of its own, so that its peak memory is its own, and keep the answer."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, __file__, "cell", "--cell", json.dumps(cell)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **threads})
    if ran.returncode:
        raise RuntimeError(ran.stderr[-2000:])
    answer: dict[str, Any] = {"cell": cell, **json.loads(ran.stdout.splitlines()[-1])}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(answer))
    return answer


def mean_text(numbers: list[float], digits: int = 3) -> str:
    """Return mean and standard error."""
    if not numbers:
        return "–"
    error = f" ± {np.std(numbers, ddof=1) / np.sqrt(len(numbers)):.{digits}f}" if len(numbers) > 1 else ""
    return f"{np.mean(numbers):.{digits}f}{error}"


def value_table(found: dict[str, list[dict[str, Any]]], key: str, first: int = MARKS[0]) -> str:
    """Return values against episodes as Markdown; a row says how many seeds it has."""
    marks = [
        n
        for n in ((0, *MARKS) if first == 0 else MARKS)
        if any(str(n) in r[key] for runs in found.values() for r in runs)
    ]
    lines = ["| learner | seeds | " + " | ".join(f"{n:,}" for n in marks) + " |", "|---|---|" + "---|" * len(marks)]
    for name, runs in found.items():
        if runs:
            cells = [mean_text([r[key][str(n)] for r in runs if str(n) in r[key]]) for n in marks]
            lines.append(f"| {name} | {len(runs)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def speed_table(found: dict[str, list[dict[str, Any]]], *, values: bool = False) -> str:
    """Return episodes a second, plans and peak memory as Markdown."""
    head = "| run | seeds | episodes a second | plans | peak MB |" + (" value at the end |" if values else "")
    lines = [head, "|---" * (6 if values else 5) + "|"]
    for name, runs in found.items():
        if not runs:
            continue
        pace = [r["cell"]["episodes"] / r["seconds"] for r in runs]
        plans, memory = np.mean([r["plans"] for r in runs]), max(r["peak_mb"] for r in runs)
        last = ""
        if values:
            last = f" {mean_text([r['values'][str(r['cell']['episodes'])] for r in runs])} |"
        lines.append(f"| {name} | {len(runs)} | {np.median(pace):,.0f} | {plans:,.0f} | {memory:,.0f} |{last}")
    return "\n".join(lines)


def references() -> dict[str, float]:
    """Return the values of the best policy, of the clinicians and of uniform choice among admissible actions."""
    from matrixrl.envs import policy_value
    from matrixrl.envs.icu_sepsis import clinicians_policy
    from matrixrl.problems import solve

    mdp = problem(True)
    uniform = mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True)
    policies = {"clinicians": clinicians_policy(), "uniform": uniform}
    found = {"V*": solve(mdp).start_value}
    return found | {name: float(policy_value(mdp, policy)) for name, policy in policies.items()}


def draw() -> None:
    """Draw the value against the number of episodes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    nothing = argparse.Namespace(only=None, seeds=None, table=True)
    figure, axes = plt.subplots(figsize=(9.0, 4.5), layout="constrained")
    for found, style in ((measure("value", nothing), "-"), (measure("warm", nothing), "--")):
        for name, runs in found.items():
            if not runs:
                continue
            episodes = sorted(set.intersection(*(set(map(int, r["values"])) for r in runs)) - {0})
            curves = np.array([[r["values"][str(n)] for n in episodes] for r in runs])
            [line] = axes.plot(episodes, curves.mean(axis=0), style, label=f"{name} ({len(runs)} seeds)")
            axes.fill_between(
                episodes, curves.min(axis=0), curves.max(axis=0), color=line.get_color(), alpha=0.15, lw=0
            )
    for (name, value), style in zip(references().items(), ("-", "--", ":"), strict=True):
        axes.axhline(value, color="black", lw=0.8, ls=style)
        place = {"xytext": (-3, -3 if name == "uniform" else 3), "va": "top" if name == "uniform" else "bottom"}
        label = f"{name} {value:.3f}"
        axes.annotate(label, (100_000, value), textcoords="offset points", ha="right", fontsize=8, **place)
    axes.set(xscale="log", xlabel="episodes", ylabel="probability of survival", xlim=(100, 100_000), ylim=(None, 0.85))
    axes.set_title("ICU-Sepsis: value of the policy that is played (mean and range over seeds)", fontsize=10)
    figure.legend(fontsize=8, loc="outside right upper", frameon=False)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=130)
    print(PICTURE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=[*COMMANDS, "picture", "cell"])
    parser.add_argument("--only", nargs="+", help="only these rows")
    parser.add_argument("--seeds", type=int, help="number of seeds from 100 on; at most 8")
    parser.add_argument("--table", action="store_true", help="only print what was measured before")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.command == "cell":
        answer = run(json.loads(chosen.cell))
        answer["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
        print(json.dumps(answer))
        return
    if chosen.command == "picture":
        draw()
        return
    found = measure(chosen.command, chosen)
    if chosen.command in ("speed", "parts"):
        print(speed_table(found, values=chosen.command == "parts"))
        return
    print(", ".join(f"{name} {value:.3f}" for name, value in references().items()) + "\n")
    first = 0 if chosen.command == "warm" else MARKS[0]
    print("The policy that is played:\n\n" + value_table(found, "values", first))
    print("\nGreedy in the estimated model:\n\n" + value_table(found, "greedy", first))
    print("\n" + speed_table(found))


if __name__ == "__main__":
    main()
