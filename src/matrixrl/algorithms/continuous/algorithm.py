"""KernelMatrixRL on vectors: kernel regression around an optimistic centre, for B replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.continuous.base import VectorAlgorithm
from matrixrl.algorithms.continuous.maps import make_state_map
from matrixrl.algorithms.continuous.model import STEP_NAMES, ContinuousModel, Experience
from matrixrl.algorithms.continuous.plan import ContinuousPlan, Coordinates
from matrixrl.algorithms.continuous.possible import check_steps, of_replica
from matrixrl.algorithms.continuous.settings import ContinuousSettings
from matrixrl.algorithms.possible import impossible
from matrixrl.checks import fail
from matrixrl.coding import BoxCodec
from matrixrl.core.greedy import best_action_at_random
from matrixrl.errors import InvalidInput
from matrixrl.features.kernels import ObservationScale
from matrixrl.features.state_maps import StateMap
from matrixrl.problems import ContinuousTask, Problem
from matrixrl.records import FloatArray, IntArray, Steps
from matrixrl.settings import Settings

__all__ = ["ContinuousMatrixRL", "ContinuousPlans"]

_COORDINATES = ("z", "z_next", "grams", "seen")
_CHUNK = 1 << 12  # steps that are compared together
_SLACK = 1e-9  # share of the range of values within which actions count as equal


@dataclass(frozen=True)
class ContinuousPlans:
    """The plans of all replicas."""

    plans: list[ContinuousPlan]

    @property
    def empty(self) -> IntArray:
        """(B,) zeros: there is no confidence set that could be empty."""
        return np.zeros(len(self.plans), dtype=np.int64)


class ContinuousMatrixRL(VectorAlgorithm):
    """Backward induction on all steps seen, through a kernel of state-action pairs (YW19 Algorithm 2).

    What is unknown is worth the largest return that is still possible; one configuration serves every task.
    """

    name = "kernel-matrix-rl"
    settings_class: ClassVar[type[Settings]] = ContinuousSettings
    settings: ContinuousSettings

    @property
    def guarantee(self) -> Literal[True] | str:
        """Why nothing is proven."""
        return "continuous states: the kernel is approximated and exploration is tuned, so nothing is proven"

    def check_problem(self, problem: Problem) -> None:
        """Refuse continuous actions, of which there is no kernel here."""
        super().check_problem(problem)
        if isinstance(problem.actions, BoxCodec):
            remedy = "Wrap it in matrixrl.envs.GridActions, which offers a grid of actions, or use KernelControl."
            fail("action_space", f"must be finite for {self.name}", str(problem.actions), remedy)

    def begin(self) -> None:
        """Start without data."""
        if self.settings.max_return is None and self.task.max_return is not None:
            self.settings = replace(self.settings, max_return=self.task.max_return)
        self.models = [self._model(seed) for seed in self.seeds]

    def _model(self, seed: int) -> ContinuousModel:
        task = self.task
        scale = ObservationScale(task.low, task.high)
        state_map = make_state_map(task.n_coordinates, self.settings, seed)
        return ContinuousModel(task.n_actions, task.horizon, scale, state_map, self.settings)

    def n_features(self) -> list[int]:
        """Return the number of coordinates of a state in each replica."""
        return [model.map.size for model in self.models]

    def reward_range(self, model: ContinuousModel) -> tuple[float, float]:
        """Return the declared range of rewards, or else [0, 1] extended to all that was seen."""
        if self.task.reward_range is not None:
            return self.task.reward_range
        seen = model.data.rewards
        return min(0.0, seen.min(initial=0.0)), max(1.0, seen.max(initial=1.0))

    def make_plan(self) -> ContinuousPlans:
        """Return the optimistic plan for the data at hand."""
        sampling = self.streams["sampling"]
        return ContinuousPlans(
            [model.plan(*self.reward_range(model), rng) for model, rng in zip(self.models, sampling, strict=True)]
        )

    def act(self, plan: ContinuousPlans, stage: int, states: NDArray[Any], *, explore: bool = True) -> IntArray:
        """Return the best actions; ties at random, so that an empty plan plays at random: (B, p) → (B,)."""
        actions = np.empty(len(plan.plans), dtype=np.int64)
        for b, one in enumerate(plan.plans):
            q = one.q_at(stage, states[b : b + 1])[0]
            slack = _SLACK * max(1.0, float(one.spread[stage]))
            actions[b] = best_action_at_random(q, slack, self.streams["ties"][b] if explore else None)
        return actions

    def action_values(
        self, plan: ContinuousPlans, stage: int, states: NDArray[Any], *, explore: bool = True
    ) -> FloatArray:
        """Return Q of the plans: (B, p) → (B, A)."""
        del explore
        return np.stack([one.q_at(stage, states[b : b + 1])[0] for b, one in enumerate(plan.plans)])

    def upper(self, plan: ContinuousPlans, first_states: NDArray[Any] | None = None) -> FloatArray:
        """Return what the plans expect an episode from the first states to be worth: (B,); NaN without them."""
        if first_states is None:
            return np.full(len(plan.plans), np.nan)
        best = [one.q_at(0, first_states[b : b + 1]).max().clip(max=one.top[0]) for b, one in enumerate(plan.plans)]
        return np.array(best, dtype=np.float64)

    def value(self, plan: ContinuousPlans, stage: int, obs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return optimistic values and widths of observations (n, p) in the first replica, each (n,)."""
        one = plan.plans[0]
        z, residual = one.coordinates.describe(obs)
        best = np.minimum(one.q(stage, z, residual).max(axis=1), one.top[stage])
        return best, one.widths(z, residual).min(axis=1)

    def observations(self) -> FloatArray:
        """Return the observations that the first replica acted on: (n, p)."""
        return self.models[0].data.obs

    def experience(self) -> Experience:
        """Return all steps of the first replica."""
        return self.models[0].data

    def policy_table(self, plan: ContinuousPlans) -> IntArray:
        """Return the actions at the observations of a known MDP's states: (B, H, S).

        Ties go to the lowest action here, and to a random one in `act`.
        """
        points = self.problem.points
        if points is None:
            self.problem.refuse("must have observations of known states to have a table", "Use predict(obs, stage).")
        tables = []
        for one in plan.plans:
            described = one.coordinates.describe(points)
            tables.append(np.stack([one.q(h, *described).argmax(axis=1) for h in range(self.task.horizon)]))
        return np.stack(tables)

    def learn(self, steps: Steps) -> None:
        """Add the steps that were taken to each replica's data."""
        for b, model in enumerate(self.models):
            model.add(Experience.of(steps, b))

    def learned(self) -> Arrays:
        """Return data, coordinates and maps of every replica."""
        arrays: Arrays = {}
        for b, model in enumerate(self.models):
            own: Arrays = {f"data_{name}": getattr(model.data, name) for name in STEP_NAMES}
            own |= {"z": model.z, "z_next": model.z_next, "grams": model.grams, "seen": model.scale.seen}
            own |= {f"map_{name}": array for name, array in model.map.arrays().items()}
            arrays |= {f"{b}_{name}": array for name, array in own.items()}
        return arrays

    def check_saved_sizes(self, problem: Problem, arrays: Mapping[str, NDArray[Any]], seeds: Sequence[int]) -> None:
        """Refuse settings that ask for more coordinates than the arrays of a file prove, before they are made."""
        task = problem.task
        assert isinstance(task, ContinuousTask)
        for b, seed in enumerate(seeds):
            n, grams = len(arrays[f"{b}_data_actions"]), arrays[f"{b}_grams"]
            m = make_state_map(task.n_coordinates, self.settings, seed).size  # of the maps that need no data
            if self.settings.transformer is None and n and self.settings.features in ("fourier", "nystroem"):
                fitted = len(arrays[f"{b}_map_fitted"])
                m = min(self.settings.budget, fitted) if self.settings.features == "nystroem" else self.settings.budget
            if m and grams.shape != (task.n_actions, m, m):
                impossible("grams", f"must have shape {(task.n_actions, m, m)}")

    def check_learned(self, arrays: Arrays, episode: int) -> None:
        """Refuse arrays that `learned` could not have returned."""
        parts = [of_replica(arrays, b) for b in range(self.n_replicas)]
        if sum(len(part) for part in parts) != len(arrays):
            raise InvalidInput(f"the arrays must be those of {self.n_replicas} replicas; got {sorted(arrays)}")
        for part in parts:
            names = {*_COORDINATES, *(f"data_{name}" for name in STEP_NAMES)}
            if {name for name in part if not name.startswith("map_")} != names:
                raise InvalidInput(f"the arrays must be {sorted(names)} and those of the map; got {sorted(part)}")
            self._check_steps(part, episode)

    def _check_steps(self, arrays: Arrays, episode: int) -> None:
        data = Experience(*(arrays[f"data_{name}"] for name in STEP_NAMES))
        if any(arrays[name].dtype != np.float64 for name in _COORDINATES):
            raise InvalidInput("the coordinates must be real numbers")
        check_steps(data, arrays["seen"], self.problem, episode)

    def n_steps(self) -> FloatArray:
        """Return the number of steps: (B,)."""
        return np.array([float(model.n_steps) for model in self.models])

    def load_learned(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `learned` returned, if it fits together."""
        for b, model in enumerate(self.models):
            self._load_model(model, of_replica(arrays, b))

    def _load_model(self, model: ContinuousModel, arrays: Arrays) -> None:
        data = Experience(*(arrays[f"data_{name}"] for name in STEP_NAMES))
        model.scale.restore(arrays["seen"].copy())
        _restore_map(model.map, _of_map(arrays))
        z, z_next, grams = (arrays[name] for name in ("z", "z_next", "grams"))
        n, m = len(data.actions), model.map.size
        if z.shape != (n, m) or z_next.shape != (n, m) or grams.shape != (self.task.n_actions, m, m):
            raise ValueError("the coordinates do not fit the steps")
        _check_coordinates(model, data.obs, z)
        _check_coordinates(model, data.next_obs, z_next)
        for a, gram in enumerate(grams):
            rows = z[data.actions == a]
            if not np.allclose(rows.T @ rows, gram, rtol=1e-6, atol=1e-6):
                raise ValueError("the Gram matrices are not those of the coordinates")
        model.data, model.z, model.z_next, model.grams = data, z.copy(), z_next.copy(), grams.copy()

    def plan_to_arrays(self, plan: ContinuousPlans) -> Arrays:
        """Return the plan of the only replica with its coordinates."""
        return dict(plan.plans[0].arrays())

    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> ContinuousPlans:
        """Return the plan that `plan_to_arrays` wrote."""
        task, model = self.task, self.models[0]
        state_map = make_state_map(task.n_coordinates, self.settings, self.seeds[0])
        _restore_map(state_map, _of_map(arrays))
        scale = copy(model.scale)
        scale.restore(arrays["seen"])
        m, horizon = state_map.size, task.horizon
        shapes = {
            "theta": (horizon, task.n_actions, m),
            "top": (horizon,),
            "spread": (horizon,),
            "width_matrix": (task.n_actions, m, m),
            "seen": (task.n_coordinates,),
        }
        if {name for name in arrays if not name.startswith("map_")} != set(shapes):
            raise InvalidInput(f"the arrays of a plan must be {sorted(shapes)} and those of the map")
        if any(arrays[name].shape != shape or arrays[name].dtype != np.float64 for name, shape in shapes.items()):
            raise InvalidInput("the plan does not fit the problem")
        widths = arrays["width_matrix"]
        fits = (
            bool((arrays["spread"] >= 0.0).all() and (arrays["seen"] >= 0.0).all())
            and bool((arrays["seen"] <= model.scale.seen).all())
            and np.allclose(widths, widths.transpose(0, 2, 1), rtol=1e-6, atol=1e-9)
            and (m == 0 or np.linalg.eigvalsh(widths).min() >= -1e-6 / self.settings.ridge)
        )
        if not fits:
            raise InvalidInput("the plan has ranges or widths that no data lead to")
        plan = ContinuousPlan(
            arrays["theta"],
            arrays["top"],
            arrays["spread"],
            arrays["width_matrix"],
            self.settings.ridge,
            self.settings.exploration,
            Coordinates(scale, state_map),
        )
        return ContinuousPlans([plan])


def _restore_map(state_map: StateMap, arrays: Arrays) -> None:
    """Restore a map from its own arrays and no others."""
    state_map.restore(arrays)
    if set(arrays) != set(state_map.arrays()):
        raise InvalidInput(f"the arrays of the map must be {sorted(state_map.arrays())}; got {sorted(arrays)}")


def _check_coordinates(model: ContinuousModel, obs: FloatArray, z: FloatArray) -> None:
    """Refuse coordinates that are not those of the observations."""
    coordinates = model.coordinates()
    for first in range(0, len(obs), _CHUNK):
        part = slice(first, first + _CHUNK)
        if not np.allclose(coordinates.describe(obs[part])[0], z[part], atol=1e-6):
            raise ValueError("the coordinates are not those of the steps (a transformer needs a fixed random_state)")


def _of_map(arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    return {name.removeprefix("map_"): array for name, array in arrays.items() if name.startswith("map_")}
