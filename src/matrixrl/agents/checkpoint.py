"""What of an agent goes into a file, and how it comes back: problem, algorithm, history, open episodes."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.agents import certification
from matrixrl.agents.episode_queue import LATE_EPISODES
from matrixrl.algorithms import Algorithm, FiniteAlgorithm, Startable, make_algorithm
from matrixrl.algorithms.registry import OBJECT_SETTINGS, saved_class, with_objects
from matrixrl.archive import FORMAT_VERSION, Arrays, check_arrays, check_entries, read_archive, refusing, write_archive
from matrixrl.checks import choice, fail, file_path, integer, number, shown
from matrixrl.display import printable
from matrixrl.envs import make
from matrixrl.errors import CheckpointMismatch, InvalidInput, ProtocolError, UntrustedCode
from matrixrl.features import Phi, Psi
from matrixrl.play.ledger import CertificateLedger
from matrixrl.problems import Problem
from matrixrl.problems.serialization import save_problem, unpack_problem
from matrixrl.references import code_of, describe, is_reference
from matrixrl.settings import Settings, plain_value

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["load_agent"]

A = TypeVar("A", bound="Agent")
_KIND = "matrixrl-agent"
_NONE = type(None)
_ENTRIES: dict[str, Any] = {
    **{"format": str, "version": int, "library": str, "algorithm": str, "code": str, "settings": dict},
    **{"objects": dict, "attributes": dict, "seed": int, "compiled": (bool, _NONE), "keep_log": bool},
    **{"selection": (str, _NONE), "gaps": float, "overridden": int, "certified": dict, "refutation": (str, _NONE)},
    **{"problem": dict, "late_episodes": str, "n_begun": int, "delay": int, "time_outs": int, "plans": list},
}
_HISTORY = {
    **dict.fromkeys(("returns", "upper", "regret", "certified_lower", "certified_upper"), float),
    **{"lengths": int, "alarms": bool},
}
_LOGGED_HISTORY = ("logged_returns", "logged_lengths")
_DIGESTS = {"logs_learned": "_digests", "logs_exported": "_exported"}  # what tells logs apart that the agent knows
_DIGEST = 32  # bytes of SHA-256


def save(self: Agent, path: str | os.PathLike[str]) -> None:
    """Write everything to one file, atomically; also while episodes are open."""
    header = state_dict(self)
    write_archive(file_path("path", path), _KIND, header, header.pop("arrays"))


def state_dict(self: Agent) -> dict[str, Any]:
    """Return everything that was learned and every random stream, as plain data.

    The entry `arrays` has arrays by name; all others are numbers, texts, lists and dictionaries.

    >>> import matrixrl
    >>> one, other = (matrixrl.MatrixRL("river-swim", seed=0) for _ in range(2))
    >>> _ = one.learn(3)
    >>> other.load_state_dict(one.state_dict())
    >>> bool((one.learn(2).returns == other.learn(2).returns).all())
    True
    """
    certification.heed_masks(self)
    algorithm, log = self.algorithm, self._log
    problem, of_problem = save_problem(self.problem)
    episodes, tables, plans = self._queue.arrays()
    header = {
        "library": version("matrixrl"),
        "algorithm": algorithm.name,
        "settings": _plain_settings(self.settings),
        **_recipe(algorithm),
        "seed": self.seed,
        "compiled": algorithm.compiled,
        "keep_log": self.keep_log,
        "selection": self._selection,
        "gaps": self._gaps,
        "overridden": self._overridden,
        "certified": self._ledger.header(),
        "refutation": algorithm.claims.refutation(),
        "problem": problem,
        "late_episodes": self.late_episodes,
        "n_begun": self._queue.n_begun,
        "delay": self._queue.delay,
        "time_outs": self.n_time_outs,
        "plans": plans,
    }
    groups: dict[str, Mapping[str, NDArray[Any]]] = {
        "problem_": of_problem,
        "learned_": algorithm.state(),
        "history_": {name: np.array(getattr(log, name), dtype=np.float64) for name in (*_HISTORY, *_LOGGED_HISTORY)},
        "certified_": self._ledger.arrays(),
        "seen_": {} if self._seen is None else self._seen.arrays(),
        "episodes_": episodes,
        "plan_": tables,
    }
    arrays = {prefix + name: array for prefix, group in groups.items() for name, array in group.items()}
    for name, attribute in _DIGESTS.items():
        if getattr(self, attribute):
            digests = np.frombuffer(b"".join(getattr(self, attribute)), dtype=np.uint8)
            arrays[name] = digests.reshape(-1, _DIGEST)
    if self._run_start or self._run_logged:
        arrays["run"] = np.array([self._run_start, self._run_logged, *self._passed], dtype=np.int64)
    if self._engine.world is not None and len(stream := self._engine.world.to_array()):
        arrays["env_stream"] = stream[0]
    return {**header, "arrays": arrays}


def load_state_dict(self: Agent, state: Mapping[str, Any]) -> None:
    """Go on from what `state_dict` of an agent with the same problem, settings and seed returned.

    Raises:
        CheckpointError: It is the state of something else; nothing is changed.
        ProtocolError: This agent has begun to play.
    """
    if self.n_episodes or self.n_logged_episodes or self._queue.n_begun:
        raise ProtocolError(f"a state is loaded into a new agent, and this one has {self.n_episodes:,} episodes")
    if not isinstance(state, Mapping) or not isinstance(state.get("arrays"), Mapping):
        fail("state", "must be what state_dict returned", shown(state), "Pass agent.state_dict().")
    source, arrays = "the state", dict(state["arrays"])
    header = json.loads(json.dumps({name: value for name, value in state.items() if name != "arrays"}))
    with refusing(source):
        _check_header(type(self), {"format": _KIND, "version": FORMAT_VERSION, **header})
        _check_numbers(arrays)
        saved = unpack_problem(header["problem"], _taken(arrays, "problem_"))
    with _comparing(source):
        if header["seed"] != self.seed or header["code"] != _recipe(self.algorithm)["code"]:
            received = f"{self.algorithm.name} with seed {self.seed}"
            fail("agent", f"must be {header['algorithm']} with seed {header['seed']}", received, "Make the same agent.")
        saved.compare(self.problem)
        _check_recipe(self.algorithm, header)
    before = copy.deepcopy(self.__dict__, {id(self): self, id(self.problem): self.problem})
    try:
        with refusing(source):
            self.algorithm.use_compiled(header["compiled"])
            _fill(self, header, _taken(arrays, "learned_"), arrays)
    except BaseException:
        self.__dict__.clear()
        self.__dict__.update(before)
        raise


def load_agent(
    cls: type[A],
    path: str | os.PathLike[str],
    env: Any,
    *,
    phi: Phi | None,
    psi: Psi | None,
    compiled: bool | None,
    algorithm: Startable | None,
    trust_code: bool,
    objects: Mapping[str, Any],
) -> A:
    """Return the agent of a file; arguments as in `Agent.load`. Anything that does not fit is refused."""
    for name, value in objects.items():
        if name not in OBJECT_SETTINGS:
            rule = "must be left out, as it is saved with the agent"
            remedy = f"Load without it; only objects are passed: {', '.join(OBJECT_SETTINGS)}."
            fail(name, rule, shown(value), remedy)
    source = os.fspath(path)
    header, arrays = read_archive(path, _KIND)
    with refusing(source):
        _check_header(cls, header)
        _check_numbers(arrays)
        saved_problem = unpack_problem(header["problem"], _taken(arrays, "problem_"))
        kind = saved_class(header["code"])
        if kind is not None and (kind.name != header["algorithm"] or saved_problem.kind not in kind.kinds):
            raise InvalidInput(f"{header['code']} is not {header['algorithm']!r} on a {saved_problem.kind} problem")
    world = make(env, trust_code=trust_code) if isinstance(env, str) else env
    with _comparing(source):
        problem = saved_problem.attach(world, phi=phi, psi=psi)
        if kind is None:
            unstarted = _own_algorithm(header, algorithm, problem, trust_code=trust_code)
        elif algorithm is not None:
            fail("algorithm", "must be left out: the file names it", shown(algorithm), "Load without it.")
        # the objects of a user's own algorithm are part of it
        objects = _checked_objects({} if kind is None else header["objects"], objects, trust_code=trust_code)
    with refusing(source):
        learned = _taken(arrays, "learned_")
        if kind is not None:
            unstarted = _library_algorithm(kind, header["settings"], objects)
        started = unstarted.start(problem, [header["seed"]], saved=learned)
    with _comparing(source):
        _check_recipe(started, header)
    agent = cls.__new__(cls)
    with refusing(source):
        agent._setup(started, header["compiled"] if compiled is None else compiled, header["keep_log"])
        _fill(agent, header, learned, arrays)
    return agent


@contextmanager
def _comparing(source: str) -> Iterator[None]:
    """Convert the errors of arguments of `load` that do not fit the file into `CheckpointMismatch`."""
    try:
        with np.errstate(all="ignore"):
            yield
    except UntrustedCode:
        raise
    except InvalidInput as error:
        raise CheckpointMismatch(f"{source} does not fit: {error}") from error


def _check_header(cls: type[Agent], header: dict[str, Any]) -> None:
    check_entries("the header", header, _ENTRIES)
    if cls.name not in ("agent", header["algorithm"]):
        raise InvalidInput(f"it holds a {header['algorithm'][:40]!r} agent, not {cls.name!r}; Agent.load reads any")


def _check_numbers(arrays: Arrays) -> None:
    """Refuse NaN and infinity but in what was learned, which the algorithm checks, and where NaN has a meaning."""
    for name, array in arrays.items():
        if not name.startswith(("learned_", "history_", "episodes_asked_at")) and not np.isfinite(array).all():
            raise InvalidInput(f"{name} holds NaN or infinity")


def _recipe(algorithm: Algorithm) -> dict[str, Any]:
    """Return what an algorithm was made with; nothing for one that was started in a way of its own."""
    return getattr(algorithm, "made_with", {"code": code_of(type(algorithm)), "objects": {}, "attributes": {}})


def _plain_settings(settings: object) -> dict[str, Any]:
    """Return the settings that are plain data."""
    if not isinstance(settings, Settings):
        return {}
    values = {name: getattr(settings, name) for name in settings.names()}
    left_out = getattr(settings, "IN_FEATURES", ())
    return {name: value for name, value in values.items() if plain_value(value) is value and name not in left_out}


def _own_algorithm(header: dict[str, Any], given: Startable | None, problem: Problem, *, trust_code: bool) -> Algorithm:
    """Return a user's own algorithm, if it is the one that was saved."""
    name, code = header["algorithm"], header["code"]
    if given is None and trust_code:
        given = make_algorithm(code, header["settings"], trust_code=trust_code)
    chosen = given.form_for(problem) if isinstance(given, Startable) else None
    if chosen is None or chosen.name != name or code_of(type(chosen)) != code:
        rule = f"must be the algorithm {name!r} that it was saved with, {code} (no file holds code)"
        fail("algorithm", rule, shown(given), "Pass it to load, or trust_code=True to import it.")
    return chosen


