"""KernelMatrixRL on finitely many states: the dual algorithm, in coordinates of the Gram matrices."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from matrixrl.agents.matrix_rl import MatrixRL
from matrixrl.checks import number
from matrixrl.features import Features, kernel_features
from matrixrl.problems import FiniteMDP, Task
from matrixrl.problems.reading import read_problem
from matrixrl.records import FloatArray

__all__ = ["FiniteKernelMatrixRL", "kernel_features_of", "state_points"]


def state_points(problem: object, n_states: int) -> FloatArray:
    """Return where states lie: as the environment says (`points`), else evenly on a line from −1 to 1."""
    own = getattr(problem.unwrapped, "points", None) if isinstance(problem, gym.Env) else None
    return np.linspace(-1.0, 1.0, n_states)[:, None] if own is None else np.asarray(own, dtype=np.float64)


def kernel_features_of(
    problem: object,
    n_states: int,
    n_actions: int,
    *,
    points: Any = None,
    k_phi: Any = None,
    k_psi: Any = None,
    length_scale: float = 0.5,
    action_correlation: float = 0.0,
) -> Features:
    """Return the features of kernels on the states of a problem.

    Args:
        problem: its `points` say where states lie, if it has any.
        n_states: S.
        n_actions: A.
        points: (S, p) instead of the problem's own.
        k_phi: kernel of states inside k_φ; RBF of `length_scale` by default.
        k_psi: kernel of next states; the identity by default.
        length_scale: of the RBF kernel, in the unit of the points.
        action_correlation: what actions share.
    """
    where = state_points(problem, n_states) if points is None else points
    if k_phi is None:
        from sklearn.gaussian_process.kernels import RBF  # slow to import, so only where it is used

        k_phi = RBF(number("length_scale", length_scale, low=0.0, high=1e12, open_ends=True, remedy="Try 0.5."))
    return kernel_features(where, n_actions, k_phi=k_phi, k_psi=k_psi, action_correlation=action_correlation)


class FiniteKernelMatrixRL(MatrixRL):
    """Learns a finite problem through kernels of its states (YW19 Algorithm 2): neighbours share what is learned.

    Args:
        problem: as `MatrixRL` takes it.
        points: (S, p) where states lie; the environment's own, else evenly on a line.
        k_phi, k_psi, length_scale, action_correlation: see `kernel_features_of`.
        others: as `MatrixRL` takes them.
    """

    name = "kernel-matrix-rl-finite"

    def __init__(
        self,
        problem: gym.Env[Any, Any] | FiniteMDP | Task,
        *,
        points: Any = None,
        k_phi: Any = None,
        k_psi: Any = None,
        length_scale: float = 0.5,
        action_correlation: float = 0.0,
        **others: Any,
    ) -> None:
        known = {k: others[k] for k in ("reward", "horizon", "reward_range", "known_reward") if k in others}
        task = read_problem(problem, **known).task
        assert isinstance(task, Task)
        features = kernel_features_of(
            problem,
            task.n_states,
            task.n_actions,
            points=points,
            k_phi=k_phi,
            k_psi=k_psi,
            length_scale=length_scale,
            action_correlation=action_correlation,
        )
        super().__init__(problem, phi=features.phi, psi=features.psi, **others)
