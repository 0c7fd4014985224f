"""A problem as plain arrays, and back. Functions of a user are never saved: their answers at a few states are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np

from matrixrl.checks import choice, fail, integer, number
from matrixrl.coding import Codec, codec_from
from matrixrl.errors import InvalidInput
from matrixrl.features import Phi, Psi
from matrixrl.measuring import spacing
from matrixrl.problems.continuous import ContinuousTask
from matrixrl.problems.fingerprint import (
    differences,
    fingerprint,
    fingerprint_of_points,
    fingerprint_parts,
    parts_of_points,
    same_fingerprint,
)
from matrixrl.problems.finite import FiniteMDP, Task
from matrixrl.problems.functional import FunctionalTask
from matrixrl.problems.gym_tables import declares_start, known_mdp
from matrixrl.problems.problem import REWARD_OUTSIDE, Problem, checked_points
from matrixrl.problems.reading import read_problem
from matrixrl.problems.saved_features import (
    Arrays,
    SavedMaps,
    feature_arrays,
    match_features,
    save_features,
    unpack_features,
)
from matrixrl.problems.spaces import codec_of
from matrixrl.problems.stages import Stages, read_stages
from matrixrl.problems.wrappers import time_limit
from matrixrl.records import FloatArray
from matrixrl.settings import flag

__all__ = ["SavedProblem", "save_problem", "unpack_problem"]

_SAME = "Make the environment with the same settings."
_LONGEST = 10**9  # steps of an episode
_ENTRIES = (
    "kind",
    "horizon",
    "reward_range",
    "has_table",
    "measures_regret",
    "psi_pinv",
    "states",
    "actions",
    "reward_outside",
    "ignores_masks",
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
        "has_table": problem.mdp is not None,
        "measures_regret": bool(problem.regret_every) if problem.regret_every < 2 else problem.regret_every,
        "psi_pinv": problem.pseudo,
        "states": None if problem.states is None else problem.states.description(),
        "actions": problem.actions.description(),
        "reward_outside": problem.reward_outside,
        "ignores_masks": problem.ignores_masks,
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
    header |= {"end_state": task.end_state, "end_is_added": task.end_is_added, "knows_reward": task.knows_reward}
    header |= {"discount": task.discount, "is_endless": task.is_endless, "start_is_declared": task.start_is_declared}
    header["stages"] = None if task.stages is None else [int(c) for c in task.stages.classes]
    arrays |= {"reward": task.reward, "start": task.start}
    if task.allowed is not None:
        arrays["allowed"] = task.allowed
    if problem.points is not None:
        arrays["points"] = problem.state_points()
    return header | save_features(problem.features, arrays), arrays


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
        states=None if header["states"] is None else codec_from(header["states"]),
        actions=codec_from(header["actions"]),
        reward_outside=choice("reward_outside", header["reward_outside"], REWARD_OUTSIDE),
        ignores_masks=flag("ignores_masks", header["ignores_masks"]),
        fingerprint=arrays["fingerprint"],
        mdp_fingerprint=arrays.get("mdp_fingerprint"),
        points_fingerprint=arrays.get("points_fingerprint"),
    )
    if saved.horizon > _LONGEST or saved.has_table != (saved.mdp_fingerprint is not None):
        raise InvalidInput(f"the problem must have a horizon of at most {_LONGEST:,}, and a fingerprint of its table")
    if kind != "finite":
        return saved
    task = _task(header, arrays)
    observed = 0 if saved.states is None else saved.states.size
    if observed not in (task.n_observed, task.n_states) or saved.actions.size != task.n_own_actions:
        raise InvalidInput("its spaces do not have as many states and actions as its rewards")
    if not same_fingerprint(fingerprint(task), saved.fingerprint):
        raise InvalidInput("the problem is not the one of its fingerprint")
    if "points" in arrays:
        saved = replace(saved, points=checked_points(task, arrays["points"]))
    return replace(saved, task=task, maps=unpack_features(header, arrays, task, pseudo=saved.pseudo))


def _check_entries(kind: str, header: dict[str, Any], arrays: Arrays) -> None:
    """Refuse entries and arrays other than those that `save_problem` writes."""
    wanted, optional = {"fingerprint"}, {"mdp_fingerprint", "points_fingerprint"}
    entries = set(_ENTRIES)
    if kind == "continuous":
        entries.add("is_declared")
    if kind == "finite":
        entries |= {"end_state", "end_is_added", "knows_reward", "discount", "is_endless", "stages"}
        entries.add("start_is_declared")
        entries |= {"phi", "psi", "left_out"}
        wanted |= {"reward", "start", *feature_arrays(header)}
        optional = {"mdp_fingerprint", "points", "allowed"}
    if set(header) != entries:
        raise InvalidInput(f"the header of the problem must have the entries {sorted(entries)}")
    if not wanted <= set(arrays) <= wanted | optional:
        raise InvalidInput(f"the arrays of the problem must be {sorted(wanted)}; got {sorted(arrays)}")
    for name, array in arrays.items():
        wanted_type = np.bool_ if name == "allowed" else np.float64
        if array.dtype != wanted_type and name not in ("psi_indices", "psi_indptr", "psi_shape"):
            raise InvalidInput(f"{name} must be {np.dtype(wanted_type)}; got {array.dtype}")
        if name.endswith("fingerprint") and array.ndim != 1:
            raise InvalidInput(f"{name} must be a list of numbers; got an array of shape {array.shape}")


def _pair(value: Any) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidInput("reward_range must be two numbers")
    low, high = (number("reward_range", x, low=-1e12, high=1e12, remedy="It is damaged.") for x in value)
    return low, high


@dataclass(frozen=True)
class SavedProblem:
    """Description of a problem in a file; `attach` makes it a `Problem` again.

    Attributes:
        maps: φ and ψ of a finite task, or the answers of a user's own map.
        others: As in `Problem` and its task.
    """

    kind: str
    horizon: int
    reward_range: tuple[float, float] | None
    is_declared: bool
    has_table: bool
    regret_every: int
    pseudo: bool
    states: Codec | None
    actions: Codec
    reward_outside: str
    ignores_masks: bool
    fingerprint: FloatArray
    mdp_fingerprint: FloatArray | None
    points_fingerprint: FloatArray | None = None
    points: FloatArray | None = None
    task: Task | None = None
    maps: SavedMaps | None = None

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
        if self.task is None or self.maps is None:
            for name, own in (("phi", phi), ("psi", psi)):
                if own is not None:
                    _need(
                        name,
                        "left out: this problem has no feature maps of its own",
                        type(own).__name__,
                        "Load without it.",
                    )
            assert world is not None
            return replace(world, reward_outside=self.reward_outside, ignores_masks=self.ignores_masks)
        features = match_features(self.maps, self.task, phi, psi, None if world is None else world.features)
        return Problem(
            self.task,
            features,
            env=None if world is None else world.env,
            mdp=None if world is None else world.mdp,
            name="saved problem" if world is None else world.name,
            points=self.points,
            pseudo=self.pseudo,
            regret_every=self.regret_every,
            states=self.states,
            actions=self.actions,
            reward_outside=self.reward_outside,
            ignores_masks=self.ignores_masks,
        )

    def _world(self, given: Any) -> Problem | None:
        """Return the problem that is given, if it is the saved one."""
        limit = time_limit(given) if isinstance(given, gym.Env) else None
        if limit is not None and limit < self.horizon:
            _refuse_world(f"horizon {limit} (saved: {self.horizon})")
        if self.kind == "functional":
            if not isinstance(given, FunctionalTask):
                what = "the FunctionalTask that it was saved from (functions, which no file holds)"
                _need("env", what, None if given is None else type(given).__name__)
            found = read_problem(given, psi_pinv=self.pseudo, known_reward=False)
        elif self.kind == "continuous":
            if given is None:
                _need("env", "the environment that it was saved from", None)
            if isinstance(given, gym.Env) and not isinstance(given.observation_space, gym.spaces.Box):
                _refuse_world(f"observation space {given.observation_space} (saved: vectors)")
            own_range = None if self.is_declared else self.reward_range
            found = read_problem(
                given, horizon=self.horizon, reward_range=own_range, measure_regret=self.regret_every or False
            )
        elif given is None:
            return None
        else:
            found = self._finite_world(given)
        words = self._differences(found)
        if words:
            functions = "Build the FunctionalTask with the same functions and settings."
            _refuse_world(words, functions if self.kind == "functional" else _SAME)
        return found

    def _differences(self, found: Problem) -> str:
        """Return, in words, in what a problem differs from the saved one; empty if it is the same."""
        spaces = {"action space": (str(self.actions), str(found.actions))}
        if self.states is not None:
            spaces["observation space"] = (str(self.states), "vectors" if found.states is None else str(found.states))
        task = self.fingerprint if self.task is None else fingerprint_parts(self.task)
        words = [differences(task, fingerprint_parts(found.task), spaces)]
        if self.mdp_fingerprint is not None and found.mdp is None:
            words.append("no known transitions (saved: known)")
        elif self.mdp_fingerprint is not None and found.mdp is not None and not words[0]:
            words.append(differences(self.mdp_fingerprint, fingerprint_parts(found.mdp)))
        points = self.points_fingerprint if self.points is None else parts_of_points(self.points)
        if found.points is not None and points is not None:
            words.append(differences(points, parts_of_points(found.points)))
        return ", ".join(filter(None, words))

    def _finite_world(self, given: Any) -> Problem:
        assert self.task is not None
        assert self.states is not None
        if isinstance(given, (FunctionalTask, Task)):
            _need("env", "an environment or a FiniteMDP", type(given).__name__)
        allowed: Any = "all" if self.ignores_masks or not self._fits(given) else self.task.allowed
        stages = None if self.task.stages is None or not self._fits(given) else self.task.stages.classes.tolist()
        if isinstance(given, FiniteMDP) or (isinstance(given, gym.Env) and known_mdp(given) is not None):
            own = given if isinstance(given, FiniteMDP) else known_mdp(given)
            assert own is not None
            asked = None if own.stages is not None or own.horizon != self.horizon else stages
            return read_problem(given, allowed=allowed, stage_dependent=asked)
        timing = {**self.task.timing, "stage_dependent": stages}
        if self.task.start_is_declared and self._fits(given) and not declares_start(given):
            timing["start"] = self.task.start[: self.states.size]
        return read_problem(given, reward_range=self.task.reward_range, allowed=allowed, **timing)

    def _fits(self, given: Any) -> bool:
        """Say whether an environment or an MDP has as many states and actions as the saved problem."""
        assert self.task is not None
        assert self.states is not None
        if isinstance(given, FiniteMDP):
            return (given.n_states, given.task.n_own_actions) == (self.task.n_states, self.task.n_own_actions)
        try:
            states, actions = codec_of("observation", given.observation_space), codec_of("action", given.action_space)
        except InvalidInput:
            return False
        return (states.size, actions.size) == (self.states.size, self.actions.size)


def _refuse_world(differences: str, remedy: str = _SAME) -> NoReturn:
    fail("env", "must be the problem that the checkpoint was saved from", differences, remedy)


def _need(name: str, what: str, received: object, remedy: str = "Pass it to load.") -> NoReturn:
    fail(name, f"must be {what}", received, remedy)


def _stages(value: Any, horizon: Any, n_inner: int) -> Stages | None:
    """Return the classes of stages of a file."""
    if value is None:
        return None
    count = max(value, default=0) + 1 if isinstance(value, list) and all(type(c) is int for c in value) else 0
    if count < 2 or n_inner % count or not isinstance(horizon, int):
        raise InvalidInput("stages must be a list of classes, as many as divide the actions")
    stages = read_stages(value, horizon, n_inner // count)
    if stages is None or stages.classes.tolist() != value:
        raise InvalidInput("classes of stages must be the numbers 0 … C − 1")
    return stages


def _task(header: dict[str, Any], arrays: Arrays) -> Task:
    reward, known = arrays["reward"], flag("knows_reward", header["knows_reward"])
    if reward.ndim != 2:
        raise InvalidInput("reward must be a table of states and actions")
    stages = _stages(header["stages"], header["horizon"], reward.shape[1])
    task = Task(
        reward if known else None,
        n_states=reward.shape[0],
        n_actions=reward.shape[1],
        horizon=header["horizon"],
        reward_range=_pair(header["reward_range"]),
        start=arrays["start"],
        end_state=header["end_state"],
        allowed=arrays.get("allowed"),
        stage_dependent=False if stages is None else stages,
        discount=number("discount", header["discount"], low=0.0, high=1.0, remedy="It is damaged."),
    )
    task.is_endless = flag("is_endless", header["is_endless"])
    if task.is_endless and (task.discount == 1.0 or task.stages is not None):
        raise InvalidInput("an endless problem must have a discount below 1, and laws that all stages share")
    if not np.array_equal(task.reward, reward):
        raise InvalidInput("rewards that are not known must be placeholders")
    task.end_is_added = flag("end_is_added", header["end_is_added"])
    task.start_is_declared = flag("start_is_declared", header["start_is_declared"])
    if task.end_is_added and task.end_words is None:
        raise InvalidInput("an end state that was added must be the last state")
    return task
