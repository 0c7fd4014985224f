"""The settings of MatrixRL, by the same names in Python and on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from matrixrl.algorithms.matrix_rl.doubling import DOUBLING
from matrixrl.checks import choice, fail, integer, number
from matrixrl.core import RADII, SETS, Radius
from matrixrl.core.columns import COLUMN_WEIGHTS
from matrixrl.core.radius import ConstantRadius, PaperRadius
from matrixrl.errors import InvalidInput

__all__ = ["PRESETS", "MatrixRLSettings"]

COLUMN_DRAWS = ("resampled", "fixed")
TIES = ("random", "estimate")
_LARGEST_RATIO = 1e8  # beyond it downdates of A⁻¹ lose more digits between two refreshes than the alarm tolerates

PRESETS: dict[str, dict[str, Any]] = {
    "guaranteed": {"set": "normalised", "radius": "block", "exploration": 1.0},
    "practical": {"set": "normalised", "radius": "constant", "exploration": 0.05, "ridge": 0.0025},
}
"""`guaranteed` keeps every proof; `practical` was tuned once over the whole suite (docs/presets.md)."""


@dataclass(frozen=True, slots=True)
class MatrixRLSettings:
    """How MatrixRL explores.

    Attributes:
        preset: "guaranteed" (the default: exploration 1, every proof holds) or "practical" (tuned).
        set: confidence set, by a name of `matrixrl list sets`.
        radius: by a name of `matrixrl list radii`; "block" is the tightest proven one for any features.
        exploration: multiplies √β; below 1 the guarantee is off.
        delta: the probability with which the guarantee may fail.
        n_episodes: N, if known in advance; only the theorem's radius uses it.
        ridge: λ of A_n = λI + Σ φφᵀ; 1 in the paper, and every proof holds for any λ. With the constant radius it is
            counted in units of the largest ‖φ‖², so that the scale of φ does not matter.
        known_reward: whether the agent is given the rewards; if not it learns them, linear in φ, sharing A_n.
        ties: among actions that are equally good in the optimistic plan, take one at "random", or the one that is best
            in a plan of a twentieth of the radius ("estimate"): the proof allows any, and while optimism cannot tell
            actions apart the data often can. Costs a second plan.
        doubling: for an unknown N, "restart" (the paper's) or "keep" the data; "off" otherwise.
        switch_growth: κ; plan again only when det A_n grew by 1 + κ since the last plan. 0 plans every episode.
        columns: m; plan with m sampled columns of Ψᵀ in place of all S, and evaluate Q only where it is asked. None
            takes all. Fewer than S columns make every bound an estimate.
        column_weights: draw columns by "norm" (in proportion to ‖ψ(s)‖²) or "uniform"; a `FunctionalTask` has its
            own sampler.
        column_draw: "resampled" for each plan, or "fixed" once.
        c: the absolute constant of the theorem's radius.
        beta: β of the constant radius, in units of C_ψ'².
        c_core: C_M, if known; else it is bounded from the features.
    """

    preset: str = "guaranteed"
    set: str = "normalised"
    radius: str = "block"
    exploration: float = 1.0
    delta: float = 0.05
    n_episodes: int | None = None
    ridge: float = 1.0
    known_reward: bool = True
    ties: str = "random"
    doubling: str = "off"
    switch_growth: float = 0.0
    columns: int | None = None
    column_weights: str = "norm"
    column_draw: str = "resampled"
    c: float = 1.0
    beta: float = 1.0
    c_core: float | None = None

    def __post_init__(self) -> None:
        choice("preset", self.preset, PRESETS)
        choice("set", self.set, SETS)
        choice("radius", self.radius, RADII)
        choice("doubling", self.doubling, DOUBLING)
        choice("ties", self.ties, TIES)
        choice("column_weights", self.column_weights, COLUMN_WEIGHTS)
        choice("column_draw", self.column_draw, COLUMN_DRAWS)
        if not isinstance(self.known_reward, bool):
            fail("known_reward", "must be true or false", repr(self.known_reward), "Say which.")
        checked: dict[str, float | int | None] = {
            "exploration": number("exploration", self.exploration, low=0.0, high=1e6, remedy="1 keeps the guarantee."),
            "delta": number("delta", self.delta, low=0.0, high=1.0, open_ends=True, remedy="Try 0.05."),
            "switch_growth": number(
                "switch_growth", self.switch_growth, low=0.0, high=1e6, remedy="0 plans every episode; try 0.5."
            ),
            "ridge": _positive("ridge", self.ridge, "The paper has 1."),
            "c": _positive("c", self.c, "The paper leaves it open; 1 is the default."),
            "beta": number("beta", self.beta, low=0.0, high=1e12, remedy="Give the β of the constant radius."),
            "n_episodes": None,
            "c_core": None,
            "columns": None,
        }
        if self.columns is not None:
            checked["columns"] = integer("columns", self.columns, low=1, remedy="Try 2000, or leave it out.")
            if self.ties != "random":
                fail("ties", "must be 'random' with sampled columns", repr(self.ties), "Leave one of them out.")
        if self.n_episodes is not None:
            checked["n_episodes"] = integer("n_episodes", self.n_episodes, low=1, remedy="Give N or leave it out.")
        if self.c_core is not None:
            checked["c_core"] = _positive("c_core", self.c_core, "Give C_M with ‖M*‖_F² <= C_M·d.")
        for name, value in checked.items():  # plain numbers, whatever numpy scalars came
            object.__setattr__(self, name, value)

    @classmethod
    def resolve(cls, given: Mapping[str, Any]) -> MatrixRLSettings:
        """Start from the preset and let every explicit setting win; None means not given.

        >>> MatrixRLSettings.resolve({"preset": "guaranteed", "radius": "theorem"}).radius
        'theorem'
        """
        chosen = {key: value for key, value in given.items() if value is not None}
        names = [f.name for f in fields(cls)]
        for key in chosen:
            choice("agent setting", key, names)
        preset = choice("preset", chosen.get("preset", "guaranteed"), PRESETS)
        return cls(**{**PRESETS[preset], **chosen, "preset": preset})

    def make_radius(self) -> Radius:
        """Return the radius object that these settings name."""
        kind = RADII[self.radius]
        if issubclass(kind, PaperRadius):
            return kind(c=self.c)
        if issubclass(kind, ConstantRadius):
            return kind(beta=self.beta)
        return kind()

    def ridge_for(self, largest: float) -> float:
        """Return λ for features of squared norm at most `largest`.

        With the tuned radius it is counted in units of the largest ‖φ‖², so that scale does not matter.
        """
        ridge = self.ridge * (largest if self.radius == ConstantRadius.name else 1.0)
        if largest / ridge > _LARGEST_RATIO:
            fail(
                "phi",
                f"must not be longer than {_LARGEST_RATIO:g} times the ridge (squared norm; A_n would lose its digits)",
                f"‖φ‖² = {largest:.3g} with ridge {ridge:.3g}",
                "Divide the features by a constant, or raise ridge.",
            )
        return ridge

    @property
    def guarantee(self) -> Literal[True] | str:
        """True if the regret bound is proven for these settings, else why not."""
        if self.exploration < 1.0:
            return f"exploration {self.exploration:g} is below 1: the confidence set was shrunk"
        for claim in (SETS[self.set].guarantee, self.make_radius().guarantee):
            if claim is not True:
                return claim
        if self.doubling == "restart":
            return "restarts forget data: each epoch has its own δ"
        return True if self.c_core is None else self._given_core

    @property
    def _given_core(self) -> str:
        return f"proven only if ‖M*‖_F² <= c_core·d, as given (c_core = {self.c_core:g})"

    def certificate_guarantee(self, alarmed: bool) -> Literal[True] | str:
        """True if a certificate holds with probability 1 − δ at all times, else why not."""
        if self.doubling == "restart":
            return "restarts forget data: each epoch has its own δ"
        if alarmed:
            return "misspecification alarm: the features cannot represent P (or a δ event)"
        claim = SETS[self.set].guarantee
        return self._given_core if claim is True and self.c_core is not None else claim

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MatrixRLSettings:
        """Rebuild settings that `as_dict` returned; every field must be there and none other."""
        names = {f.name for f in fields(cls)}
        if set(data) != names:
            odd = sorted(set(data) ^ names)
            raise InvalidInput(f"settings must be those of this version; got a difference in {odd}.")
        return cls(**data)


def _positive(name: str, value: object, remedy: str) -> float:
    return number(name, value, low=0.0, high=1e12, open_ends=True, remedy=remedy)
