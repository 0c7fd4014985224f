"""The settings of KernelMatrixRL on vectors: one configuration for every task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from matrixrl.checks import choice, fail
from matrixrl.settings import Settings, one_of, optional, real, setting, whole

__all__ = ["FEATURES", "ContinuousSettings"]

FEATURES = {
    "inducing": "the kernel on inducing points chosen from the states seen (exact if all are chosen)",
    "fourier": "random Fourier features of the RBF kernel (scikit-learn's RBFSampler)",
    "nystroem": "scikit-learn's Nystroem, fitted to the first states",
    "fourier-basis": "cosines of all frequencies up to an order",
    "tiles": "tile coding",
}
"""Representations of the kernel, by name."""

_RETURN = "Such as 1; an episode that ends earns 0 from then on."


def _preset(name: str, value: Any) -> str:
    if value == "guaranteed":
        remedy = "Use practical, or give a finite problem."
        fail(name, "must be 'practical' for vectors as states, where nothing is proven", repr(value), remedy)
    return choice(name, value, ("practical",))


@dataclass(frozen=True)
class ContinuousSettings(Settings):
    """Settings of KernelMatrixRL on vectors; the defaults are the same for every task."""

    preset: str = setting("practical", "Only practical: nothing is proven for vectors as states.", _preset)
    length_scale: float = setting(
        1.0,
        "Length scale of the RBF kernel, in units of half the range of each coordinate.",
        real(open_ends=True, remedy="Try 1.0."),
    )
    ridge: float = setting(0.01, "λ of A_n = λI + Σ φφᵀ.", real(open_ends=True, remedy="Try 0.01."))
    exploration: float = setting(
        0.001,
        "Bonus of a pair of which nothing is known, as a share of the range of values left; the optimistic centre does "
        "most of the exploring.",
        real(high=1e6, remedy="Try 0.001."),
    )
    action_correlation: float = setting(
        0.5,
        "ρ of k_φ((s,a),(s',a')) = k(s,s')·(1 if a = a' else ρ): how much actions share.",
        real(high=0.999, remedy="Try 0.5."),
    )
    features: str = setting("inducing", f"Representation of the kernel: {', '.join(FEATURES)}.", one_of(FEATURES))
    budget: int = setting(400, "Largest number of features of a state.", whole(remedy="Try 400."))
    tolerance: float = setting(
        1e-4,
        "Share of k(x,x) that inducing points may miss at a state before it becomes one itself.",
        real(high=1.0, remedy="Try 1e-4."),
    )
    anchors: int | None = setting(
        None,
        "Plan with the values of at most this many next states; all that were seen by default.",
        optional(whole(remedy="Try 1000, or leave it out.")),
    )
    max_return: float | None = setting(
        None,
        "Largest return that is possible from any time on, where it is less than the best reward at every step (1 for "
        "a task with one reward at its goal); as the task declares by default.",
        optional(real(remedy=_RETURN)),
    )
    kernel: Any = setting(
        None, "Kernel of states in scaled units: a scikit-learn kernel, a function or a name; RBF by default."
    )
    transformer: Any = setting(None, "A scikit-learn transformer, or a `StateMap`, in place of a kernel.")

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {"practical": {}, "guaranteed": {}}
