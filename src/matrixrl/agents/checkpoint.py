"""What of an agent goes into a file, and how it comes back: problem, algorithm, history, open episodes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.agents.episodes import OpenEpisode
from matrixrl.algorithms import Algorithm, Startable, UCMatrixRL
from matrixrl.algorithms.registry import saved_class
from matrixrl.archive import read_archive, refusing, write_archive
from matrixrl.checks import fail, index, integer, shown
from matrixrl.envs import make
from matrixrl.errors import InvalidInput
from matrixrl.features import Phi, Psi, TablePhi
from matrixrl.problems import Problem
from matrixrl.problems.saving import save_problem, unpack_problem
from matrixrl.records import HistoryLog
from matrixrl.seeding import stream_from_array, stream_to_array
from matrixrl.settings import Settings, plain_value

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["load_agent", "save_agent"]

A = TypeVar("A", bound="Agent")
Arrays = dict[str, NDArray[Any]]
_KIND = "matrixrl-agent"
_HISTORY = ("returns", "lengths", "upper", "alarms", "regret", "certified_lower", "certified_upper")
_MAY_BE_NAN = {
    "problem_fingerprint",  # of a problem without an end state, a start or a range of rewards
    "history_regret",
    "history_certified_lower",
    "history_certified_upper",
    "history_upper",
}
_MAY_BE_INFINITE = {"learned_kept_logdet"}
_STEPS = ("states", "actions", "rewards", "next_states")


def save_agent(agent: Agent, path: str | os.PathLike[str]) -> None:
    """Write an agent to one file."""
    algorithm, env = agent.algorithm, agent.problem.env
    problem_header, problem_arrays = save_problem(agent.problem)
    plain, objects = _split_settings(agent.settings)
    first = agent._first_state
    header = {
        "library": version("matrixrl"),
        "agent": agent.name,
        "algorithm": algorithm.name,
        "settings": plain,
        "objects": objects,
        "seed": agent.seed,
        "compiled": algorithm.compiled,
        "first_state": None if first is None else np.asarray(first).tolist(),
        "problem": problem_header,
        "episodes": [_episode_header(episode) for episode in agent.open_episodes],
    }
    arrays: Arrays = _prefixed("problem_", problem_arrays) | _prefixed("learned_", algorithm.state())
    arrays |= {f"history_{name}": np.array(getattr(agent._log, name), dtype=np.float64) for name in _HISTORY}
    if env is not None and agent._env_is_seeded:
        arrays["env_stream"] = stream_to_array(env.unwrapped.np_random)
    for i, episode in enumerate(agent.open_episodes):
        arrays |= _prefixed(f"episode_{i}_", _episode_arrays(episode))
        arrays |= _prefixed(f"plan_{i}_", algorithm.plan_to_arrays(episode._plan))
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
    objects: Mapping[str, Any],
) -> A:
    """Return the agent of a file; arguments as in `Agent.load`. Anything that does not fit is refused."""
    source = os.fspath(path)
    header, arrays = read_archive(path, _KIND)
    with refusing(source):
        if cls.name not in ("agent", header["agent"]):
            raise InvalidInput(f"it holds a {header['agent']!r} agent, not {cls.name!r}; Agent.load reads any")
        for name, array in arrays.items():
            bad = np.isnan(array) if name in _MAY_BE_INFINITE else ~np.isfinite(array)
            if name not in _MAY_BE_NAN and bad.any():
                raise InvalidInput(f"{name} holds NaN or infinity")
        if header["compiled"] not in (None, True, False):
            raise InvalidInput("compiled must be true, false or None")
        seed = integer("seed", header["seed"], low=0, remedy="It is damaged.")
        saved_problem = unpack_problem(dict(header["problem"]), _unprefixed(arrays, "problem_"))
        kind = saved_class(str(header["algorithm"]), saved_problem.kind)
        saved = dict(header["settings"]), dict(header["objects"])
    problem = saved_problem.attach(make(env) if isinstance(env, str) else env, phi=phi, psi=psi)
    if kind is None:
        unstarted = _own_algorithm(str(header["algorithm"]), algorithm, problem)
        _check_objects({}, objects)  # they are part of the algorithm that was given
    else:
        if algorithm is not None:
            fail("algorithm", "must be left out: the file names it", shown(algorithm), "Load without it.")
        _check_objects(saved[1], objects)
    with refusing(source):
        if kind is not None:
            unstarted = _library_algorithm(kind, saved[0], objects)
        _check_design(unstarted, problem, arrays)
        started = unstarted.start_prepared(problem, [seed])
    if kind is None:
        _check_settings(started, saved)
    agent = cls.__new__(cls)
    with refusing(source):
        agent._setup(started, header["compiled"] if compiled is None else compiled)
        _fill(agent, header, arrays)
    return agent


def _split_settings(settings: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings that are plain data, and for each that is an object the words that show it."""
    if not isinstance(settings, Settings):
        return {}, {}
    values = {name: getattr(settings, name) for name in settings.names()}
    left_out = getattr(settings, "IN_FEATURES", ())
    plain = {name: value for name, value in values.items() if plain_value(value) is value and name not in left_out}
    objects = {n: plain_value(v) for n, v in values.items() if n not in plain and n not in left_out}
    return plain, objects


