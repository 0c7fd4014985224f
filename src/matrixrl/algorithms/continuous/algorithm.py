"""The learning state of KernelMatrixRL on continuous states: model, reward range, random streams."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.continuous.model import ContinuousModel, ContinuousPlan, Transitions
from matrixrl.algorithms.continuous.settings import ContinuousSettings
from matrixrl.checks import fail
from matrixrl.features.kernels import ObservationScale, as_kernel
from matrixrl.features.state_maps import FourierBasis, InducingMap, StateMap, TileCoding, TransformerMap
from matrixrl.interrupts import uninterrupted
from matrixrl.problems.continuous import ContinuousTask
from matrixrl.records import FloatArray
from matrixrl.seeding import generator, restore, state_of

__all__ = ["ContinuousEngine"]

_DATA = ("obs", "actions", "rewards", "next_obs", "terminated")


class ContinuousEngine:
    """Everything that KernelMatrixRL learns on one continuous problem."""

    def __init__(
        self,
        problem: ContinuousTask,
        settings: ContinuousSettings,
        seed: int,
        *,
        kernel: Any = None,
        features: Any = None,
    ) -> None:
        self.problem, self.settings = problem, settings
        self._ties = generator(seed, "ties")
        self._sampling = generator(seed, "sampling")
        scale = ObservationScale(problem.low, problem.high)
        state_map = _state_map(problem.n_coordinates, settings, kernel, features, seed)
        self.model = ContinuousModel(problem.n_actions, problem.horizon, scale, state_map, settings)
        self.episode = 0

    @property
    def reward_range(self) -> tuple[float, float]:
        """What was declared, or else [0, 1] and all that was seen."""
        if self.problem.reward_range is not None:
            return self.problem.reward_range
        seen = self.model.data.rewards
        return min(0.0, seen.min(initial=0.0)), max(1.0, seen.max(initial=1.0))

    def plan(self) -> ContinuousPlan:
        """Return the optimistic plan for the data at hand."""
        low, high = self.reward_range
        return self.model.plan(low, high, self._sampling)

    def q(self, plan: ContinuousPlan, stage: int, obs: FloatArray) -> FloatArray:
        """Return Q_h of observations (n, p): (n, A)."""
        return plan.q(stage, *self.model.describe(obs))

    def act(self, plan: ContinuousPlan, stage: int, obs: FloatArray, *, break_ties_at_random: bool = True) -> int:
        """Return the best action at one observation (p,); ties at random, so that an empty plan plays at random."""
        q = self.q(plan, stage, obs[None])[0]
        slack = 1e-9 * max(1.0, float(plan.spread[stage]))
        best = np.flatnonzero(q >= q.max() - slack)
        return int(best[self._ties.integers(len(best))] if break_ties_at_random and len(best) > 1 else best[0])

    def update(self, steps: Transitions) -> None:
        """Learn from one episode."""
        with uninterrupted():
            self.model.add(steps)
            self.episode += 1

    def planning_state(self) -> tuple[Any, ...]:
        """Return what planning and acting change."""
        return state_of(self._ties), state_of(self._sampling)

    def restore_planning(self, state: tuple[Any, ...]) -> None:
        """Take back what `planning_state` returned."""
        restore(self._ties, state[0])
        restore(self._sampling, state[1])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was learned, for saving."""
        model = self.model
        arrays: dict[str, NDArray[Any]] = {f"data_{name}": getattr(model.data, name) for name in _DATA}
        arrays |= {"z": model.z, "z_next": model.z_next, "grams": model.grams, "seen": model.scale.seen}
        return arrays | {f"map_{k}": v for k, v in model.map.arrays().items()}

    def restore_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned, if it fits together."""
        p, count, model = self.problem.n_coordinates, self.problem.n_actions, self.model
        data = Transitions(*(arrays[f"data_{name}"] for name in _DATA))
        n = len(data.actions)
        fits = (
            data.obs.shape == data.next_obs.shape == (n, p)
            and data.rewards.shape == data.terminated.shape == (n,)
            and data.actions.dtype.kind in "iu"
            and data.terminated.dtype == np.bool_
            and (n == 0 or 0 <= data.actions.min() <= data.actions.max() < count)
            and arrays["seen"].shape == (p,)
            and bool((arrays["seen"] >= 0.0).all())
        )
        if not fits:
            raise ValueError("the transitions do not fit the problem")
        model.map.restore({k.removeprefix("map_"): v for k, v in arrays.items() if k.startswith("map_")})
        m = model.map.size
        z, z_next, grams = arrays["z"], arrays["z_next"], arrays["grams"]
        if n and (z.shape != (n, m) or z_next.shape != (n, m) or grams.shape != (count, m, m)):
            raise ValueError("the coordinates do not fit the transitions")
        model.scale.restore(arrays["seen"])
        if n and not np.allclose(model.describe(data.obs[-1:])[0], z[-1:], atol=1e-6):
            raise ValueError(
                "the coordinates are not those of the transitions (a transformer needs a fixed random_state)"
            )
        model.data, model.z, model.z_next, model.grams = data, z, z_next, grams


def _state_map(p: int, settings: ContinuousSettings, kernel: Any, features: Any, seed: int) -> StateMap:
    if features is not None:
        if kernel is not None:
            fail("features", "must not be given together with a kernel", "both", "Give one of them.")
        return deepcopy(features) if isinstance(features, StateMap) else TransformerMap(features)
    if kernel is not None and settings.features not in ("inducing", "nystroem"):
        fail("kernel", "is used by the features inducing and nystroem only", settings.features, "Leave one out.")
    size, scale = settings.budget, settings.length_scale
    if settings.features == "fourier-basis":
        return FourierBasis(p)
    if settings.features == "tiles":
        return TileCoding(p)
    if settings.features == "inducing":
        return InducingMap(_kernel(kernel, scale), p, budget=size, tolerance=settings.tolerance)
    from sklearn.kernel_approximation import Nystroem, RBFSampler  # slow to import, so only where it is used

    gamma = 0.5 / scale**2
    if settings.features == "fourier":
        return TransformerMap(RBFSampler(gamma=gamma, n_components=size, random_state=seed % 2**32))
    if kernel is None:
        return TransformerMap(Nystroem(gamma=gamma, n_components=size, random_state=seed % 2**32))
    chosen = as_kernel(kernel)
    pair = lambda x, y: float(chosen(x[None], y[None])[0, 0])  # noqa: E731
    return TransformerMap(Nystroem(kernel=pair, n_components=size, random_state=seed % 2**32))


def _kernel(kernel: Any, length_scale: float) -> Any:
    if kernel is not None:
        return as_kernel(kernel)
    from sklearn.gaussian_process.kernels import RBF

    return as_kernel(RBF(length_scale))
