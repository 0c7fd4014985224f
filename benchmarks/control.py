"""KernelMatrixRL on control tasks: one configuration, many seeds.

python benchmarks/control.py                      the table of docs/control.md
python benchmarks/control.py --tasks cart-pole --seeds 3
"""

from __future__ import annotations

import argparse
import resource

import numpy as np

from first_solved import first_solved
from matrixrl.play import Simulation

TASKS = {
    "cart-pole": ({"horizon": 200}, "mean return of episodes 11–25 ≥ 195"),
    "mountain-car": ({"sparse": True, "horizon": 200}, "goal within 5 episodes; in ≥ 80 % of episodes 6–25"),
    "acrobot": ({"sparse": True, "horizon": 300}, "goal within 8 episodes; in ≥ 80 % of episodes 11–25"),
}


def solved(task: str, returns: np.ndarray) -> tuple[bool, str]:
    """Return whether one seed reached the target of its task, and what it reached."""
    if task == "cart-pole":
        late = returns[10:].mean()
        return late >= 195.0, f"{late:.0f}"
    first = int(np.argmax(returns > 0)) + 1 if (returns > 0).any() else len(returns) + 1
    limit, since = (5, 5) if task == "mountain-car" else (8, 10)
    share = (returns[since:] > 0).mean()
    return first <= limit and share >= 0.8, f"{first}, {share:.0%}"


def main(tasks: list[str], seeds: int, episodes: int, settings: dict[str, object]) -> None:
    headings = ["task", "target", "seeds that reach it", "each seed", "episodes to solve", "s / episode"]
    print("| " + " | ".join([*headings, "25 episodes", "peak memory"]) + " |")
    print("|---|---|---|---|---|---|---|---|")
    for task in tasks:
        env_settings, target = TASKS[task]
        run = Simulation(
            task,
            n_episodes=episodes,
            seeds=list(range(seeds)),
            agent="kernel-matrix-rl",
            env_settings=env_settings,
            settings=dict(settings),
        )
        result = run.run(progress=True)
        outcomes = [solved(task, row) for row in result.returns]
        reached = sum(ok for ok, _ in outcomes)
        pace, peak = result.seconds.mean(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        cells = "; ".join(words for _, words in outcomes)
        to_solve = ", ".join("never" if n is None else str(n) for n in (first_solved(task, r) for r in result.returns))
        total = result.seconds.sum(axis=1).mean()
        shown = [
            task,
            target,
            f"{reached} of {seeds}",
            cells,
            to_solve,
            f"{pace:.2f}",
            f"{total:.1f} s",
            f"{peak:.0f} MB",
        ]
        print("| " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=25)
    parser.add_argument("--features", default="inducing")
    chosen = parser.parse_args()
    main(chosen.tasks, chosen.seeds, chosen.episodes, {"features": chosen.features})
