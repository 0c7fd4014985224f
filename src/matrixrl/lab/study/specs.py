"""Short ways to write the experiments of the study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matrixrl.lab.study.question import Size

__all__ = ["agent", "env", "spec"]


def spec(
    size: Size, episodes: int, envs: list[dict[str, Any]], agents: list[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    """Return a spec with the seeds of a study of this size; `more` wins."""
    return {"name": "study", "episodes": episodes, "seeds": size.seeds, "env": envs, "agent": agents, **more}


def env(name: str, settings: Mapping[str, Any] | None = None, **sweep: list[Any]) -> dict[str, Any]:
    """Return one environment of a spec, or several by sweeps."""
    return {"name": name, "settings": dict(settings or {}), "sweep": sweep}


def agent(id: str, *, name: str = "matrix-rl", **settings: Any) -> dict[str, Any]:
    """Return one agent of a spec, by the name that figures give it."""
    return {"name": name, "id": id, "settings": settings}
