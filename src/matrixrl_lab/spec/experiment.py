"""Experiments: all cells of a spec (one agent on one environment each) with resolved settings, and their hash."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from matrixrl.algorithms import Algorithm, Startable, make_algorithm
from matrixrl.algorithms.registry import known_reward, split_features
from matrixrl.checks import fail
from matrixrl.envs import open_problem
from matrixrl.errors import MatrixRLError
from matrixrl.play.simulation import plays_in_batches, refuse_drift
from matrixrl.problems import Problem
from matrixrl.references import is_reference
from matrixrl.settings import Settings
from matrixrl_lab.spec.files import SpecFile
from matrixrl_lab.spec.models import LARGEST_CELLS, LARGEST_RUNS, Entry, ExecutorName

__all__ = ["Cell", "Experiment", "work_out"]

_HASH_LENGTH = 16
_SMALL = 10**7  # size of the table of features up to which an agent is started to check that it can play


@dataclass(frozen=True)
class Cell:
    """One agent on one environment.

    Attributes:
        env_id: Name of the environment in tables.
        agent_id: Name of the agent in tables.
        env: Name of the environment, or ``package.module:Name``.
        env_settings: Settings of the environment, as given.
        agent: Name of the agent, or ``package.module:Name``.
        settings: Settings of the agent, resolved: nothing is left to a default that may change.
        measure: Series that measures learning: regret, or return if the optimal value is unknown.
        batched: Whether several seeds are simulated together.
        certifies: Whether the agent has certificates.
    """

    env_id: str
    agent_id: str
    env: str
    env_settings: dict[str, Any]
    agent: str
    settings: dict[str, Any]
    measure: Literal["regret", "return"]
    batched: bool
    certifies: bool

    @property
    def id(self) -> str:
        """Name of the cell in messages."""
        return f"{self.env_id} / {self.agent_id}"

    @property
    def references(self) -> list[str]:
        """References to code that is imported when the cell is played."""
        found = [str(value) for value in (self.env, self.agent, *self.settings.values()) if is_reference(value)]
        return [*found, self.env] if self._imports_gym_module else found

    @property
    def _imports_gym_module(self) -> bool:
        return self.env.startswith("gym:") and ":" in self.env.removeprefix("gym:")


@dataclass(frozen=True)
class Experiment:
    """An experiment with all settings resolved.

    Attributes:
        name: Short name.
        title: Title of the report.
        episodes: Number of episodes N of every run.
        seeds: Seeds of every cell.
        block: Number of episodes between two writes to the store.
        batch: Largest number of seeds that one task plays together.
        certify: Whether every episode is certified, for agents that have certificates.
        cells: The cells, in the order of the spec.
        executor: Where blocks are played by default.
        regret_every: Regret is measured in every so many episodes of each run; 0 measures none.
    """

    name: str
    title: str
    episodes: int
    seeds: list[int]
    block: int
    batch: int
    certify: bool
    cells: list[Cell]
    executor: ExecutorName = "processes"
    regret_every: int = 1

    @property
    def hash(self) -> str:
        """Hash of everything that determines the rows of a store; name, title and executor do not."""
        counted = {k: v for k, v in asdict(self).items() if k not in ("name", "title", "executor")}
        if self.regret_every == 1:  # so that stores of earlier versions keep their hash
            del counted["regret_every"]
        text = json.dumps(counted, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]

    @property
    def imports_code(self) -> bool:
        """Whether a cell refers to code of a user, which is imported only with permission."""
        return any(cell.references for cell in self.cells)

    def to_json(self) -> str:
        """Return the experiment as JSON."""
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Experiment:
        """Return the experiment that `to_json` wrote."""
        data = json.loads(text)
        return cls(**{**data, "cells": [Cell(**cell) for cell in data["cells"]]})


def work_out(file: SpecFile, *, trust_code: bool = False) -> Experiment:
    """Resolve all cells of a spec and check that every agent can play its environment.

    Args:
        file: The spec.
        trust_code: Whether the spec may import code (``package.module:Name``).

    Raises:
        SpecError: A name or a setting is not valid; the message names its line.

    >>> from matrixrl_lab.spec.files import read_spec
    >>> work_out(read_spec("quick")).cells[0].env
    'river-swim'
    """
    spec = file.spec
    every = int(spec.measure_regret)
    _refuse_too_many(file)
    envs = list(_variants(file, "env", spec.env))
    agents = list(_variants(file, "agent", spec.agent))
    problems = [_checked_env(file, index, name, settings, trust_code) for index, _, name, settings in envs]
    cells = []
    for (env, problem), (j, agent_id, agent, settings) in itertools.product(zip(envs, problems, strict=True), agents):
        _, env_id, env_name, env_settings = env
        try:
            own, maps = split_features(settings, trust_code=trust_code)
            unstarted = make_algorithm(agent, own, trust_code=trust_code)
            needs_reward = problem.kind == "finite" and problem.mdp is None and known_reward(unstarted)
            played = problem
            if maps or needs_reward:  # another problem than the one that all agents share
                known = known_reward(unstarted)
                played = open_problem(env_name, env_settings, trust_code=trust_code, known_reward=known, **maps)
            resolved, certifies = _resolved(unstarted, settings, spec.episodes, played)
            json.dumps(resolved, allow_nan=False)
        except MatrixRLError as error:
            file.fail(_key_of_error("agent", j, spec.agent[j], str(error)), f"{error}")
        except (TypeError, ValueError) as error:
            file.fail(("agent", j, "settings"), f"cannot be used ({error}).")
        measure: Literal["regret", "return"] = "return" if problem.mdp is None or not every else "regret"
        batched = plays_in_batches(problem)
        cells.append(Cell(env_id, agent_id, env_name, env_settings, agent, resolved, measure, batched, certifies))
    return Experiment(
        name=spec.name,
        title=spec.title or spec.name,
        episodes=spec.episodes,
        seeds=spec.seed_list,
        block=min(-(-spec.block // max(every, 1)) * max(every, 1), spec.episodes),  # blocks begin with a measurement
        batch=spec.batch,
        certify=spec.certify,
        cells=cells,
        executor=spec.executor,
        regret_every=every,
    )


def _refuse_too_many(file: SpecFile) -> None:
    """Raise if a spec has more cells or runs than a store can hold, before any of them is made."""
    spec = file.spec
    counts = {
        kind: [math.prod(len(values) for values in entry.sweep.values()) for entry in entries]
        for kind, entries in (("env", spec.env), ("agent", spec.agent))
    }
    envs, agents = sum(counts["env"]), sum(counts["agent"])
    cells, seeds = envs * agents, len(spec.seed_list)
    kind = "env" if envs >= agents else "agent"
    most = counts[kind].index(max(counts[kind]))
    path = (kind, most, "sweep") if getattr(spec, kind)[most].sweep else (kind,)
    words = f"{_count(envs)} environments × {_count(agents)} agents are {_count(cells)} cells"
    if cells > LARGEST_CELLS:
        file.fail(path, f"{words}, more than the limit of {LARGEST_CELLS:,}. Sweep fewer values, or divide the spec.")
    if cells * seeds > LARGEST_RUNS:
        runs = (
            f"{words}, and {_count(cells * seeds)} runs with {seeds:,} seeds, more than the limit of {LARGEST_RUNS:,}"
        )
        file.fail(path, f"{runs}. Use fewer seeds, or divide the spec.")


def _count(number: int) -> str:
    """Return a number with commas, or its order if it is too long to read.

    >>> _count(2_430_000), _count(300**20)
    ('2,430,000', 'about 10^49')
    """
    return f"{number:,}" if number < 10**18 else f"about 10^{int(math.log10(number))}"


def _variants(file: SpecFile, kind: str, entries: list[Entry]) -> Iterator[tuple[int, str, str, dict[str, Any]]]:
    """Yield (index of the entry, id, name, settings) for every combination of values of an entry's sweep."""
    taken: set[str] = set()
    for i, entry in enumerate(entries):
        for key in entry.sweep:
            if key in entry.settings:
                file.fail((kind, i, "sweep", key), "is in settings too. Keep one of them.")
        for values in itertools.product(*entry.sweep.values()):
            swept = dict(zip(entry.sweep, values, strict=True))
            base = entry.id if entry.id is not None else _labelled(entry.name, entry.settings)
            label = _labelled(base, swept)
            if label in taken:
                file.fail((kind, i), f"id {label!r} appears twice. Give one of them another id.")
            taken.add(label)
            yield i, label, entry.name, {**entry.settings, **swept}


