"""The settings of ContinuousControl: one configuration for every task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from matrixrl.checks import flag
from matrixrl.settings import Settings, one_of, optional, real, setting, whole

__all__ = ["ControlSettings"]


@dataclass(frozen=True)
class ControlSettings(Settings):
    """Settings of ContinuousControl; the defaults are the same for every task."""

    preset: str = setting("practical", "Only practical: nothing is proven.", one_of(["practical"]))
    length_scale: float | None = setting(
        None,
        "Length scale of the model of the dynamics in every coordinate, in units of half its range; fitted to the data "
        "for each coordinate by default.",
        optional(real(open_ends=True, remedy="Try 1.0, or leave it out.")),
    )
    exploration: float = setting(
        0.001,
        "Bonus of a state of which nothing is known, as a share of the range of rewards, once rewards say something "
        "about states; until then the bonus decides alone.",
        real(high=1e6, remedy="Try 0.001."),
    )
    model_points: int = setting(300, "Largest number of inducing points of the model.", whole(remedy="Try 300."))
    value_points: int = setting(300, "Largest number of inducing points of the value.", whole(remedy="Try 300."))
    support: int = setting(500, "Number of states at which values are backed up.", whole(remedy="Try 500."))
    candidates: int = setting(
        4, "Number of value functions that a plan is chosen from, by simulation in the model.", whole(remedy="Try 4.")
    )
    action_points: int = setting(
        5,
        "Points along each coordinate of continuous actions in backups; fewer where there would be more than 64 "
        "actions. The action to play is refined between them.",
        whole(low=2, remedy="Try 5."),
    )
    softness: float = setting(
        0.3,
        "Probability of a random action in backups, which keeps plans away from states where one mistake is fatal.",
        real(high=1.0, remedy="Try 0.3."),
    )

    revise: bool = setting(
        True,
        "Whether plans are made again during an episode whose steps the model does not predict.",
        flag,
    )

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {"practical": {}}
