"""The scorecard on Colosseum's episodic MDPs: normalised cumulative regret after 500,000 steps, beside the hardness."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.archive.whole import write_whole
from matrixrl.plots.drawing import require_matplotlib
from matrixrl.plots.looks import look
from matrixrl.problems import solve
from matrixrl.scorecards.kept import once
from matrixrl.scorecards.tables import hardness, read_table, uniform_value, worst_value
from matrixrl.simulate import run_seeds

__all__ = ["AGENTS", "N_STEPS", "Row", "draw_rows", "play_tables"]

N_STEPS = 500_000
"""Steps of a run in Colosseum's benchmark."""
FIRST_SEED = 200

AGENTS: dict[str, dict[str, Any]] = {
    "practical": {"preset": "practical", "known_reward": False, "switch_growth": 0.1},
    "guaranteed": {"preset": "guaranteed", "known_reward": False, "switch_growth": 0.1},
    "psrl": {"agent": "psrl", "preset": "tuned", "known_reward": False},
    "q-learning": {"agent": "q-learning", "preset": "tuned", "known_reward": False},
}
"""Settings of `run_seeds` by the name of the column; PSRL and Q-learning are this library's own."""


@dataclass(frozen=True)
class Row:
    """The result of one agent on one MDP.

    Attributes:
        mdp: Name of the table.
        states: Number of states.
        actions: Number of actions.
        horizon: Steps of an episode.
        agent: Name of the agent.
        seeds: Number of seeds.
        steps: Steps that were played.
        regret: Normalised cumulative regret divided by the steps: the mean over episodes and seeds of
            (V* − V^π) / (V* − V of the worst policy). 0 is the best policy, 1 the worst.
        random: The same number of uniform play.
        value_norm: Hardness: see `Hardness`.
        gaps: Hardness: see `Hardness`.
        seconds: CPU time of one seed.
    """

    mdp: str
    states: int
    actions: int
    horizon: int
    agent: str
    seeds: int
    steps: int
    regret: float
    random: float
    value_norm: float
    gaps: float
    seconds: float


def play_tables(
    paths: Sequence[Path], folder: Path, *, agents: Sequence[str], n_steps: int = N_STEPS, n_seeds: int = 1
) -> Iterator[tuple[str, str, Row | None]]:
    """Play what is missing, and yield MDP, agent and, once it is there, the row.

    Args:
        paths: Tables.
        folder: Where results are kept.
        agents: Names in `AGENTS`.
        n_steps: Steps of a run; whole episodes are played.
        n_seeds: Number of seeds.
    """
    for agent in agents:
        for path in paths:
            yield path.stem, agent, None
            asked = {
                "data": hashlib.sha256(path.read_bytes()).hexdigest()[:16],
                "settings": AGENTS[agent],
                "n_steps": n_steps,
                "n_seeds": n_seeds,
            }
            play = partial(_row, path, agent, n_steps, n_seeds)
            yield path.stem, agent, Row(**once(folder / path.stem / f"{agent}.json", asked, play))


def _row(path: Path, agent: str, n_steps: int, n_seeds: int) -> dict[str, Any]:
    """Play the seeds of one agent on one MDP."""
    mdp = read_table(path)
    seeds = range(FIRST_SEED, FIRST_SEED + n_seeds)
    result = run_seeds(mdp, n_episodes=max(1, n_steps // mdp.horizon), seeds=seeds, **AGENTS[agent])
    best, worst = solve(mdp).start_value, worst_value(mdp)
    hard = hardness(mdp)
    row = Row(
        mdp=path.stem,
        states=mdp.n_states,
        actions=mdp.n_actions,
        horizon=mdp.horizon,
        agent=agent,
        seeds=n_seeds,
        steps=result.n_episodes * mdp.horizon,
        regret=float(result.regret.mean()) / (best - worst),
        random=(best - uniform_value(mdp)) / (best - worst),
        value_norm=hard.value_norm,
        gaps=hard.gaps,
        seconds=round(float(np.sum(result.seconds)) / n_seeds, 2),
    )
    return asdict(row)


def draw_rows(rows: Sequence[Row], path: Path) -> None:
    """Draw the regret of every agent against both measures of hardness."""
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    words = {"value_norm": "environmental value norm", "gaps": "sum of reciprocals of sub-optimality gaps"}
    agents = list(dict.fromkeys(row.agent for row in rows))
    for axes, (measure, label) in zip(panels, words.items(), strict=True):
        for k, agent in enumerate(agents):
            own = [row for row in rows if row.agent == agent]
            style = look(k)
            x, y = [getattr(row, measure) for row in own], [row.regret for row in own]
            axes.scatter(x, y, s=22, color=style.colour, marker=style.marker, alpha=0.85, label=agent)
        ones = {row.mdp: row for row in rows}.values()
        x, y = [getattr(row, measure) for row in ones], [row.random for row in ones]
        axes.scatter(x, y, s=22, color="#888888", marker="_", label="uniform play")
        axes.set(xlabel=label, yscale="log")
        axes.grid(linestyle=":", alpha=0.6)
    panels[0].set_ylabel("normalised cumulative regret / steps")
    panels[1].set_xscale("log")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=9, frameon=False)
    write_whole(path, lambda temporary: figure.savefig(temporary, dpi=110))
