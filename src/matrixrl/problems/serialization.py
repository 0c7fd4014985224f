"""A problem as plain data and arrays, and back.

Feature maps of the library are saved whole. A user's own functions never are: of a feature map the answers at a few
states are saved, so that `load` can tell whether the same one was given to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from matrixrl.archive import check_arrays, check_entries
from matrixrl.checks import fail
from matrixrl.errors import InvalidInput
from matrixrl.features import Features, OneHotPhi, OneHotPsi, Phi, Psi, SparsePsi, TablePhi, TablePsi
from matrixrl.features.bundle import phi_with_end, psi_with_end
from matrixrl.measurement import spacing
from matrixrl.problems.continuous import ContinuousTask, FunctionalTask
from matrixrl.problems.dynamics import KnownDynamics, OutcomeTables
from matrixrl.problems.fingerprint import Fingerprint, answers_of, differing_fields, fingerprint
from matrixrl.problems.finite import FiniteMDP, Task
from matrixrl.problems.gym_tables import known_mdp
from matrixrl.problems.problem import REWARD_OUTSIDE, Problem, checked_points
from matrixrl.problems.reader import options_like, read_problem
from matrixrl.problems.reward_bounds import RewardBounds
from matrixrl.problems.stages import Stages, read_stages
from matrixrl.problems.structure import Structure
from matrixrl.problems.task import unless_numbers
from matrixrl.records import FloatArray
from matrixrl.spaces import Codec, DiscreteCodec, codec_from, codec_of

__all__ = ["SavedProblem", "save_problem", "unpack_problem"]

M = TypeVar("M", Phi, Psi)
Arrays = dict[str, NDArray[Any]]
_NONE = type(None)
_ENTRIES: dict[str, Any] = {
    **{"kind": str, "horizon": int, "reward_range": (list, _NONE), "fingerprint": dict, "psi_pinv": bool},
    **{"measures_regret": (bool, int), "states": (dict, _NONE), "actions": dict, "reward_outside": str},
    "ignores_masks": bool,
}
_FLAGS = ("end_is_added", "knows_reward", "is_endless", "start_is_declared")
_OF_KIND: dict[str, dict[str, Any]] = {
    "functional": {},
    "continuous": {"is_declared": bool},
    "finite": {
        **dict.fromkeys(_FLAGS, bool),
        **{"end_state": (int, _NONE), "discount": float, "stages": (list, _NONE)},
        **{"phi": str, "psi": str, "left_out": list},
    },
}
_OWN = "own"  # a feature map of which only answers are saved
_WIDE = 1536  # features ψ of any number of states: K_ψ and what is computed of it fill less than 200 MB
_ROW, _TABLE, _STACK, _WHOLE = np.empty(0), np.empty((0, 0)), np.empty((0, 0, 0)), np.empty(0, dtype=np.int64)
_MAPS: dict[tuple[str, str], Arrays] = {
    ("phi", "one-hot"): {},
    ("phi", "table"): {"phi": _STACK},
    ("phi", _OWN): {"phi_probe": _STACK},
    ("psi", "one-hot"): {},
    ("psi", "table"): {"psi": _TABLE},
    ("psi", "sparse"): {
        **{"psi_data": _ROW, "psi_indices": _WHOLE, "psi_indptr": _WHOLE},
        "psi_shape": np.empty(2, dtype=np.int64),
    },
    ("psi", _OWN): {"psi_probe": _TABLE},
}


def save_problem(problem: Problem) -> tuple[dict[str, Any], Arrays]:
    """Return the header's part and the arrays of a problem."""
    task = problem.task
    header: dict[str, Any] = {
        "kind": problem.kind,
        "horizon": task.horizon,
        "reward_range": None if task.reward_range is None else list(task.reward_range),
        "fingerprint": fingerprint(problem),
        "measures_regret": bool(problem.regret_every) if problem.regret_every < 2 else problem.regret_every,
        "psi_pinv": problem.pseudo,
        "states": None if problem.states is None else problem.states.description(),
        "actions": problem.actions.description(),
        "reward_outside": problem.reward_outside,
        "ignores_masks": problem.ignores_masks,
    }
    if isinstance(task, ContinuousTask):
        return header | {"is_declared": task.is_declared}, {}
    if isinstance(task, FunctionalTask):
        return header, {}
    assert problem.features is not None
    phi, psi = problem.features.phi, problem.features.psi
    header |= {name: getattr(task, name) for name in (*_FLAGS, "end_state")} | {"discount": float(task.discount)}
    header["stages"] = None if task.stages.n_classes == 1 else task.stages.classes.tolist()
    arrays: Arrays = {"reward": task.reward, "start": task.start}
    if task.allowed is not None:
        arrays["allowed"] = task.allowed
    if task.dynamics is not None:
        arrays |= task.dynamics.arrays()
    if task.reward_bounds is not None:
        arrays |= {f"reward_{side}": table for side, table in task.reward_bounds._asdict().items()}
    if task.structure is not None:
        arrays |= task.structure.arrays()
    if problem.points is not None:
        arrays["points"] = problem.state_points()
    header["phi"], of_phi = _save_map("phi", phi)
    header["psi"], of_psi = _save_map("psi", psi)
    header["left_out"] = [phi.left_out, psi.left_out]  # of kernels, which are not saved
    return header, arrays | of_phi | of_psi


