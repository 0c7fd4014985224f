"""What data can have made: the shapes of a learner's arrays, and bounds that every learned state keeps.

A file can say anything, so `Algorithm.restore` takes only states that some data lead to. The checks are necessary
conditions: whole numbers of visits that add up, moments that the visited features allow, positive definite matrices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from matrixrl.errors import InvalidInput
from matrixrl.features import FunctionPhi, OneHotPhi, Phi, Psi
from matrixrl.records import FloatArray

__all__ = [
    "PROGRESS",
    "Shapes",
    "check_numbers",
    "check_plans",
    "check_progress",
    "check_range",
    "check_regression",
    "check_same_kind",
    "check_stages",
    "check_steps",
    "check_whole",
    "design_shapes",
    "impossible",
    "largest_norm_sq",
    "plan_shapes",
]

Shapes = dict[str, tuple[int | None, ...]]
"""Shapes of arrays by name; None is any length."""

PROGRESS = ("episode", "n_plans", "streams")
"""Names of the arrays that say how far any algorithm has come."""

_CHUNK = 1 << 20  # numbers that are checked together, so that a check takes little memory
_SLACK = 1e-9  # rounding, relative to the largest number that is involved


def impossible(name: str, rule: str) -> NoReturn:
    """Refuse an array that no data can have made."""
    raise InvalidInput(f"{name} {rule}")


def check_progress(state: Mapping[str, NDArray[Any]], n_replicas: int) -> int:
    """Return the number of episodes of a saved state, or refuse numbers of episodes and plans that are no counts."""
    missing = sorted(set(PROGRESS) - set(state))
    if missing:
        raise InvalidInput(f"the arrays {missing} are missing")
    episode, n_plans = state["episode"], state["n_plans"]
    if episode.shape != () or episode.dtype != np.int64 or episode < 0:
        impossible("episode", "must be one count")
    if n_plans.shape != (n_replicas,) or n_plans.dtype != np.int64 or (n_plans < 0).any():
        impossible("n_plans", "must be one count for each replica")
    return int(episode)


def check_plans(n_plans: NDArray[Any], n_played: int) -> None:
    """Refuse numbers of plans (B,) that so many played episodes cannot have had."""
    if n_played > 0 and (n_plans < 1).any():
        impossible("n_plans", "must count the plans of the episodes that were played")


def check_numbers(arrays: Mapping[str, NDArray[Any]], may_be_infinite: Sequence[str]) -> None:
    """Refuse NaN, and infinity in all arrays but those in which it has a meaning."""
    for name, array in arrays.items():
        bad = np.isnan(array) if name in may_be_infinite else ~np.isfinite(array)
        if bad.any():
            impossible(name, "holds NaN or infinity")


def check_same_kind(
    arrays: Mapping[str, NDArray[Any]], own: Mapping[str, NDArray[Any]], lists: Sequence[str] = ()
) -> None:
    """Refuse arrays other than those of an algorithm, by their names, shapes and types; lists may have any length."""
    if set(arrays) != set(own):
        raise InvalidInput(f"the arrays must be {sorted(own)}; got {sorted(arrays)}")
    for name, mine in own.items():
        first = int(name in lists)
        same = arrays[name].ndim == mine.ndim and arrays[name].shape[first:] == mine.shape[first:]
        if not same or arrays[name].dtype != mine.dtype:
            impossible(name, f"must have {'rows of ' * first}shape {mine.shape[first:]} and type {mine.dtype}")


def design_shapes(phi: Phi, rows: int) -> Shapes:
    """Return the shapes of the arrays of ``phi.design(rows)``."""
    n_pairs = phi.n_states * phi.n_actions
    if isinstance(phi, OneHotPhi):
        return {"counts": (rows, n_pairs)}
    square = (rows, phi.d, phi.d)
    return {
        "design": square,
        "design_visits": (rows, n_pairs),
        "design_inverse": square,
        "logdet": (rows,),
        "width_sq": (rows, n_pairs),
        "refresh": (2,),
    }


def plan_shapes(rows: int, horizon: int, n_states: int) -> Shapes:
    """Return the shapes of the tables of a plan that is kept."""
    return {"kept_policy": (rows, horizon, n_states), "kept_values": (rows, horizon + 1, n_states)}


def check_whole(name: str, array: NDArray[Any]) -> None:
    """Refuse visits that are not whole numbers of at least 0."""
    flat = array.reshape(-1)
    for first in range(0, flat.size, _CHUNK):
        part = flat[first : first + _CHUNK]
        if (part < 0).any() or (part != np.floor(part)).any():
            impossible(name, "must be whole numbers of at least 0")


def check_range(name: str, array: NDArray[Any], low: float, high: float | NDArray[Any]) -> None:
    """Refuse entries below `low` or above `high`."""
    slack = _SLACK * (1.0 + np.abs(high) + abs(low))
    if (array < low - slack).any() or (array > high + slack).any():
        impossible(
            name, f"must be between {low:g} and {high:g}" if np.ndim(high) == 0 else "do not belong to the visits"
        )


def check_steps(name: str, totals: NDArray[Any], episode: int, horizon: int) -> None:
    """Refuse numbers of steps that so many episodes cannot have: each has at least one and at most H."""
    if (totals < episode).any() or (totals > episode * horizon).any():
        impossible(name, f"must count {episode} to {episode * horizon} steps in {episode} episodes")


def check_stages(name: str, visits: NDArray[Any], episode: int, logged: int) -> None:
    """Refuse visits of stages that so many episodes cannot have: each begins at the first one, unless it was logged.

    Args:
        name: Name of the array.
        visits: (B, H) Number of visits of each stage.
        episode: Number of episodes.
        logged: How many of them were logged, and may begin at any stage.
    """
    if (visits[:, 0] < episode - logged).any() or (visits > episode).any():
        impossible(name, "must be one at the first stage of each episode, and at most one at every stage")
    if (np.diff(visits, axis=1) > logged).any():
        impossible(name, "must not grow with the stage")


def largest_norm_sq(psi: Psi) -> float:
    """Return the largest ‖ψ(s)‖²."""
    return float(psi.norms_sq().max())


def check_regression(
    phi: Phi | None,
    ridge: FloatArray | float,
    arrays: Mapping[str, NDArray[Any]],
    targets: Mapping[str, float],
    most: float,
) -> None:
    r"""Refuse moments Σ φyᵀ that do not belong to the design λI + Σ φφᵀ, for rows of any number.

    For every unit vector u, \(\|\sum_t (u^\top\phi_t) y_t\|^2 \le u^\top(A - \lambda I)u \cdot \sum_t \|y_t\|^2\)
    (Cauchy-Schwarz); the eigenvectors of A are tried. For one-hot φ the rows are sums of as many y as there are visits.

    Args:
        phi: Features φ; None if they are functions.
        ridge: λ, one number or one for each row.
        arrays: "counts" or "design", and the moments.
        targets: For each moment the largest ‖y‖² of a step; infinite if it is not known.
        most: Largest number of steps of a row.
    """
    if isinstance(phi, OneHotPhi):
        counts = arrays["counts"]
        check_whole("counts", counts)
        if (counts.sum(axis=1) > most).any():
            impossible("counts", f"must have at most {most:g} steps")
        for name, largest in targets.items():
            reached = _row_norms(arrays[name].reshape(*counts.shape, -1))
            if (reached > counts * np.sqrt(largest) * (1.0 + 1e-6)).any():
                impossible(name, "is larger than the visits can make it")
        return
    matrices = arrays["design"]
    if np.abs(matrices).max() > 1e100 or not np.allclose(matrices, matrices.transpose(0, 2, 1), rtol=1e-9):
        impossible("design", "must be symmetric")
    values, vectors = np.linalg.eigh(matrices)
    lambdas = np.broadcast_to(ridge, len(matrices))[:, None]
    excess, slack = values - lambdas, _SLACK * np.maximum(values[:, -1:], lambdas)
    if (excess < -1e3 * slack).any():
        impossible("design", "must be positive definite, with no eigenvalue below the ridge")
    excess = np.maximum(excess, 0.0)
    if phi is not None and not isinstance(phi, FunctionPhi):
        reach = most * phi.max_norm_sq
        if (excess.sum(axis=1) > reach * (1.0 + 1e-6) + 1e3 * slack[:, 0] * excess.shape[1]).any():
            impossible("design", f"is larger than {most:g} steps can make it")
    for name, largest in targets.items():
        moment = arrays[name].reshape(*excess.shape, -1)
        along = _row_norms(np.swapaxes(vectors, 1, 2) @ moment) ** 2
        bound = (excess + 1e3 * slack) * (most * largest if np.isfinite(largest) else np.inf)
        if not np.isfinite(largest):
            bound = np.where(excess > 1e3 * slack, np.inf, slack)
        if (along > bound * (1.0 + 1e-6)).any():
            impossible(name, "is larger than the design allows")


def _row_norms(rows: FloatArray) -> FloatArray:
    norms: FloatArray = np.sqrt(np.vecdot(rows, rows))
    return norms