def _check_recipe(own: Algorithm, header: dict[str, Any]) -> None:
    """Refuse an algorithm that was made with something else than the one that was saved."""
    recipe = _recipe(own)
    mine = json.loads(json.dumps(_plain_settings(own.settings) | recipe["objects"] | recipe["attributes"]))
    saved = header["settings"] | header["objects"] | header["attributes"]
    differing = [name for name in sorted({*mine, *saved}) if mine.get(name) != saved.get(name)]
    if differing:
        rule = "must have the settings that it was saved with"
        fail("algorithm", rule, f"one that differs in {', '.join(differing)}", "Make it with the same arguments.")


def _checked_objects(wanted: Mapping[str, Any], given: Mapping[str, Any], *, trust_code: bool) -> dict[str, Any]:
    """Return the objects that the agent was made with: those that are given, or imported if the file is trusted."""
    found = dict(given)
    for name in sorted({*wanted, *given}):
        if name not in wanted:
            rule = "must be left out, as the agent was made without one"
            fail(name, rule, shown(given[name]), "Leave it out of load.")
        code = str(wanted[name]).partition(" ")[0]
        if name not in given:
            if not trust_code or not is_reference(code):
                remedy = "Pass the same, or trust_code=True to import its class."
                fail(name, f"must be passed to load, as the agent was made with {code}", None, remedy)
            found |= with_objects({name: code}, trust_code=trust_code)
        if describe(found[name]) != wanted[name]:
            rule = f"must be the one that the agent was made with, {code}"
            fail(name, rule, f"another {code_of(found[name])}", "Pass one that was made with the same arguments.")
    return found


