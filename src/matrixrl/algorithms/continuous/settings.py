"""The settings of KernelMatrixRL on continuous states: one configuration for every task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from matrixrl.checks import choice, integer, number

__all__ = ["FEATURES", "ContinuousSettings"]

FEATURES = {
    "inducing": "the kernel on inducing points chosen from the states seen (exact if all are chosen)",
    "fourier": "random Fourier features of the RBF kernel (scikit-learn's RBFSampler)",
    "nystroem": "scikit-learn's Nystroem, fitted to the first states",
    "fourier-basis": "cosines of all frequencies up to an order",
    "tiles": "tile coding",
}
"""How the kernel is represented, by name."""


@dataclass(frozen=True, slots=True)
class ContinuousSettings:
    """How KernelMatrixRL sees continuous states and explores; the defaults are the same for every task.

    Attributes:
        length_scale: of the RBF kernel, in units of half the range of each coordinate.
        ridge: λ of A_n = λI + Σ φφᵀ.
        exploration: bonus for a pair of which nothing is known, as a share of the range of values left; the optimistic
            centre does most of the exploring.
        action_correlation: k_φ((s,a),(s',a')) = k(s,s')·(1 if a = a' else this): how much actions share.
        features: how the kernel is represented: inducing, fourier, nystroem, fourier-basis or tiles.
        budget: the most features of a state.
        tolerance: share of k(x,x) that inducing points may miss at a state before it becomes one itself.
        anchors: plan with the values of at most this many next states instead of all that were seen; None takes all.
        max_return: the most an episode can still earn at any time, where that is less than the best reward at every
            step (1 for a task with one reward at its goal).
    """

    length_scale: float = 1.0
    ridge: float = 0.01
    exploration: float = 0.001
    action_correlation: float = 0.5
    features: str = "inducing"
    budget: int = 400
    tolerance: float = 1e-4
    anchors: int | None = None
    max_return: float | None = None

    def __post_init__(self) -> None:
        choice("features", self.features, FEATURES)
        checked: dict[str, float | int | None] = {
            "length_scale": _positive("length_scale", self.length_scale, "Try 1.0."),
            "ridge": _positive("ridge", self.ridge, "Try 0.01."),
            "exploration": number("exploration", self.exploration, low=0.0, high=1e6, remedy="Try 0.001."),
            "action_correlation": number(
                "action_correlation", self.action_correlation, low=0.0, high=0.999, remedy="Try 0.5."
            ),
            "budget": integer("budget", self.budget, low=1, remedy="Try 400."),
            "tolerance": number("tolerance", self.tolerance, low=0.0, high=1.0, remedy="Try 1e-4."),
        }
        if self.anchors is not None:
            checked["anchors"] = integer("anchors", self.anchors, low=1, remedy="Try 1000, or leave it out.")
        if self.max_return is not None:
            remedy = "Such as 1; an episode that ends earns 0 from then on."
            checked["max_return"] = number("max_return", self.max_return, low=0.0, high=1e12, remedy=remedy)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def resolve(cls, given: Mapping[str, Any]) -> ContinuousSettings:
        """Let every setting that is given win over its default; None means not given.

        >>> ContinuousSettings.resolve({"budget": 100}).budget
        100
        """
        names = [f.name for f in fields(cls)]
        for key in given:
            choice("agent setting", key, names)
        return cls(**{key: value for key, value in given.items() if value is not None})

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return asdict(self)


def _positive(name: str, value: object, remedy: str) -> float:
    return number(name, value, low=0.0, high=1e12, open_ends=True, remedy=remedy)
