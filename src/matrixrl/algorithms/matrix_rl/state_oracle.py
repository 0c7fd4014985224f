"""Features, rewards and samples of a few states at a time, for agents that never enumerate all states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail
from matrixrl.core.columns import Columns, column_sampler
from matrixrl.features import Features, OneHotPhi
from matrixrl.problems import FunctionalTask, Problem, Task
from matrixrl.problems.stages import Stages
from matrixrl.records import BoolArray, FloatArray

__all__ = ["FiniteOracle", "FunctionOracle", "StateOracle", "make_oracle"]

Shares = tuple[NDArray[Any], FloatArray]
"""States (k, …) and their probabilities (k,)."""


class StateOracle(Protocol):
    """Answers questions about k states at a time.

    Attributes:
        stages: Classes of stages, each of which has its own actions; None if all stages share theirs.
        discount: Factor γ of the values of the next stage.
        tail: Weight of the steps that are cut off from an endless episode.
    """

    n_actions: int
    horizon: int
    stages: Stages | None
    discount: float
    tail: float
    reward_range: tuple[float, float]
    d: int
    d_psi: int
    draw: Callable[[np.random.Generator], Columns]

    @property
    def start(self) -> Shares | None:
        """First states and their probabilities, if they are known."""
        ...

    @property
    def end(self) -> NDArray[Any] | None:
        """The state of a terminated episode, if there is one."""
        ...

    @property
    def n_states(self) -> int | None:
        """Number of states S, or None where states are not counted."""
        ...

    def phi_at(self, states: NDArray[Any]) -> FloatArray:
        """Return (A, k, d)."""
        ...

    def psi_at(self, states: NDArray[Any]) -> FloatArray:
        """Return (k, d_psi)."""
        ...

    def unit_reward_at(self, states: NDArray[Any]) -> FloatArray:
        """Return (A, k) rewards mapped to [0, 1]."""
        ...

    def allowed_at(self, states: NDArray[Any]) -> BoolArray | None:
        """Return (A, k) allowed actions, or None if all are."""
        ...


class FiniteOracle:
    """The oracle of a finite task; only the states in question are computed."""

    def __init__(self, task: Task, features: Features, m: int, column_weights: str) -> None:
        if isinstance(features.phi, OneHotPhi):
            fail("columns", "need features φ that generalise", "one-hot pairs", "Give phi, or leave columns out.")
        self.task, self.features = task, features
        self.n_actions, self.horizon, self.reward_range = task.n_actions, task.horizon, task.reward_range
        self.stages, self.discount, self.tail = task.stages, task.discount, task.tail
        self.d, self.d_psi = features.phi.d, features.psi.d_psi
        self.draw = column_sampler(column_weights, m, task.n_states, features.psi.norms_sq)
        first = np.flatnonzero(task.start)
        self._start = first, task.start[first]

    @property
    def start(self) -> Shares:
        """First states and their probabilities."""
        return self._start

    @property
    def end(self) -> NDArray[Any] | None:
        """The state of a terminated episode, if there is one."""
        return None if self.task.end_state is None else np.asarray(self.task.end_state)

    @property
    def n_states(self) -> int:
        """Number of states S."""
        return self.task.n_states

    def phi_at(self, states: NDArray[Any]) -> FloatArray:
        """Return (A, k, d)."""
        return self.features.phi.at(states)

    def psi_at(self, states: NDArray[Any]) -> FloatArray:
        """Return (k, d_psi)."""
        return self.features.psi.rows(states)

    def unit_reward_at(self, states: NDArray[Any]) -> FloatArray:
        """Return (A, k)."""
        unit: FloatArray = (self.task.reward[states].T - self.reward_range[0]) / self.task.unit
        return unit

    def allowed_at(self, states: NDArray[Any]) -> BoolArray | None:
        """Return (A, k)."""
        return None if self.task.allowed is None else np.ascontiguousarray(self.task.allowed[states].T)


class FunctionOracle:
    """The oracle of a `FunctionalTask`, whose own sampler draws the columns."""

    def __init__(self, task: FunctionalTask, m: int) -> None:
        self.task = task
        self.n_actions, self.horizon, self.reward_range = task.n_actions, task.horizon, task.reward_range
        self.stages: Stages | None = None
        self.discount, self.tail = 1.0, 0.0
        self.d, self.d_psi = task.d, task.d_psi
        self.draw: Callable[[np.random.Generator], Columns] = lambda rng: Columns(*task.draw(rng, m))

    @property
    def start(self) -> Shares | None:
        """First state with probability 1, if the task gives one."""
        return None if self.task.start is None else (self.task.start[None], np.ones(1))

    @property
    def end(self) -> NDArray[Any] | None:
        """The state of a terminated episode, if there is one."""
        return self.task.end_state

    @property
    def n_states(self) -> None:
        """States of a `FunctionalTask` are not counted."""
        return None

    def phi_at(self, states: NDArray[Any]) -> FloatArray:
        """Return (A, k, d)."""
        return np.ascontiguousarray(self.task.phi_at(states).transpose(1, 0, 2))

    def psi_at(self, states: NDArray[Any]) -> FloatArray:
        """Return (k, d_psi)."""
        return self.task.psi_at(states)

    def unit_reward_at(self, states: NDArray[Any]) -> FloatArray:
        """Return (A, k)."""
        unit: FloatArray = (self.task.reward_at(states).T - self.reward_range[0]) / self.task.unit
        return unit

    def allowed_at(self, states: NDArray[Any]) -> None:
        """All actions of a `FunctionalTask` are allowed."""
        del states


def make_oracle(problem: Problem, m: int, column_weights: str) -> StateOracle:
    """Return the oracle of a problem whose states are numbers or functions."""
    if isinstance(problem.task, FunctionalTask):
        return FunctionOracle(problem.task, m)
    assert problem.features is not None
    return FiniteOracle(problem.finite_task, problem.features, m, column_weights)
