"""KernelMatrixRL: UC-MatrixRL through kernels of states (YW19 Algorithm 2), on numbers or on vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from matrixrl.algorithms.base import Algorithm
from matrixrl.algorithms.matrix_rl.algorithm import UCMatrixRL
from matrixrl.algorithms.matrix_rl.settings import MatrixRLSettings
from matrixrl.problems import Problem
from matrixrl.problems.problem import Kind
from matrixrl.references import load_reference
from matrixrl.settings import Settings, real, setting

__all__ = ["DefaultStarter", "FiniteKernelMatrixRL", "KernelSettings", "KernelStarter", "KindStarter", "Startable"]


@dataclass(frozen=True)
class KernelSettings(MatrixRLSettings):
    """Settings of KernelMatrixRL on numbered states: those of MatrixRL, and its kernels."""

    points: Any = setting(None, "(S, p) coordinates of the states; the environment's own, else evenly on a line.")
    k_phi: Any = setting(None, "Kernel of states inside k_φ; the RBF kernel of `length_scale` by default.")
    k_psi: Any = setting(None, "Kernel of next states; the identity by default.")
    length_scale: float = setting(
        0.5, "Length scale of the RBF kernel, in the unit of the points.", real(open_ends=True, remedy="Try 0.5.")
    )
    action_correlation: float = setting(0.0, "How much actions share, from 0 to below 1.", real(high=0.999))

    IN_FEATURES: ClassVar[tuple[str, ...]] = ("points", "k_phi", "k_psi")
    """Settings that are part of the features once these are computed, so that a saved agent does not need them."""


class FiniteKernelMatrixRL(UCMatrixRL):
    """UC-MatrixRL in coordinates of kernels of states: neighbours share what is learned.

    Every quantity of the paper depends on features through inner products only, so estimates and widths are those of
    the dual algorithm (`core.dual`), which is not run: its cost grows with the number of visited pairs.
    """

    name = "kernel-matrix-rl"
    kinds: ClassVar[tuple[Kind, ...]] = ("finite",)
    settings_class: ClassVar[type[Settings]] = KernelSettings
    settings: KernelSettings
    _may_count = False  # a kernel says that neighbours share data, however short its length scale is

    def _with_features(self, problem: Problem) -> Problem:
        """Return the problem with the features of the kernels on its states."""
        from matrixrl.features import kernel_features
        from matrixrl.features.kernels import rbf_kernel

        chosen, task = self.settings, problem.finite_task
        k_phi = chosen.k_phi
        if k_phi is None:
            k_phi = rbf_kernel(chosen.length_scale)
        points, correlation = problem.state_points(chosen.points), chosen.action_correlation
        found = kernel_features(points, task.n_actions, k_phi=k_phi, k_psi=chosen.k_psi, action_correlation=correlation)
        features = found.cover(task.n_states, task.n_actions, task.end_state, task.end_words)
        return replace(problem, features=features, pseudo=features.psi.pseudo)


class KindStarter:
    """Starts the form of an agent that fits the kind of states of a problem.

    Attributes:
        name: Name on the command line and in specs.
        settings: Settings as they were given; their names and checks follow from the form.
    """

    name: ClassVar[str]
    _forms: ClassVar[tuple[str, str]]  # on numbered states and functions of states, on vectors; imported when used

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings.items())})"

    @classmethod
    def forms(cls) -> dict[Kind, type[Algorithm]]:
        """Return the algorithm of each kind of states; those on vectors are imported now."""
        numbered, vectors = (load_reference("agent", code, trust_code=True) for code in cls._forms)
        return {"finite": numbered, "functional": numbered, "continuous": vectors}

    def form_for(self, problem: Problem, n_episodes: int | None = None) -> Algorithm:
        """Return the form for the states of a problem, not started; see `Algorithm.form_for`."""
        return self.forms()[problem.kind](**self.settings).form_for(problem, n_episodes)

    def start(self, problem: Problem, seeds: Sequence[int], *, n_episodes: int | None = None) -> Algorithm:
        """Return the started form; see `Algorithm.start`."""
        return self.form_for(problem, n_episodes).start(problem, seeds)


class KernelStarter(KindStarter):
    """KernelMatrixRL on numbered states or on vectors.

    >>> KernelStarter(length_scale=0.3).name
    'kernel-matrix-rl'
    """

    name = "kernel-matrix-rl"
    _forms = ("matrixrl.algorithms.matrix_rl.kernel:FiniteKernelMatrixRL", "matrixrl.algorithms:ContinuousMatrixRL")


class DefaultStarter(KindStarter):
    """MatrixRL on numbered states and functions of states, KernelControl on vectors: the agent if none is named."""

    name = "matrix-rl"
    _forms = ("matrixrl.algorithms:UCMatrixRL", "matrixrl.algorithms:ContinuousControl")


Startable = Algorithm | KindStarter
"""What `start` makes a started algorithm from: an algorithm, or a choice by the kind of states."""