def _save_map(name: str, features: Phi | Psi) -> tuple[str, Arrays]:
    """Return the form in which a feature map is saved, and its arrays."""
    if type(features) in (OneHotPhi, OneHotPsi):
        return "one-hot", {}
    is_narrow = isinstance(features, Phi) or features.d_psi <= _widest(features.n_states)
    if type(features) in (TablePhi, TablePsi) and is_narrow:
        return "table", {name: features.table}
    if type(features) is SparsePsi and is_narrow:
        csr, whole = features.matrix, np.int64
        places = {"psi_indices": csr.indices.astype(whole), "psi_indptr": csr.indptr.astype(whole)}
        return "sparse", {"psi_data": csr.data, "psi_shape": np.array(csr.shape, dtype=whole), **places}
    return _OWN, {f"{name}_probe": answers_of(features)}


def _widest(n_states: int) -> int:
    """Return the largest d_psi of a ψ that a file holds: a small file must not ask for a large K_ψ."""
    return max(n_states, _WIDE)


@dataclass(frozen=True)
class SavedProblem:
    """What a file says of a problem; `attach` makes it a `Problem` again.

    Attributes:
        header: Its entries, of the right types.
        fingerprint: Numbers that tell it from others.
        states: Numbers of the observations; None of vectors.
        actions: Numbers of the actions.
        task: Task of a finite problem.
        maps: φ and ψ of a finite problem, or the answers of a user's own map at a few states.
        points: Coordinates of the states of a finite problem.
    """

    header: dict[str, Any]
    fingerprint: Fingerprint
    states: Codec | None
    actions: Codec
    task: Task | None = None
    maps: tuple[Phi | FloatArray, Psi | FloatArray] | None = None
    points: FloatArray | None = None

    @property
    def kind(self) -> str:
        """Kind of the problem, as in `Problem`."""
        return str(self.header["kind"])

    def attach(self, given: Any = None, *, phi: Phi | None = None, psi: Psi | None = None) -> Problem:
        """Return the problem in the world that is given, or for ask and tell on a finite task without one.

        A user's own φ and ψ, of which the file has only probes, are given or offered by the environment.
        """
        entries, task = self.header, self.task
        world = Problem(task, name="saved problem") if task is not None and given is None else self._read(given)
        if given is not None:
            self.compare(world)
        own: dict[str, Any] = {name: entries[name] for name in ("reward_outside", "ignores_masks")}
        if task is None or self.maps is None:
            for name, value in (("phi", phi), ("psi", psi)):
                if value is not None:
                    fail(name, "must be left out for states without numbers", type(value).__name__, "Load without it.")
            return replace(world, **own)
        if task.end_words is not None:  # a user's map may leave out the end state
            phi = phi_with_end(phi) if phi is not None and phi.n_states == task.end_state else phi
            psi = psi_with_end(psi) if psi is not None and psi.n_states == task.end_state else psi
        offered = (None, None) if world.features is None else (world.features.phi, world.features.psi)
        features = Features(
            _same_map("phi", self.maps[0], phi, offered[0]), _same_map("psi", self.maps[1], psi, offered[1])
        )
        return replace(
            world,
            task=task,
            features=features.cover(task.n_states, task.n_actions),
            points=self.points,
            pseudo=entries["psi_pinv"],
            regret_every=spacing("measures_regret", entries["measures_regret"]),
            states=self.states,
            actions=self.actions,
            **own,
        )

    def compare(self, found: Problem) -> None:
        """Refuse a problem other than the saved one; the message names what differs."""
        differing = self._differing_spaces(found.states, found.actions)
        differing += differing_fields(self.fingerprint, fingerprint(found))
        if "transitions" in self.fingerprint and found.mdp is None:
            differing.append("no known transitions")
        if differing:
            _refuse(f"one that differs in {', '.join(differing)}")

    def _differing_spaces(self, states: Codec | None, actions: Codec) -> list[str]:
        pairs = (("observation space", self.states, states), ("action space", self.actions, actions))
        return [
            f"{name} {now or 'of vectors'} (saved: {then or 'of vectors'})"
            + ", in later names" * (str(then) == str(now))
            for name, then, now in pairs
            if then != now
        ]

    def _read(self, given: Any) -> Problem:
        """Return the problem that is given, read with everything of the file that it does not say itself."""
        entries, task = self.header, self.task
        if self.kind == "functional":
            if not isinstance(given, FunctionalTask):
                _refuse(given, "Pass the FunctionalTask to load (no file holds functions).")
            return read_problem(given, psi_pinv=entries["psi_pinv"], known_reward=False)
        if task is None:
            if not isinstance(given, gym.Env) or not isinstance(given.observation_space, gym.spaces.Box):
                _refuse(given, "Pass an environment whose observations are vectors to load.")
            own_range, regret = None if entries["is_declared"] else entries["reward_range"], entries["measures_regret"]
            return read_problem(given, horizon=entries["horizon"], reward_range=own_range, measure_regret=regret)
        if isinstance(given, KnownDynamics):
            return read_problem(given, allowed="all" if entries["ignores_masks"] else None)
        if isinstance(given, FiniteMDP):
            codecs: tuple[Codec, Codec] = DiscreteCodec(given.n_states), DiscreteCodec(given.task.n_own_actions)
        elif isinstance(given, gym.Env):
            codecs = codec_of("observation", given.observation_space), codec_of("action", given.action_space)
        else:
            _refuse(given, "Pass an environment, a FiniteMDP or a KnownDynamics to load.")
        mdp = given if isinstance(given, FiniteMDP) else known_mdp(given)
        named = codecs if mdp is None else (mdp.task.states or codecs[0], mdp.task.actions or codecs[1])
        if differing := self._differing_spaces(*named):  # tables of the file do not fit other sizes
            _refuse(f"one that differs in {', '.join(differing)}")
        masks = entries["ignores_masks"]
        return read_problem(given, **options_like(task, given, ignores_masks=masks, n_observed=codecs[0].size))


