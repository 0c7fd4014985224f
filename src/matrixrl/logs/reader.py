"""Read and check a log as a whole, and report what will be learned from it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from matrixrl.checks import choice, fail, integer, shown
from matrixrl.logs.minari_data import PREFIX, minari_table, open_minari
from matrixrl.logs.rows import MISSING, Columns, LogRows
from matrixrl.logs.step_log import StepLog
from matrixrl.logs.table import DECIMALS, VECTORS, LogTable, open_table
from matrixrl.problems import Problem
from matrixrl.spaces import PartsCodec

__all__ = ["ROLES", "CheckedLog", "LogPlan", "log_digest", "read_log"]

ROLES = ("episode", "step", "state", "action", "reward", "next_state", "terminated", "truncated")
"""What a column of a log can be."""
_OUTCOME = "outcome"  # of a problem with known dynamics

_NEEDED = ("state", "action", "reward")
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
    "outcome": ("outcome", "outcomes", "w"),
    "truncated": ("truncated", "truncation", "truncations", "timeout", "timeouts", "is_truncated"),
}
_DATES = ("date", "datetime", "timestamp")  # of steps, if no other column has a usual name
_UNCLEAR = ("done", "dones", "is_done")
_SHOWN = 3  # rows that are left out and named in a plan


@dataclass(frozen=True, slots=True)
class LogPlan:
    """What is taken from a log that was read and checked.

    Attributes:
        source: Name of the log.
        columns: Columns of each role; several for a vector.
        ignored: Columns that are not used.
        n_episodes: Number of episodes that will be learned from.
        n_steps: Number of steps that will be learned from.
        n_partial: Number of episodes that begin late, or stop early, or both.
        n_late: Number of episodes that begin after the first stage.
        n_early: Number of episodes whose steps to learn from stop before the last stage without being terminated.
        n_left_out: Number of rows that are left out, because their next state is not known.
        left_out: Places of the first of them.
        n_incomplete: Number of episodes that are dropped or cut because of empty cells.
        first_step: Number that the log gives to the first step of an episode; None if rows are not numbered.
        notes: What else the reader should know.
        selection: Why leaving out rows may be a selection that depends on outcomes; None if it is not.
    """

    source: str
    columns: Mapping[str, tuple[str, ...]]
    ignored: tuple[str, ...]
    n_episodes: int
    n_steps: int
    n_partial: int
    n_late: int
    n_early: int
    n_left_out: int
    left_out: tuple[str, ...]
    n_incomplete: int
    first_step: int | None
    notes: tuple[str, ...]
    selection: str | None

    def __str__(self) -> str:
        steps, episodes = _count(self.n_steps, "step"), _count(self.n_episodes, "episode")
        lines = [f"{self.source}: {steps} of {episodes}"]
        roles = [*ROLES, *[_OUTCOME] * (_OUTCOME in self.columns)]
        lines += [_line(role.replace("_", " "), self._taken(role)) for role in roles]
        lines.append(_line("ignored", ", ".join(map(repr, self.ignored)) or "nothing"))
        late = f"{_count(self.n_late, 'episode')} after the first stage"
        lines.append(_line("begin", late if self.n_late else "all episodes at the first stage"))
        early = f"{_count(self.n_early, 'episode')} before the last stage without being terminated"
        early += ", counted without the rows that are left out" if self.n_left_out else ""
        lines.append(_line("stop", early if self.n_early else "all episodes at the last stage, or terminated"))
        if self.n_left_out:
            places = ", ".join(self.left_out) + ", …" * (self.n_left_out > len(self.left_out))
            rows = f"{_count(self.n_left_out, 'row')} without a next state, also their rewards: {places}"
            lines.append(_line("left out", rows))
        lines += [_line("note", note) for note in self.notes]
        if self.selection is not None:
            lines.append(_line("no proof", self.selection))
        return "\n".join(lines)

    def _taken(self, role: str) -> str:
        names = self.columns.get(role)
        if names is None:
            absent = {
                "episode": "cut where an episode was terminated or truncated",
                "step": "in the order of the rows",
                "next_state": "the state of the next row",
            }
            return absent.get(role, f"not given, so no step counts as {role}")
        taken = "from " + ", ".join(map(repr, names[:4])) + ", …" * (len(names) > 4)
        order = "in the order of dates" if self.first_step is None else f"counted from {self.first_step}"
        return f"{taken}, {order}" if role == "step" else taken


def _line(what: str, words: str) -> str:
    return f"  {what:<11} {words}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


@dataclass(frozen=True)
class CheckedLog:
    """A log that was read and in which every row is fine.

    Attributes:
        plan: What is taken from it.
        steps: The steps to learn from.
        digest: Digest of its steps and of the names of its episodes, to recognise a log that comes again.
    """

    plan: LogPlan
    steps: StepLog
    digest: bytes


def read_log(
    log: Any,
    problem: Problem,
    *,
    columns: Any = None,
    first_step: int | None = None,
    missing: str = "error",
    separator: str | None = None,
    decimal: str | None = None,
) -> CheckedLog:
    """Read a log of a problem and check every row of it.

    Args:
        log: Path of a CSV or Parquet file, ``minari:name`` or what ``minari.load_dataset`` returned, a data frame, a
            table of pyarrow, or a dictionary of columns.
        problem: The problem.
        columns: Column of each role; those that are not named are guessed.
        first_step: Number that the log gives to the first step of an episode; if None, 0 or 1, whichever
            occurs. Steps from 1 on, and episodes of fewer than H rows without a column of steps, are refused then if
            laws differ between stages or first states are estimated.
        missing: What is done about empty cells: "error", "drop_episode" or "cut_episode".
        separator: Character between the cells of a CSV file; found from its header if None.
        decimal: Decimal character of numbers that are text; found from the cells if None.

    Raises:
        InvalidInput: The log cannot be read, or a row is wrong; the message names its line and column.
    """
    if first_step is not None:
        first_step = integer("first_step", first_step, low=-(10**9), high=10**9, remedy="Such as 0 or 1.")
    choice("missing", missing, MISSING)
    decimal = None if decimal is None else choice("decimal", decimal, DECIMALS)
    if separator is None and isinstance(log, str) and log.startswith(PREFIX):
        source = open_minari(log.removeprefix(PREFIX))
    else:
        source = minari_table(log) if hasattr(type(log), "iterate_episodes") else open_table(log, separator)
    chosen = _choose_columns(source, columns, problem)
    rows = LogRows(source, chosen, problem, missing, decimal)
    steps, number, left_out, selection = rows.form_episodes(first_step)
    if not steps.n_steps:
        rule = "must have a row whose next state is known"
        fail(source.name, rule, f"{len(rows.order)} rows without one", "Name the column of the next state.")
    ends = steps.offsets[1:] - 1
    late = np.asarray(steps.firsts) > 0
    early = ~steps.ended[ends] & (steps.stages[ends] < problem.task.horizon - 1)
    used = {name for names in chosen.values() for name in names}
    dialect = [f"decimals after {rows.decimal!r}"] if source.separator is not None or rows.decimal != "." else []
    if source.separator is not None:
        dialect = [f"cells separated by {source.separator!r}, {dialect[0]}"]
    plan = LogPlan(
        source=source.name,
        columns=chosen,
        ignored=tuple(column for column in source.columns if column not in used),
        n_episodes=steps.n_episodes,
        n_steps=steps.n_steps,
        n_partial=int((late | early).sum()),
        n_late=int(late.sum()),
        n_early=int(early.sum()),
        n_left_out=len(left_out),
        left_out=tuple(source.place(row) for row in left_out[:_SHOWN].tolist()),
        n_incomplete=rows.n_incomplete,
        first_step=number,
        notes=(*rows.notes, *dialect),
        selection=selection,
    )
    return CheckedLog(plan, steps, log_digest(steps, rows.names))


def log_digest(log: StepLog, names: list[str]) -> bytes:
    """Return the SHA-256 digest of the steps of a log and the names of its episodes, in which numbers are floats."""
    found = hashlib.sha256()
    for name in log.names:
        array = getattr(log, name)
        array = np.ascontiguousarray(array, dtype=np.float64 if array.dtype.kind == "f" else np.int64)
        found.update(f"{name} {array.dtype} {array.shape};".encode())
        found.update(array.tobytes())
    found.update("\n".join(names).encode(errors="surrogatepass"))
    return found.digest()


def _choose_columns(source: LogTable, given: Any, problem: Problem) -> Columns:
    """Return the columns of each role, as the caller names them (None leaves out a role) or by their usual names."""
    if given is not None and not isinstance(given, Mapping):
        remedy = "Such as {'state': 's', 'action': 'a'}."
        fail("columns", "must be a dictionary of roles and names of columns", shown(given), remedy)
    if source.roles:
        if given:
            rule = "must be left out for a Minari data set, which names its own"
            fail("columns", rule, shown(given), "Leave it out.")
        return dict(source.roles)
    roles = [*ROLES, *[_OUTCOME] * (problem.task.dynamics is not None)]
    named = {choice("a role in columns", role, roles): _named(source, role, n) for role, n in (given or {}).items()}
    found = {role: names for role, names in named.items() if names}
    left = [column for column in source.columns if not any(column in names for names in found.values())]
    for role in roles:
        if role not in named and (names := _of_parts(role, left, problem) or _guess(source, role, left)):
            found[role] = names
    for role in _NEEDED:
        if role not in found:
            rule = f"must have a column for the {role}"
            remedy = f"Name it: columns={{{role!r}: …}}, or on the command line --column {role.replace(' ', '_')}=…."
            fail(source.name, rule, f"the columns {_listed(source.columns)}", remedy)
    _refuse_unclear(source, named, found)
    used = [column for names in found.values() for column in names]
    for column in used:
        if used.count(column) > 1:
            fail("columns", "must name a column once", f"{column!r} for two roles", "Name another column.")
    return {role: found[role] for role in roles if role in found}


def _named(source: LogTable, role: str, given: Any) -> tuple[str, ...]:
    """Return the columns that a caller names for a role; none if it is to be left out."""
    if given is None:
        if role in _NEEDED:
            fail("columns", f"must name a column for the {role}", None, "Every log has one.")
        return ()
    names = tuple(given) if isinstance(given, (list, tuple)) and role in VECTORS else (given,)
    for name in names:
        if not isinstance(name, str) or source.columns.count(name) != 1:
            rule = f"must name one of the columns {_listed(source.columns)} for the {role}"
            several = isinstance(name, str) and source.columns.count(name) > 1
            fail("columns", rule, f"{name!r}, which is there twice" if several else shown(name), "Correct the name.")
    if not names:
        fail("columns", f"must name at least one column for the {role}", shown(given), "Correct it.")
    return names


def _of_parts(role: str, left: list[str], problem: Problem) -> tuple[str, ...]:
    """Return the columns with the names of the parts of states or actions, such as state.stock or stock."""
    codec = {"state": problem.states, "action": problem.actions, "next_state": problem.states}.get(role)
    if not isinstance(codec, PartsCodec):
        return ()
    columns = {_plain(column): column for column in left}
    wanted = [codec.names(role)] + [codec.names("")] * (role != "next_state")
    for names in wanted:
        plain = [_plain(name).lstrip("_") for name in names]
        if all(name in columns for name in plain):
            return tuple(columns[name] for name in plain)
    return ()


def _guess(source: LogTable, role: str, left: list[str]) -> tuple[str, ...]:
    """Return the columns with a usual name for a role, among those that are left."""
    usual = _USUAL[role]
    alike = [column for column in left if _plain(column) in usual]
    if role == "step":
        alike = alike or [column for column in left if _plain(column) in _DATES and source.has_dates(column)]
    if len(alike) > 1:
        remedy = f"Name one: columns={{{role!r}: {alike[0]!r}}}."
        fail(source.name, f"must have one column for the {role}", f"the columns {_listed(alike)}", remedy)
    if alike or role not in VECTORS:
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


def _refuse_unclear(source: LogTable, named: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Refuse to guess what "done" means: only a termination says that nothing more can be earned."""
    unclear = [column for column in source.columns if _plain(column) in _UNCLEAR]
    used = [column for names in found.values() for column in names]
    if unclear and unclear[0] not in used and "terminated" not in found and "terminated" not in named:
        name = unclear[0]
        remedy = f"Pass columns={{'terminated': {name!r}}}, or {{'truncated': {name!r}, 'terminated': None}}."
        rule = f"must say whether {name!r} means that the environment ended the episode, or that a time limit did"
        fail("columns", rule, "neither", remedy)


def _listed(columns: list[str]) -> str:
    words = ", ".join(repr(column) for column in columns[:20]) or "(none)"
    return shown(columns) if len(words) > 300 else words + (", …" if len(columns) > 20 else "")
