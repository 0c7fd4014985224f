"""Functions that build the specs of the study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from study.question import Size

__all__ = ["LOCK", "PROVEN_BALL", "TUNED_BALL", "agent", "env", "spec"]

LOCK: tuple[str, dict[str, Any]] = ("linear-lock", {"length": 3})
"""The problem with features of the study, d = 13; unlike on linear-mdp, an agent must explore transitions to earn."""


def spec(
    size: Size, episodes: int, envs: list[dict[str, Any]], agents: list[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    """Return a spec with the number of seeds of a study of this size; `more` replaces its entries."""
    return {"name": "study", "episodes": episodes, "seeds": size.seeds, "env": envs, "agent": agents, **more}


def env(name: str, settings: Mapping[str, Any] | None = None, **sweep: list[Any]) -> dict[str, Any]:
    """Return an environment of a spec with its settings and sweeps."""
    return {"name": name, "settings": dict(settings or {}), "sweep": sweep}


def agent(id: str, *, name: str = "matrix-rl", **settings: Any) -> dict[str, Any]:
    """Return an agent of a spec; figures and tables show its id.

    The set is the normalised ball by default, and the plan is the optimistic one, because the claims are about these.
    """
    return {"name": name, "id": id, "settings": {"preset": "optimistic", "set": "normalised", **settings}}


PROVEN_BALL = agent("proven ball")
TUNED_BALL = agent("tuned ball", preset="tuned")
