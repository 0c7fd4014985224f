"""The confidence region of M* and of the rewards: set, radius, division of δ, exploration and reward bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from matrixrl.checks import fail
from matrixrl.core.matrix_bounds import MatrixBounds, SandwichBounds, VisitedCore
from matrixrl.core.radius import BlockRadius, PairwiseRadius, Radius, RadiusInputs, checked_radius
from matrixrl.core.regularity import Regularity, explicit_bound, regularity, reward_regularity
from matrixrl.core.rewards import reward_bounds
from matrixrl.core.sets import MatrixSet, Sandwich, SetContext
from matrixrl.features import AllowedPart, Blocks, Features, OneHotPsi, Psi, allowed_part
from matrixrl.linalg import DiagonalPairs, PairDesign, widths
from matrixrl.records import BoolArray, FloatArray, Guarantee

__all__ = ["FACTORS", "TIE_EXPLORATION", "TUNED_EXPLORATION", "Clock", "Confidence", "Level", "Radii"]

TIE_EXPLORATION = 0.05
"""Factor of the radius of the second plan that breaks ties with ``ties="estimate"`` (docs/proofs.md, section 8)."""

TUNED_EXPLORATION = 0.3
"""Factor of the radius of the preset `tuned`, which was chosen by measurement (docs/guides/default-and-paper.md)."""

Level = Literal["agent", "ties", "proven", "actions", "estimate", "tuned"]
"""Choice of the radius: the agent's radius, `TIE_EXPLORATION` times that radius, the proven radius (block) for V* and
the values of policies or for Q* of all actions, 0, or for counts that of the preset `tuned`."""

FACTORS: dict[Level, float] = {
    "agent": 1.0,
    "ties": TIE_EXPLORATION,
    "proven": 1.0,
    "actions": 1.0,
    "estimate": 0.0,
    "tuned": TUNED_EXPLORATION,
}
"""Factor of the radius at each level."""

_PROVEN: Radius = BlockRadius()
_TIGHTEST: Radius = PairwiseRadius()
"""The proven radius of certificates and of V*; plans have the other one, which needs no norms of A⁻¹φ."""
_ROWS = 1 << 16  # numbers of visits whose half-widths are computed together


class Clock(NamedTuple):
    """Number of the current episode and number of all episodes, on which a radius may depend.

    Attributes:
        episode: Number n of the episode that is planned, counted from 1 at the first episode of the data in use.
        n_episodes: Number of episodes N if it is known in advance, else None.
        run: Number j of the run that the data belong to, counted from 1, if data are forgotten between runs; else 0.
        parts: Number of equal parts of δ of which the bounds have one.
    """

    episode: int
    n_episodes: int | None
    run: int = 0
    parts: int = 1

    @property
    def shares(self) -> int:
        """Number of parts of δ of which this run has one: j(j + 1), so that all runs together have δ, or its part."""
        return self.parts * max(1, self.run * (self.run + 1))


class Radii(NamedTuple):
    """Radii √β of the confidence set, the alarm and the rewards, each (B, 1) or (B, P).

    Attributes:
        models: Radius of the confidence set.
        alarm: Proven radius at which the misspecification alarm is raised; at least `models`.
        rewards: Radius of the estimated rewards; None if rewards are known.
    """

    models: FloatArray
    alarm: FloatArray
    rewards: FloatArray | None


@dataclass(frozen=True)
class Confidence:
    """The confidence set of an agent and the settings and constants that determine its size.

    Attributes:
        set: Confidence set, bound to the problem.
        radius: Radius of the agent.
        exploration: Factor of √β; below 1 nothing is proven.
        delta: Probability δ with which any of the bounds may fail.
        known_reward: Whether rewards are known; if not, δ is divided between transitions and rewards.
        horizon: Number of steps H of an episode.
        regularity: Constants of the features.
        reward_regularity: Constants of the regression of rewards.
        blocks: Blocks of features.
        left_out: What the features leave out of what they were computed from, in words; None if nothing.
    """

    set: MatrixSet
    radius: Radius
    exploration: float
    delta: float
    known_reward: bool
    horizon: int
    regularity: Regularity
    reward_regularity: Regularity
    blocks: Blocks
    left_out: str | None = None
    returns_delta: ClassVar[float] = 0.0  # there are no bounds from the returns of frozen policies

    @classmethod
    def of(
        cls,
        features: Features,
        confidence_set: MatrixSet,
        *,
        ridge: float,
        part: AllowedPart | None = None,
        end_state: int | None = None,
        **settings: Any,
    ) -> Confidence:
        """Return the confidence region for features φ and ψ, of a set that is not yet bound to a problem.

        The ridge parameter λ is in the units of φ. Constants and blocks follow from `part`, φ of the allowed pairs,
        which by default is φ of all pairs; the law of `end_state` is known. `settings` are exploration, delta,
        known_reward and horizon.
        """
        part = allowed_part(features.phi, None) if part is None else part
        unbound = cls(
            set=confidence_set,
            radius=confidence_set.radius,
            regularity=regularity(part.features(features), c_core=confidence_set.c_core, ridge=ridge),
            reward_regularity=reward_regularity(part.phi, ridge),
            blocks=part.blocks().knowing(end_state, features.phi.n_states),
            left_out=features.phi.left_out or part.phi.too_small or features.psi.left_out,
            **settings,
        )
        return unbound.rebound(features.psi)

    def rebound(self, psi: Psi) -> Confidence:
        """Return a copy whose set is bound to another ψ, such as another sample of columns."""
        if isinstance(self.set, Sandwich) and not isinstance(psi, OneHotPsi):
            rule = f"must be a ball for these features: {self.set.name!r} needs one-hot ψ and all states"
            fail("set", rule, repr(self.set.name), "Use set='normalised', or leave psi and columns out.")
        k = self.regularity
        context = SetContext(psi.total, k.d, self.horizon, c_psi=k.c_psi, c_psi_max_norm=k.c_psi_max_norm)
        return replace(self, set=self.set.bind(context))

    @property
    def shares(self) -> int:
        """Number of equal parts that δ is divided into: the events of the set, twice as many if rewards are learned."""
        return self.set.shares * (1 if self.known_reward else 2)

    @property
    def guarantee(self) -> Guarantee:
        """Whether the regret bound is proven for this set, radius and exploration."""
        if self.exploration < 1.0:
            return Guarantee(False, f"exploration {self.exploration:g} is below 1: the confidence set was shrunk")
        return self._set_claim and Guarantee.of(self.radius) and Guarantee.unless(self._unproven)

    @property
    def certificate_guarantee(self) -> Guarantee:
        """Whether the bounds at the proven radius hold with probability 1 − δ."""
        return self._set_claim and Guarantee.unless(self._unproven)

    @property
    def _set_claim(self) -> Guarantee:
        """The guarantee of the set, which needs that of each of its members."""
        return Guarantee.unless(*(Guarantee.of(member).reason for member in (self.set, *self.set.members)))

    @property
    def _unproven(self) -> str | None:
        """Why nothing is proven for these features, or None."""
        if self.left_out is not None:
            return self.left_out
        if self.regularity.core_source != "given":
            return None
        c_core = self.regularity.c_core / self.regularity.ridge
        return f"proven only if ‖M*‖_F² <= c_core·d, as given (c_core = {c_core:g})"

    def inputs(self, design: PairDesign, clock: Clock, blocks: Blocks | None = None) -> RadiusInputs:
        """Return the inputs of the radii of the next episode, with the part of δ that each radius may use."""
        return RadiusInputs(
            regularity=self.regularity,
            horizon=self.horizon,
            episode=clock.episode,
            n_episodes=clock.n_episodes,
            delta=self.delta / (self.shares * clock.shares),
            design=design,
            blocks=self.blocks if blocks is None else blocks,
        )

    def radii(self, design: PairDesign, clock: Clock, *, level: Level = "agent", blocks: Blocks | None = None) -> Radii:
        """Return the radii √β of the set, of the alarm and of the rewards, for the pairs of a design."""
        inputs = self.inputs(design, clock, blocks)
        models, alarm = self._sizes(inputs, level, _PROVEN)
        if self.known_reward:
            return Radii(models, alarm, None)
        return Radii(models, alarm, self._sizes(replace(inputs, regularity=self.reward_regularity), level, _PROVEN)[0])

    def _sizes(self, inputs: RadiusInputs, level: Level, proven: Radius) -> tuple[FloatArray, FloatArray]:
        """Return √β at a level, and that of the alarm; in place of the block radius, the one that is proven is used."""
        surely = proven(inputs)
        is_proven = level in ("proven", "actions")
        own = not is_proven and type(self.radius) is not BlockRadius
        full = checked_radius(self.radius, inputs) if own else surely
        if is_proven:
            full = _TIGHTEST(inputs)
        full = (1.0 if is_proven else self.exploration) * full
        return FACTORS[level] * full, np.maximum(full, surely)

    def largest_radii(self, n_episodes: int) -> tuple[float | None, float | None]:
        """Return upper bounds on the radii of the set and of learned rewards over all data of N episodes.

        The second one is 0 if rewards are known; None stands for a radius that declares no bound.
        """

        def largest(constants: Regularity, n_functions: int = 1) -> float | None:
            part, steps = self.delta / (self.shares * n_functions), n_episodes * self.horizon
            found = self.radius.at_most(constants, self.blocks, delta=part, n_steps=steps)
            return None if found is None else self.exploration * found

        models = largest(self.regularity)
        if isinstance(self.set, Sandwich) and models is not None:  # docs/proofs.md, section 10
            values = largest(self.value_regularity, self.n_optimal_functions)
            models = None if values is None else max(models, values)
        return models, 0.0 if self.known_reward else largest(self.reward_regularity)

    def regret_bound(
        self, n_episodes: int, *, switch_growth: float, path_delta: float | None, delay: int = 0
    ) -> float | None:
        """Return `explicit_bound` before any data, or None if nothing is proven for the set and the radius.

        The radii and ln det A are replaced by their largest values over all data of N episodes.
        """
        surplus, (radius, reward_radius) = self.set.surplus, self.largest_radii(n_episodes)
        if not self.guarantee or surplus is None or radius is None or reward_radius is None:
            return None
        return explicit_bound(
            self.regularity,
            horizon=self.horizon,
            n_episodes=n_episodes,
            radius=radius,
            delta=self.delta,
            surplus=surplus,
            reward_radius=reward_radius,
            switch_growth=switch_growth,
            path_delta=path_delta,
            delay=delay,
        )

    def bounds(
        self,
        features: Features,
        design: PairDesign,
        core_matrix: FloatArray | VisitedCore,
        clock: Clock,
        *,
        reward: FloatArray,
        reward_moment: FloatArray,
        learned_part: tuple[FloatArray, FloatArray] | None = None,
        level: Level = "agent",
        blocks: Blocks | None = None,
        allowed: BoolArray | None = None,
    ) -> MatrixBounds | SandwichBounds:
        """Return the bounds on Q that follow from A_n, M_n (B, d, d_psi), and unit rewards or Σ φr (B, d).

        Rewards of which only a part is learned are (A, S) smallest rewards, plus the part times its width (A, S).
        """
        radii = self.radii(design, clock, level=level, blocks=blocks)
        if design.moment_error is not None:  # what rounding errors of moments add (docs/proofs.md, section 18)
            more = design.moment_error[:, None]
            of_model = more * features.psi.error_scale
            of_rewards = None if radii.rewards is None else radii.rewards + more
            radii = Radii(radii.models + of_model, radii.alarm + of_model, of_rewards)
        rewards = (reward, reward)
        if radii.rewards is not None:
            rewards = reward_bounds(features.phi, design, reward_moment, radii.rewards)
            if learned_part is not None:
                least, width = learned_part
                rewards = (least + width * rewards[0], least + width * rewards[1])
        sizes = radii.models, radii.alarm
        ball = MatrixBounds.of(features.phi, features.psi, self.set, design, core_matrix, sizes, rewards, allowed)
        if not isinstance(self.set, Sandwich):
            return ball
        width = widths(design)
        error = 0.0 if design.moment_error is None else design.moment_error[:, None]
        own, alarm = ((radius + error) * width for radius in self.value_radii(design, clock, level=level))
        return SandwichBounds(ball, self.set.uses_ball, own, alarm)

    def half_widths(self, size: int, clock: Clock, level: Level = "agent") -> tuple[FloatArray, FloatArray]:
        """Return half-widths (m, T) of the m members for one-hot pairs with 0, …, T − 1 visits, and (T,) of rewards.

        Set and radius are local: they may depend on N but not on n.
        """
        ridge = self.regularity.ridge
        half_width = np.empty((len(self.set.members), size))
        reward = np.empty(0 if self.known_reward else size)
        for first in range(0, size, _ROWS):
            visits = np.arange(first, min(first + _ROWS, size), dtype=np.float64)
            here = slice(first, first + len(visits))
            design = DiagonalPairs(len(visits), 1, ridge=ridge)
            design.restore({"counts": visits[None]})
            radii = self.radii(design, clock, level=level)
            for m, member in enumerate(self.set.members):
                reach = member.reach(design, radii.models, radii.alarm, ridge * design.width_sq)
                # docs/proofs.md, section 5: the proven radius covers ε = λ/(λ + n) of a one-hot pair with n visits, so
                # its normalised set is never empty.
                assert reach.empty is None
                half_width[m, here] = reach.half_width
            if radii.rewards is not None:
                reward[here] = (radii.rewards * widths(design))[0]
        return half_width, reward

    @property
    def value_regularity(self) -> Regularity:
        """Constants of the regression of V* − c on φ, in units of half the range of V*: bound 1 and noise 1."""
        return replace(self.reward_regularity, noise_scale=1.0)

    @property
    def n_optimal_functions(self) -> int:
        """Number of the functions V*_2, …, V*_H that the sandwich bounds."""
        return max(self.horizon - 1, 1)

    def value_radii(self, design: PairDesign, clock: Clock, *, level: Level = "agent") -> tuple[FloatArray, FloatArray]:
        """Return the radii √β_V of the regression of V* − c and of the alarm, in units of half the range of V*."""
        inputs = self.inputs(design, clock)
        inputs = replace(inputs, regularity=self.value_regularity, delta=inputs.delta / self.n_optimal_functions)
        return self._sizes(inputs, level, _TIGHTEST)

    @property
    def watches_rewards(self) -> bool:
        """Whether rewards are learned and may fail to be linear in φ, as they cannot for one-hot pairs."""
        return not self.known_reward and not self.blocks.one_pair_each
