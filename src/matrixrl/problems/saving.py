"""A problem as plain arrays, and back. Functions of a user are never saved: their answers at a few states are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from matrixrl.checks import choice, fail, integer, number, shaped
from matrixrl.errors import InvalidInput
from matrixrl.features import Features, OneHotPhi, OneHotPsi, Phi, Psi, SparsePsi, TablePhi, TablePsi
from matrixrl.features.bundle import check_sizes
from matrixrl.measuring import spacing
from matrixrl.problems.continuous import ContinuousTask
from matrixrl.problems.fingerprint import fingerprint, fingerprint_of_points, same_fingerprint
from matrixrl.problems.finite import FiniteMDP, Task
from matrixrl.problems.functional import FunctionalTask
from matrixrl.problems.gym_tables import known_mdp
from matrixrl.problems.problem import REWARD_OUTSIDE, Problem
from matrixrl.problems.reading import read_problem
from matrixrl.records import FloatArray
from matrixrl.settings import flag

__all__ = ["SavedProblem", "save_problem", "unpack_problem"]

M = TypeVar("M", Phi, Psi)
Arrays = dict[str, NDArray[Any]]
_PROBES = 16  # states at which feature maps are compared
_LOWEST = -(2**63)  # of numbers that Gymnasium gives to states and actions
_OWN = "own"  # a feature map of which only answers are saved
_WIDE = 1536  # features ψ of any number of states: K_ψ and what is computed of it fill less than 200 MB
_LONGEST = 10**9  # steps of an episode
_PHI = {"one-hot": (), "table": ("phi",), _OWN: ("phi_probe",)}
_PSI = {
    "one-hot": (),
    "table": ("psi",),
    "sparse": ("psi_data", "psi_indices", "psi_indptr", "psi_shape"),
    _OWN: ("psi_probe",),
}
_ENTRIES = (
    "kind",
    "horizon",
    "reward_range",
    "n_observed",
    "has_table",
    "measures_regret",
    "psi_pinv",
    "first_state",
    "first_action",
    "reward_outside",
)


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
        "measures_regret": bool(problem.regret_every) if problem.regret_every < 2 else problem.regret_every,
        "psi_pinv": problem.pseudo,
        "first_state": problem.first_state,
        "first_action": problem.first_action,
        "reward_outside": problem.reward_outside,
    }
    arrays: Arrays = {"fingerprint": fingerprint(task)}
    if problem.mdp is not None:
        arrays["mdp_fingerprint"] = fingerprint(problem.mdp)
    if problem.points is not None and problem.kind != "finite":
        arrays["points_fingerprint"] = fingerprint_of_points(problem.points)
    if isinstance(task, ContinuousTask):
        return header | {"is_declared": task.is_declared}, arrays
    if isinstance(task, FunctionalTask):
        return header, arrays
    assert problem.features is not None
    header["end_state"] = task.end_state
    arrays |= {"reward": task.reward, "start": task.start}
    if problem.points is not None:
        arrays["points"] = problem.state_points()
    header["phi"] = _save_phi(problem.features.phi, arrays)
    header["psi"] = _save_psi(problem.features.psi, arrays)
    header["left_out"] = [problem.features.phi.left_out, problem.features.psi.left_out]  # of kernels, not saved
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
    if psi.d_psi > _widest(psi.n_states):
        arrays["psi_probe"] = _psi_answers(psi)
        return _OWN
    if type(psi) is SparsePsi:
        csr = psi.matrix
        arrays |= {"psi_data": csr.data, "psi_indices": csr.indices, "psi_indptr": csr.indptr}
        arrays["psi_shape"] = np.array(csr.shape, dtype=np.int64)
        return "sparse"
    if type(psi) is TablePsi:
        arrays["psi"] = psi.table
        return "table"
    arrays["psi_probe"] = _psi_answers(psi)
    return _OWN


def _widest(n_states: int) -> int:
    """Return the largest d_psi of a ψ that a file holds: a small file must not ask for a large K_ψ."""
    return max(n_states, _WIDE)


def unpack_problem(header: dict[str, Any], arrays: Arrays) -> SavedProblem:
    """Return what a file says of a problem, checked as far as the file alone can be."""
    kind = header["kind"]
    if kind not in ("finite", "functional", "continuous"):
        raise InvalidInput(f"it holds a problem of an unknown kind, {str(kind)[:40]!r}")
    _check_entries(kind, header, arrays)
    saved = SavedProblem(
        kind=kind,
        horizon=integer("horizon", header["horizon"], low=1, remedy="It is damaged."),
        reward_range=None if header["reward_range"] is None else _pair(header["reward_range"]),
        is_declared=flag("is_declared", header.get("is_declared", True)),
        has_table=flag("has_table", header["has_table"]),
        regret_every=spacing("measures_regret", header["measures_regret"]),
        pseudo=flag("psi_pinv", header["psi_pinv"]),
        n_observed=integer("n_observed", header["n_observed"], low=0, remedy="It is damaged."),
        first_state=integer("first_state", header["first_state"], low=_LOWEST, remedy="It is damaged."),
        first_action=integer("first_action", header["first_action"], low=_LOWEST, remedy="It is damaged."),
        reward_outside=choice("reward_outside", header["reward_outside"], REWARD_OUTSIDE),
        fingerprint=arrays["fingerprint"],
        mdp_fingerprint=arrays.get("mdp_fingerprint"),
        points_fingerprint=arrays.get("points_fingerprint"),
    )
    if saved.horizon > _LONGEST or saved.has_table != (saved.mdp_fingerprint is not None):
        raise InvalidInput(f"the problem must have a horizon of at most {_LONGEST:,}, and a fingerprint of its table")
    if kind != "finite":
        return saved
    task = _task(header, arrays)
    if not 1 <= saved.n_observed <= task.n_states:
        raise InvalidInput("it observes more states than it has")
    of_phi, of_psi = _left_out(header["left_out"])
    if not same_fingerprint(fingerprint(task), saved.fingerprint):
        raise InvalidInput("the problem is not the one of its fingerprint")
    if "points" in arrays:
        points = shaped("points", arrays["points"], (task.n_states, None), remedy="It is damaged.")
        saved = replace(saved, points=points)
    phi = _unpack_phi(header["phi"], arrays, task, of_phi)
    psi = _unpack_psi(header["psi"], arrays, task, saved.pseudo, of_psi)
    if isinstance(phi, Phi) and isinstance(psi, Psi):
        check_sizes(phi, psi, task.n_states, task.n_actions)
    return replace(saved, task=task, phi=phi, psi=psi)


def _check_entries(kind: str, header: dict[str, Any], arrays: Arrays) -> None:
    """Refuse entries and arrays other than those that `save_problem` writes."""
    wanted, optional = {"fingerprint"}, {"mdp_fingerprint", "points_fingerprint"}
    entries = set(_ENTRIES)
    if kind == "continuous":
        entries.add("is_declared")
    if kind == "finite":
        entries |= {"end_state", "phi", "psi", "left_out"}
        phi, psi = header["phi"], header["psi"]
        if not isinstance(phi, str) or phi not in _PHI or not isinstance(psi, str) or psi not in _PSI:
            raise InvalidInput("it holds feature maps of an unknown kind")
        wanted |= {"reward", "start", *_PHI[phi], *_PSI[psi]}
        optional = {"mdp_fingerprint", "points"}
    if set(header) != entries:
        raise InvalidInput(f"the header of the problem must have the entries {sorted(entries)}")
    if not wanted <= set(arrays) <= wanted | optional:
        raise InvalidInput(f"the arrays of the problem must be {sorted(wanted)}; got {sorted(arrays)}")
    for name, array in arrays.items():
        if array.dtype != np.float64 and name not in ("psi_indices", "psi_indptr", "psi_shape"):
            raise InvalidInput(f"{name} must be float64; got {array.dtype}")


def _left_out(value: Any) -> tuple[str | None, str | None]:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(x, str | None) for x in value):
        raise InvalidInput("left_out must be two texts or nothing")
    return value[0], value[1]


def _pair(value: Any) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidInput("reward_range must be two numbers")
    low, high = (number("reward_range", x, low=-1e12, high=1e12, remedy="It is damaged.") for x in value)
    return low, high


@dataclass(frozen=True)
class SavedProblem:
    """Description of a problem in a file; `attach` makes it a `Problem` again.

    Attributes:
        phi: φ, or its answers at a few states (A, k, d) if it is a user's own map.
        psi: ψ, or its answers at a few states (k, d_psi).
        others: As in `Problem` and its task.
    """

    kind: str
    horizon: int
    reward_range: tuple[float, float] | None
    is_declared: bool
    has_table: bool
    regret_every: int
    pseudo: bool
    n_observed: int
    first_state: int
    first_action: int
    reward_outside: str
    fingerprint: FloatArray
    mdp_fingerprint: FloatArray | None
    points_fingerprint: FloatArray | None = None
    points: FloatArray | None = None
    task: Task | None = None
    phi: Phi | FloatArray | None = None
    psi: Psi | FloatArray | None = None

    def attach(self, given: Any = None, *, phi: Phi | None = None, psi: Psi | None = None) -> Problem:
        """Return the problem, attached to a world.

        Args:
            given: Environment, `FiniteMDP` or `FunctionalTask` to go on in; None for ask and tell on a finite task.
            phi: A user's own feature map, if the environment does not offer it.
            psi: ψ of the user, if the file has only a probe of it.

        Raises:
            InvalidInput: `given` is another problem, or something that no file can hold is missing.
        """
        world = self._world(given)
        if self.task is None:
            for name, own in (("phi", phi), ("psi", psi)):
                if own is not None:
                    _need(
                        name,
                        "left out: this problem has no feature maps of its own",
                        type(own).__name__,
                        "Load without it.",
                    )
            assert world is not None
            return replace(world, reward_outside=self.reward_outside)
        offered = None if world is None else world.features
        features = Features(
            _same_map("phi", self.phi, phi, None if offered is None else offered.phi, _phi_answers),
            _same_map("psi", self.psi, psi, None if offered is None else offered.psi, _psi_answers),
        ).check(self.task.n_states, self.task.n_actions)
        return Problem(
            self.task,
            features,
            env=None if world is None else world.env,
            mdp=None if world is None else world.mdp,
            name="saved problem" if world is None else world.name,
            points=self.points,
            n_observed=self.n_observed,
            pseudo=self.pseudo,
            regret_every=self.regret_every,
            first_state=self.first_state,
            first_action=self.first_action,
            reward_outside=self.reward_outside,
        )

    def _world(self, given: Any) -> Problem | None:
        """Return the problem that is given, if it is the saved one."""
        if self.kind == "functional":
            if not isinstance(given, FunctionalTask):
                what = "the FunctionalTask that it was saved from (functions, which no file holds)"
                _need("env", what, None if given is None else type(given).__name__)
            found = read_problem(given, psi_pinv=self.pseudo, known_reward=False)
        elif self.kind == "continuous":
            if given is None:
                _need("env", "the environment that it was saved from", None)
            own_range = None if self.is_declared else self.reward_range
            found = read_problem(
                given, horizon=self.horizon, reward_range=own_range, measure_regret=self.regret_every or False
            )
        elif given is None:
            return None
        else:
            found = self._finite_world(given)
        is_same = same_fingerprint(fingerprint(found.task), self.fingerprint)
        if self.mdp_fingerprint is not None:
            is_same &= found.mdp is not None and same_fingerprint(fingerprint(found.mdp), self.mdp_fingerprint)
        is_same &= (found.first_state, found.first_action) == (self.first_state, self.first_action)
        is_same &= self._same_points(found.points)
        if not is_same:
            _another(self.kind)
        return found

    def _same_points(self, found: FloatArray | None) -> bool:
        """Say whether a world has the coordinates of states that were saved, where both have some."""
        saved = self.points_fingerprint if self.points is None else fingerprint_of_points(self.points)
        if found is None or saved is None:
            return True
        return same_fingerprint(fingerprint_of_points(found), saved)

    def _finite_world(self, given: Any) -> Problem:
        assert self.task is not None
        if isinstance(given, (FunctionalTask, Task)):
            _need("env", "an environment or a FiniteMDP", type(given).__name__)
        if isinstance(given, FiniteMDP) or (isinstance(given, gym.Env) and known_mdp(given) is not None):
            return read_problem(given)
        reward = None if self.has_table else self.task.reward[: self.n_observed]
        return read_problem(given, reward=reward, horizon=self.horizon, reward_range=self.task.reward_range)


def _another(kind: str) -> NoReturn:
    received = {
        "finite": "other states, actions, horizon, rewards, transitions or coordinates of states",
        "functional": "other functions, horizon, rewards, start or end",
        "continuous": "other observations, actions, horizon or rewards",
    }[kind]
    remedy = "Make the environment with the same settings."
    if kind == "functional":
        remedy = "Build the FunctionalTask with the same functions and settings."
    fail("env", "must be the problem that the checkpoint was saved from", received, remedy)


def _need(name: str, what: str, received: object, remedy: str = "Pass it to load.") -> NoReturn:
    fail(name, f"must be {what}", received, remedy)


def _phi_answers(phi: Phi) -> FloatArray:
    return phi.at(_spread(phi.n_states))


def _psi_answers(psi: Psi) -> FloatArray:
    return psi.rows(_spread(psi.n_states))


def _same_map(name: str, saved: Any, given: M | None, offered: M | None, answers: Callable[[M], FloatArray]) -> M:
    """Return the saved feature map, or the user's own one that answers as the saved one did."""
    if not isinstance(saved, np.ndarray):
        if given is not None:
            _need(name, "left out: the file holds it", type(given).__name__, "Load without it.")
        kept: M = saved
        return kept
    chosen = offered if given is None else given
    found = None if chosen is None else answers(chosen)
    if found is None or found.shape != saved.shape or not np.allclose(found, saved, rtol=1e-9, atol=1e-12):
        what = "the feature map that it was saved with (no file holds functions), here or as the environment's own"
        _need(name, what, None if chosen is None else f"another {type(chosen).__name__}")
    assert chosen is not None
    return chosen


