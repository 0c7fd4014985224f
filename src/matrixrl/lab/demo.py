"""The demonstration: the paper's set against ours, on the same RiverSwim and the same seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matrixrl.lab.comparison import Contender

__all__ = ["DEMO", "Demo"]


@dataclass(frozen=True)
class Demo:
    """An environment and the contenders on it."""

    env: str
    env_settings: dict[str, Any]
    n_episodes: int
    n_seeds: int
    contenders: tuple[Contender, ...]
    title: str


DEMO = Demo(
    env="river-swim",
    env_settings={"n_states": 6, "horizon": 24},
    n_episodes=3000,
    n_seeds=16,
    contenders=(
        Contender("paper's set, theorem radius", {"set": "frobenius", "radius": "theorem"}),
        Contender("normalised set, theorem radius", {"set": "normalised", "radius": "theorem"}),
        Contender("normalised set, guaranteed preset", {"preset": "guaranteed"}),
        Contender("normalised set, practical preset", {"preset": "practical"}),
    ),
    title="MatrixRL on RiverSwim (6 states, horizon 24)",
)
