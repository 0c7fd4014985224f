"""From all steps to a plan: fit the model, back up values in it, and keep the value function that plays best in it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.continuous.base import Experience
from matrixrl.algorithms.control.model import MEDIAN, Observed, fit_dynamics, fit_kernel, kernel_prior
from matrixrl.algorithms.control.plan import PATIENCE, ActionGrid, ControlPlan, checked, value_from
from matrixrl.algorithms.control.world import (
    Outlook,
    ValueFunction,
    WorldModel,
    backward,
    fit_arrivals,
    outlook,
    random_walks,
    simulate,
    value_points,
)
from matrixrl.checks import flag
from matrixrl.features.kernels import ObservationScale
from matrixrl.problems import ContinuousTask
from matrixrl.records import FloatArray, IntArray
from matrixrl.settings import Settings, one_of, optional, real, setting, whole

__all__ = ["ControlModel", "ControlSettings", "Memory"]

_MOST_STEPS = 4000  # steps that the model is fitted to; beyond, ends, the last episode and a random choice
_REFIT = 1.3  # length scales are fitted again when there are this many times the steps of the last fit
_SEARCH = 1.5  # value functions are computed again when there are this many times the steps of the last search
_POOL = 1500  # states that inducing points of values are chosen from
_SEEN = 2000  # of all states seen, the most that a plan looks at
_STARTS = 16  # first states from which candidates are simulated
_NOISE_STEPS = 500  # steps that the noise of simulated episodes follows from
_VARIANTS = ((1.0, 1e-4, 1.0), (1.0, 1e-4, 0.98), (0.3, 1e-6, 0.99), (1.0, 1e-4, 0.95))
"""Value functions that are tried in turn: factor of the softness, tolerance of inducing points, discount."""

_PATIENT = 0.05  # surprises that are awaited before a plan is made again, as a share of all steps
_ENOUGH = 0.02  # share of the range of returns below the largest one at which no better plan is searched for
_SURPRISE = 0.05  # share of the expected return that an episode may fall short before a new search


@dataclass(frozen=True)
class ControlSettings(Settings):
    """Settings of ContinuousControl; the defaults are the same for every task."""

    preset: str = setting("tuned", "Only tuned: nothing is proven.", one_of(["tuned"]))
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
        True, "Whether plans are made again during an episode whose steps the model does not predict.", flag
    )

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {"tuned": {}}


@dataclass(frozen=True)
class Memory:
    """What one plan leaves to the next."""

    kernel: FloatArray  # (g + 1,) log length scales and log noise; empty before the first fit
    fitted: FloatArray  # (1 + p,) number of steps and units of observations at the last fit
    value: ValueFunction | None  # value function that was chosen; None before the first plan
    # (3,) number of steps at the last search, what the chosen value function then earned in the model, and whether it
    # was chosen while rewards said nothing
    search: FloatArray

    def state_dict(self) -> Arrays:
        """Return named arrays; those of the value function are empty if there is none."""
        none, nothing = np.empty(0), np.empty((0, 0))
        value = self.value or ValueFunction(nothing, nothing, none, none, none)
        found: Arrays = {"kernel": self.kernel, "fitted": self.fitted, "search": self.search}
        return found | {f"value_{one.name}": getattr(value, one.name) for one in fields(value)}

    @classmethod
    def of_state(cls, arrays: Mapping[str, NDArray[Any]], n_groups: int, horizon: int, n_coordinates: int) -> Memory:
        """Return the memory that `state_dict` wrote."""
        is_fitted = arrays["kernel"].size > 0
        shapes = {"kernel": (is_fitted * (n_groups + 1),), "fitted": (is_fitted * (1 + n_coordinates),), "search": (3,)}
        own = checked(arrays, shapes)
        has_value = arrays["value_centre"].size > 0
        value = value_from(arrays, "value_", horizon, n_coordinates) if has_value else None
        return cls(own["kernel"], own["fitted"], value, own["search"])


class ControlModel:
    """All steps of one replica, and plans from them; a plan replaces the memory of the last one."""

    def __init__(self, task: ContinuousTask, grid: ActionGrid, settings: ControlSettings) -> None:
        self.task, self.grid, self.settings = task, grid, settings
        self.scale, self.data = ObservationScale(task.low, task.high), Experience.none(task.n_coordinates)
        self.starts: IntArray = np.empty(0, dtype=np.int64)  # numbers of the first steps of episodes
        self.memory = Memory(np.empty(0), np.empty(0), None, np.zeros(3))
        self._prior = kernel_prior(task.n_coordinates, grid.groups)

    def update(self, steps: Experience) -> None:
        """Add the steps of an episode."""
        self.starts = np.append(self.starts, len(self.data))
        self.data = self.data.followed_by(steps)
        self.scale.see(np.concatenate([steps.obs, steps.next_obs]))

    def state_dict(self) -> Arrays:
        own: Arrays = {"seen": self.scale.seen, "starts": self.starts}
        return self.data.state_dict() | own | self.memory.state_dict()

    def load_state_dict(self, arrays: Arrays) -> None:
        """Copy what `state_dict` returned, or raise `InvalidInput`."""
        task, n_groups = self.task, int(self._prior.groups.max()) + 1
        self.memory = Memory.of_state(arrays, n_groups, task.horizon, task.n_coordinates)
        self.data = Experience.of_state(arrays, task.n_actions)
        self.scale.restore(arrays["seen"].copy())
        self.starts = arrays["starts"].copy()

    def plan(self, rng: Generator, so_far: Experience | None = None) -> ControlPlan:
        """Return a plan for all steps, and for those of an episode that goes on."""
        data, starts, scale = self.data, self.starts, copy(self.scale)
        if so_far is not None:
            starts, data = np.append(starts, len(data)), data.followed_by(so_far)
            scale.see(np.concatenate([so_far.obs, so_far.next_obs]))
        if not len(data):
            return ControlPlan(None, None, scale, self.grid)
        observed = self.observed(data, scale)
        used = observed
        if len(data) > _MOST_STEPS:
            kept = data.terminated.copy()
            kept[starts[-1] :] = True
            kept[rng.permutation(len(data))[:_MOST_STEPS]] = True
            used = observed.rows(np.flatnonzero(kept))
        memory = self._fitted(observed, scale, rng)
        actions = observed.x[:, self.task.n_coordinates :]
        seen = outlook(data.rewards, actions, data.terminated, self.task.horizon, self.settings.exploration)
        world = self._world(used, seen.bonus, memory, rng)
        self.memory = self._searched(world, seen, observed, starts, memory, rng)
        patience = max(PATIENCE, int(_PATIENT * len(data)))
        return ControlPlan(world, self.memory.value, scale, self.grid, patience=patience)

    def observed(self, data: Experience, scale: ObservationScale) -> Observed:
        """Return steps in scaled coordinates."""
        before, after = scale(data.obs), scale(data.next_obs)
        x = np.concatenate([before, self.grid.coordinates(data.actions)], axis=1)
        return Observed(x, after - before, data.rewards, data.terminated)

    def _fitted(self, observed: Observed, scale: ObservationScale, rng: Generator) -> Memory:
        """Fit length scales again if there are many more steps, or if the unit of a coordinate grew."""
        memory, n, unit = self.memory, len(observed.rewards), scale.unit
        if self.settings.length_scale is not None:
            kernel = self._prior.mean.copy()
            kernel[:-1] = np.log(self.settings.length_scale)
            return replace(memory, kernel=kernel, fitted=np.append(n, unit))
        if len(memory.kernel):
            known, units = memory.fitted[0], memory.fitted[1:]
            if n < _REFIT * known and (unit <= _REFIT * units).all():
                return memory
        start = memory.kernel if len(memory.kernel) else None
        return replace(memory, kernel=fit_kernel(observed, start, self._prior, rng), fitted=np.append(n, unit))

    def _world(self, observed: Observed, bonus: float, memory: Memory, rng: Generator) -> WorldModel:
        scales = np.exp(memory.kernel[:-1])[self._prior.groups]
        noise = float(np.exp(memory.kernel[-1]))
        dynamics = fit_dynamics(observed, scales, noise, self.scale.bounded, self.settings.model_points)
        ended, before = observed.ended, observed.x[:, : self.task.n_coordinates]
        after = before + observed.change
        extra = observed.rewards[ended] - dynamics.predict(observed.x[ended])[1]
        ends = before[ended], after[ended], extra
        return WorldModel(dynamics, fit_arrivals(np.concatenate([before[:1], after[~ended]]), ends, rng), bonus)

    def _searched(
        self, world: WorldModel, seen: Outlook, observed: Observed, starts: IntArray, memory: Memory, rng: Generator
    ) -> Memory:
        """Return the memory with the value function that plays best in the model."""
        states = observed.x[:, : self.task.n_coordinates]
        some = np.linspace(0, len(starts) - 1, min(len(starts), _STARTS)).astype(np.int64)
        first, n = states[starts[some]], len(states)
        best, chosen, visited, count = -np.inf, memory.value, states[:0], self.settings.candidates
        margin = 0.0
        noise = _noise(world, observed)
        scored_by = world if seen.is_blind else replace(world, bonus=0.0)  # a bonus that breaks ties earns nothing
        if memory.value is not None:
            best, visited = simulate(scored_by, memory.value, self.grid.planned, first, noise)
            last = float(observed.rewards[starts[-1] :].sum())
            count = self._n_candidates(n, best, last, seen, memory)
            if last >= best - _SURPRISE * abs(best):  # it has proved itself, which others have to better
                margin = seen.best - _enough(seen)
            if not count:
                return memory
        known = states if n <= _SEEN else states[rng.permutation(n)[:_SEEN]]
        pool = [known, random_walks(world, self.grid.planned, known, rng), visited]
        start = int(rng.integers(len(_VARIANTS))) if count == 1 else 0
        for k in range(start, start + count):
            value = self._candidate(world, seen, np.concatenate(pool), _VARIANTS[k % len(_VARIANTS)], rng)
            earned, visited = simulate(scored_by, value, self.grid.planned, first, noise)
            pool.append(visited)
            if earned >= best + margin:
                best, chosen, margin = earned, value, 0.0
            if best >= _enough(seen):
                break
        return replace(memory, value=chosen, search=np.array([float(n), best, float(seen.is_blind)]))

    def _n_candidates(self, n: int, now: float, last: float, seen: Outlook, memory: Memory) -> int:
        """Return how many value functions to try: few if little is new and the last one earned what it promised.

        It earns `now` in the model of now, and `last` was the return of the last episode as far as it was played.
        """
        searched, promised, was_blind = memory.search
        as_promised = min(now, last) >= promised - _SURPRISE * max(abs(promised), 1e-12)
        if seen.is_blind or was_blind or n >= _SEARCH * searched or not as_promised:
            return self.settings.candidates
        return 0 if now >= _enough(seen) else 1

    def _candidate(
        self, world: WorldModel, seen: Outlook, pool: FloatArray, variant: tuple[float, float, float], rng: Generator
    ) -> ValueFunction:
        """Return the value function of one of the variants, backed up at some of a pool of states."""
        states = pool if len(pool) <= _POOL else pool[rng.permutation(len(pool))[:_POOL]]
        factor, tolerance, discount = variant
        points, chosen = value_points(states, self.settings.value_points, tolerance)
        others = np.setdiff1d(np.arange(len(states)), chosen)
        more = rng.permutation(others)[: max(0, self.settings.support - len(chosen))]
        support = states[np.concatenate([chosen, more])]
        backups = world.lookahead(self.grid.planned)(support)
        backups = replace(backups, goes_on=discount * backups.goes_on)
        softness = min(1.0, factor * self.settings.softness)
        return backward(points, backups, seen.low, seen.high, softness=softness, tolerance=tolerance)


def _noise(world: WorldModel, observed: Observed) -> FloatArray:
    """Return standard deviations of next states around their predictions in the last steps, from the medians: (p,)."""
    x, change = observed.x[-_NOISE_STEPS:], observed.change[-_NOISE_STEPS:]
    p = change.shape[1]
    found: FloatArray = MEDIAN * np.median(np.abs(world.dynamics.predict(x)[0] - x[:, :p] - change), axis=0)
    return found


def _enough(seen: Outlook) -> float:
    """Return a return that is so close to the largest possible one that no better plan is searched for."""
    return seen.best - _ENOUGH * (seen.best - float(seen.low[0]))