def _unpack_phi(form: str, arrays: Arrays, task: Task, left_out: str | None) -> Phi | FloatArray:
    if form == "one-hot":
        return OneHotPhi(task.n_states, task.n_actions)
    return TablePhi(arrays.pop("phi"), left_out=left_out) if form == "table" else _probe("phi", arrays, task, 3)


def _unpack_psi(form: str, arrays: Arrays, task: Task, pseudo: bool, left_out: str | None) -> Psi | FloatArray:
    if form == "one-hot":
        return OneHotPsi(task.n_states)
    if form == _OWN:
        return _probe("psi", arrays, task, 2)
    table = _csr(arrays) if form == "sparse" else arrays["psi"]
    if table.ndim != 2 or table.shape[0] != task.n_states or table.shape[1] > _widest(task.n_states):
        raise InvalidInput(f"psi must have {task.n_states} rows and at most {_widest(task.n_states)} columns")
    return SparsePsi(table, pseudo=pseudo) if form == "sparse" else TablePsi(table, pseudo=pseudo, left_out=left_out)


def _probe(name: str, arrays: Arrays, task: Task, n_axes: int) -> FloatArray:
    probe: FloatArray = arrays[f"{name}_probe"]
    if probe.ndim != n_axes or not probe.size or not np.isfinite(probe).all():
        raise InvalidInput(f"{name}_probe must be the answers of {name} at a few of {task.n_states} states")
    return probe


