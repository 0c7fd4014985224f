"""KernelMatrixRL on a control task: a few seeds, one after the other, measured by what they earn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import gymnasium as gym
import numpy as np

from matrixrl.agents import ContinuousSettings, KernelMatrixRL
from matrixrl.checks import choice, fail, integer
from matrixrl.envs import make_continuous
from matrixrl.progress import EpisodeProgress
from matrixrl.records import Episode, FloatArray
from matrixrl.simulate.results import plain_setting

__all__ = ["ControlResult", "ControlRun", "sparkline"]

_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class ControlResult:
    """Returns of K seeds over N episodes.

    Attributes:
        env: name of the task.
        env_settings: how it was made.
        settings: of the agent, resolved.
        horizon: H.
        seeds: the K seeds.
        returns: (K, N); NaN where an episode was not played.
        lengths: (K, N) steps.
        seconds: (K, N) for each episode, planning included.
        features: for each seed, how many coordinates its states have.
        interrupted: whether it was stopped before all episodes were played.
    """

    env: str
    env_settings: dict[str, Any]
    settings: dict[str, Any]
    horizon: int
    seeds: list[int]
    returns: FloatArray
    lengths: FloatArray
    seconds: FloatArray
    features: list[int]
    interrupted: bool

    guarantee = KernelMatrixRL.guarantee

    def second_half(self, k: int | None = None) -> float | None:
        """Return the mean of the second half of the episodes played, of one seed or of all; None if there are none."""
        rows = self.returns if k is None else self.returns[k : k + 1]
        played = [row[~np.isnan(row)] for row in rows]
        halves = [row[len(row) // 2 :] for row in played if len(row)]
        return float(np.concatenate(halves).mean()) if halves else None

    def as_dict(self) -> dict[str, Any]:
        """Return the summary that ``matrixrl run --json`` prints; an episode that was not played is null."""
        return {
            "env": self.env,
            "env_settings": self.env_settings,
            "agent": KernelMatrixRL.name,
            "settings": self.settings,
            "horizon": self.horizon,
            "seeds": self.seeds,
            "returns": [[None if np.isnan(x) else float(x) for x in row] for row in self.returns],
            "return_second_half": self.second_half(),
            "features": self.features,
            "guarantee": self.guarantee,
            "seconds": float(np.nansum(self.seconds)),
            "interrupted": self.interrupted,
        }


class ControlRun:
    """Independent agents, one for each seed, on one control task.

    Args:
        env: short name of a task ("cart-pole"), or ``gym:ID`` of one with vectors as observations.
        n_episodes: of each seed.
        seeds: one for each agent.
        settings: of the agent.
        env_settings: of the task.
    """

    def __init__(
        self,
        env: str,
        *,
        n_episodes: int,
        seeds: Sequence[int],
        settings: dict[str, Any] | None = None,
        env_settings: dict[str, Any] | None = None,
    ) -> None:
        self.env, self.env_settings = env, dict(env_settings or {})
        self.total = integer("n_episodes", n_episodes, low=1, remedy="Ask for at least one episode.")
        self.seeds = [integer("seeds", seed, low=0, remedy="Seeds are whole numbers.") for seed in seeds]
        if not self.seeds:
            fail("seeds", "must not be empty", "no seeds", "Give at least one seed.")
        self.given = dict(settings or {})
        names = [f.name for f in fields(ContinuousSettings)]
        for key in self.given:
            choice("agent setting", key, [*names, "kernel", "transformer", "horizon", "reward_range"])
        self.agents = [KernelMatrixRL(self._make(), seed=seed, **self.given) for seed in self.seeds]
        if not all(isinstance(agent, KernelMatrixRL) for agent in self.agents):
            fail("env", "must have vectors as observations", env, "Finite problems run with run_seeds.")
        shape = (len(self.seeds), self.total)
        self.returns, self.lengths, self.seconds = (np.full(shape, np.nan) for _ in range(3))

    def _make(self) -> gym.Env[Any, Any]:
        return make_continuous(self.env, **self.env_settings)

    def run(self, *, progress: bool = False) -> ControlResult:
        """Play everything; an interrupt passes through, and `result` then holds the episodes that were finished."""
        for k, agent in enumerate(self.agents):
            if agent.n_episodes >= self.total:
                continue
            with EpisodeProgress(f"{self.env} seed {self.seeds[k]}", self.total, visible=progress) as bar:
                agent.learn(self.total - agent.n_episodes, callback=self._recorder(k, bar))
        return self.result()

    def _recorder(self, k: int, bar: EpisodeProgress) -> Callable[[Episode], None]:
        since = time.perf_counter()

        def record(episode: Episode) -> None:
            nonlocal since
            now, n = time.perf_counter(), episode.index
            self.returns[k, n], self.lengths[k, n] = episode.episode_return, episode.length
            self.seconds[k, n], since = now - since, now
            bar.advance(f"{sparkline(self.returns[k, : n + 1])} return {episode.episode_return:.4g}")

        return record

    def result(self) -> ControlResult:
        """Return what was played so far."""
        return ControlResult(
            env=self.env,
            env_settings=self.env_settings,
            settings={**self.agents[0].settings.as_dict(), **{k: plain_setting(v) for k, v in self.given.items()}},
            horizon=self.agents[0].task.horizon,
            seeds=self.seeds,
            returns=self.returns.copy(),
            lengths=self.lengths.copy(),
            seconds=self.seconds.copy(),
            features=[agent.engine.model.map.size for agent in self.agents],
            interrupted=bool(np.isnan(self.returns).any()),
        )


def sparkline(values: FloatArray) -> str:
    """Return a curve of one line; the newest 40 values.

    >>> sparkline(np.array([0.0, 1.0, 2.0]))
    '▁▅█'
    """
    shown = values[-40:]
    low, high = float(np.nanmin(shown)), float(np.nanmax(shown))
    if high <= low:
        return _BARS[0] * len(shown)
    return "".join(_BARS[round((x - low) / (high - low) * (len(_BARS) - 1))] for x in shown)
