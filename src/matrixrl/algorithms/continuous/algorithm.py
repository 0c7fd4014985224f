"""KernelMatrixRL on vectors: its settings, and kernel regression around an optimistic centre for B replicas."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import OPTIONAL
from matrixrl.algorithms.continuous.base import VectorAlgorithm, VectorPlans
from matrixrl.algorithms.continuous.model import ContinuousPlan, KernelBounds, KernelModel, optimistic_plan, restore_map
from matrixrl.archive import check_arrays
from matrixrl.checks import choice, fail
from matrixrl.errors import InvalidInput
from matrixrl.extras import naming_the_extra
from matrixrl.features.kernels import ObservationScale, as_kernel, rbf_kernel
from matrixrl.features.state_maps import FourierBasis, InducingMap, StateMap, TileCoding, TransformerMap
from matrixrl.problems import ContinuousTask, Problem
from matrixrl.records import Guarantee
from matrixrl.settings import Settings, one_of, optional, real, setting, whole
from matrixrl.spaces import BoxCodec

__all__ = ["ContinuousMatrixRL", "ContinuousSettings", "make_state_map"]

# Points chosen from the states seen (exact if all are chosen), scikit-learn's RBFSampler and Nystroem, cosines, tiles.
_FEATURES = ("inducing", "fourier", "nystroem", "fourier-basis", "tiles")


def _preset(name: str, value: Any) -> str:
    if value == "optimistic":
        remedy = "Use tuned, or give a finite problem."
        fail(name, "must be 'tuned' for vectors as states, where nothing is proven", repr(value), remedy)
    return choice(name, value, ("tuned",))


@dataclass(frozen=True)
class ContinuousSettings(Settings):
    """Settings of KernelMatrixRL on vectors; the defaults are the same for every task."""

    preset: str = setting("tuned", "Only tuned: nothing is proven for vectors as states.", _preset)
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
    features: str = setting("inducing", f"Representation of the kernel: {', '.join(_FEATURES)}.", one_of(_FEATURES))
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
        optional(real(remedy="Such as 1; an episode that ends earns 0 from then on.")),
    )
    kernel: Any = setting(
        None, "Kernel of states in scaled units: a scikit-learn kernel, a function or a name; RBF by default."
    )
    transformer: Any = setting(None, "A scikit-learn transformer, or a `StateMap`, in place of a kernel.")

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {"tuned": {}, "optimistic": {}}


def make_state_map(n_coordinates: int, settings: ContinuousSettings, seed: int) -> StateMap:
    """Return the representation of states that the settings ask for."""
    kernel, transformer = settings.kernel, settings.transformer
    if transformer is not None:
        if kernel is not None:
            fail("transformer", "must not be given together with a kernel", "both", "Give one of them.")
        return deepcopy(transformer) if isinstance(transformer, StateMap) else TransformerMap(transformer)
    if kernel is not None and settings.features not in ("inducing", "nystroem"):
        fail("kernel", "is used by the features inducing and nystroem only", settings.features, "Leave one out.")
    size, scale = settings.budget, settings.length_scale
    if settings.features == "fourier-basis":
        return FourierBasis(n_coordinates)
    if settings.features == "tiles":
        return TileCoding(n_coordinates)
    if settings.features == "inducing":
        chosen = as_kernel(rbf_kernel(scale) if kernel is None else kernel)
        return InducingMap(chosen, n_coordinates, budget=size, tolerance=settings.tolerance)
    with naming_the_extra("kernels", f"features={settings.features!r}"):
        from sklearn.kernel_approximation import Nystroem, RBFSampler  # slow to import, so only where it is used

    made = RBFSampler if settings.features == "fourier" else Nystroem
    options: dict[str, Any] = {"gamma": 0.5 / scale**2}
    if kernel is not None:
        chosen = as_kernel(kernel)
        options = {"kernel": lambda x, y: float(chosen(x[None], y[None])[0, 0])}
    return TransformerMap(made(**options, n_components=size, random_state=seed % 2**32))


class ContinuousMatrixRL(VectorAlgorithm):
    """Backward induction on all steps seen, through a kernel of state-action pairs (YW19 Algorithm 2).

    What is unknown is worth the largest return that is still possible; one configuration serves every task.
    """

    name = "kernel-matrix-rl"
    settings_class: ClassVar[type[Settings]] = ContinuousSettings
    settings: ContinuousSettings

    @property
    def guarantee(self) -> Guarantee:
        words = "continuous states: the kernel is approximated and exploration is tuned, so nothing is proven"
        return Guarantee(False, words)

    def _check_problem(self, problem: Problem) -> None:
        """Refuse continuous actions, of which there is no kernel here."""
        super()._check_problem(problem)
        if isinstance(problem.actions, BoxCodec):
            remedy = "Wrap it in matrixrl.envs.GridActions, which offers a grid of actions, or use KernelControl."
            fail("action_space", f"must be finite for {self.name}", str(problem.actions), remedy)

    def begin(self) -> None:
        task = self.task
        if self.settings.max_return is None and task.max_return is not None:
            self.settings = replace(self.settings, max_return=task.max_return)
        settings = self.settings
        self.models = [
            KernelModel(
                task.n_actions,
                ObservationScale(task.low, task.high),
                make_state_map(task.n_coordinates, settings, seed),
                ridge=settings.ridge,
                correlation=settings.action_correlation,
            )
            for seed in self.seeds
        ]

    def n_features(self) -> list[int]:
        """Return the number of coordinates of a state in each replica."""
        return [model.map.size for model in self.models]

    def reward_range(self, model: KernelModel) -> tuple[float, float]:
        """Return the declared range of rewards, or else [0, 1] extended to all that was seen."""
        if self.task.reward_range is not None:
            return self.task.reward_range
        seen = model.data.rewards
        return min(0.0, seen.min(initial=0.0)), max(1.0, seen.max(initial=1.0))

    def plan_of(self, replica: int, rng: np.random.Generator) -> ContinuousPlan:
        """Return the optimistic plan of one replica."""
        model, chosen = self.models[replica], self.settings
        return optimistic_plan(
            model,
            self.reward_range(model),
            chosen.exploration,
            rng,
            horizon=self.task.horizon,
            max_return=chosen.max_return,
            anchors=chosen.anchors,
        )

    def _check_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Refuse arrays that do not fit; a map may have been fitted to states."""
        fitted = (f"{b}_map_fitted" for b in range(self.n_replicas))
        check_arrays(state, self.state(), optional=(*OPTIONAL, *fitted))

    def _start_size(self, problem: Problem) -> float:
        """Return the size of the Gram matrices of a map that needs no data, and of random features."""
        task = problem.task
        assert isinstance(task, ContinuousTask)
        m = make_state_map(task.n_coordinates, self.settings, 0).size
        drawn = self.settings.budget if self.settings.features == "fourier" else 0
        return float(task.n_actions * m**2 + drawn * task.n_coordinates)

    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> VectorPlans:
        task, settings = self.task, self.settings
        scale, state_map = copy(self.models[0].scale), make_state_map(task.n_coordinates, settings, self.seeds[0])
        restore_map(state_map, dict(arrays))
        if arrays["seen"].shape != (task.n_coordinates,) or len(arrays["width_matrix"]) != task.n_actions:
            raise InvalidInput("the plan does not fit the problem")
        scale.restore(arrays["seen"])
        bounds = KernelBounds(scale, state_map, arrays["width_matrix"], settings.ridge, settings.exploration)
        return VectorPlans([ContinuousPlan.of_state(arrays, bounds, task.horizon)])
