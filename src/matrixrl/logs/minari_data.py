"""Minari data sets as logs.

Minari reads numbers and texts only. Opening a data set without saved spaces would make the environment that the data
set names, which runs code; such a data set is refused before Minari opens it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, shown
from matrixrl.errors import InvalidInput
from matrixrl.extras import require_packages
from matrixrl.logs.table import LogTable

__all__ = ["PREFIX", "dataset_folder", "import_minari", "minari_table", "open_minari"]

PREFIX = "minari:"
"""Start of the name of a Minari data set, in place of a path."""

_ROLES = {
    "episode": "id",
    "step": "infos/stage",
    "state": "observations",
    "action": "actions",
    "reward": "rewards",
    "next_state": "next observations",
    "terminated": "terminations",
    "truncated": "truncations",
}
_METADATA_LIMIT = 1 << 24  # bytes
_DAMAGE = (OSError, LookupError, ValueError, TypeError, AttributeError, AssertionError, RuntimeError, ImportError)


def minari_table(dataset: Any) -> LogTable:
    """Return the episodes of what ``minari.load_dataset`` returned as a log."""
    name = f"Minari data set {shown(getattr(dataset, 'id', None))}"
    with _refused_if_damaged(name):
        columns = _columns(list(dataset.iterate_episodes()), name)

    def place(row: int) -> str:
        episode = columns["id"][row]
        return f"episode {episode}, step {row - np.searchsorted(columns['id'], episode)} (counted from 0)"

    roles = {role: (column,) for role, column in _ROLES.items() if column in columns}
    return LogTable(name, list(columns), lambda names: {one: columns[one] for one in names}, place, roles)


def open_minari(identifier: str) -> LogTable:
    """Return a data set of the local Minari folder, such as ``river-swim/random-v0``.

    Raises:
        InvalidInput: There is no such data set, or it cannot be read without running code.
    """
    minari = import_minari()
    data = dataset_folder(identifier) / "data"
    try:
        with (data / "metadata.json").open("rb") as file:
            raw = file.read(_METADATA_LIMIT + 1)
        metadata = json.loads(raw) if len(raw) <= _METADATA_LIMIT else None
    except (OSError, ValueError, RecursionError) as error:
        what = f"{identifier!r} ({type(error).__name__}: {error})"
        fail("log", "must name a Minari data set on this machine", what, "List them with minari list local.")
    spaces = ("observation_space", "action_space")
    if not isinstance(metadata, dict) or not all(isinstance(metadata.get(space), str) for space in spaces):
        rule = "must be a data set with saved spaces, as no code is run to find them"
        remedy = "Load it yourself with minari.load_dataset, if you trust it, and pass what that returns."
        fail("log", rule, repr(identifier), remedy)
    with _refused_if_damaged(f"Minari data set {identifier!r}"):
        return minari_table(minari.MinariDataset(data))


@contextmanager
def _refused_if_damaged(name: str) -> Iterator[None]:
    try:
        yield
    except InvalidInput:
        raise
    except _DAMAGE as error:
        fail(name, "must be readable by Minari", f"{type(error).__name__}: {error}", "Check the data set.")


def _columns(episodes: list[Any], name: str) -> dict[str, NDArray[Any]]:
    """Return the columns of all episodes together."""
    parts: dict[str, list[NDArray[Any]]] = {column: [] for column in _ROLES.values()}
    for number, episode in enumerate(episodes):
        length = len(episode.rewards)
        seen, actions = episode.observations, episode.actions
        for what, found, wanted in (("observations", seen, length + 1), ("actions", actions, length)):
            if not isinstance(found, np.ndarray) or len(found) != wanted or found.dtype.kind not in "biuf":
                rule = f"must have {wanted} {what} that are numbers or vectors"
                fail(f"{name}, episode {number}", rule, shown(found), "Convert the data set.")
        parts["id"].append(np.full(length, number))
        parts["observations"].append(seen[:-1])
        parts["next observations"].append(seen[1:])
        parts["actions"].append(actions)
        for column in ("rewards", "terminations", "truncations"):
            parts[column].append(np.asarray(getattr(episode, column)))
        stage = (episode.infos or {}).get("stage")
        if isinstance(stage, np.ndarray) and len(stage) in (length, length + 1):
            parts["infos/stage"].append(stage[:length])
    if len(parts["infos/stage"]) < len(episodes):
        del parts["infos/stage"]
    return {column: np.concatenate(found) if found else np.zeros(0) for column, found in parts.items()}


def import_minari() -> ModuleType:
    """Return the module minari, or raise `MissingExtra`."""
    require_packages(["minari", "h5py"], extra="minari", purpose="A Minari data set")  # h5py has its default format
    return import_module("minari")


def dataset_folder(identifier: str) -> Path:
    """Return the folder of a data set, which must have a name that Minari accepts."""
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.storage.datasets_root_dir import get_dataset_path

    try:
        parse_dataset_id(identifier)
    except (ValueError, TypeError):
        rule = "must be a name of the form namespace/name-v0"
        fail("Minari data set", rule, repr(identifier), "Such as minari:river-swim/random-v0.")
    return Path(get_dataset_path(identifier))