def _labelled(name: str, settings: dict[str, Any]) -> str:
    """Return a name followed by settings: river-swim n_states=6."""
    return " ".join([name, *(f"{key}={_shown(value)}" for key, value in settings.items())])


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).replace(" ", "")


def _checked_env(file: SpecFile, index: int, name: str, settings: dict[str, Any], trust_code: bool) -> Problem:
    """Return the problem of an environment, or raise a `SpecError` if it cannot be made."""
    try:
        json.dumps(settings, allow_nan=False)
        return open_problem(name, settings, trust_code=trust_code, known_reward=False)
    except MatrixRLError as error:
        file.fail(_key_of_error("env", index, file.spec.env[index], str(error)), f"{error}")
    except (TypeError, ValueError, MemoryError) as error:
        file.fail(("env", index, "settings"), f"cannot be used ({error}).")


def _resolved(
    unstarted: Startable, settings: dict[str, Any], episodes: int, problem: Problem
) -> tuple[dict[str, Any], bool]:
    """Check that an agent can play a problem; return its resolved settings and whether it has certificates."""
    refuse_drift(unstarted)
    algorithm = unstarted.form_for(problem, episodes)
    planned = getattr(algorithm.settings, "n_episodes", None)
    if planned is not None and planned < episodes:
        fail("n_episodes", f"must not be below the {episodes} episodes that are played", planned, "Leave it out.")
    features = problem.features
    if features is None or features.phi.n_states * features.phi.n_actions * features.phi.d <= _SMALL:
        unstarted.start(problem, [0], n_episodes=episodes)
    references = {key: value for key, value in settings.items() if is_reference(value)}
    own = {} if _has_own_constructor(unstarted) else _settings_of(algorithm)
    # Arguments of a user's own constructor are kept as given, and so are references: a worker imports them again.
    return {**settings, **own, **references}, algorithm._claims_class.certifies


def _settings_of(algorithm: Algorithm) -> dict[str, Any]:
    return algorithm.settings.as_dict() if isinstance(algorithm.settings, Settings) else {}


def _has_own_constructor(unstarted: Startable) -> bool:
    """Return whether a user's class has its own constructor, which need not accept the settings of its base class."""
    owner = next(kind for kind in type(unstarted).__mro__ if "__init__" in vars(kind))
    return owner.__module__.partition(".")[0] != "matrixrl"


def _key_of_error(kind: str, index: int, entry: Entry, message: str) -> tuple[str | int, ...]:
    """Return the path of the key that an error message is about: the setting that it names, else the name."""
    for part in ("sweep", "settings"):
        for key in getattr(entry, part):
            if message.startswith(f"{key} ") or repr(key) in message:
                return kind, index, part, key
    return kind, index, "name"
