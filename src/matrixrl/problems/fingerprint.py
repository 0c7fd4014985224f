"""The one fingerprint of a problem: a few numbers that are equal, up to rounding, for the same problem only."""

from __future__ import annotations

import numpy as np

from matrixrl.features import Features
from matrixrl.problems.continuous import ContinuousTask
from matrixrl.problems.finite import FiniteMDP, Task
from matrixrl.problems.functional import FunctionalTask
from matrixrl.records import FloatArray
from matrixrl.seeding import generator

__all__ = ["fingerprint", "fingerprint_of_features", "fingerprint_of_points", "same_fingerprint"]

_PROBES = 16  # states at which functions are compared


def fingerprint(problem: Task | FunctionalTask | ContinuousTask | FiniteMDP) -> FloatArray:
    """Return numbers that tell a problem from others.

    Horizon, range of rewards, end state and start count for every kind; rewards and allowed actions of a finite task,
    transitions and noise of rewards of a known MDP, the answers of the functions of a `FunctionalTask`, the bounds of
    vectors.
    """
    if isinstance(problem, FiniteMDP):
        return np.concatenate([_of_task(problem.task), _of_transitions(problem)])
    if isinstance(problem, Task):
        return _of_task(problem)
    return _of_functions(problem) if isinstance(problem, FunctionalTask) else _of_vectors(problem)


def fingerprint_of_points(points: FloatArray) -> FloatArray:
    """Return numbers that tell the coordinates of states (S, p) from others."""
    weights = generator(2, "problem").random(len(points))
    return np.array([*(float(n) for n in points.shape), *(weights @ points)])


def fingerprint_of_features(features: Features) -> FloatArray:
    """Return numbers that tell φ and ψ from others: weighted sums of their answers at a few states."""
    phi, psi = features.phi, features.psi
    states = np.linspace(0, phi.n_states - 1, min(_PROBES, phi.n_states)).astype(np.int64)
    answers = phi.at(states), psi.rows(states)
    sums = [generator(3, "problem").random(answer.size) @ answer.ravel() for answer in answers]
    squares = [float(np.vdot(answer, answer)) for answer in answers]
    return np.array([float(phi.d), float(psi.d_psi), *sums, *squares])


def same_fingerprint(one: FloatArray, other: FloatArray) -> bool:
    """Say whether two fingerprints are of the same problem."""
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=1e-9, atol=1e-9, equal_nan=True))


def _common(horizon: int, n_actions: int, reward_range: tuple[float, float] | None) -> list[float]:
    return [float(horizon), float(n_actions), *(reward_range or (np.nan, np.nan))]


def _of_task(task: Task) -> FloatArray:
    by_state = generator(0, "problem").random(task.n_states)
    by_action = generator(1, "problem").random(task.n_actions)
    end = -1.0 if task.end_state is None else float(task.end_state)
    shared = _common(task.horizon, task.n_actions, task.reward_range)
    numbers = [float(task.n_states), end, by_state @ task.reward @ by_action, task.start @ by_state]
    if task.allowed is not None:
        numbers += [float(task.n_pairs), by_state @ task.allowed @ by_action]
    return np.array([*shared, *numbers])


def _of_transitions(mdp: FiniteMDP) -> FloatArray:
    values = generator(0, "problem").random((3, mdp.n_states))
    weights = generator(1, "problem").random(mdp.n_states * mdp.n_actions)
    if mdp.allowed is not None:
        weights *= mdp.allowed.T.ravel()  # rows of actions that are not allowed do not matter
    expected = mdp.transitions.expect(values).reshape(3, -1) @ weights
    return np.append(expected, float(mdp.noisy_rewards))


def _of_functions(task: FunctionalTask) -> FloatArray:
    states, weights = task.draw(np.random.default_rng(0), _PROBES)
    rewards = task.reward_at(states).ravel() if task.knows_reward else np.empty(0)
    marks = [np.array([np.nan]) if state is None else state.ravel() for state in (task.start, task.end_state)]
    answers = (task.phi_at(states).ravel(), task.psi_at(states).ravel(), weights, rewards, states.ravel(), *marks)
    return np.concatenate([_common(task.horizon, task.n_actions, task.reward_range), *answers])


def _of_vectors(task: ContinuousTask) -> FloatArray:
    declared = task.reward_range if task.is_declared else None
    most = np.nan if task.max_return is None else task.max_return
    bounds = np.nan_to_num(np.concatenate([task.low, task.high]))
    return np.concatenate([_common(task.horizon, task.n_actions, declared), [most], bounds])
