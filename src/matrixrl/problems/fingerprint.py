"""The one fingerprint of a problem: a few numbers that are equal, up to rounding, for the same problem only.

It has named parts, so that a message can say how a problem differs from a saved one (`differences`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from matrixrl.checks import show_where
from matrixrl.features import Features
from matrixrl.problems.continuous import ContinuousTask
from matrixrl.problems.finite import FiniteMDP, Task
from matrixrl.problems.functional import FunctionalTask
from matrixrl.records import FloatArray
from matrixrl.seeding import generator

__all__ = [
    "Part",
    "Parts",
    "differences",
    "fingerprint",
    "fingerprint_of_features",
    "fingerprint_of_points",
    "fingerprint_parts",
    "join_parts",
    "parts_of_features",
    "parts_of_points",
    "same_fingerprint",
]

_PROBES = 16  # states at which functions are compared
_NO_STATE = -1  # in place of the number of an end state
_SHOWN = 6  # numbers of a vector in a message


@dataclass(frozen=True)
class Part:
    """One part of a fingerprint.

    Attributes:
        numbers: Numbers that are equal, up to rounding, if the part is the same.
        is_digest: Whether the numbers are sums that say nothing by themselves.
        table: What the sums are of, if it is at hand.
    """

    numbers: FloatArray
    is_digest: bool = False
    table: FloatArray | None = None


Parts = dict[str, Part]
"""Parts of a fingerprint by the name of what they tell apart."""


def fingerprint(problem: Task | FunctionalTask | ContinuousTask | FiniteMDP) -> FloatArray:
    """Return numbers that tell a problem from others.

    Horizon, range of rewards, end state and start count for every kind; rewards and allowed actions of a finite task,
    transitions and noise of rewards of a known MDP, the answers of the functions of a `FunctionalTask`, the bounds of
    vectors.
    """
    return join_parts(fingerprint_parts(problem))


def fingerprint_parts(problem: Task | FunctionalTask | ContinuousTask | FiniteMDP) -> Parts:
    """Return the numbers of `fingerprint` by the name of what they tell apart."""
    if isinstance(problem, FiniteMDP):
        return {**_of_task(problem.task), **_of_transitions(problem)}
    if isinstance(problem, Task):
        return _of_task(problem)
    return _of_functions(problem) if isinstance(problem, FunctionalTask) else _of_vectors(problem)


def fingerprint_of_points(points: FloatArray) -> FloatArray:
    """Return numbers that tell the coordinates of states (S, p) from others."""
    return join_parts(parts_of_points(points))


def parts_of_points(points: FloatArray) -> Parts:
    """Return the numbers of `fingerprint_of_points` by name."""
    weights = generator(2, "problem").random(len(points))
    return {"coordinates of states": _digest([*(float(n) for n in points.shape), *(weights @ points)], points)}


def fingerprint_of_features(features: Features) -> FloatArray:
    """Return numbers that tell φ and ψ from others: weighted sums of their answers at a few states."""
    return join_parts(parts_of_features(features))


def parts_of_features(features: Features) -> Parts:
    """Return the numbers of `fingerprint_of_features` by name."""
    phi, psi = features.phi, features.psi
    states = np.linspace(0, phi.n_states - 1, min(_PROBES, phi.n_states)).astype(np.int64)
    parts = {"number of features phi": _values(phi.d), "number of features psi": _values(psi.d_psi)}
    for name, answer in (("phi", phi.at(states)), ("psi", psi.rows(states))):
        weights = generator(3, "problem").random(answer.size)
        parts[name] = _digest([weights @ answer.ravel(), float(np.vdot(answer, answer))])
    return parts


def same_fingerprint(one: FloatArray, other: FloatArray) -> bool:
    """Say whether two fingerprints are of the same problem."""
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=1e-9, atol=1e-9, equal_nan=True))


def join_parts(parts: Parts) -> FloatArray:
    """Return the numbers of all parts in a row."""
    return np.concatenate([part.numbers for part in parts.values()])


def differences(
    saved: Parts | FloatArray,
    found: Parts,
    spaces: Mapping[str, tuple[str, str]] | None = None,
    *,
    own: str = "saved",
) -> str:
    """Return, in words, in what a problem differs from a saved one, with both values; empty if in nothing.

    Args:
        saved: Fingerprint of the saved problem, or its numbers, which have the parts of `found`. A part that only one
            of the two has, and rewards that only one of them knows, are not compared.
        found: Fingerprint of the problem.
        spaces: Saved and found spaces of observations and actions, by name.
        own: What the saved problem is called.

    >>> first, second = (Task(n_states=2, n_actions=2, horizon=h) for h in (3, 5))
    >>> differences(fingerprint(first), fingerprint_parts(second))
    'horizon 5 (saved: 3)'
    """
    words = [f"{name} {now} ({own}: {then})" for name, (then, now) in (spaces or {}).items() if then != now]
    parts = saved if isinstance(saved, dict) else _cut(saved, found)
    for name, now in found.items():
        then = parts.get(name)
        if then is None or (name == "rewards" and (np.isnan(then.numbers).any() or np.isnan(now.numbers).any())):
            continue
        if not same_fingerprint(then.numbers, now.numbers):
            words.append(_words(name, then, now, own))
    if not isinstance(saved, dict) and len(saved) != len(join_parts(found)):
        words.append(f"another size of {' or '.join(name for name, part in found.items() if part.is_digest)}")
    return ", ".join(words)


def _cut(numbers: FloatArray, parts: Parts) -> Parts:
    """Return numbers by name, with the names and sizes of the parts of another fingerprint.

    If they are not as many, two digests have different sizes. Only the parts before the first digest, which have one
    size for all problems of a kind, are then returned.
    """
    cut, place = {}, 0
    fits = len(numbers) == len(join_parts(parts))
    for name, part in parts.items():
        if part.is_digest and not fits:
            break
        cut[name] = Part(numbers[place : place + len(part.numbers)], part.is_digest)
        place += len(part.numbers)
    return cut


def _words(name: str, saved: Part, found: Part, own: str) -> str:
    """Return the difference of one part in words."""
    if not found.is_digest:
        return f"{name} {_shown(name, found.numbers)} ({own}: {_shown(name, saved.numbers)})"
    if saved.table is None or found.table is None or saved.table.shape != found.table.shape:
        return f"other {name}"
    off = ~np.isclose(saved.table, found.table, rtol=1e-9, atol=1e-9)
    if not off.any():
        return f"other {name}"
    return f"{name} {show_where(found.table, off)} ({own}: {saved.table[tuple(np.argwhere(off)[0])]:.6g})"


def _shown(name: str, numbers: FloatArray) -> str:
    if np.isnan(numbers).all() or (name == "end state" and numbers[0] == _NO_STATE):
        return "none"
    texts = [f"{x:g}" for x in numbers[:_SHOWN]] + ["…"] * (len(numbers) > _SHOWN)
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _values(*numbers: float) -> Part:
    return Part(np.array(numbers, dtype=np.float64))


def _digest(numbers: Any, table: FloatArray | None = None) -> Part:
    return Part(np.asarray(numbers, dtype=np.float64), True, table)


def _common(horizon: int, n_actions: int, reward_range: tuple[float, float] | None) -> Parts:
    pair = reward_range or (np.nan, np.nan)
    return {"horizon": _values(horizon), "actions": _values(n_actions), "range of rewards": _values(*pair)}


def _of_task(task: Task) -> Parts:
    by_state = generator(0, "problem").random(task.n_states)
    by_action = generator(1, "problem").random(task.n_actions)
    rewards = by_state @ task.reward @ by_action if task.knows_reward else np.nan
    allowed = np.ones(task.reward.shape) if task.allowed is None else task.allowed.astype(np.float64)
    return {
        **_common(task.horizon, task.n_actions, task.reward_range),
        "states": _values(task.n_states),
        "end state": _values(_NO_STATE if task.end_state is None else task.end_state),
        "rewards": _digest([rewards], task.reward if task.knows_reward else None),
        "start": _digest([task.start @ by_state], task.start),
        "allowed actions": _digest([float(task.n_pairs), by_state @ allowed @ by_action], allowed),
        "discount": _values(task.discount, float(task.is_endless)),
        "classes of stages": _digest(_of_stages(task)),
    }


def _of_stages(task: Task) -> list[float]:
    """Return numbers that tell classes of stages from others."""
    if task.stages is None:
        return [1.0, 0.0]
    return [float(task.stages.n_classes), float(generator(2, "problem").random(task.horizon) @ task.stages.classes)]


def _of_transitions(mdp: FiniteMDP) -> Parts:
    values = generator(0, "problem").random((3, mdp.n_states))
    weights = generator(1, "problem").random(mdp.n_states * mdp.n_actions)
    if mdp.allowed is not None:
        weights *= mdp.allowed.T.ravel()  # rows of actions that are not allowed do not matter
    expected = mdp.transitions.expect(values).reshape(3, -1) @ weights
    return {"transitions": _digest(expected), "noise of rewards": _values(mdp.noisy_rewards)}


def _of_functions(task: FunctionalTask) -> Parts:
    states, weights = task.draw(np.random.default_rng(0), _PROBES)
    rewards = task.reward_at(states).ravel() if task.knows_reward else np.empty(0)
    start, end = (np.array([np.nan]) if state is None else state.ravel() for state in (task.start, task.end_state))
    return {
        **_common(task.horizon, task.n_actions, task.reward_range),
        "phi": _digest(task.phi_at(states).ravel()),
        "psi": _digest(task.psi_at(states).ravel()),
        "weights of the sampler": _digest(weights),
        "rewards": _digest(rewards),
        "states of the sampler": _digest(states.ravel()),
        "start": _values(*start),
        "end state": _values(*end),
    }


def _of_vectors(task: ContinuousTask) -> Parts:
    declared = task.reward_range if task.is_declared else None
    most = np.nan if task.max_return is None else task.max_return
    bounds = np.nan_to_num(np.concatenate([task.low, task.high]))
    return {
        **_common(task.horizon, task.n_actions, declared),
        "largest return": _values(most),
        "bounds of observations": _digest(bounds),
    }