def _spread(n_states: int) -> NDArray[Any]:
    """Return a few states from the first to the last."""
    return np.linspace(0, n_states - 1, min(_PROBES, n_states)).astype(np.int64)


def _task(header: dict[str, Any], arrays: Arrays) -> Task:
    return Task(
        reward=arrays["reward"],
        horizon=header["horizon"],
        reward_range=_pair(header["reward_range"]),
        start=arrays["start"],
        end_state=header["end_state"],
    )


def _csr(arrays: Arrays) -> sparse.csr_array:
    shape, parts = arrays["psi_shape"], [arrays[f"psi_{name}"] for name in ("data", "indices", "indptr")]
    if shape.shape != (2,) or any(part.ndim != 1 for part in parts):
        raise InvalidInput("psi must have a shape and three rows of entries")
    if any(part.dtype not in (np.int32, np.int64) for part in (shape, *parts[1:])):
        raise InvalidInput("psi must have whole numbers as indices")
    n_rows, n_columns = (int(n) for n in shape)
    if n_rows + 1 != len(arrays["psi_indptr"]) or not 1 <= n_columns <= len(arrays["psi_data"]):
        raise InvalidInput("psi has a shape that its entries do not fill")
    matrix = sparse.csr_array(
        (arrays["psi_data"], arrays["psi_indices"], arrays["psi_indptr"]), shape=(n_rows, n_columns)
    )
    matrix.check_format(full_check=True)
    return matrix
