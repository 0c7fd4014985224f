"""The ridge estimate on sampled columns of Ψᵀ: its cost does not depend on the number of states (YW19 section 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.archive import check_arrays
from matrixrl.checks import choice, fail
from matrixrl.core.confidence import Clock, Confidence, Level
from matrixrl.core.matrix_bounds import MatrixBounds
from matrixrl.core.models.base import steps_at_once
from matrixrl.core.models.ridge import ridge_for
from matrixrl.core.sets import MatrixSet, WeightedBall
from matrixrl.errors import InvalidInput
from matrixrl.features import Features, OneHotPhi, TablePhi, TablePsi, allowed_part
from matrixrl.linalg import DesignMatrix, lost_digits, summation_error
from matrixrl.problems import FunctionalTask, Problem
from matrixrl.records import BoolArray, FloatArray, IntArray, Steps

__all__ = [
    "COLUMN_WEIGHTS",
    "ColumnEstimate",
    "Columns",
    "SampledModel",
    "StateOracle",
    "column_sampler",
    "inclusion_probabilities",
]

_DRAWS = 50  # attempts before columns are refused as too few

COLUMN_WEIGHTS = {
    "norm": "states are drawn with probability proportional to ‖ψ(s)‖²",
    "uniform": "all states are drawn with equal probability",
}
"""Distributions of the sampled columns, by name."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A weighted sample of states such that Σ_j weight_j ψ(s_j)V(s_j) is an unbiased estimate of ΨᵀV.

    Attributes:
        states: (m, …) State numbers or state vectors.
        weights: (m,) Weights of the states.
        is_all: Whether the sample consists of every state once with weight 1, so that the sum is exact.
    """

    states: NDArray[Any]
    weights: FloatArray
    is_all: bool = False


def inclusion_probabilities(sizes: FloatArray, m: int) -> FloatArray:
    """Return the expected number of draws (S,) of each state: proportional to its size (S,), at most 1, with sum m.

    States whose proportional number would exceed 1 are drawn with certainty; the remaining draws are distributed among
    the other states.

    >>> inclusion_probabilities(np.array([1.0, 1.0, 2.0, 16.0]), 3)
    array([0.5, 0.5, 1. , 1. ])
    """
    chance = np.zeros(len(sizes))
    certain = np.zeros(len(sizes), dtype=np.bool_)
    while True:
        left = m - int(certain.sum())
        rest = np.where(certain, 0.0, sizes)
        chance = np.where(certain, 1.0, left * rest / rest.sum())
        if not (chance > 1.0).any():
            return chance
        certain |= chance >= 1.0


def column_sampler(
    weights: str, m: int, n_states: int, norms_sq: Callable[[], FloatArray]
) -> Callable[[np.random.Generator], Columns]:
    """Return a function of a random generator that draws m columns at a cost of O(m log S).

    The draw is stratified: the cumulative sum of the inclusion probabilities is divided into m intervals of length 1,
    and one state is drawn from each interval. The expected number of draws of a state is its inclusion probability p
    and its weight is 1/p, so the estimate of ΨᵀV is unbiased. With m >= S every state is taken once with weight 1, and
    the estimate is exact.

    >>> draw = column_sampler("uniform", 4, n_states=10**9, norms_sq=lambda: np.empty(0))
    >>> draw(np.random.default_rng(0)).weights
    array([2.5e+08, 2.5e+08, 2.5e+08, 2.5e+08])
    """
    choice("column_weights", weights, COLUMN_WEIGHTS)
    if m >= n_states:
        everything = Columns(np.arange(n_states), np.ones(n_states), is_all=True)
        return partial(_draw_again, everything)
    if weights == "uniform":
        return partial(_draw_uniformly, m, n_states)
    sizes = norms_sq()
    if not sizes.any():
        fail("psi", "must not be zero at every state", "zeros", "Give features that are not all zero.")
    used = np.flatnonzero(sizes)
    if m >= len(used):  # states with ψ(s) = 0 add nothing to ΨᵀV
        exact = Columns(used, np.ones(len(used)))
        return partial(_draw_again, exact)
    chance = inclusion_probabilities(sizes, m)
    certain = np.flatnonzero(chance >= 1.0)
    rest = np.flatnonzero((chance > 0.0) & (chance < 1.0))
    running = np.cumsum(chance[rest])
    running *= (m - len(certain)) / running[-1]  # removes the rounding error of the total, a whole number
    return partial(_draw_strata, m, chance, certain, rest, running)


# Functions of the module, as an agent that draws columns can then be pickled.
def _draw_again(columns: Columns, rng: np.random.Generator) -> Columns:
    del rng
    return columns


def _draw_uniformly(m: int, n_states: int, rng: np.random.Generator) -> Columns:
    states = np.minimum(((np.arange(m) + rng.random(m)) * (n_states / m)).astype(np.int64), n_states - 1)
    return Columns(states, np.full(m, n_states / m))


def _draw_strata(
    m: int, chance: FloatArray, certain: IntArray, rest: IntArray, running: FloatArray, rng: np.random.Generator
) -> Columns:
    count = m - len(certain)
    points = np.arange(count) + rng.random(count)
    chosen = rest[np.minimum(np.searchsorted(running, points, side="right"), len(rest) - 1)]
    states = np.concatenate([certain, chosen])
    return Columns(states, 1.0 / chance[states])


class StateOracle:
    """Features, rewards and samples of k states at a time, which are numbers or states of a `FunctionalTask`.

    Args:
        problem: Problem whose states are numbers or functions.
        m: Number of columns.
        column_weights: Name of a distribution in `COLUMN_WEIGHTS`; a `FunctionalTask` has its own sampler.

    Attributes:
        task: The task.
        d: Number of features φ.
        d_psi: Number of features ψ.
        n_states: Number of states S, or None where states are not counted.
        start: First states (k, …) and their probabilities (k,), if they are known.
        end: The state of a terminated episode, if there is one.
        left_out: What the features leave out, in words; None if nothing.
        draw: Function of a random generator that draws m columns.
    """

    start: tuple[NDArray[Any], FloatArray] | None
    end: NDArray[Any] | None
    draw: Callable[[np.random.Generator], Columns]

    def __init__(self, problem: Problem, m: int, column_weights: str) -> None:
        self.task: Any = problem.task
        self._pseudo, self._features = problem.pseudo, problem.features
        features = problem.features
        self.left_out = None if features is None else features.phi.left_out or features.psi.left_out
        task = problem.task
        if isinstance(task, FunctionalTask):
            self._features = None
            self.d, self.d_psi, self.n_states = task.d, task.d_psi, None
            self.draw = partial(_draw_from, task, m)
            self.start = None if task.start is None else (task.start[None], np.ones(1))
            self.end = task.end_state
            return
        finite, features = problem.finite_task, problem.features
        assert features is not None
        if isinstance(features.phi, OneHotPhi):
            fail("columns", "need features φ that generalise", "one-hot pairs", "Give phi, or leave columns out.")
        self.d, self.d_psi, self.n_states = features.phi.d, features.psi.d_psi, finite.n_states
        self.draw = column_sampler(column_weights, m, finite.n_states, features.psi.norms_sq)
        first = np.flatnonzero(finite.start)
        self.start = first, finite.start[first]
        self.end = None if finite.end_state is None else np.asarray(finite.end_state)

    def phi_at(self, states: NDArray[Any]) -> FloatArray:
        """Return φ of all actions in some states: (A, k, d)."""
        if self._features is None:
            return np.ascontiguousarray(self.task.phi_at(states).transpose(1, 0, 2))
        return self._features.phi.at(states)

    def psi_at(self, states: NDArray[Any]) -> FloatArray:
        """Return ψ of some states: (k, d_psi)."""
        found: FloatArray = self.task.psi_at(states) if self._features is None else self._features.psi.rows(states)
        return found

    def unit_reward_at(self, states: NDArray[Any]) -> FloatArray:
        """Return the rewards of all actions in some states, mapped to [0, 1]: (A, k)."""
        rewards = self.task.reward_at(states) if self._features is None else self.task.reward[states]
        unit: FloatArray = (rewards.T - self.task.reward_range[0]) / self.task.unit
        return unit

    def allowed_at(self, states: NDArray[Any]) -> BoolArray | None:
        """Return the allowed actions of some states (A, k), or None if all are."""
        return None if self.task.allowed is None else np.ascontiguousarray(self.task.allowed[states].T)

    def columns(self, rng: np.random.Generator) -> tuple[Columns, TablePsi]:
        """Draw columns on which K_ψ can be inverted, and ψ at them; a draw that misses a feature is repeated."""
        for attempt in range(_DRAWS):
            columns = self.draw(rng)
            if self.end is not None:  # its value is known, so it stands for itself and comes first
                others = (columns.states != self.end).reshape(len(columns.states), -1).any(axis=1)
                states = np.concatenate([self.end[None].astype(columns.states.dtype), columns.states[others]])
                columns = Columns(states, np.concatenate([np.ones(1), columns.weights[others]]), columns.is_all)
            try:
                return columns, self.sampled_psi(columns)
            except InvalidInput:
                if attempt == _DRAWS - 1 or columns.is_all:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def sampled_psi(self, columns: Columns) -> TablePsi:
        """Return ψ at the sampled columns; refuse columns that are too few for K_ψ to be inverted."""
        try:
            return TablePsi(self.psi_at(columns.states), weights=columns.weights, pseudo=self._pseudo)
        except InvalidInput as error:
            if columns.is_all:
                raise
            rule = "must be enough for K_psi to be invertible on the sampled states"
            fail("columns", rule, f"{len(columns.states)} ({error})", "Sample more columns.")


def _draw_from(task: FunctionalTask, m: int, rng: np.random.Generator) -> Columns:
    return Columns(*task.draw(rng, m))


class ColumnEstimate:
    """The data of one replica, with values at a weighted sample of states in place of all states.

    Its arrays are replaced and never changed, so that a copy of it is what a plan is made from. Constants are those of
    the first columns, exact if they are all states; `options` are other arguments of `Confidence.of`.

    Attributes:
        confidence: Set, radius and shares of δ, with constants of the first sample.
        columns: The sampled states.
        psi: ψ at them.
        matrix: (1, d, d) A_n.
        cross_moment: (1, d, d_psi) Σ φψᵀ.
        reward_moment: (1, d) Σ φr over unit rewards.
        n_steps: (1,) Number of steps that were added.
    """

    def __init__(self, matrix_set: MatrixSet, oracle: StateOracle, rng: np.random.Generator, **options: Any) -> None:
        if isinstance(matrix_set, WeightedBall):
            rule = "must be another one for sampled columns and functions of states, whose ψ has other weights"
            fail("set", rule, repr(matrix_set.name), "Use set='normalised'.")
        self.oracle = oracle
        self.columns, self.psi = oracle.columns(rng)
        phi = TablePhi(oracle.phi_at(self.columns.states).transpose(1, 0, 2), left_out=oracle.left_out)
        part = allowed_part(phi, oracle.allowed_at(self.columns.states))
        self.confidence = Confidence.of(
            Features(phi, self.psi),
            matrix_set,
            ridge=ridge_for(matrix_set, part.phi.max_norm_sq),
            horizon=oracle.task.horizon,
            part=part,
            end_state=None if oracle.end is None else 0,  # the end state is the first column
            **options,
        )
        self._feature_block = np.zeros(phi.d, dtype=np.int64)
        for k, members in enumerate(self.confidence.blocks.members):
            self._feature_block[members] = k
        self.matrix = self.confidence.regularity.ridge * np.eye(phi.d)[None]
        self.cross_moment = np.zeros((1, oracle.d, oracle.d_psi))
        self.reward_moment = np.zeros((1, oracle.d))
        self.n_steps = np.zeros(1)

    def redraw(self, rng: np.random.Generator) -> None:
        """Draw columns again, unless they are all states."""
        if not self.columns.is_all:
            self.use_columns(*self.oracle.columns(rng))

    def use_columns(self, columns: Columns, psi: TablePsi) -> None:
        """Plan with other columns from now on."""
        self.columns, self.psi = columns, psi
        self.confidence = self.confidence.rebound(psi)
        vars(self).pop("_core", None)

    def update(self, phi: FloatArray, psi: FloatArray, rewards: FloatArray) -> None:
        """Add steps: φ (k, d), zeros for one that was not taken, ψ (k, d_psi), unit rewards (k,) (lines 11, 12)."""
        self.matrix = self.matrix + phi.T @ phi
        self.cross_moment = self.cross_moment + phi.T @ psi
        if not self.confidence.known_reward:
            self.reward_moment = self.reward_moment + phi.T @ rewards
        self.n_steps = self.n_steps + len(phi)
        for name in ("solver", "_core"):
            vars(self).pop(name, None)

    @cached_property
    def solver(self) -> DesignMatrix:
        """A_n with its inverse: a function of A_n alone, so the same bits after a save."""
        design = DesignMatrix(self.oracle.d, 1, ridge=self.confidence.regularity.ridge)
        design.matrix = self.matrix
        design.refactor()
        return design

    @cached_property
    def _core(self) -> FloatArray:
        """M_n of YW19 (2): (1, d, d_psi)."""
        return self.psi.solve_gram(self.solver.solve(self.cross_moment))

    def bounds(self, states: NDArray[Any], clock: Clock, level: Level = "agent") -> MatrixBounds:
        """Return bounds on Q of all actions in some states (k, …), from values at the columns."""
        oracle, confidence = self.oracle, self.confidence
        phi = TablePhi.of_states(oracle.phi_at(states))
        blocks = confidence.blocks
        if blocks.count > 1:
            blocks = replace(blocks, pair_block=self._feature_block[np.abs(phi.flat).argmax(axis=1)])
        found = confidence.bounds(
            Features(phi, self.psi),
            self.solver.at(phi.flat),
            self._core,
            clock,
            reward=oracle.unit_reward_at(states)[None] if confidence.known_reward else np.empty(0),
            reward_moment=self.reward_moment,
            level=level,
            blocks=blocks,
            allowed=oracle.allowed_at(states),
        )
        assert isinstance(found, MatrixBounds)  # a sandwich needs all states
        return found

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the data and the columns as named arrays, for saving."""
        return {
            "design": self.matrix,
            "cross_moment": self.cross_moment,
            "reward_moment": self.reward_moment,
            "n_steps": self.n_steps,
            "columns": self.columns.states,
            "column_weights": self.columns.weights,
        }

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned."""
        own = self.state_dict()
        check_arrays(arrays, {name: array[:0] if name.startswith("column") else array for name, array in own.items()})
        states, weights, count = arrays["columns"], arrays["column_weights"], self.oracle.n_states
        if len(states) != len(weights) or (count is not None and not 0 <= states.min() <= states.max() < count):
            raise InvalidInput("the columns are not states of this problem with a weight each")
        if self.columns.is_all and not np.array_equal(states, self.columns.states):
            raise InvalidInput("the columns are not all states of this problem")
        self.matrix, self.cross_moment = arrays["design"].copy(), arrays["cross_moment"].copy()
        self.reward_moment, self.n_steps = arrays["reward_moment"].copy(), arrays["n_steps"].copy()
        vars(self).pop("solver", None)
        columns = Columns(states, weights, self.columns.is_all)
        self.use_columns(columns, self.oracle.sampled_psi(columns))


class SampledModel:
    """Ridge estimates of B replicas, each on its own sample of columns.

    Attributes:
        replicas: The estimate of each replica.
    """

    def __init__(
        self,
        matrix_set: MatrixSet,
        oracle: StateOracle,
        rngs: Sequence[np.random.Generator],
        *,
        switch_growth: float,
        **options: Any,
    ) -> None:
        self.oracle, self._switch_growth = oracle, switch_growth
        self.replicas = [ColumnEstimate(matrix_set, oracle, rng, **options) for rng in rngs]

    @property
    def confidence(self) -> Confidence:
        """Set, radius and shares of δ of the first replica."""
        return self.replicas[0].confidence

    @property
    def is_exact(self) -> bool:
        """Whether the columns are all states."""
        return all(one.columns.is_all for one in self.replicas)

    @property
    def steps_at_once(self) -> int:
        """Number of steps that `update` may be given together."""
        return steps_at_once(8 + self.oracle.task.n_actions * self.oracle.d + self.oracle.d_psi)

    def update(self, steps: Steps) -> None:
        """Learn from the steps of every replica (Algorithm 1, lines 11 and 12)."""
        n, k = steps.actions.shape
        flat = steps.states.reshape(n * k, *steps.states.shape[2:])
        every = self.oracle.phi_at(flat)
        phi = every[steps.actions.ravel(), np.arange(n * k)].reshape(n, k, -1) * steps.weights[:, :, None]
        psi = self.oracle.psi_at(steps.next_states.reshape(flat.shape)).reshape(n, k, -1)
        low, high = self.oracle.task.reward_range
        unit = (steps.rewards - low) / (high - low)
        for one, rows, following, paid in zip(self.replicas, phi, psi, unit, strict=True):
            one.update(rows, following, paid)

    def size(self) -> FloatArray:
        """Return ln det(A_n / λ) of every replica: (B,)."""
        return np.array([one.solver.logdet[0] for one in self.replicas])

    def grew(self, kept: FloatArray) -> BoolArray:
        """Return in which replicas det A_n grew by 1 + κ since the last plan, at which sizes were `kept`: (B,)."""
        return self.size() >= kept + math.log1p(self._switch_growth)

    def rounding_words(self, *, regret: bool) -> str | None:
        """Return, in words, that rounding errors may matter; None if they are small."""
        del regret
        errors = []
        for one in self.replicas:
            design, steps = one.solver, one.n_steps
            sum_sq = np.maximum(np.trace(design.matrix, axis1=1, axis2=2) - design.d * design.ridge, 0.0)
            errors.append(summation_error(steps, sum_sq, np.sqrt(steps * sum_sq), design.ridge, design.d))
        return lost_digits(float(np.max(errors)))

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the data and columns of every replica as named arrays, for saving."""
        return {f"{name}_{b}": array for b, one in enumerate(self.replicas) for name, array in one.state_dict().items()}

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned."""
        for b, one in enumerate(self.replicas):
            one.load_state_dict({name: arrays[f"{name}_{b}"] for name in one.state_dict()})
