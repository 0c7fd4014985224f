"""From a messy file to a recommendation: 20,000 rows as a maintenance system exports them.

The file has German dates in place of steps, names, semicolons, decimal commas, rows in no order, machines by their
names and empty cells. `export_of_the_plant` writes it; the lines of `main` are all that a user writes.
"""

from __future__ import annotations

import csv
import tempfile
from datetime import date, timedelta
from pathlib import Path

import numpy as np

import matrixrl

STATES, ACTIONS, WEEKS = ["new", "worn", "bad", "broken"], ["run", "repair"], 10
LAW = np.array(  # transition probabilities of each action: one row for each state
    [
        [[0.7, 0.3, 0.0, 0.0], [0.0, 0.6, 0.3, 0.1], [0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.0, 1.0]],
        [[1.0, 0.0, 0.0, 0.0], [0.9, 0.1, 0.0, 0.0], [0.7, 0.3, 0.0, 0.0], [0.8, 0.2, 0.0, 0.0]],
    ]
)
PROFIT = np.array([[12.0, 10.0, 7.0, -25.0], [-6.0, -6.0, -8.0, -20.0]])  # mean of each action, in euros


def export_of_the_plant(path: Path, n_machines: int = 2000, seed: int = 0) -> None:
    """Write ten weeks of each machine, run by people who repair now and then."""
    rng, rows = np.random.default_rng(seed), []
    for machine in range(n_machines):
        state, monday = 0, date(2025, 1, 6) + timedelta(weeks=int(rng.integers(40)))
        for week in range(WEEKS):
            action = int(rng.random() < (0.15, 0.3, 0.5, 0.8)[state])
            profit = PROFIT[action, state] + rng.uniform(-4.0, 4.0)
            cells = [STATES[state], ACTIONS[action], f"{profit:.2f}".replace(".", ",")]
            if rng.random() < 0.002:
                cells[int(rng.integers(3))] = str(rng.choice(["", "NaN", "n/a"]))
            rows.append([f"M-{machine:04}", f"{monday + timedelta(weeks=week):%d.%m.%Y}", *cells, "Halle 3, Nord"])
            state = int(rng.choice(4, p=LAW[action, state]))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["Maschine", "Datum", "Zustand", "Aktion", "Ertrag (EUR)", "Ort"])
        writer.writerows(rows[i] for i in rng.permutation(len(rows)))


def main(path: Path) -> matrixrl.MatrixRL:
    """Learn from the file, and print what to do."""
    task = matrixrl.Task(states=STATES, actions=ACTIONS, horizon=WEEKS, reward_range=(-40, 20), start="new")
    agent = matrixrl.MatrixRL(task, seed=0)
    roles = {"episode": "Maschine", "step": "Datum", "state": "Zustand", "action": "Aktion", "reward": "Ertrag (EUR)"}
    agent.learn_from(path, columns=roles, missing="cut_episode")
    print(agent)
    print(agent.greedy().to_frame().pivot(index="stage", columns="state", values="action"))
    print(agent.recommend())
    return agent


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        export_of_the_plant(Path(folder) / "plant.csv")
        main(Path(folder) / "plant.csv")
