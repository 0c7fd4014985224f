"""Experiments of bsuite that the scorecard includes, and those that it leaves out."""

from __future__ import annotations

from collections.abc import Sequence

from matrixrl.checks import choice

__all__ = ["EXPERIMENTS", "LEFT_OUT", "TAGS", "chosen_experiments"]

EXPERIMENTS = (
    "bandit",
    "bandit_noise",
    "bandit_scale",
    "catch",
    "catch_noise",
    "catch_scale",
    "deep_sea",
    "deep_sea_stochastic",
    "discounting_chain",
    "umbrella_distract",
    "umbrella_length",
    "cartpole",
    "mountain_car",
    "cartpole_swingup",
    "cartpole_noise",
    "cartpole_scale",
    "mountain_car_noise",
    "mountain_car_scale",
)
"""In the order in which they are run."""

LEFT_OUT = {
    "memory_len": "the state is not observed",
    "memory_size": "the state is not observed",
    "mnist": "images of digits",
    "mnist_noise": "images of digits",
    "mnist_scale": "images of digits",
}
"""Experiments that are out of scope, and why."""

TAGS = ("basic", "noise", "scale", "exploration", "credit_assignment", "generalization")
"""Tags of the experiments in scope, as bsuite orders them; `memory` has none."""


def chosen_experiments(names: Sequence[str]) -> list[str]:
    """Return the experiments with some names, in order; all without names.

    >>> chosen_experiments(["deep_sea", "bandit"])
    ['bandit', 'deep_sea']
    """
    wanted = {choice("--only", name, EXPERIMENTS) for name in names}
    return [name for name in EXPERIMENTS if not names or name in wanted]
