"""The settings of MatrixRL, by the same names in Python, in specs and on the command line."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from matrixrl.checks import choice, fail, number, shown
from matrixrl.core import RADII, SANDWICH_SETS, SETS, ConfidenceSet, MatrixSet, Radius
from matrixrl.core.confidence import TUNED_EXPLORATION
from matrixrl.core.models.sampled import COLUMN_WEIGHTS
from matrixrl.core.radius import BlockRadius, ConstantRadius, PaperRadius
from matrixrl.core.sets import LIKELIHOOD_SETS, LikelihoodSet, Sandwich
from matrixrl.features import Features, indicator_groups, weighted_psi
from matrixrl.policies import Policy
from matrixrl.records import BoolArray
from matrixrl.settings import Settings, flag, one_of, optional, real, setting, whole

__all__ = ["PRESETS", "MatrixRLSettings"]

COLUMN_DRAWS = ("resampled", "fixed")
TIES = ("auto", "random", "estimate")
EXPLORE_FOR = ("regret", "certificate")
PLANNERS = ("auto", "sweep", "path")
DRIFT = ("off", "watch", "restart")

TIGHTEST = "tightest"
"""Name of the set that is chosen for the features at hand."""
OF_BALLS = ("radius", "ridge", "beta", "c", "c_core", "columns", "column_weights", "column_draw")
"""Settings that only balls around M_n use."""

_OF_RADII = {"beta": (ConstantRadius, "constant"), "c": (PaperRadius, "theorem")}  # settings that some radii use

PRESETS: dict[str, dict[str, Any]] = {
    "budget": {
        "set": TIGHTEST,
        "radius": "block",
        "exploration": 1.0,
        "optimism_budget": 1.25,
        "switch_growth": 0.1,
    },
    "optimistic": {"set": TIGHTEST, "radius": "block", "exploration": 1.0},
    "paper": {"set": "frobenius-closed", "radius": "theorem", "exploration": 1.0, "ridge": 1.0},
    "tuned": {
        "set": TIGHTEST,
        "exploration": TUNED_EXPLORATION,
        "radius": "constant",
        "beta": 1 / 16,  # √β = 0.3/4 = 0.45/6
        "ridge": 0.005625,  # (0.45/6)²
    },
}
"""`budget` and `optimistic` keep every proof; `paper` has the closed form (8), with the factor H of its proof (E2), and
the radius of the theorems; the radii of `tuned`, of likelihood sets and of balls, were each chosen once by
benchmarks/presets.py (docs/guides/default-and-paper.md)."""


def _set(name: str, value: Any) -> str | ConfidenceSet:
    made = value() if isinstance(value, type) and issubclass(value, ConfidenceSet) else value
    remedy = "Or give an object, such as matrixrl.core.sets.NormalisedBall()."
    if isinstance(made, ConfidenceSet):
        return made
    return choice(name, made, [TIGHTEST, *SETS, *SANDWICH_SETS, *LIKELIHOOD_SETS], remedy=remedy)


def _radius(name: str, value: Any) -> str | Radius:
    made = value() if isinstance(value, type) and issubclass(value, Radius) else value
    remedy = (
        'Or give an object; for a number √β say radius="constant" with beta=…, or matrixrl.core.radius.ConstantRadius.'
    )
    if type(made) is BlockRadius:  # the default, written down as an object
        return BlockRadius.name
    return made if isinstance(made, Radius) else choice(name, made, RADII, remedy=remedy)


def _incumbent(name: str, value: Any) -> Any:
    """Return the incumbent as it is given, an array as lists."""
    if isinstance(value, Policy) or callable(value):
        return value
    try:
        array: Any = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0)
    if array.dtype.kind not in "iu" or array.ndim not in (1, 2) or not array.size:
        rule = "must be a Policy, a function of observation and stage, or whole numbers of shape (S,) or (H, S)"
        received = shown(value) if not isinstance(value, np.ndarray) else f"{array.dtype} of shape {array.shape}"
        fail(name, rule, received, "Actions in tables count from 0; an incumbent does not act at random.")
    is_plain = isinstance(value, list) and all(type(one) is int for one in np.array(value, dtype=object).ravel())
    return value if is_plain else array.tolist()  # what was given stays the same object, as scikit-learn's clone wants


def _loss_budget(name: str, value: Any) -> float | str:
    """Return a budget in the user's unit, or a share as a text such as "5 %"."""
    remedy = 'Give an amount in the unit of the rewards, such as 500.0, or a share of the incumbent, such as "5 %".'
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", value)
        if found is None or not 0.0 < float(found[1]) < 100.0:
            fail(name, "must be a number, or a text with a share between 0 and 100 %", repr(value), remedy)
        words = f"{float(found[1]):g} %"
        return value if value == words else words  # the same object, as scikit-learn's clone wants
    return number(name, value, low=0.0, remedy=remedy)