def _library_algorithm(kind: type[Algorithm], plain: Mapping[str, Any], objects: Mapping[str, Any]) -> Algorithm:
    """Return an algorithm of the library with the settings of a file and the objects that were given to `load`."""
    left_out = dict.fromkeys(getattr(kind.settings_class, "IN_FEATURES", ()))
    made = kind.__new__(kind)
    made.settings = kind.settings_class.from_dict({**plain, **objects, **left_out})
    return made


def _fill(agent: Agent, header: dict[str, Any], learned: Arrays, arrays: Arrays) -> None:
    """Put everything that was saved into a new agent; an array that is left over is refused."""
    agent.algorithm.restore(learned, from_file=True)
    _fill_history(agent, _taken(arrays, "history_"))
    for name, attribute in _DIGESTS.items():
        if name in arrays:
            check_arrays({name: arrays[name]}, {name: np.empty((0, _DIGEST), dtype=np.uint8)})
            getattr(agent, attribute).extend(row.tobytes() for row in arrays.pop(name))
    seen = _taken(arrays, "seen_")
    if agent._seen is not None:
        agent._seen.restore(seen)
    elif seen:
        raise InvalidInput("there must be no steps where they are not kept")
    agent._selection = None if header["selection"] is None else printable(header["selection"])
    begun = integer("n_begun", header["n_begun"], low=0, remedy="It is damaged.")
    agent._gaps = number("gaps", header["gaps"], low=0.0, remedy="It is damaged.")
    for name in ("overridden", "delay", "time_outs"):
        integer(name, header[name], low=0, remedy="It is damaged.")
    agent._overridden = header["overridden"]
    _fill_run(agent, arrays.pop("run", None))
    agent._ledger.restore(header["certified"], _taken(arrays, "certified_"), certification.n_counted(agent))
    if isinstance(agent.algorithm, FiniteAlgorithm) and agent.problem.kind == "finite":
        agent._known_masks = agent.algorithm.masks.reported  # they were heeded before the file was written
    if header["refutation"] is not None:
        agent.algorithm.claims.note_refutation(printable(header["refutation"]))
    agent._queue.late = choice("late_episodes", header["late_episodes"], LATE_EPISODES)
    agent._queue.delay, agent._queue.n_time_outs = header["delay"], header["time_outs"]
    tables = _taken(arrays, "plan_")
    agent._queue.restore(_taken(arrays, "episodes_"), tables, header["plans"], begun)
    stream = arrays.pop("env_stream", None)
    if arrays:
        raise InvalidInput(f"it holds arrays that no agent has: {sorted(arrays)[:5]}")
    if agent._engine.world is not None and stream is not None:
        agent._engine.world.from_array(stream[None])


