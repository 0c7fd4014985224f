"""Which column of a log is taken for what: named by the caller, or guessed from usual names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from matrixrl.checks import choice, fail, shown
from matrixrl.logs.source import Source

__all__ = ["ROLES", "choose_columns"]

ROLES = ("episode", "step", "state", "action", "reward", "next_state", "terminated", "truncated")
"""What a column of a log can be."""

_NEEDED = ("state", "action", "reward")
_VECTORS = ("state", "action", "next_state")  # roles that may have one column for each coordinate or part
_USUAL: dict[str, tuple[str, ...]] = {
    "episode": ("episode", "episode_id", "episode_index", "ep", "trajectory", "trajectory_id", "traj", "traj_id"),
    "step": ("step", "stage", "t", "time_step", "timestep", "step_id", "step_index", "h"),
    "state": ("state", "obs", "observation", "s", "state_id", "states", "observations"),
    "action": ("action", "a", "act", "action_id", "actions"),
    "reward": ("reward", "r", "rew", "rewards"),
    "next_state": (
        *("next_state", "next_obs", "next_observation", "s_next", "state_next", "obs_next", "sp", "s'"),
        *("next_states", "next_observations", "new_state", "next_state_id"),
    ),
    "terminated": ("terminated", "terminal", "is_terminal", "terminals", "termination", "terminations"),
    "truncated": ("truncated", "truncation", "truncations", "timeout", "timeouts", "is_truncated"),
}
_UNCLEAR = ("done", "dones", "is_done")


def choose_columns(source: Source, given: Any) -> dict[str, tuple[str, ...]]:
    """Return the columns of each role that a log has; a vector has one for each coordinate.

    Args:
        source: The log.
        given: Column of each role as the caller names it, None for a role to leave out; roles that are not named are
            guessed.

    Raises:
        InvalidInput: A role is needed and no column has a usual name, or several have, or a name does not exist.
    """
    if given is not None and not isinstance(given, Mapping):
        remedy = "Such as {'state': 's', 'action': 'a'}."
        fail("columns", "must be a dictionary of roles and names of columns", shown(given), remedy)
    if source.roles:
        if given:
            rule = "must be left out for a Minari data set, which names its own"
            fail("columns", rule, shown(given), "Leave it out.")
        return dict(source.roles)
    named = {choice("a role in columns", role, ROLES): _named(source, role, n) for role, n in (given or {}).items()}
    found = {role: names for role, names in named.items() if names}
    left = [column for column in source.columns if not any(column in names for names in found.values())]
    for role in ROLES:
        if role not in named and (names := _guess(source, role, left)):
            found[role] = names
    for role in _NEEDED:
        if role not in found:
            rule = f"must have a column for the {role}"
            remedy = f"Name it: columns={{{role!r}: …}}."
            fail(source.name, rule, f"the columns {_listed(source.columns)}", remedy)
    _refuse_unclear(source, named, found)
    used = [column for names in found.values() for column in names]
    for column in used:
        if used.count(column) > 1:
            fail("columns", "must name a column once", f"{column!r} for two roles", "Name another column.")
    return {role: found[role] for role in ROLES if role in found}


def _named(source: Source, role: str, given: Any) -> tuple[str, ...]:
    """Return the columns that a caller names for a role; none if it is to be left out."""
    if given is None:
        if role in _NEEDED:
            fail("columns", f"must name a column for the {role}", None, "Every log has one.")
        return ()
    names = tuple(given) if isinstance(given, (list, tuple)) and role in _VECTORS else (given,)
    for name in names:
        if not isinstance(name, str) or source.columns.count(name) != 1 or not names:
            rule = f"must name one of the columns {_listed(source.columns)} for the {role}"
            several = isinstance(name, str) and source.columns.count(name) > 1
            fail("columns", rule, f"{name!r}, which is there twice" if several else shown(name), "Correct the name.")
    if not names:
        fail("columns", f"must name at least one column for the {role}", shown(given), "Correct it.")
    return names


def _guess(source: Source, role: str, left: list[str]) -> tuple[str, ...]:
    """Return the columns with a usual name for a role, among those that are left."""
    usual = _USUAL[role]
    alike = [column for column in left if _plain(column) in usual]
    if len(alike) > 1:
        remedy = f"Name one: columns={{{role!r}: {alike[0]!r}}}."
        fail(source.name, f"must have one column for the {role}", f"the columns {_listed(alike)}", remedy)
    if alike or role not in _VECTORS:
        return tuple(alike)
    numbered: dict[str, dict[int, str]] = {}
    for column in left:
        match = re.fullmatch(r"(.*?)_?(\d{1,6})_?", _plain(column))
        if match and match[1] in usual:
            numbered.setdefault(match[1], {})[int(match[2])] = column
    if len(numbered) > 1:
        fail(source.name, f"must have one vector for the {role}", _listed(sorted(numbered)), "Name its columns.")
    return tuple(column for parts in numbered.values() for _, column in sorted(parts.items()))


def _plain(column: str) -> str:
    """Return a name in small letters with underscores, as the usual ones are written."""
    return re.sub(r"[\s.\-\[\]()]+", "_", column.strip().lower())


def _refuse_unclear(source: Source, named: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Refuse to guess what "done" means: only a termination says that nothing more can be earned."""
    unclear = [column for column in source.columns if _plain(column) in _UNCLEAR]
    used = [column for names in found.values() for column in names]
    if unclear and unclear[0] not in used and "terminated" not in found and "terminated" not in named:
        name = unclear[0]
        remedy = f"Pass columns={{'terminated': {name!r}}}, or {{'truncated': {name!r}, 'terminated': None}}."
        rule = f"must say whether {name!r} means that the environment ended the episode, or that a time limit did"
        fail("columns", rule, "neither", remedy)


def _listed(columns: list[str]) -> str:
    words = ", ".join(repr(column) for column in columns[:20])
    return shown(columns) if len(words) > 300 else words + (", …" if len(columns) > 20 else "")
