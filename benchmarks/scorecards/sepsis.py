"""The scorecard on ICU-Sepsis (Choudhary et al. 2024): values of learned policies beside the clinicians'."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.archive import atomic_write
from matrixrl.colours import REFERENCE, look
from matrixrl.envs import make, policy_value
from matrixrl.play import run_seeds
from matrixrl.plots.style import require_matplotlib
from matrixrl.problems import FiniteMDP, solve
from scorecards.results import once

__all__ = ["LEARNERS", "SepsisRow", "draw_sepsis", "play_sepsis", "reference_values"]

FIRST_SEED = 1000
MEASURED = 100
"""Number of episodes, evenly spaced, whose policies are evaluated exactly."""
LEARNERS: dict[str, dict[str, Any]] = {
    "tuned": {"preset": "tuned", "switch_growth": 1.0},
    "optimistic": {"preset": "optimistic", "switch_growth": 1.0},
    "tuned, rewards learned": {"preset": "tuned", "switch_growth": 1.0, "known_reward": False},
    "q-learning": {"agent": "q-learning", "preset": "tuned"},
}
"""Settings of `run_seeds` by the name of the row."""


@dataclass(frozen=True)
class SepsisRow:
    """The result of one learner, or of a policy that does not learn.

    Attributes:
        policy: Name of the learner or the policy.
        seeds: Number of seeds; 0 for a policy that does not learn.
        episodes: Episodes that were played.
        value: Probability of survival under the policies of the last tenth of the episodes.
        error: Standard error of it over seeds.
        loss: Part of V* that is lost.
        regret: Cumulative regret of all episodes, mean over seeds, from the episodes that are measured.
        seconds: CPU time of one seed.
    """

    policy: str
    seeds: int
    episodes: int
    value: float
    error: float
    loss: float
    regret: float
    seconds: float


def reference_values() -> dict[str, float]:
    """Return the values of the best policy, the clinicians, and uniform choice among admissible treatments."""
    from matrixrl.envs.icu_sepsis import clinicians_policy

    mdp: FiniteMDP = make("icu-sepsis").get_wrapper_attr("mdp")
    assert mdp.allowed is not None
    uniform = mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True)
    return {
        "best possible": solve(mdp).start_value,
        "clinicians": float(policy_value(mdp, clinicians_policy())),
        "any admissible": float(policy_value(mdp, uniform)),
    }


def play_sepsis(
    folder: Path, *, learners: Sequence[str], n_episodes: int, n_seeds: int
) -> Iterator[tuple[str, SepsisRow | None]]:
    """Play what is missing, and yield the name and, once it is there, the row; policies that do not learn come first.

    Args:
        folder: Where results are kept.
        learners: Names in `LEARNERS`.
        n_episodes: Episodes of each seed.
        n_seeds: Number of seeds.
    """
    references = reference_values()
    best = references["best possible"]
    for name, value in references.items():
        loss = 1.0 - value / best
        yield name, SepsisRow(name, 0, n_episodes, value, 0.0, loss, n_episodes * (best - value), 0.0)
    for name in learners:
        yield name, None
        asked = {"settings": LEARNERS[name], "n_episodes": n_episodes, "n_seeds": n_seeds}
        play = partial(_row, name, n_episodes, n_seeds, best)
        yield name, SepsisRow(**once(folder / f"{name}.json", asked, play))


def _row(name: str, n_episodes: int, n_seeds: int, best: float) -> dict[str, Any]:
    """Play the seeds of one learner."""
    seeds = range(FIRST_SEED, FIRST_SEED + n_seeds)
    every = max(1, n_episodes // MEASURED)  # the exact value of a policy costs more than an episode
    options: dict[str, Any] = {"n_episodes": n_episodes, "seeds": seeds, "measure_regret": every}
    result = run_seeds("icu-sepsis", **options, **LEARNERS[name])
    regret = result.regret[:, ::every]
    values = best - regret[:, -max(1, regret.shape[1] // 10) :].mean(axis=1)
    error = float(np.std(values, ddof=1) / np.sqrt(n_seeds)) if n_seeds > 1 else 0.0
    row = SepsisRow(
        policy=name,
        seeds=n_seeds,
        episodes=n_episodes,
        value=float(values.mean()),
        error=error,
        loss=1.0 - float(values.mean()) / best,
        regret=float(regret.mean()) * n_episodes,
        seconds=round(float(np.sum(result.seconds)) / n_seeds, 2),
    )
    return asdict(row)


def draw_sepsis(rows: Sequence[SepsisRow], path: Path) -> None:
    """Draw the value of every learner with its standard error, and those of the other policies as lines."""
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 0.9 + 0.5 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    learned = [row for row in rows if row.seeds]
    for k, row in enumerate(learned):
        style = look(k)
        axes.errorbar(row.value, k, xerr=row.error, color=style.colour, marker=style.marker, markersize=8, capsize=3)
    axes.set_yticks(range(len(learned)), [row.policy for row in learned])
    axes.set_ylim(-0.6, len(learned) - 0.4)
    for k, row in enumerate(sorted((row for row in rows if not row.seeds), key=lambda row: row.value)):
        axes.axvline(row.value, color=REFERENCE, linewidth=1.0)
        axes.annotate(
            f"{row.policy} {row.value:.3f}",
            (row.value, 1.0),
            xytext=(0, 4 + 11 * (k % 2)),  # two of the values are so close that their labels need two lines
            textcoords="offset points",
            xycoords=("data", "axes fraction"),
            ha="center",
            fontsize=8,
        )
    axes.set(xlabel="probability of survival", xlim=(min(row.value for row in rows) - 0.02, None))
    axes.invert_yaxis()
    atomic_write(path, lambda temporary: figure.savefig(temporary, dpi=110))
