"""What tells a problem from others: one number for each of its fields, equal up to rounding for the same problem.

The number of a table is a sum of its entries with random weights. It works as a hash of the field, but it does not
change with the last bit of an entry, nor with the form in which transition probabilities are stored.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from matrixrl.features import Features, Phi, Psi
from matrixrl.problems.continuous import ContinuousTask, FunctionalTask
from matrixrl.problems.finite import FiniteMDP, Task
from matrixrl.problems.problem import Problem
from matrixrl.random_streams import generator
from matrixrl.records import FloatArray

__all__ = ["Fingerprint", "answers_of", "differing_fields", "fingerprint", "fingerprint_of_features"]

Fingerprint = dict[str, float | None]
"""The number of each field by its name; None where the problem does not have the field."""

_PROBES = 16  # states at which functions are compared


def fingerprint(problem: Problem | Task | FunctionalTask | ContinuousTask | FiniteMDP) -> Fingerprint:
    """Return the numbers of a problem by field; those of a `Problem` include known transitions and coordinates.

    >>> differing_fields(*(fingerprint(Task(n_states=2, n_actions=2, horizon=h)) for h in (3, 5)))
    ['horizon']
    """
    mdp = problem.mdp if isinstance(problem, Problem) else problem if isinstance(problem, FiniteMDP) else None
    task = problem.task if isinstance(problem, (Problem, FiniteMDP)) else problem
    fields: dict[str, Any] = {
        "horizon": task.horizon,
        "number of actions": task.n_actions,
        "range of rewards": task.reward_range,
    }
    if isinstance(task, Task):
        fields |= {
            "number of states": task.n_states,
            "end state": task.end_state,
            "rewards": task.reward if task.knows_reward else None,
            "start": task.start,
            "allowed actions": np.ones(task.reward.shape) if task.allowed is None else task.allowed,
            "discount": (task.discount, task.is_endless),
            "classes of stages": task.stages.classes if task.is_staged else 1.0,
        }
        if task.reward_bounds is not None:
            fields["ranges of the rewards of pairs"] = np.stack(task.reward_bounds)
        if task.structure is not None:
            fields["declared structure"] = np.concatenate([*map(np.ravel, task.structure.arrays().values())])
        if task.dynamics is not None:
            fields |= {name.replace("_", " "): table for name, table in task.dynamics.arrays().items()}
    elif isinstance(task, FunctionalTask):
        states, weights = task.draw(np.random.default_rng(0), _PROBES)
        fields |= {
            "phi": task.phi_at(states),
            "psi": task.psi_at(states),
            "weights of the sampler": weights,
            "rewards": task.reward_at(states) if task.knows_reward else None,
            "states of the sampler": states,
            "start": task.start,
            "end state": task.end_state,
        }
    else:
        fields |= {
            "range of rewards": task.reward_range if task.is_declared else None,
            "largest return": task.max_return,
            "bounds of observations": np.arcsinh(np.clip([task.low, task.high], -1e300, 1e300)),
        }
    if mdp is not None:
        expected = mdp.transitions.expect(generator(1, "problem").random((1, mdp.n_states)))[0]
        # rows of actions that are not allowed do not matter
        fields["transitions"] = expected if mdp.allowed is None else expected * mdp.allowed.T
        fields["noise of rewards"] = mdp.noisy_rewards
    if isinstance(problem, Problem) and problem.points is not None:
        fields["coordinates of states"] = problem.points
    return {name: _number(value) for name, value in fields.items()}


def fingerprint_of_features(features: Features) -> Fingerprint:
    """Return the numbers of φ and ψ, from their answers at a few states."""
    return {"phi": _number(answers_of(features.phi)), "psi": _number(answers_of(features.psi))}


def answers_of(features: Phi | Psi) -> FloatArray:
    """Return what a feature map answers at a few states from the first to the last."""
    states = np.linspace(0, features.n_states - 1, min(_PROBES, features.n_states)).astype(np.int64)
    return features.at(states) if isinstance(features, Phi) else features.rows(states)


def differing_fields(saved: Fingerprint, found: Fingerprint) -> list[str]:
    """Return the names of the fields that differ; one that only one of both has is not compared.

    Nor are rewards of numbered states that only one of both knows: an agent may be given those of its environment.
    """
    differing = [name for name, number in found.items() if not _same(saved.get(name, number), number)]
    if "number of states" in found and None in (saved.get("rewards"), found.get("rewards")):
        return [name for name in differing if name != "rewards"]
    return differing


def _same(one: float | None, other: float | None) -> bool:
    return one is other if one is None or other is None else math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def _number(value: Any) -> float | None:
    """Return the sum of the shape and the entries of an array with random weights."""
    if value is None:
        return None
    table = np.asarray(value, dtype=np.float64)
    flat = np.append(table.shape, table)
    return float(generator(0, "problem").random(flat.size) @ flat)
