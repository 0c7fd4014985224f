"""Plans and what they leave as named arrays; what comes from a file is compared with the problem."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.control.arrivals import END_GRID, Arrivals
from matrixrl.algorithms.control.dynamics import Dynamics
from matrixrl.algorithms.control.plan import PATIENCE, ControlPlan, World
from matrixrl.algorithms.control.planner import Memory
from matrixrl.algorithms.control.values import ValueFunction
from matrixrl.errors import InvalidInput

if TYPE_CHECKING:
    from matrixrl.algorithms.control.algorithm import ContinuousControl

__all__ = ["memory_arrays", "memory_from", "plan_from"]

_MEMORY = ("kernel", "fitted", "search")
Given = Mapping[str, NDArray[Any]]
_Shape = tuple[int | None, ...]


def memory_arrays(memory: Memory) -> dict[str, NDArray[Any]]:
    """Return what a plan left as named arrays; those of the value function are empty if there is none."""
    value = memory.value
    if value is None:
        value = ValueFunction(np.empty((0, 0)), np.empty((0, 0)), np.empty(0), np.empty(0), np.empty(0))
    found: dict[str, NDArray[Any]] = {name: getattr(memory, name) for name in _MEMORY}
    return found | {f"value_{one.name}": getattr(value, one.name) for one in fields(value)}


def memory_from(arrays: Given, algorithm: ContinuousControl) -> Memory:
    """Return the memory that `memory_arrays` wrote."""
    p, q = algorithm.task.n_coordinates, int(algorithm.grid.groups.max()) + 1
    kernel, fitted, search = (arrays[name] for name in _MEMORY)
    started = kernel.size > 0
    _check("kernel", kernel, (p + q + 1,) if started else (0,))
    _check("fitted", fitted, (1 + p,) if started else (0,))
    _check("search", search, (3,))
    if started and (np.abs(kernel).max() > 50.0 or fitted[0] < 1.0 or (fitted[1:] <= 0.0).any()):
        raise InvalidInput("kernel and fitted must be those of a fit")
    if not arrays["value_centre"].size:
        return Memory(kernel.copy(), fitted.copy(), None, search.copy())
    return Memory(kernel.copy(), fitted.copy(), _value(arrays, "value_", algorithm), search.copy())


def plan_from(arrays: Given, algorithm: ContinuousControl) -> ControlPlan:
    """Return the plan that `ControlPlan.arrays` wrote."""
    scale = copy(algorithm.scales[0])
    if not {"seen", "patience"} <= set(arrays):
        raise InvalidInput("a plan must have seen and patience")
    _check("seen", arrays["seen"], (scale.size,))
    if (arrays["seen"] < 0.0).any():
        raise InvalidInput("seen must be sizes of observations")
    scale.restore(arrays["seen"].copy())
    _check("patience", arrays["patience"], (2,))
    surprises, patience = (int(number) for number in arrays["patience"])
    if not 0 <= surprises <= algorithm.task.horizon or patience < PATIENCE:
        raise InvalidInput("patience must be a number of surprising steps and a limit")
    if set(arrays) == {"seen", "patience"}:
        return ControlPlan(None, None, scale, algorithm.grid, surprises, patience)
    parts: dict[str, type[Dynamics | Arrivals | ValueFunction]] = {
        "dynamics": Dynamics,
        "arrivals": Arrivals,
        "valuefunction": ValueFunction,
    }
    names = {
        "seen",
        "patience",
        "bonus",
        *(f"{prefix}_{one.name}" for prefix, part in parts.items() for one in fields(part)),
    }
    if set(arrays) != names:
        raise InvalidInput(f"the arrays of a plan must be {sorted(names)}; got {sorted(arrays)}")
    p = scale.size
    d = p + algorithm.grid.planned.shape[1]
    m, k = len(arrays["dynamics_points"]), len(arrays["arrivals_points"])
    e = len(arrays["arrivals_end_points"])
    shapes: dict[str, _Shape] = {
        "bonus": (1,),
        "dynamics_length_scales": (d,),
        "dynamics_points": (m, d),
        "dynamics_trend": (1 + d, p + 1),
        "dynamics_weights": (m, p + 1),
        "dynamics_limits": (2, p + 1),
        "dynamics_errors": (p + 1,),
        "arrivals_points": (k, p),
        "arrivals_known": (k, k),
        "arrivals_end_points": (e, p),
        "arrivals_end_weights": (e, 2),
        "arrivals_end_range": (2, p),
        "arrivals_end_parts": (p, END_GRID, 2),
        "arrivals_end_pay": (1,),
    }
    for name, shape in shapes.items():
        _check(name, arrays[name], shape)
    if (arrays["dynamics_length_scales"] <= 0.0).any() or arrays["bonus"][0] < 0.0:
        raise InvalidInput("length scales must be positive, and the bonus must not be negative")
    dynamics = Dynamics(*(arrays[f"dynamics_{one.name}"] for one in fields(Dynamics)))
    arrivals = Arrivals(*(arrays[f"arrivals_{one.name}"] for one in fields(Arrivals)))
    world = World(dynamics, arrivals, float(arrays["bonus"][0]))
    value = _value(arrays, "valuefunction_", algorithm)
    return ControlPlan(world, value, scale, algorithm.grid, surprises, patience)


def _value(arrays: Given, prefix: str, algorithm: ContinuousControl) -> ValueFunction:
    """Return a value function, or refuse it."""
    m, horizon, p = len(arrays[f"{prefix}points"]), algorithm.task.horizon, algorithm.task.n_coordinates
    _check(f"{prefix}points", arrays[f"{prefix}points"], (m, p))
    _check(f"{prefix}theta", arrays[f"{prefix}theta"], (horizon, m))
    for name in ("centre", "low", "high"):
        _check(prefix + name, arrays[prefix + name], (horizon,))
    if m > algorithm.settings.value_points or (arrays[f"{prefix}low"] > arrays[f"{prefix}high"]).any():
        raise InvalidInput("the value function has too many points, or an empty range")
    return ValueFunction(*(arrays[prefix + one.name].copy() for one in fields(ValueFunction)))


def _check(name: str, array: NDArray[Any], shape: _Shape) -> None:
    if array.dtype != np.float64 or array.shape != shape or not np.isfinite(array).all():
        raise InvalidInput(f"{name} must be finite numbers of shape {shape}; got {array.dtype} of shape {array.shape}")