def _refuse(received: Any, remedy: str = "Make it with the same settings.") -> NoReturn:
    words = received if isinstance(received, str) or received is None else type(received).__name__
    fail("env", "must be the problem that the checkpoint was saved from", words, remedy)


def _same_map(name: str, saved: Any, given: M | None, offered: M | None) -> M:
    """Return the saved feature map, or the user's own one that answers as the saved one did."""
    if not isinstance(saved, np.ndarray):
        if given is not None:
            fail(name, "must be left out: the file holds it", type(given).__name__, "Load without it.")
        kept: M = saved
        return kept
    chosen = offered if given is None else given
    found = None if chosen is None else answers_of(chosen)
    if chosen is None or found is None or found.shape != saved.shape or not np.allclose(found, saved, 1e-9, 1e-12):
        rule = "must be the feature map that it was saved with (no file holds functions)"
        received = None if chosen is None else f"a {type(chosen).__name__} with other values or another number of them"
        fail(name, rule, received, "Pass it to load, or an environment that has it.")
    return chosen


def unpack_problem(header: dict[str, Any], arrays: Arrays) -> SavedProblem:
    """Return what a file says of a problem, checked as far as the file alone can be."""
    kind = header["kind"]
    check_entries("the problem", header, _ENTRIES | _OF_KIND[kind])
    if header["reward_outside"] not in REWARD_OUTSIDE:
        raise InvalidInput(f"reward_outside must be one of {REWARD_OUTSIDE}")
    numbers = {name: None if x is None else float(x) for name, x in header["fingerprint"].items()}
    states = None if header["states"] is None else codec_from(header["states"])
    saved = SavedProblem(header, numbers, states, codec_from(header["actions"]))
    if kind != "finite":
        check_arrays(arrays, {})
        return saved
    optional = {"points": _TABLE, "allowed": np.empty((0, 0), dtype=np.bool_)}
    optional |= {f"reward_{side}": _TABLE for side in RewardBounds._fields}
    wanted = {"reward": _TABLE, "start": _ROW, **_MAPS["phi", header["phi"]], **_MAPS["psi", header["psi"]]}
    if any(name in arrays for name in OutcomeTables.LIKE):
        wanted |= OutcomeTables.LIKE
    if any(name in arrays for name in Structure.LIKE):
        wanted |= Structure.LIKE
    check_arrays(arrays, wanted | {name: table for name, table in optional.items() if name in arrays})
    task = _unpack_task(header, arrays)
    task.states, task.actions = unless_numbers(states), unless_numbers(saved.actions)
    n_states = 0 if states is None else states.size
    if n_states not in (task.n_observed, task.n_states) or saved.actions.size != task.n_own_actions:
        raise InvalidInput("its spaces do not have as many states and actions as its rewards")
    points = checked_points(task, arrays["points"]) if "points" in arrays else None
    return replace(saved, task=task, maps=_unpack_maps(header, arrays, task), points=points)


