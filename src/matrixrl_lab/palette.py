"""The look of every agent of an experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matrixrl.plots.style import Look, look

if TYPE_CHECKING:
    from matrixrl_lab.spec import Experiment

__all__ = ["looks_of"]


def looks_of(experiment: Experiment) -> dict[str, Look]:
    """Return the look of every agent id by its position in the spec, the same on every environment."""
    ids = dict.fromkeys(cell.agent_id for cell in experiment.cells)
    return {name: look(i) for i, name in enumerate(ids)}
