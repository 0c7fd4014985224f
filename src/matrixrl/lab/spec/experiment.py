"""A spec worked out: every cell (one agent on one environment) with all its settings, and a hash of the whole."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from matrixrl.algorithms import make_algorithm
from matrixrl.checks import fail
from matrixrl.envs import open_problem
from matrixrl.errors import MatrixRLError
from matrixrl.lab.spec.files import SpecFile
from matrixrl.lab.spec.models import Entry
from matrixrl.problems import Problem
from matrixrl.references import is_reference
from matrixrl.settings import Settings
from matrixrl.simulate.simulation import plays_in_batches

__all__ = ["Cell", "Experiment", "work_out"]

_HASH_LENGTH = 16
_SMALL = 10**7  # numbers in a table of features: above it an agent is not started only to check that it can play


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
        measure: The series that tells how well it learns: regret, or returns where the optimum is not known.
        batched: Whether seeds are simulated side by side.
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
        """A readable name of the cell."""
        return f"{self.env_id} / {self.agent_id}"

    @property
    def references(self) -> list[str]:
        """The references to code that running the cell imports."""
        named = (self.env, self.agent, *self.settings.values())
        return [*(str(value) for value in named if is_reference(value)), *([self.env] if self._is_foreign else [])]

    @property
    def _is_foreign(self) -> bool:
        return self.env.startswith("gym:") and ":" in self.env.removeprefix("gym:")


@dataclass(frozen=True)
class Experiment:
    """Everything that decides the rows of a store; nothing that does not.

    Attributes:
        name: short.
        title: for the report.
        episodes: N.
        seeds: of every cell.
        block: episodes between two writes.
        batch: seeds that are played side by side.
        certify: whether every episode is certified, where the agent can.
        cells: in the order of the spec.
    """

    name: str
    title: str
    episodes: int
    seeds: list[int]
    block: int
    batch: int
    certify: bool
    cells: list[Cell]

    @property
    def hash(self) -> str:
        """A short name for the whole: the same rows have the same hash; title and name do not count."""
        counted = {k: v for k, v in asdict(self).items() if k not in ("name", "title")}
        text = json.dumps(counted, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Experiment:
        """Return what `to_json` wrote."""
        data = json.loads(text)
        return cls(**{**data, "cells": [Cell(**cell) for cell in data["cells"]]})


def work_out(file: SpecFile, *, trust_code: bool = False) -> Experiment:
    """Return the experiment of a spec; unknown names and settings are refused with their line.

    Args:
        file: The spec.
        trust_code: Whether the spec may import code (``package.module:Name``).

    >>> from matrixrl.lab.spec.files import read_spec
    >>> work_out(read_spec("quick")).cells[0].env
    'river-swim'
    """
    spec = file.spec
    envs = list(_variants(file, "env", spec.env))
    agents = list(_variants(file, "agent", spec.agent))
    worlds = [_checked_env(file, index, name, settings, trust_code) for index, _, name, settings in envs]
    cells = []
    for (env, world), (j, agent_id, agent, settings) in itertools.product(zip(envs, worlds, strict=True), agents):
        _, env_id, env_name, env_settings = env
        try:
            resolved, certifies = _resolved(agent, settings, spec.episodes, world, trust_code)
            json.dumps(resolved, allow_nan=False)
        except MatrixRLError as error:
            file.complain(_blamed("agent", j, spec.agent[j], str(error)), f"{error}")
        except (TypeError, ValueError) as error:
            file.complain(("agent", j, "settings"), f"cannot be used ({error}).")
        measure: Literal["regret", "return"] = "return" if world.mdp is None else "regret"
        batched = plays_in_batches(world)
        cells.append(Cell(env_id, agent_id, env_name, env_settings, agent, resolved, measure, batched, certifies))
    return Experiment(
        name=spec.name,
        title=spec.title or spec.name,
        episodes=spec.episodes,
        seeds=spec.seed_list,
        block=min(spec.block, spec.episodes),
        batch=spec.batch,
        certify=spec.certify,
        cells=cells,
    )


def _variants(file: SpecFile, kind: str, entries: list[Entry]) -> Iterator[tuple[int, str, str, dict[str, Any]]]:
    """Yield (entry, id, name, settings) of every combination of an entry's sweep."""
    taken: set[str] = set()
    for i, entry in enumerate(entries):
        for key in entry.sweep:
            if key in entry.settings:
                file.complain((kind, i, "sweep", key), "stands in settings too. Keep one of them.")
        for values in itertools.product(*entry.sweep.values()):
            swept = dict(zip(entry.sweep, values, strict=True))
            base = entry.id if entry.id is not None else _labelled(entry.name, entry.settings)
            label = _labelled(base, swept)
            if label in taken:
                file.complain((kind, i), f"id {label!r} stands twice. Give one of them another id.")
            taken.add(label)
            yield i, label, entry.name, {**entry.settings, **swept}


def _labelled(name: str, settings: dict[str, Any]) -> str:
    """Return a name with settings behind it: river-swim n_states=6."""
    return " ".join([name, *(f"{key}={_shown(value)}" for key, value in settings.items())])


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).replace(" ", "")


def _checked_env(file: SpecFile, index: int, name: str, settings: dict[str, Any], trust_code: bool) -> Problem:
    """Return the problem of an environment; rewards may be unknown until an agent is chosen."""
    try:
        json.dumps(settings, allow_nan=False)
        return open_problem(name, settings, trust_code=trust_code, known_reward=False)
    except MatrixRLError as error:
        file.complain(_blamed("env", index, file.spec.env[index], str(error)), f"{error}")
    except (TypeError, ValueError, MemoryError) as error:
        file.complain(("env", index, "settings"), f"cannot be used ({error}).")


def _resolved(
    agent: str, settings: dict[str, Any], episodes: int, world: Problem, trust_code: bool
) -> tuple[dict[str, Any], bool]:
    """Return every setting of an agent on a problem, and whether it certifies, after checking that it can play."""
    unstarted = make_algorithm(agent, settings, trust_code=trust_code)
    unstarted.announce(episodes)
    algorithm = unstarted.form_for(world)
    algorithm.check_problem(world)
    planned = getattr(algorithm.settings, "n_episodes", None)
    if planned is not None and planned < episodes:
        fail("n_episodes", f"must not be below the {episodes} episodes that are played", planned, "Leave it out.")
    features = world.features
    if features is None or features.phi.n_states * features.phi.n_actions * features.phi.d <= _SMALL:
        unstarted.start(world, [0])
    own = algorithm.settings
    return own.as_dict() if isinstance(own, Settings) else dict(settings), algorithm.certifies


def _blamed(kind: str, index: int, entry: Entry, message: str) -> tuple[str | int, ...]:
    """Return the key that a complaint is about: the setting that it names, else the name."""
    for part in ("sweep", "settings"):
        for key in getattr(entry, part):
            if message.startswith(f"{key} ") or repr(key) in message:
                return kind, index, part, key
    return kind, index, "name"
