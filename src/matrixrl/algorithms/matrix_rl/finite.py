"""UC-MatrixRL (YW19 Algorithm 1) on numbered states, for B replicas."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Algorithm, Arrays
from matrixrl.algorithms.matrix_rl.given_rewards import GivenRewards
from matrixrl.algorithms.matrix_rl.learner import MatrixRLLearner
from matrixrl.algorithms.matrix_rl.planner import FiniteMatrixRL
from matrixrl.algorithms.matrix_rl.reward_watch import WATCHED
from matrixrl.algorithms.possible import (
    Shapes,
    check_range,
    check_regression,
    check_steps,
    check_whole,
    design_shapes,
    impossible,
    largest_norm_sq,
    plan_shapes,
)
from matrixrl.checks import fail
from matrixrl.core import Belief, Confidence, Level, ValueBounds, core_matrix
from matrixrl.core.sets import Sandwich
from matrixrl.features import OneHotPhi, OneHotPsi
from matrixrl.linalg import DiagonalPairs, lost_digits
from matrixrl.problems import Problem
from matrixrl.records import FloatArray, Steps

__all__ = ["UCMatrixRL", "Visits"]


class Visits(NamedTuple):
    """Data of B replicas with one-hot features. They are the arrays of the algorithm itself: changing them is learning.

    Attributes:
        counts: (B, P) visits of each pair.
        transitions: (B, P, S) how often each pair led to each state.
        rewards: (B, P) sums of unit rewards.
    """

    counts: FloatArray
    transitions: FloatArray
    rewards: FloatArray


class UCMatrixRL(FiniteMatrixRL):
    """Optimism over a confidence set around the ridge estimate of M* (YW19 Algorithm 1).

    Replicas share features and known rewards and nothing else, so B of them cost little more than one. With the setting
    `columns`, or on a `FunctionalTask`, `start` returns the form that plans on sampled columns.

    >>> from matrixrl.problems import tabular
    >>> algorithm = UCMatrixRL(preset="practical").start(Problem.of(tabular(n_states=3, horizon=4).mdp), seeds=[0, 1])
    >>> algorithm.plan().policy.shape
    (2, 4, 3)
    """

    data_names = (*MatrixRLLearner.data_names, "pair_visits", "pair_rewards", "feature_moment")
    widens = True
    _confidence: Confidence | None = None
    may_count: ClassVar[bool] = True
    """Whether the set `tightest` may start the form that counts next states."""

    def form_for(self, problem: Problem) -> Self:
        """Return itself, or a copy with the set and the ties that `tightest` and `auto` mean for a problem."""
        may_count = self.may_count and not self.is_own and problem.reward_outside != "widen"
        allowed = problem.allowed_by_action
        settings = self.settings.for_features(problem.features, may_count=may_count, allowed=allowed)
        if settings is self.settings and self.known_reward is not None:
            return self
        chosen = copy.copy(self)
        chosen.settings = settings
        chosen.decide_rewards(problem)
        return chosen

    def start(self, problem: Problem, seeds: Sequence[int]) -> Algorithm:
        """Return a copy that is ready to play a problem, on counts or sampled columns where settings or problem ask."""
        chosen = self.form_for(problem)
        if chosen is not self:
            return UCMatrixRL.start(chosen, problem, seeds)
        settings = self.settings
        if settings.is_likelihood and self.is_own:
            rule = f"must be a ball for {type(self).__name__}, a user's subclass of UCMatrixRL"
            fail("set", rule, repr(settings.set), "Use set='normalised'.")
        if settings.is_likelihood:
            from matrixrl.algorithms.matrix_rl.indicator import IndicatorMatrixRL

            counting = IndicatorMatrixRL()
            counting.settings = settings
            return counting.start(problem, seeds)
        if settings.columns is None and problem.kind != "functional":
            return super().start(problem, seeds)
        if self.is_own:
            fail(
                "columns",
                f"must be left out for {type(self).__name__}, a subclass",
                self.settings.columns,
                "Leave it out.",
            )
        from matrixrl.algorithms.matrix_rl.sampled import SampledMatrixRL

        sampled = SampledMatrixRL()
        sampled.settings = self.settings
        return sampled.start(problem, seeds)

    def begin(self) -> None:
        """Prepare constants and start without data."""
        super().begin()
        self.ridge = self.confidence.regularity.ridge
        self.forget()

    def forget(self) -> None:
        """Start without data (Algorithm 1, line 4)."""
        phi, psi = self.features.phi, self.features.psi
        self.design = phi.design(self.n_replicas, self.ridge)
        self.cross_moment = np.zeros((self.n_replicas, phi.d, psi.d_psi))
        self.reward_moment = np.zeros((self.n_replicas, phi.d))
        self.forget_rewards()
        self.feature_moment = np.zeros((self.n_replicas, phi.d))
        self.revision += 1

    @property
    def numbers_per_step(self) -> int:
        """Number of numbers that `learn` makes of one step: few if both features are one-hot."""
        one_hot = isinstance(self.features.phi, OneHotPhi) and isinstance(self.features.psi, OneHotPsi)
        return 16 if one_hot else super().numbers_per_step

    @property
    def _may_widen(self) -> bool:
        """Whether Σ φ is kept, from which Σ φr follows for another range of rewards."""
        return self.problem.reward_outside == "widen" and not self.settings.known_reward

    def widen(self, low: float, high: float) -> None:
        """Use a wider range of rewards: sums of the new unit rewards follow from the old ones and from visits."""
        (old_low, _), old_unit = self.task.reward_range, self.task.unit
        self.problem = self.problem.with_range(low, high)
        self.use_task()
        shifted = self.reward_moment * old_unit + (old_low - low) * self.feature_moment
        self.reward_moment = shifted / self.task.unit
        paid = self.pair_rewards * old_unit + (old_low - low) * self.pair_visits
        self.pair_rewards = paid / self.task.unit
        self.given.rescale(self.problem)
        self.kept, self._kept_sizes = None, np.full(self.n_replicas, -np.inf)  # its values have the old unit
        self.revision += 1

    @property
    def confidence(self) -> Confidence:
        """Set, radius and shares of δ, for the actions that are allowed."""
        if self._confidence is None:
            ridge = None if self._reported is None else self.ridge  # that of the data
            horizon, end = self.task.horizon, self.task.end_state
            self._confidence = self.settings.confidence(
                self.features, horizon, delta=self.model_delta, part=self.part, ridge=ridge, end_state=end
            )
        return self._confidence

    def use_masks(self) -> None:
        """Plan with the actions that are allowed; the constants of their features follow when they are needed."""
        super().use_masks()
        self._confidence = None

    def logdets(self) -> FloatArray:
        """Return ln det(A_n / λ) of every replica: (B,)."""
        return self.design.logdet

    def rounding_words(self, *, regret: bool = False) -> str | None:
        """Return, in words, that rounding errors may matter; None if they are small, or bounds allow for them."""
        error = self.design.rounding
        if regret and self.design.moment_error is not None:  # which is added to the radii
            noise, scale = self.confidence.regularity.noise_scale, self.features.psi.error_scale
            share = max(scale / noise, 2.0) if noise > 0.0 else math.inf  # the noise of rewards is ½
            error = max(
                error, float(self.design.moment_error.max()) * share / math.sqrt(2.0 * math.log(1.0 / self.delta))
            )
        return lost_digits(error)

    def widths(self) -> FloatArray:
        """Return the width w of every pair: (B, A, S)."""
        shape = self.n_replicas, self.task.n_actions, self.task.n_states
        return np.sqrt(np.maximum(self.design.width_sq, 0.0)).reshape(shape)

    def core_matrix(self) -> FloatArray:
        """Return M_n of every replica: (B, d, d_psi)."""
        return core_matrix(self.design, self.cross_moment, self.features.psi)

    def belief(self, level: Level = "agent", *, core: FloatArray | None = None) -> Belief:
        """Return bounds on next values and rewards of all pairs, for any values.

        Args:
            level: Choice of the radius.
            core: M_n, if it is at hand.
        """
        return self.confidence.believe(
            self.features,
            self.design,
            self.core_matrix() if core is None else core,
            self.clock,
            reward=self.unit_reward,
            reward_moment=self.reward_moment,
            level=level,
            allowed=self.allowed,
        )

    def beliefs(self, *levels: Level) -> list[ValueBounds]:
        """Return bounds on Q from the data at hand; M_n is computed once for all of them."""
        core = self.core_matrix()
        return [
            self.confidence.for_plans(self.belief(level, core=core), self.design, self.clock, level=level)
            for level in levels
        ]

    def why_not_by_visits(self) -> str | None:
        """Return why the bounds of a pair are not functions of its visits alone, or None if they are."""
        if self.is_own:
            return f"{type(self).__name__} may override methods that compiled episodes do not call"
        if not isinstance(self.features.phi, OneHotPhi) or not isinstance(self.features.psi, OneHotPsi):
            return "the features are not one-hot"
        if self.settings.doubling != "off" or self.settings.switch_growth > 0.0:
            return "doubling and rare switching are not compiled"
        if self.settings.explore_for == "certificate":
            return "episodes that explore for a certificate are not compiled"
        if not self.confidence.radius.is_local(self.settings.n_episodes):
            return f"the radius {self.confidence.radius.name!r} depends on more than the visits of a pair"
        sandwich = isinstance(self.confidence.set, Sandwich)
        if sandwich or any(member.compiled_form is None for member in self.confidence.set.members):
            return f"the set {self.confidence.set.name!r} has no compiled form"
        if not all(member.reach_is_local for member in self.confidence.set.members):
            return f"the set {self.confidence.set.name!r} depends on more than the visits of a pair"
        return None

    @contextmanager
    def editing_visits(self, n_episodes: int) -> Iterator[Visits]:
        """Give out the arrays of one-hot features to be changed in place by so many episodes."""
        assert isinstance(self.design, DiagonalPairs)
        counts = self.design.counts
        yield Visits(counts, self.cross_moment, self.reward_moment)
        self.design.restore({"counts": counts})
        self.episode += n_episodes
        self.n_plans = self.n_plans + n_episodes
        self.revision += n_episodes > 0

    def learn(self, steps: Steps) -> None:
        """Add the steps to A_n, Σ φψᵀ and Σ φr (Algorithm 1, lines 11 and 12)."""
        phi, weights = self.features.phi, steps.weights
        pairs = phi.pairs(steps.states, steps.actions)
        self.design.update(pairs, weights)
        phi.accumulate(self.cross_moment, self.features.psi, pairs, steps.next_states, weights)
        if not self.settings.known_reward:
            paid = self.to_unit(steps.rewards) * weights
            phi.accumulate_rewards(self.reward_moment, pairs, paid)
            self.watch_rewards(pairs, weights, paid)
        self.given.add(steps)
        if self._may_widen:
            phi.accumulate_rewards(self.feature_moment, pairs, weights)
        self.revision += 1

    def learned(self) -> Arrays:
        """Return the moments, the design and, with rare switching, the plan that is being played."""
        arrays: Arrays = {
            "cross_moment": self.cross_moment,
            "reward_moment": self.reward_moment,
            **self.design.arrays(),
        }
        if self._may_widen:
            arrays["feature_moment"] = self.feature_moment
        return arrays | self.watched_arrays() | self.kept_arrays()

    def check_learned(self, arrays: Arrays, episode: int) -> None:
        """Refuse arrays that could not have been learned in so many episodes."""
        super().check_learned(arrays, episode)
        phi, psi, steps = self.features.phi, self.features.psi, episode * self.task.horizon
        targets = {"cross_moment": largest_norm_sq(psi), "reward_moment": 1.0}
        check_regression(phi, self.ridge, arrays, targets, steps)
        if self.settings.known_reward and arrays["reward_moment"].any():
            impossible("reward_moment", "must be zero where rewards are known")
        if isinstance(phi, OneHotPhi):
            self._check_visits(arrays, episode)
        if self.settings.switch_growth > 0.0:
            check_range("kept_values", arrays["kept_values"], 0.0, float(self.task.horizon))
        self.check_watched(arrays, episode)
        self._check_feature_moment(arrays)

    def _check_visits(self, arrays: Arrays, episode: int) -> None:
        counts = arrays["counts"]
        if self.settings.doubling != "restart":  # which forgets visits
            check_steps("counts", counts.sum(axis=1), episode, self.task.horizon)
        check_range("reward_moment", arrays["reward_moment"], 0.0, counts)
        if isinstance(self.features.psi, OneHotPsi):
            check_whole("cross_moment", arrays["cross_moment"])
            if not np.array_equal(arrays["cross_moment"].sum(axis=2), counts):
                impossible("cross_moment", "must sum to the counts")

    def _check_feature_moment(self, arrays: Arrays) -> None:
        """Refuse a sum of features that is not the one of the visits, where those are known."""
        phi, moment = self.features.phi, arrays.get("feature_moment")
        if moment is None:
            return
        visits = arrays["counts"] if isinstance(phi, OneHotPhi) else arrays.get("pair_visits")
        expected = moment if visits is None else visits if isinstance(phi, OneHotPhi) else visits @ phi.flat
        if not np.allclose(moment, expected, rtol=1e-6, atol=1e-6 * max(1.0, float(np.abs(expected).max()))):
            impossible("feature_moment", "must be the sum of the features of the visits")

    def learned_shapes(self, problem: Problem, n_replicas: int) -> Shapes | None:
        """Return the shapes of the moments, the design and, with rare switching, the plan that is being played."""
        if problem.features is None or self.settings.columns is not None:
            return None
        phi, psi, task = problem.features.phi, problem.features.psi, problem.finite_task
        shapes: Shapes = {
            "cross_moment": (n_replicas, phi.d, psi.d_psi),
            "reward_moment": (n_replicas, phi.d),
            **design_shapes(phi, n_replicas),
        }
        if problem.reward_outside == "widen" and not self.settings.known_reward:
            shapes["feature_moment"] = (n_replicas, phi.d)
        if self.settings.known_reward:
            shapes |= GivenRewards.shapes(n_replicas)
        elif not phi.blocks().one_pair_each:  # as Confidence.watches_rewards
            n_pairs = task.n_states * task.n_actions
            shapes |= dict(zip(WATCHED, ((n_replicas, n_pairs), (n_replicas, n_pairs), (n_replicas,)), strict=True))
        if self.settings.switch_growth > 0.0:
            shapes |= plan_shapes(n_replicas, task.horizon, task.n_states)
            shapes |= {"kept_empty": (n_replicas,), "kept_sizes": (n_replicas,)}
        return shapes

    def n_steps(self) -> FloatArray | None:
        """Return the number of visits, (B,), for one-hot features whose data were not forgotten."""
        if not isinstance(self.design, DiagonalPairs) or self.settings.doubling == "restart":
            return None
        total: FloatArray = self.design.counts.sum(axis=1)
        return total

    def load_learned(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `learned` returned."""
        own = {name: array.copy() for name, array in arrays.items()}
        self.cross_moment, self.reward_moment = own["cross_moment"], own["reward_moment"]
        self.feature_moment = own.get("feature_moment", self.feature_moment)
        self.design.restore(own)
        self.load_watched(own)
        self.revision += 1
        self.load_kept(own)
