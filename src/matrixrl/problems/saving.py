"""A problem as plain arrays, and back. Functions of a user are never saved: their answers at a few states are."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from matrixrl.checks import fail, integer
from matrixrl.errors import InvalidInput
from matrixrl.features import Features, OneHotPhi, OneHotPsi, Phi, Psi, SparsePsi, TablePhi, TablePsi
from matrixrl.problems.continuous import ContinuousTask
from matrixrl.problems.fingerprint import fingerprint, same_fingerprint
from matrixrl.problems.finite import FiniteMDP, Task
from matrixrl.problems.functional import FunctionalTask
from matrixrl.problems.gym_tables import known_mdp
from matrixrl.problems.problem import Problem
from matrixrl.problems.reading import read_problem

__all__ = ["load_problem", "save_problem"]

Arrays = dict[str, NDArray[Any]]
_PROBES = 16  # states at which feature maps are compared
_OWN = "own"  # a feature map of which only answers are saved


def save_problem(problem: Problem) -> tuple[dict[str, Any], Arrays]:
    """Return the header's part and the arrays of a problem.

    Feature maps of the library are saved whole; of a user's own map only its answers at a few states, so that `load`
    can tell whether the same one was given to it.
    """
    task = problem.task
    header: dict[str, Any] = {
        "kind": problem.kind,
        "horizon": task.horizon,
        "reward_range": None if task.reward_range is None else list(task.reward_range),
        "n_observed": problem.n_observed,
        "has_table": problem.mdp is not None,
        "measures_regret": problem.measures_regret,
        "psi_pinv": problem.pseudo,
        "first_state": problem.first_state,
        "first_action": problem.first_action,
    }
    arrays: Arrays = {"fingerprint": fingerprint(task)}
    if problem.mdp is not None:
        arrays["mdp_fingerprint"] = fingerprint(problem.mdp)
    if isinstance(task, ContinuousTask):
        return header | {"is_declared": task.is_declared}, arrays
    if isinstance(task, FunctionalTask):
        return header, arrays
    assert problem.features is not None
    header["end_state"] = task.end_state
    arrays |= {"reward": task.reward, "start": task.start}
    header["phi"] = _save_phi(problem.features.phi, arrays)
    header["psi"] = _save_psi(problem.features.psi, arrays)
    return header, arrays


def _save_phi(phi: Phi, arrays: Arrays) -> str:
    if type(phi) is OneHotPhi:
        return "one-hot"
    if type(phi) is TablePhi:
        arrays["phi"] = np.ascontiguousarray(phi.table)
        return "table"
    arrays["phi_probe"] = phi.at(_spread(phi.n_states))
    return _OWN


def _save_psi(psi: Psi, arrays: Arrays) -> str:
    if type(psi) is OneHotPsi:
        return "one-hot"
    if type(psi) is SparsePsi:
        csr = psi.matrix
        arrays |= {"psi_data": csr.data, "psi_indices": csr.indices, "psi_indptr": csr.indptr}
        arrays["psi_shape"] = np.array(csr.shape, dtype=np.int64)
        return "sparse"
    if type(psi) is TablePsi:
        arrays["psi"] = psi.table
        return "table"
    arrays["psi_probe"] = psi.rows(_spread(psi.n_states))
    return _OWN


def load_problem(
    header: dict[str, Any], arrays: Arrays, given: object = None, *, phi: Phi | None = None, psi: Psi | None = None
) -> Problem:
    """Return the saved problem, attached to the world that is given.

    Args:
        header: As `save_problem` returned it.
        arrays: Likewise.
        given: Environment, `FiniteMDP` or `FunctionalTask` to go on in; None for ask and tell on a finite task.
        phi: The feature map that was saved by its answers, if the environment does not offer it.
        psi: Likewise.

    Raises:
        InvalidInput: `given` is another problem, or something that no file can hold is missing.
    """
    if header["kind"] == "finite":
        return _load_finite(header, arrays, given, phi, psi)
    horizon, declared = header["horizon"], header["reward_range"]
    if header["kind"] == "functional":
        if not isinstance(given, FunctionalTask):
            _need("env", "the FunctionalTask that it was saved from (functions, which no file holds)", repr(given))
        found = read_problem(given, psi_pinv=header["psi_pinv"] is True, known_reward=False)
    else:
        if given is None:
            _need("env", "the environment that it was saved from", None)
        steps = integer("horizon", horizon, low=1, remedy="It is damaged.")
        found = read_problem(
            given,
            horizon=steps,
            reward_range=None if header["is_declared"] is True or declared is None else tuple(declared),
            measure_regret=header["measures_regret"] is True,
        )
    if not same_fingerprint(fingerprint(found.task), arrays["fingerprint"]):
        _another(header["kind"])
    return found


def _load_finite(header: dict[str, Any], arrays: Arrays, given: object, phi: Phi | None, psi: Psi | None) -> Problem:
    if isinstance(given, (FunctionalTask, Task)):
        _need("env", "an environment or a FiniteMDP", type(given).__name__)
    has_table = header["has_table"] is True
    task = _task(header, arrays)
    n_observed = integer("n_observed", header["n_observed"], low=1, remedy="It is damaged.")
    if n_observed > task.n_states:
        raise InvalidInput("it observes more states than it has")
    world: Problem | None = None
    if given is not None:
        world = _world(task, given, has_table, n_observed)
        same = same_fingerprint(fingerprint(world.task), arrays["fingerprint"]) and (
            not has_table or (world.mdp is not None and _same_mdp(world.mdp, arrays))
        )
        if not same:
            _another("finite")
    offered = None if world is None else world.features
    features = Features(
        _load_phi(header, arrays, task, phi, None if offered is None else offered.phi),
        _load_psi(header, arrays, task, psi, None if offered is None else offered.psi),
    ).check(task.n_states, task.n_actions)
    return Problem(
        task,
        features,
        env=None if world is None else world.env,
        mdp=None if world is None else world.mdp,
        name="saved problem" if world is None else world.name,
        points=None if world is None else world.points,
        n_observed=n_observed,
        pseudo=header["psi_pinv"] is True,
        measures_regret=header["measures_regret"] is True,
        first_state=integer("first_state", header["first_state"], low=0, remedy="It is damaged."),
        first_action=integer("first_action", header["first_action"], low=0, remedy="It is damaged."),
    )


def _same_mdp(mdp: FiniteMDP, arrays: Arrays) -> bool:
    return same_fingerprint(fingerprint(mdp), arrays["mdp_fingerprint"])


def _world(task: Task, given: Any, has_table: bool, n_observed: int) -> Problem:
    if isinstance(given, FiniteMDP) or (hasattr(given, "unwrapped") and known_mdp(given) is not None):
        return read_problem(given)
    reward = None if has_table else task.reward[:n_observed]
    return read_problem(given, reward=reward, horizon=task.horizon, reward_range=task.reward_range)


def _another(kind: str) -> NoReturn:
    received = {
        "finite": "other states, actions, horizon, rewards or transitions",
        "functional": "other functions, horizon, rewards, start or end",
        "continuous": "other observations, actions, horizon or rewards",
    }[kind]
    remedy = "Make the environment with the same settings."
    fail("env", "must be the problem that the checkpoint was saved from", received, remedy)


def _need(name: str, what: str, received: object) -> NoReturn:
    fail(name, f"must be {what}", received, "Pass it to load.")


def _load_phi(header: dict[str, Any], arrays: Arrays, task: Task, given: Phi | None, offered: Phi | None) -> Phi:
    form = header["phi"]
    if form != _OWN and given is not None:
        _need("phi", "left out: the file holds φ", type(given).__name__)
    if form == "one-hot":
        return OneHotPhi(task.n_states, task.n_actions)
    if form == "table":
        return TablePhi(arrays["phi"])
    chosen = offered if given is None else given
    _check_own("phi", chosen, None if chosen is None else chosen.at(_spread(task.n_states)), arrays["phi_probe"])
    assert chosen is not None
    return chosen


def _load_psi(header: dict[str, Any], arrays: Arrays, task: Task, given: Psi | None, offered: Psi | None) -> Psi:
    form, pseudo = header["psi"], header["psi_pinv"] is True
    if form != _OWN and given is not None:
        _need("psi", "left out: the file holds ψ", type(given).__name__)
    if form == "one-hot":
        return OneHotPsi(task.n_states)
    if form == "sparse":
        return SparsePsi(_csr(arrays), pseudo=pseudo)
    if form == "table":
        return TablePsi(arrays["psi"], pseudo=pseudo)
    chosen = offered if given is None else given
    _check_own("psi", chosen, None if chosen is None else chosen.rows(_spread(task.n_states)), arrays["psi_probe"])
    assert chosen is not None
    return chosen


def _check_own(name: str, chosen: object, answers: NDArray[Any] | None, saved: NDArray[Any]) -> None:
    """Refuse a feature map that answers otherwise than the saved one did."""
    if answers is None or answers.shape != saved.shape or not np.allclose(answers, saved, rtol=1e-9, atol=1e-12):
        what = "the feature map that it was saved with (no file holds functions), here or as the environment's own"
        _need(name, what, None if chosen is None else f"another {type(chosen).__name__}")


def _spread(n_states: int) -> NDArray[Any]:
    """Return a few states from the first to the last."""
    return np.linspace(0, n_states - 1, min(_PROBES, n_states)).astype(np.int64)


def _task(header: dict[str, Any], arrays: Arrays) -> Task:
    low, high = header["reward_range"]
    return Task(
        reward=arrays["reward"],
        horizon=header["horizon"],
        reward_range=(low, high),
        start=arrays["start"],
        end_state=header["end_state"],
    )


def _csr(arrays: Arrays) -> sparse.csr_array:
    n_rows, n_columns = (int(n) for n in arrays["psi_shape"])
    if n_rows + 1 != len(arrays["psi_indptr"]) or n_columns > len(arrays["psi_data"]):
        raise InvalidInput("psi has a shape that its entries do not fill")
    matrix = sparse.csr_array(
        (arrays["psi_data"], arrays["psi_indices"], arrays["psi_indptr"]), shape=(n_rows, n_columns)
    )
    matrix.check_format(full_check=True)
    return matrix