def _unpack_task(header: dict[str, Any], arrays: Arrays) -> Task:
    reward, classes = arrays["reward"], header["stages"]
    task = Task(
        reward if header["knows_reward"] else None,
        n_states=reward.shape[0],
        n_actions=reward.shape[1],
        horizon=header["horizon"],
        reward_range=header["reward_range"],
        start=arrays["start"],
        end_state=header["end_state"],
        allowed=arrays.get("allowed"),
        discount=header["discount"],
    )
    for name in _FLAGS:
        setattr(task, name, header[name])
    if "reward_low" in arrays:
        task.reward_bounds = _unpack_reward_bounds(arrays, task)
    if "outcomes" in arrays:
        task.dynamics = OutcomeTables.from_arrays(arrays, task.n_states, task.n_actions, task.reward_range)
    if "is_deterministic" in arrays:
        task.structure = Structure.from_arrays(arrays, task.n_states, task.n_actions * task.n_states)
    if classes is not None:
        stages = read_stages(classes, task.horizon, 1)
        if task.n_actions % stages.n_classes or stages.classes.tolist() != classes:
            raise InvalidInput("stages must be classes 0 … C − 1, as many as divide the actions")
        task.stages = Stages(stages.classes, task.n_actions // stages.n_classes)
        if task.allowed is not None and not task.allowed.reshape(task.n_states, stages.n_classes, -1).any(axis=2).all():
            raise InvalidInput("every class of stages must allow an action in every state")
    if task.is_endless and (task.discount == 1.0 or task.stages.n_classes > 1):
        raise InvalidInput("an endless problem must have a discount below 1, and laws that all stages share")
    if task.end_is_added and task.end_words is None:
        raise InvalidInput("an end state that was added must be the last state")
    return task


def _unpack_reward_bounds(arrays: Arrays, task: Task) -> RewardBounds:
    bounds = RewardBounds(arrays["reward_low"], arrays.get("reward_high", np.zeros((0, 0))))
    low, high = task.reward_range
    if (
        any(side.shape != task.reward.shape for side in bounds)
        or not ((low <= bounds.low) & (bounds.low <= bounds.high) & (bounds.high <= high)).all()
    ):
        raise InvalidInput("ranges of the rewards of pairs must lie in the range of all, one for each pair")
    return bounds


def _unpack_maps(header: dict[str, Any], arrays: Arrays, task: Task) -> tuple[Phi | FloatArray, Psi | FloatArray]:
    """Return φ and ψ of a file, or the answers of a user's own map."""
    of_phi, of_psi = (text if isinstance(text, str) else None for text in header["left_out"])
    phi: Phi | FloatArray
    psi: Psi | FloatArray
    if header["phi"] == "one-hot":
        phi = OneHotPhi(task.n_states, task.n_actions)
    else:
        phi = TablePhi(arrays["phi"], left_out=of_phi) if header["phi"] == "table" else arrays["phi_probe"]
    if header["psi"] == "one-hot":
        psi = OneHotPsi(task.n_states)
    elif header["psi"] == _OWN:
        psi = arrays["psi_probe"]
    else:
        is_sparse, pseudo = header["psi"] == "sparse", header["psi_pinv"]
        table = _unpack_csr(arrays) if is_sparse else arrays["psi"]
        if table.shape[0] != task.n_states or table.shape[1] > _widest(task.n_states):
            raise InvalidInput(f"psi must have {task.n_states} rows and at most {_widest(task.n_states)} columns")
        psi = SparsePsi(table, pseudo=pseudo) if is_sparse else TablePsi(table, pseudo=pseudo, left_out=of_psi)
    if isinstance(phi, Phi) and isinstance(psi, Psi):
        Features(phi, psi).cover(task.n_states, task.n_actions)
    return phi, psi


def _unpack_csr(arrays: Arrays) -> sparse.csr_array:
    parts = tuple(arrays[f"psi_{name}"] for name in ("data", "indices", "indptr"))
    matrix = sparse.csr_array(parts, shape=tuple(arrays["psi_shape"].tolist()))
    matrix.check_format(full_check=True)  # indices outside the matrix would be read from other memory
    return matrix
