"""What UCBVI and Q-learning share: a table of optimistic Q that starts at its cap, and bonuses with ln(T/δ)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from matrixrl.algorithms.baselines.base import NON_NEGATIVE, PROBABILITY, Baseline, BaselineSettings
from matrixrl.algorithms.possible import Shapes
from matrixrl.problems import Problem
from matrixrl.records import FloatArray
from matrixrl.settings import one_of, setting

__all__ = ["OptimisticQ", "OptimisticQSettings", "log_term"]


@dataclass(frozen=True)
class OptimisticQSettings(BaselineSettings):
    """Settings of an algorithm that lowers Q from a cap and adds a bonus."""

    scale: float = setting(1.0, "Factor of the bonus.", NON_NEGATIVE)
    delta: float = setting(0.1, "Probability with which the bonuses may fail.", PROBABILITY)
    cap: str = setting(
        "horizon",
        'Largest value of a stage: "horizon" is H, as in the paper; "remaining" is the number of steps that are left, '
        "which is valid as well and tighter.",
        one_of(("horizon", "remaining")),
    )


class OptimisticQ(Baseline):
    """A baseline that keeps a table of optimistic Q.

    Attributes:
        log_factor: Factor of KT/δ inside the logarithm of the bonus, with K allowed pairs (SA if all are allowed).
        cap: (H,) largest value of each stage.
        q: (B, H, A, S) optimistic Q.
    """

    learned_names: ClassVar[tuple[str, ...]] = ("q",)
    log_factor: ClassVar[float] = 1.0
    settings: OptimisticQSettings

    def begin(self) -> None:
        """Start Q at its cap."""
        super().begin()
        task = self.task
        self.cap: FloatArray = np.full(task.horizon, float(task.horizon))
        if self.settings.cap == "remaining":
            self.cap = self.frame.lefts()
        shape = (self.n_replicas, task.horizon, task.n_actions, task.n_states)
        self.q: FloatArray = np.broadcast_to(self.cap[:, None, None], shape).copy()

    def learned_shapes(self, problem: Problem, n_replicas: int) -> Shapes:
        """Return the shape of Q."""
        task = problem.finite_task
        shape = (n_replicas, task.horizon, task.n_actions, task.n_states)
        return super().learned_shapes(problem, n_replicas) | {"q": shape}

    @property
    def log(self) -> float:
        """Logarithm in the bonuses of the next episode."""
        task, settings = self.task, self.settings
        factor = self.log_factor * self.n_events
        return log_term(factor, settings.n_episodes, self.episode, task.horizon, settings.delta)

    @property
    def n_events(self) -> int:
        """Number K of allowed pairs, which the bonuses hold for at once."""
        return self.n_pairs

    def unproven(self) -> str | None:
        """Return why the number of episodes leaves the theorem without force, or None."""
        planned = self.settings.n_episodes
        if planned is None:
            return "the bonuses of the paper need n_episodes"
        if self.episode > planned:
            return f"more than the {planned} episodes of n_episodes were played"
        return None


def log_term(factor: float, n_episodes: int | None, episode: int, horizon: int, delta: float) -> float:
    """Return ln(factor · T / δ) with T = NH; without N, T is the number of steps until the end of the next episode.

    Args:
        factor: Factor of T in the paper, such as 5SA.
        n_episodes: Number of episodes N, if it is known.
        episode: Number of finished episodes.
        horizon: Horizon H.
        delta: Probability δ.

    >>> round(log_term(60.0, 1000, 0, 24, 0.1), 3)
    16.483
    """
    planned = episode + 1 if n_episodes is None else n_episodes
    return float(np.log(factor * planned * horizon / delta))
