"""What tells a problem from others: a few numbers for each of its fields, equal up to rounding for the same problem.

A table enters by its shape and a sum with random weights, so a fingerprint is small plain data, and two of them say
which fields differ. Unlike a hash it does not change with the last bit of a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.features import Features, Phi, Psi
from matrixrl.problems.continuous import ContinuousTask, FunctionalTask
from matrixrl.problems.finite import FiniteMDP, Task
from matrixrl.problems.problem import Problem
from matrixrl.random_streams import generator
from matrixrl.records import FloatArray

__all__ = ["Fingerprint", "answers_of", "differing_fields", "fingerprint", "fingerprint_of_features"]

Fingerprint = dict[str, list[float | None]]
"""Numbers by the name of the field that they tell apart; None where the problem has none."""

_PROBES = 16  # states at which functions are compared


def fingerprint(problem: Problem | Task | FunctionalTask | ContinuousTask | FiniteMDP) -> Fingerprint:
    """Return the numbers of a problem by field; those of a `Problem` include known transitions and coordinates.

    >>> fingerprint(Task(n_states=2, n_actions=2, horizon=3))["horizon"]
    [3.0]
    """
    mdp = problem.mdp if isinstance(problem, Problem) else problem if isinstance(problem, FiniteMDP) else None
    task = problem.task if isinstance(problem, (Problem, FiniteMDP)) else problem
    fields: dict[str, Any] = {
        "horizon": task.horizon,
        "number of actions": task.n_actions,
        "range of rewards": task.reward_range,
    }
    if isinstance(task, Task):
        fields |= _of_numbered_states(task)
    else:
        fields |= _of_functions(task) if isinstance(task, FunctionalTask) else _of_vectors(task)
    if mdp is not None:
        fields |= {"transitions": _expected_values(mdp), "noise of rewards": mdp.noisy_rewards}
    if isinstance(problem, Problem) and problem.points is not None:
        fields["coordinates of states"] = problem.points
    return {name: _numbers(value) for name, value in fields.items()}


def fingerprint_of_features(features: Features) -> Fingerprint:
    """Return the numbers of φ and ψ: sums of their answers at a few states."""
    return {"phi": _numbers(answers_of(features.phi)), "psi": _numbers(answers_of(features.psi))}


def answers_of(features: Phi | Psi) -> FloatArray:
    """Return what a feature map answers at a few states from the first to the last."""
    states = np.linspace(0, features.n_states - 1, min(_PROBES, features.n_states)).astype(np.int64)
    return features.at(states) if isinstance(features, Phi) else features.rows(states)


def differing_fields(saved: Fingerprint, found: Fingerprint) -> list[str]:
    """Return the names of the fields that differ; one that only one of both has is not compared.

    Nor are rewards of numbered states that only one of both knows: an agent may be given those of its environment.

    >>> first, second = (Task(n_states=2, n_actions=2, horizon=h) for h in (3, 5))
    >>> differing_fields(fingerprint(first), fingerprint(second))
    ['horizon']
    """
    differing = []
    for name, values in found.items():
        then, now = (np.array(numbers, dtype=np.float64) for numbers in (saved.get(name, values), values))
        if then.shape != now.shape or not np.allclose(then, now, rtol=1e-9, atol=1e-9, equal_nan=True):
            differing.append(name)
    if "number of states" in found and [None] in (saved.get("rewards"), found.get("rewards")):
        return [name for name in differing if name != "rewards"]
    return differing


def _numbers(value: Any) -> list[float | None]:
    """Return a few numbers as they are, and of a table its shape and the sum of its entries with random weights."""
    if value is None:
        return [None]
    table = np.asarray(value, dtype=np.float64)
    if table.ndim < 2 and not isinstance(value, np.ndarray):
        return [float(x) for x in table.reshape(-1)]
    flat = table.ravel()
    return [*map(float, table.shape), float(generator(0, "problem").random(flat.size) @ flat)]


def _of_numbered_states(task: Task) -> dict[str, Any]:
    return {
        "number of states": task.n_states,
        "end state": task.end_state,
        "rewards": task.reward if task.knows_reward else None,
        "start": task.start,
        "allowed actions": np.ones(task.reward.shape) if task.allowed is None else task.allowed,
        "discount": (task.discount, task.is_endless),
        "classes of stages": 1.0 if task.stages.n_classes == 1 else task.stages.classes,
    }


def _expected_values(mdp: FiniteMDP) -> list[float]:
    values = generator(0, "problem").random((3, mdp.n_states))
    weights = generator(1, "problem").random(mdp.n_states * mdp.n_actions)
    if mdp.allowed is not None:
        weights *= mdp.allowed.T.ravel()  # rows of actions that are not allowed do not matter
    expected: FloatArray = mdp.transitions.expect(values).reshape(3, -1) @ weights
    return [float(value) for value in expected]


def _of_functions(task: FunctionalTask) -> dict[str, Any]:
    states, weights = task.draw(np.random.default_rng(0), _PROBES)
    return {
        "phi": task.phi_at(states),
        "psi": task.psi_at(states),
        "weights of the sampler": weights,
        "rewards": task.reward_at(states) if task.knows_reward else None,
        "states of the sampler": states,
        "start": task.start,
        "end state": task.end_state,
    }


def _of_vectors(task: ContinuousTask) -> dict[str, Any]:
    return {
        "range of rewards": task.reward_range if task.is_declared else None,
        "largest return": task.max_return,
        "bounds of observations": np.arcsinh(np.clip(np.concatenate([task.low, task.high]), -1e300, 1e300)),
    }
