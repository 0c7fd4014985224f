"""The problem of an agent as plain arrays, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from matrixrl.checks import fail, integer
from matrixrl.errors import InvalidInput
from matrixrl.features import Features, FunctionPhi, OneHotPhi, OneHotPsi, Phi, Psi, SparsePsi, TablePhi, TablePsi
from matrixrl.problems import FiniteMDP, FunctionalTask, Task
from matrixrl.problems.reading import Problem, fingerprint, read_problem, reattach

__all__ = ["attach_world", "pack_problem", "unpack_problem"]

_PROBES = 16  # states at which functions are compared


def pack_problem(problem: Problem) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header's part and the arrays of a problem; functions are left out."""
    task = problem.task
    header: dict[str, Any] = {
        "horizon": task.horizon,
        "reward_range": list(task.reward_range),
        "n_observed": problem.n_observed,
        "has_table": problem.mdp is not None,
        "measures_regret": problem.measures_regret,
        "psi_pinv": problem.pseudo,
    }
    if isinstance(task, FunctionalTask):
        header |= {"task": "functions", "n_actions": task.n_actions}
        header |= {name: _listed(getattr(task, name)) for name in ("start", "end_state")}
        return header, {"fingerprint": _probe(task)}
    assert problem.features is not None
    phi, psi = problem.features.phi, problem.features.psi
    header |= {"task": "finite", "end_state": task.end_state}
    header["phi"] = "function" if isinstance(phi, FunctionPhi) else "table"
    header["psi"] = "sparse" if isinstance(psi, SparsePsi) else "table"
    arrays: dict[str, NDArray[Any]] = {
        "reward": task.reward,
        "start": task.start,
        "fingerprint": fingerprint(problem.mdp),
    }
    if isinstance(phi, OneHotPhi):
        header["phi"] = "one-hot"
    elif isinstance(phi, FunctionPhi):
        arrays["phi_probe"] = phi.at(_spread(phi.n_states))
    else:
        arrays["phi"] = np.ascontiguousarray(phi.table)
    if isinstance(psi, OneHotPsi):
        header["psi"] = "one-hot"
    elif isinstance(psi, SparsePsi):
        csr = psi.matrix
        arrays |= {"psi_data": csr.data, "psi_indices": csr.indices, "psi_indptr": csr.indptr}
        arrays["psi_shape"] = np.array(csr.shape, dtype=np.int64)
    else:
        arrays["psi"] = psi.table
    return header, arrays


def unpack_problem(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Problem | None:
    """Return the saved problem without a world, or None where its states are functions of one."""
    if header["task"] == "functions":
        return None
    pseudo = header["psi_pinv"] is True
    task = _task(header, arrays, pseudo)
    n_observed = integer("n_observed", header["n_observed"], low=1, remedy="It is damaged.")
    if n_observed > task.n_states:
        raise InvalidInput("it observes more states than it has")
    return Problem(task, task.features, None, None, n_observed, pseudo, header["measures_regret"] is True)


def attach_world(
    saved: Problem | None,
    header: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    world: gym.Env[Any, Any] | FiniteMDP | FunctionalTask | None,
    phi: Phi | None,
) -> Problem:
    """Return the problem attached to the world, if there is one; refuse another world, or none where it is needed."""
    if saved is None:
        return _with_functions(header, arrays, world)
    if isinstance(world, (FunctionalTask, Task)):
        _need("env", "an environment or a FiniteMDP", type(world).__name__)
    found = saved if world is None else reattach(saved, header["has_table"] is True, arrays["fingerprint"], world)
    if header["phi"] != "function":
        if phi is not None:
            _need("phi", "left out: the file holds φ", type(phi).__name__)
        return found
    chosen = phi
    if chosen is None and world is not None:
        offered = read_problem(world).features
        chosen = None if offered is None else offered.phi
    assert saved.features is not None
    probe = arrays["phi_probe"]
    if not isinstance(chosen, FunctionPhi) or not np.allclose(_probe_phi(chosen, probe), probe, rtol=1e-9, atol=1e-12):
        what = "the FunctionPhi that it was saved with (no file holds functions), here or as the environment's own"
        _need("phi", what, None if chosen is None else f"another {type(chosen).__name__}")
    return replace(found, features=Features(chosen, saved.features.psi))


def _probe_phi(phi: Phi, like: NDArray[Any]) -> NDArray[Any]:
    found = phi.at(_spread(phi.n_states))
    return found if found.shape == like.shape else np.full(like.shape, np.nan)


def _with_functions(header: dict[str, Any], arrays: dict[str, NDArray[Any]], world: object) -> Problem:
    if not isinstance(world, FunctionalTask):
        _need("env", "the FunctionalTask that it was saved from (functions, which no file holds)", repr(world))
    same = (
        world.horizon == header["horizon"]
        and list(world.reward_range) == header["reward_range"]
        and world.n_actions == header["n_actions"]
        and all(_listed(getattr(world, name)) == header[name] for name in ("start", "end_state"))
    )
    here, there = _probe(world), arrays["fingerprint"]
    if not same or here.shape != there.shape or not np.allclose(here, there, rtol=1e-9, atol=1e-12):
        _need("env", "the FunctionalTask that it was saved from", "other functions, horizon, rewards, start or end")
    return Problem(world, None, world.env, None, 0, header["psi_pinv"] is True)


def _need(name: str, what: str, received: object) -> NoReturn:
    fail(name, f"must be {what}", received, "Pass it to load.")


def _probe(task: FunctionalTask) -> NDArray[Any]:
    """Return what the functions say at a few states: it differs for different functions."""
    states, weights = task.draw(np.random.default_rng(0), _PROBES)
    rewards = task.reward_at(states).ravel() if task.knows_reward else np.empty(0)
    return np.concatenate([task.phi_at(states).ravel(), task.psi_at(states).ravel(), weights, rewards, states.ravel()])


def _listed(state: NDArray[Any] | None) -> Any:
    return None if state is None else state.tolist()


def _spread(n_states: int) -> NDArray[Any]:
    """Return a few states from the first to the last."""
    return np.linspace(0, n_states - 1, min(_PROBES, n_states)).astype(np.int64)


def _task(header: dict[str, Any], arrays: dict[str, NDArray[Any]], pseudo: bool) -> Task:
    n_states, n_actions = arrays["reward"].shape
    phi: Phi = OneHotPhi(n_states, n_actions)
    if header["phi"] == "table":
        phi = TablePhi(arrays["phi"])
    psi: Psi = OneHotPsi(n_states)
    if header["psi"] == "sparse":
        psi = SparsePsi(_csr(arrays), pseudo=pseudo)
    elif header["psi"] == "table":
        psi = TablePsi(arrays["psi"], pseudo=pseudo)
    low, high = header["reward_range"]
    return Task(
        reward=arrays["reward"],
        horizon=header["horizon"],
        reward_range=(low, high),
        start=arrays["start"],
        end_state=header["end_state"],
        features=Features(phi, psi),
    )


def _csr(arrays: dict[str, NDArray[Any]]) -> sparse.csr_array:
    n_rows, n_columns = (int(n) for n in arrays["psi_shape"])
    if n_rows + 1 != len(arrays["psi_indptr"]) or n_columns != arrays["learned_cross_moment"].shape[-1]:
        raise InvalidInput("psi has a shape that its entries do not fill")
    matrix = sparse.csr_array(
        (arrays["psi_data"], arrays["psi_indices"], arrays["psi_indptr"]), shape=(n_rows, n_columns)
    )
    matrix.check_format(full_check=True)
    return matrix