def _own_algorithm(name: str, given: Startable | None, problem: Problem) -> Algorithm:
    """Return a user's own algorithm, if it is the one that was saved."""
    chosen = given.form_for(problem) if isinstance(given, Startable) else None
    if chosen is None or chosen.name != name:
        what = f"the algorithm {name!r} that it was saved with (no file holds code)"
        fail("algorithm", f"must be {what}", shown(given), "Pass it to load.")
    return chosen


def _check_settings(own: Algorithm, saved: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Refuse a user's own algorithm with other settings than those that were saved."""
    plain, shown = _split_settings(getattr(own, "settings", None))
    if (json.loads(json.dumps(plain)), shown) != saved:
        rule = "must have the settings that it was saved with"
        fail("algorithm", rule, {**plain, **shown}, f"Make it with {saved[0] | saved[1]}.")


def _check_objects(wanted: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse objects other than those that the agent was made with."""
    for name in {*wanted, *given}:
        if name not in wanted or name not in given:
            if name in wanted:
                fail(name, f"must be passed to load, as the agent was made with {wanted[name]}", None, "Pass the same.")
            fail(
                name, "must be left out, as the agent was made without one", shown(given[name]), "Leave it out of load."
            )
        if plain_value(given[name]) != wanted[name] and ":" in str(wanted[name]):
            fail(name, f"must be the one that the agent was made with, {wanted[name]}", shown(given[name]), "Pass it.")


def _library_algorithm(kind: type[Algorithm], plain: Mapping[str, Any], objects: Mapping[str, Any]) -> Algorithm:
    """Return an algorithm of the library with the settings of a file and the objects that were given to `load`."""
    left_out = dict.fromkeys(getattr(kind.settings_class, "IN_FEATURES", ()))
    made = kind.__new__(kind)
    made.settings = kind.settings_class.from_dict({**plain, **objects, **left_out})
    return made


def _check_design(algorithm: Algorithm, problem: Problem, arrays: Arrays) -> None:
    """Refuse a number of features that the file does not prove, before matrices of that size are allocated."""
    phi = None if problem.features is None else problem.features.phi
    if not isinstance(algorithm, UCMatrixRL) or type(phi) is not TablePhi:
        return
    if arrays["learned_design"].shape != (1, phi.d, phi.d):
        raise InvalidInput(f"design must have shape {(1, phi.d, phi.d)}")


def _fill(agent: Agent, header: dict[str, Any], arrays: Arrays) -> None:
    """Put everything that was saved into a new agent."""
    agent.algorithm.restore(_unprefixed(arrays, "learned_"))
    agent._log = _history(arrays, agent.n_episodes)
    first = header["first_state"]
    agent._first_state = None if first is None else agent.problem.inner_state("first_state", first)
    agent._open = [_episode(agent, i, saved, arrays) for i, saved in enumerate(header["episodes"])]
    if agent.problem.env is not None and "env_stream" in arrays:
        agent.problem.env.unwrapped.np_random = stream_from_array(arrays["env_stream"])
        agent._env_is_seeded = True


def _history(arrays: Arrays, n_episodes: int) -> HistoryLog:
    log = HistoryLog()
    for name in _HISTORY:
        values = arrays[f"history_{name}"]
        if values.shape != (n_episodes,):
            raise InvalidInput(f"the history must have {n_episodes} episodes")
        kind = {"lengths": int, "alarms": bool}.get(name, float)
        getattr(log, name).extend(kind(value) for value in values.tolist())
    return log


def _episode_header(episode: OpenEpisode) -> dict[str, Any]:
    """Return the flags of an open episode, and its last answer if no step followed: the same question gets it again."""
    advised = episode._advised
    return {
        "terminated": episode._terminated,
        "off_plan": episode._off_plan,
        "advised": None if advised is None or advised.stage != episode.stage else [advised.state, advised.action],
    }


def _episode_arrays(episode: OpenEpisode) -> Arrays:
    lists = (episode._states, episode._actions, episode._rewards, episode._next_states)
    return {name: np.array(values) for name, values in zip(_STEPS, lists, strict=True) if values}


def _episode(agent: Agent, i: int, saved: dict[str, Any], arrays: Arrays) -> OpenEpisode:
    own, problem = _unprefixed(arrays, f"episode_{i}_"), agent.problem
    episode = OpenEpisode(agent, agent.algorithm.plan_from_arrays(_unprefixed(arrays, f"plan_{i}_")))
    episode._terminated, episode._off_plan = saved["terminated"] is True, saved["off_plan"] is True
    if own:
        _add_steps(episode, own, problem)
    if saved["advised"] is not None:
        state, action = saved["advised"]
        chosen = index("action", action, size=problem.task.n_actions, remedy="It is damaged.")
        episode._keep_advice(problem.inner_state("state", state), chosen)
    return episode


def _add_steps(episode: OpenEpisode, own: Arrays, problem: Problem) -> None:
    states, actions, rewards, next_states = (own[name] for name in _STEPS)
    if not 1 <= len(actions) <= problem.task.horizon or any(len(own[name]) != len(actions) for name in _STEPS):
        raise InvalidInput("an open episode does not fit the problem")
    for state, action, reward, following in zip(states, actions, rewards, next_states, strict=True):
        episode._states.append(problem.inner_state("state", state))
        episode._actions.append(problem.action("action", action + problem.first_action))
        episode._rewards.append(problem.reward(float(reward)))
        episode._next_states.append(problem.inner_state("next state", following))


def _prefixed(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    return {prefix + name: array for name, array in arrays.items()}


def _unprefixed(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
