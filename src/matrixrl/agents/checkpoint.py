"""What of an agent goes into a file, and how it comes back: problem, algorithm, history, open episodes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.agents.order import LATE_EPISODES
from matrixrl.agents.saved_episodes import episode_arrays, plan_tables, restore_episodes, restore_plans
from matrixrl.agents.saved_history import history_arrays, restore_history
from matrixrl.agents.saved_log import log_arrays, restore_log
from matrixrl.algorithms import Algorithm, ContinuousMatrixRL, FiniteAlgorithm, Startable, UCMatrixRL
from matrixrl.algorithms.matrix_rl import SampledMatrixRL
from matrixrl.algorithms.registry import import_algorithm, saved_class, with_objects
from matrixrl.archive import comparing, read_archive, refusing, write_archive
from matrixrl.checks import choice, fail, integer, number, shown
from matrixrl.envs import make
from matrixrl.errors import InvalidInput
from matrixrl.features import Phi, Psi
from matrixrl.printable import printable
from matrixrl.problems import Problem
from matrixrl.problems.saving import save_problem, unpack_problem
from matrixrl.references import code_of, describe, is_reference, same_code, same_description, show_description
from matrixrl.seeding import stream_from_array, stream_to_array
from matrixrl.settings import Settings, plain_value

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["load_agent", "save_agent"]

A = TypeVar("A", bound="Agent")
Arrays = dict[str, NDArray[Any]]
_KIND = "matrixrl-agent"
_ENTRIES: dict[str, Any] = {
    "format": str,
    "version": int,
    "library": str,
    "agent": str,
    "algorithm": str,
    "code": str,
    "settings": dict,
    "objects": dict,
    "attributes": dict,
    "seed": int,
    "compiled": (bool, type(None)),
    "keep_log": bool,
    "start_doubt": (str, type(None)),
    "selection": (str, type(None)),
    "gaps": float,
    "overridden": int,
    "certified": dict,
    "refutation": (str, type(None)),
    "problem": dict,
    "late_episodes": str,
    "n_begun": int,
    "delay": int,
    "time_outs": int,
    "plans": list,
}
_MAY_BE_NAN = {  # of a problem without an end state, a start or a range of rewards; values that nobody asked for
    "problem_fingerprint",
    "history_regret",
    "history_certified_lower",
    "history_certified_upper",
    "history_upper",
    "episodes_asked_at",
}


def save_agent(agent: Agent, path: str | os.PathLike[str]) -> None:
    """Write an agent to one file."""
    algorithm, env = agent.algorithm, agent.problem.env
    problem_header, problem_arrays = save_problem(agent.problem)
    recipe = _recipe(algorithm)
    plans, tables, chosen = plan_tables(agent)
    header = {
        "library": version("matrixrl"),
        "agent": agent.name,
        "algorithm": algorithm.name,
        "code": code_of(type(algorithm)),
        "settings": _plain_settings(agent.settings),
        "objects": recipe["objects"],
        "attributes": recipe["attributes"],
        "seed": agent.seed,
        "compiled": algorithm.compiled,
        "keep_log": agent.keep_log,
        "start_doubt": agent._first.doubt,
        "selection": agent._selection,
        "gaps": agent._gaps,
        "overridden": agent._overridden,
        "certified": agent._certified.header(),
        "refutation": algorithm.refutation(),
        "problem": problem_header,
        "late_episodes": agent.late_episodes,
        "n_begun": agent._order.n_begun,
        "delay": agent._delay,
        "time_outs": agent.n_time_outs,
        "plans": plans,
    }
    arrays: Arrays = _prefixed("problem_", problem_arrays) | _prefixed("learned_", algorithm.state())
    arrays |= _prefixed("history_", history_arrays(agent._log))
    arrays |= _prefixed("certified_", agent._certified.arrays())
    arrays |= _prefixed("first_", agent._first.arrays())
    arrays |= _prefixed("seen_", log_arrays(agent))
    if env is not None and agent._env_is_seeded:
        arrays["env_stream"] = stream_to_array(env.unwrapped.np_random)
    arrays |= _prefixed("episodes_", episode_arrays(agent, chosen)) | _prefixed("plan_", tables)
    write_archive(path, _KIND, header, arrays)


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
    source = os.fspath(path)
    header, arrays = read_archive(path, _KIND)
    with refusing(source):
        _check_header(cls, header)
        _check_numbers(arrays)
        seed = integer("seed", header["seed"], low=0, remedy="It is damaged.")
        saved_problem = unpack_problem(header["problem"], _taken(arrays, "problem_"))
        kind = saved_class(header["code"])
        if kind is not None and (kind.name != header["algorithm"] or saved_problem.kind not in kind.kinds):
            raise InvalidInput(f"{header['code']} is not {header['algorithm']!r} on a {saved_problem.kind} problem")
    world = make(env, trust_code=trust_code) if isinstance(env, str) else env
    with comparing(source):
        problem = saved_problem.attach(world, phi=phi, psi=psi)
        if kind is None:
            unstarted = _own_algorithm(header, algorithm, problem, trust_code=trust_code)
            _checked_objects({}, objects, trust_code=False)  # they are part of the algorithm that was given
        else:
            if algorithm is not None:
                fail("algorithm", "must be left out: the file names it", shown(algorithm), "Load without it.")
            objects = _checked_objects(header["objects"], objects, trust_code=trust_code)
    with refusing(source):
        learned = _taken(arrays, "learned_")
        if kind is not None:
            unstarted = _library_algorithm(kind, header["settings"], objects)
            _check_sizes(unstarted, problem, learned, seed)
        started = unstarted.start_prepared(problem, [seed])
        if kind is not None and type(started) is not kind:
            raise InvalidInput(f"its settings are not those of {header['code']}")
    with comparing(source):
        _check_recipe(started, header)
    agent = cls.__new__(cls)
    with refusing(source):
        agent._setup(started, header["compiled"] if compiled is None else compiled, header["keep_log"])
        _fill(agent, header, learned, arrays)
    return agent


def _check_header(cls: type[Agent], header: dict[str, Any]) -> None:
    if cls.name not in ("agent", header["agent"]):
        raise InvalidInput(f"it holds a {str(header['agent'])[:40]!r} agent, not {cls.name!r}; Agent.load reads any")
    if set(header) != set(_ENTRIES):
        raise InvalidInput(f"its header must have the entries {sorted(_ENTRIES)}")
    for name, kind in _ENTRIES.items():
        if not isinstance(header[name], kind):
            raise InvalidInput(f"the entry {name} of its header has another type")
    if header["agent"] != header["algorithm"]:
        raise InvalidInput("its header names two different algorithms")


def _check_numbers(arrays: Arrays) -> None:
    for name, array in arrays.items():
        if name.startswith("learned_") or name in _MAY_BE_NAN:
            continue  # the algorithm knows what its numbers may be
        if not np.isfinite(array).all():
            raise InvalidInput(f"{name} holds NaN or infinity")


def _recipe(algorithm: Algorithm) -> dict[str, Any]:
    """Return what an algorithm was made with; nothing for one that was started in a way of its own."""
    return getattr(algorithm, "recipe", {"objects": {}, "attributes": {}})


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
        given = import_algorithm(code, header["settings"], trust_code=trust_code)
    chosen = given.form_for(problem) if isinstance(given, Startable) else None
    if chosen is None or chosen.name != name or not same_code(code_of(type(chosen)), code):
        rule = f"must be the algorithm {name!r} that it was saved with, {code} (no file holds code)"
        fail("algorithm", rule, shown(given), "Pass it to load, or trust_code=True to import it.")
    return chosen


def _check_recipe(own: Algorithm, header: dict[str, Any]) -> None:
    """Refuse an algorithm that was made with something else than the one that was saved."""
    recipe = _recipe(own)
    plain = json.loads(json.dumps(_plain_settings(own.settings)))
    mine = plain | recipe["objects"] | recipe["attributes"]
    saved = header["settings"] | header["objects"] | header["attributes"]
    differing = [n for n in sorted({*mine, *saved}) if not same_description(mine.get(n), saved.get(n))]
    if differing:
        own_words, saved_words = (
            ", ".join(f"{name}={show_description(values.get(name))}" for name in differing) for values in (mine, saved)
        )
        fail("algorithm", "must have the settings that it was saved with", own_words, f"Make it with {saved_words}.")


def _checked_objects(wanted: Mapping[str, Any], given: Mapping[str, Any], *, trust_code: bool) -> dict[str, Any]:
    """Return the objects that the agent was made with: those that are given, or imported if the file is trusted."""
    found = dict(given)
    for name in sorted({*wanted, *given}):
        if name not in wanted:
            rule = "must be left out, as the agent was made without one"
            fail(name, rule, shown(given[name]), "Leave it out of load.")
        words = show_description(wanted[name])
        if name not in given:
            code = wanted[name].get("code") if isinstance(wanted[name], dict) else wanted[name]
            if not trust_code or not is_reference(code):
                remedy = "Pass the same, or trust_code=True to import its class."
                fail(name, f"must be passed to load, as the agent was made with {words}", None, remedy)
            found |= with_objects({name: code}, trust_code=trust_code)
        described = describe(found[name])
        if not same_description(described, wanted[name]):
            rule = f"must be the one that the agent was made with, {words}"
            fail(name, rule, show_description(described), "Pass it.")
    return found


def _library_algorithm(kind: type[Algorithm], plain: Mapping[str, Any], objects: Mapping[str, Any]) -> Algorithm:
    """Return an algorithm of the library with the settings of a file and the objects that were given to `load`."""
    form = UCMatrixRL if kind is SampledMatrixRL else kind
    left_out = dict.fromkeys(getattr(form.settings_class, "IN_FEATURES", ()))
    made = form.__new__(form)
    made.settings = form.settings_class.from_dict({**plain, **objects, **left_out})
    return made


def _check_sizes(algorithm: Algorithm, problem: Problem, learned: Arrays, seed: int) -> None:
    """Refuse sizes that the arrays of the file do not prove, before anything of that size is allocated."""
    if isinstance(algorithm, ContinuousMatrixRL):
        algorithm.check_saved_sizes(problem, learned, [seed])
        return
    if isinstance(algorithm, UCMatrixRL) and (algorithm.settings.columns is not None or problem.kind == "functional"):
        SampledMatrixRL.check_saved_sizes(algorithm.settings, problem, learned)
        return
    shapes = algorithm.learned_shapes(problem, 1)
    assert shapes is not None
    for name, shape in shapes.items():
        found = learned[name].shape
        if len(found) != len(shape) or any(n not in (None, own) for n, own in zip(shape, found, strict=True)):
            raise InvalidInput(f"{name} must have shape {shape}; got {found}")


def _fill(agent: Agent, header: dict[str, Any], learned: Arrays, arrays: Arrays) -> None:
    """Put everything that was saved into a new agent; an array that is left over is refused."""
    saved_range = agent.problem.task.reward_range
    agent.algorithm.restore(learned)
    if agent.problem.task.reward_range != saved_range:
        raise InvalidInput("its problem and what was learned have two different ranges of rewards")
    clipped = agent.problem.reward_outside == "clip" and agent.algorithm.outside.count > 0
    counts = (agent.n_episodes, agent.n_logged_episodes)
    agent._log = restore_history(_taken(arrays, "history_"), *counts, agent.problem, clipped=clipped)
    learned_from, played = agent.algorithm.n_steps(), sum(agent._log.lengths)
    if int(agent._log.logged_lengths.sum()) != agent.n_logged_steps:
        raise InvalidInput(f"{agent.n_logged_steps} logged steps were learned from, but the history has others")
    if learned_from is not None and int(learned_from[0]) != played + agent.n_logged_steps:
        raise InvalidInput(f"{int(learned_from[0])} steps were learned from, but {played} were played")
    restore_log(agent, _taken(arrays, "seen_"))
    agent._first.restore(header["start_doubt"], _taken(arrays, "first_"), sum(counts))
    agent._selection = None if header["selection"] is None else printable(header["selection"])
    most = agent.n_episodes
    agent._gaps = number("gaps", header["gaps"], low=0.0, remedy="It is damaged.")
    agent._overridden = integer("overridden", header["overridden"], low=0, high=most, remedy="It is damaged.")
    agent._certified.restore(header["certified"], _taken(arrays, "certified_"), agent.n_episodes)
    if isinstance(agent.algorithm, FiniteAlgorithm) and agent.problem.kind == "finite":
        agent._known_masks = agent.algorithm.reported_masks
        agent._certified.permit(agent.algorithm.frame)
    if header["refutation"] is not None:
        agent.algorithm.note_refutation(printable(header["refutation"]))
    _fill_episodes(agent, header, arrays)
    stream = arrays.pop("env_stream", None)
    restored = None if stream is None else stream_from_array(stream)
    if arrays:
        raise InvalidInput(f"it holds arrays that no agent has: {sorted(arrays)[:5]}")
    if agent.problem.env is not None and restored is not None:
        agent.problem.env.unwrapped.np_random = restored
        agent._env_is_seeded = True


def _fill_episodes(agent: Agent, header: dict[str, Any], arrays: Arrays) -> None:
    """Put the episodes that were not learned from into a new agent."""
    agent._late = choice("late_episodes", header["late_episodes"], LATE_EPISODES)
    begun = integer("n_begun", header["n_begun"], low=0, remedy="It is damaged.")
    agent._delay = integer("delay", header["delay"], low=0, high=agent.n_episodes, remedy="It is damaged.")
    agent._time_outs = integer("time_outs", header["time_outs"], low=0, high=begun, remedy="It is damaged.")
    plans = restore_plans(agent, header["plans"], _taken(arrays, "plan_"))
    restore_episodes(agent, _taken(arrays, "episodes_"), plans, begun)


def _prefixed(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    return {prefix + name: array for name, array in arrays.items()}


def _taken(arrays: Arrays, prefix: str) -> Arrays:
    """Remove the arrays with a prefix and return them without it."""
    names = [name for name in arrays if name.startswith(prefix)]
    return {name.removeprefix(prefix): arrays.pop(name) for name in names}
