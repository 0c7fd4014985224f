"""Settings of ``matrixrl demo``: from the paper's confidence set to the presets on RiverSwim, same seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["DEMO", "FILM", "Demo"]


@dataclass(frozen=True)
class Demo:
    """An environment and the settings of MatrixRL that are compared on it.

    Attributes:
        env: Name of the environment.
        env_settings: Its settings.
        n_episodes: Number of episodes.
        n_seeds: Number of seeds.
        settings: Settings of MatrixRL by the label of the curve.
        title: Title of the table and of the figure.
    """

    env: str
    env_settings: dict[str, Any]
    n_episodes: int
    n_seeds: int
    settings: dict[str, dict[str, Any]]
    title: str


DEMO = Demo(
    env="river-swim",
    env_settings={"n_states": 6, "horizon": 24},
    n_episodes=3000,
    n_seeds=16,
    settings={
        "paper's set, theorem radius": {"set": "frobenius", "radius": "theorem"},
        "normalised set, theorem radius": {"set": "normalised", "radius": "theorem"},
        "normalised set, proven radius": {"set": "normalised"},
        "optimistic preset: likelihood set": {"preset": "optimistic"},
        "tuned preset: the same, smaller radius": {"preset": "tuned"},
    },
    title="MatrixRL on RiverSwim (6 states, horizon 24)",
)

FILM: dict[str, Any] = {"env_settings": DEMO.env_settings, "switch_growth": 0.05, "seed": 0}
"""Settings of the agent of ``matrixrl demo --film``: new plans when a pair was visited 5 % more often."""