_positive = real(open_ends=True)


@dataclass(frozen=True)
class MatrixRLSettings(Settings):
    """Settings of MatrixRL: set, radius, exploration, rewards, ties and the times of planning."""

    preset: str = setting(
        "budget",
        "Start from budget (the tuned plan while its lack of optimism is paid for, else the optimistic one; every "
        "proof holds), optimistic (exploration 1, every proof holds), paper (closed form and radius of YW19, "
        "proven for some constant c) or tuned (measured, not proven).",
        one_of(PRESETS),
    )
    set: str | ConfidenceSet = setting(
        TIGHTEST,
        "Confidence set: a name (matrixrl list sets) or an object; tightest takes the smallest proven one for the "
        "features at hand.",
        _set,
    )
    radius: str | Radius = setting(
        "block",
        "Radius of the set: a name (matrixrl list radii) or an object; block is the tightest proven one.",
        _radius,
    )
    exploration: float = setting(
        1.0, "Factor of √β; below 1 the guarantee is off.", real(high=1e6, remedy="1 keeps the guarantee.")
    )
    optimism_budget: float = setting(
        0.0,
        "α: play the tuned plan while what it lacks in optimism is at most α times the widths of the bounds that were "
        "observed; the proven bound on regret grows by the factor 1 + α, or 1 + 2α for balls. 0 always plays the "
        "optimistic plan, as sampled columns do.",
        real(high=1e6, remedy="1.25 is the value of preset='budget'; 0 plays the optimistic plan alone."),
    )
    incumbent: Any = setting(
        None,
        "Policy in use, which is played wherever the agent's own could cost more than loss_budget allows: a Policy, "
        "whole numbers (S,) or (H, S), or a function of observation and stage.",
        optional(_incumbent),
    )
    loss_budget: float | str | None = setting(
        None,
        "Most that all episodes together may be expected to earn less than the incumbent, with probability 1 − δ at "
        'every episode: an amount in the unit of the rewards, or "5 %", a share of what the incumbent earns.',
        optional(_loss_budget),
    )
    delta: float = setting(
        0.05, "Probability with which the guarantee may fail.", real(high=1.0, open_ends=True, remedy="Try 0.05.")
    )
    n_episodes: int | None = setting(
        None, "N, if known in advance; only the theorem's radius uses it.", optional(whole(remedy="Leave it out."))
    )
    ridge: float = setting(
        1.0,
        "λ of A_n = λI + Σ φφᵀ; 1 in the paper, and every proof holds for any λ. With the constant radius it is "
        "counted in units of the largest ‖φ‖².",
        _positive,
    )
    known_reward: bool | None = setting(
        None,
        "Whether the agent is given the rewards; if not, it learns them as linear in φ. By default it learns them "
        "where the problem has none.",
        optional(flag),
    )
    ties: str = setting(
        "auto",
        "Among equally optimistic actions take one at random, or the best one of a plan at a twentieth of the radius "
        "(estimate), which costs a second plan; the proof allows any. auto is estimate where optimistic chooses a "
        "ball, and random elsewhere.",
        one_of(TIES),
    )
    explore_for: str = setting(
        "regret",
        "Play to earn (regret), or to certify a policy soon (certificate): optimistic at the proven radius, with every "
        "second plan trying the least known action at one stage.",
        one_of(EXPLORE_FOR),
    )
    switch_growth: float = setting(
        0.0,
        "κ: plan again only when det A_n grew by 1 + κ since the last plan; 0 plans every episode.",
        real(high=1e6, remedy="0 plans every episode; try 0.5."),
    )
    planner: str = setting(
        "sweep",
        "Back up all states before an episode (sweep), or the states that an episode plays, while and after it is "
        "played (path): its time and memory do not depend on the number of states. path needs one-hot features, known "
        "rewards and a proven radius; auto takes it there from S·A·H = 100,000 on.",
        one_of(PLANNERS),
    )
    drift: str = setting(
        "off",
        "Assume that nothing changes (off), look for changes of the transition probabilities and of learned rewards "
        "and withdraw the guarantee after one (watch), or begin again without data after one (restart). For likelihood "
        "sets.",
        one_of(DRIFT),
    )
    columns: int | None = setting(
        None,
        "m: plan with m sampled columns of Ψᵀ instead of all S, and evaluate Q only where needed. Fewer than S columns "
        "make every bound an estimate.",
        optional(whole(remedy="Try 2000, or leave it out.")),
    )
    column_weights: str = setting(
        "norm",
        "Draw columns in proportion to ‖ψ(s)‖² (norm) or uniformly; a FunctionalTask has its own sampler.",
        one_of(COLUMN_WEIGHTS),
    )
    column_draw: str = setting("resampled", "Draw columns again for each plan, or once (fixed).", one_of(COLUMN_DRAWS))
    c: float = setting(1.0, "Absolute constant of the theorem's radius.", _positive)
    beta: float = setting(1.0, "β of the constant radius, in units of C_ψ'².", real())
    c_core: float | None = setting(
        None, "C_M with ‖M*‖_F² <= C_M·d, if known; bounded from the features by default.", optional(_positive)
    )

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = PRESETS

    @classmethod
    def resolve(cls, given: Mapping[str, Any]) -> Self:
        """Start from the preset and let every explicit setting win.

        A setting that only balls use chooses a ball where it differs from the value of the preset; writing down that
        value changes nothing.

        Raises:
            InvalidInput: `beta` or `c` is given with a radius that does not use it.
        """
        made = super().resolve(given)
        changed = made.changed(OF_BALLS)
        if not made.is_likelihood and not (isinstance(made.set, MatrixSet) and "radius" in vars(made.set)):
            for name, (kind, user) in _OF_RADII.items():
                if name in changed and not (isinstance(made.radius, str) and issubclass(RADII[made.radius], kind)):
                    shown = made.radius if isinstance(made.radius, str) else type(made.radius).__name__
                    rule = f"must be left out with the radius {shown!r}, which does not use it"
                    fail(name, rule, getattr(made, name), f"Add radius={user!r}, or leave it out.")
        return replace(made, set="normalised") if changed and made.set == TIGHTEST else made

    def play_without_budget(self, where: str) -> None:
        """Play the optimistic plan where bounds are estimates, which can pay for nothing; refuse an own budget."""
        if self.changed(["optimism_budget"]) and self.optimism_budget > 0.0:
            rule = f"must be 0 with {where}, whose bounds are estimates"
            fail("optimism_budget", rule, self.optimism_budget, 'Use preset="optimistic" or "tuned".')
        self.replace_value("optimism_budget", 0.0)

    def refuse_incumbent(self, where: str) -> None:
        """Refuse an incumbent where no policy can be bounded against it."""
        if self.incumbent is not None:
            remedy = "Leave incumbent and loss_budget out, or use MatrixRL on numbered states."
            fail("incumbent", f"must be left out with {where}", "an incumbent", remedy)

    def changed(self, names: Iterable[str]) -> list[str]:
        """Return which settings are not those of the preset."""
        defaults: dict[str, Any] = {f.name: f.default for f in fields(self)} | dict(self.PRESETS[self.preset])
        return [name for name in names if getattr(self, name) != defaults[name]]

    def check_together(self) -> None:
        """Refuse what needs all states on sampled columns, and half of a promise about an incumbent."""
        if (self.incumbent is None) != (self.loss_budget is None):
            missing, given = ("loss_budget", "incumbent") if self.loss_budget is None else ("incumbent", "loss_budget")
            fail(missing, f"must be given with {given}", None, f"Give {missing}=…, or leave {given} out.")
        if self.incumbent is not None and self.columns is not None:
            self.refuse_incumbent("sampled columns, whose bounds are estimates")
        if self.drift == "restart":
            self.refuse_incumbent("drift='restart', which forgets what may have been lost")
        if self.columns is not None:
            self.play_without_budget("sampled columns")
        name = self.set if isinstance(self.set, str) else self.set.name
        if self.columns is not None and (isinstance(self.set, Sandwich) or self.set in SANDWICH_SETS):
            rule = f"must be left out with the set {name!r}, which needs all states"
            fail("columns", rule, self.columns, "Leave it out, or use set='normalised'.")
        if self.columns is not None and self.ties == "estimate":
            fail("ties", "must be 'random' with sampled columns", repr(self.ties), "Leave one of them out.")
        if self.columns is not None and self.explore_for == "certificate":
            rule = "must be 'regret' with sampled columns, whose bounds are estimates"
            fail("explore_for", rule, repr(self.explore_for), "Leave one of them out.")

    @property
    def is_likelihood(self) -> bool:
        """Whether the set is a likelihood set, for indicator features, and not a ball around M_n."""
        return isinstance(self.set, LikelihoodSet) or self.set in LIKELIHOOD_SETS

    def for_features(self, features: Features | None, *, may_count: bool, allowed: BoolArray | None = None) -> Self:
        """Return the settings with `tightest` and `auto` replaced by what they mean for some features.

        The smallest proven set is `value-targeted` for indicator features φ and any ψ, and for others `normalised`, or
        `weighted` where that has a smaller radius. With counts, ties are between pairs that were never tried, which no
        estimate tells apart.

        Args:
            features: Features φ and ψ; None where they are functions.
            may_count: Whether the algorithm may count next states or weight them; else it keeps the paper's estimate.
            allowed: (A, S) Allowed actions of each state; None if all are.
        """
        chosen, ties = self.set, self.ties
        if chosen == TIGHTEST:
            if not may_count or features is None:
                chosen = "normalised"
            elif indicator_groups(features.phi, allowed) is not None:
                chosen = "value-targeted"
            else:  # the tuned radius is in units of the paper's estimate
                weighs = self.preset != "tuned" and weighted_psi(features.psi) is not features.psi
                chosen = "weighted" if weighs else "normalised"
        if ties == "auto":
            by_estimate = (
                self.set == TIGHTEST and chosen != "value-targeted" and self.preset in ("budget", "optimistic")
            )
            ties = "estimate" if by_estimate and features is not None else "random"
        return self if (chosen, ties) == (self.set, self.ties) else replace(self, set=chosen, ties=ties)

    def make_set(self) -> ConfidenceSet:
        """Return the confidence set with its radius, ridge and constants."""
        named = {**SETS, **SANDWICH_SETS, **LIKELIHOOD_SETS}
        chosen = copy.copy(self.set) if isinstance(self.set, ConfidenceSet) else named[self.set]()
        if isinstance(chosen, LikelihoodSet):
            self._refuse(OF_BALLS, f"must be left out with the set {chosen.name!r}, which does not use it")
            chosen.tuned = chosen.tuned or self.preset == "tuned"
        elif isinstance(chosen, MatrixSet):  # a set with constants of its own keeps them
            own = [name for name in ("radius", "ridge", "c_core") if name in vars(chosen)]
            more = ("beta", "c") if "radius" in own else ()
            self._refuse((*own, *more), f"must be left out with the set {chosen.name!r}, which has its own")
            given = {"radius": self.make_radius(), "ridge": self.ridge, "c_core": self.c_core}
            vars(chosen).update({name: value for name, value in given.items() if name not in own})
        return chosen

    def _refuse(self, names: Iterable[str], rule: str) -> None:
        """Refuse settings that are not those of the preset, so that none is ignored."""
        for name in self.changed(names):
            fail(name, rule, repr(getattr(self, name)), "Leave it out; exploration=… scales the set.")

    def make_radius(self) -> Radius:
        """Return the radius."""
        if isinstance(self.radius, Radius):
            return self.radius
        kind = RADII[self.radius]
        if issubclass(kind, PaperRadius):
            return kind(c=self.c)
        if issubclass(kind, ConstantRadius):
            return kind(beta=self.beta)
        return kind()