def _fill_run(agent: Agent, run: NDArray[Any] | None) -> None:
    """Take back at which episode the agent began again, and which later ones it did not learn from."""
    if run is None:
        return
    check_arrays({"run": run}, {"run": np.empty(0, dtype=np.int64)})
    start, logged, *passed = run.tolist()
    fits = 0 <= start <= agent.n_episodes and 0 <= logged <= agent.n_logged_episodes
    if not fits or passed != sorted({*passed} & {*range(start, agent.n_episodes)}):
        raise InvalidInput("the last restart, and the episodes that were passed over since, must be among those played")
    agent._run_start, agent._run_logged, agent._passed = start, logged, passed
    agent._ledger = CertificateLedger(agent.algorithm)  # with the part of δ of its run


def _fill_history(agent: Agent, arrays: Arrays) -> None:
    """Put the columns of a history, (N,) each, and those of the logged episodes, (M,) each, into an empty one."""
    own = {name: np.empty(agent.n_episodes) for name in _HISTORY}
    check_arrays(
        arrays, own | {name: np.empty(agent.n_logged_episodes) for name in _LOGGED_HISTORY}, may_be_nan=(*_HISTORY,)
    )
    for name, kind in _HISTORY.items():
        getattr(agent._log, name).extend(kind(value) for value in arrays[name].tolist())
    agent._log.add_logged(arrays["logged_returns"].copy(), arrays["logged_lengths"].astype(np.int64))


def _taken(arrays: Arrays, prefix: str) -> Arrays:
    """Remove the arrays with a prefix and return them without it."""
    names = [name for name in arrays if name.startswith(prefix)]
    return {name.removeprefix(prefix): arrays.pop(name) for name in names}
