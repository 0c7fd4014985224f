"""Read and check a log as a whole, before anything is learned from it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from matrixrl.checks import fail, integer
from matrixrl.logs.arranging import Arranged, Rows, arrange
from matrixrl.logs.cells import CellKind, Labels
from matrixrl.logs.columns import choose_columns
from matrixrl.logs.opening import open_log
from matrixrl.logs.plan import LogPlan
from matrixrl.logs.source import Source
from matrixrl.logs.states import checked_actions, checked_rewards, checked_states, join_actions, join_coordinates
from matrixrl.logs.step_log import NAMES, StepLog
from matrixrl.problems import Problem
from matrixrl.records import BoolArray, FloatArray

__all__ = ["CheckedLog", "log_digest", "read_log"]

_KINDS: dict[str, CellKind] = {"episode": "label", "terminated": "flag", "truncated": "flag"}
_SHOWN = 3  # rows that are left out and named in a plan


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


def read_log(log: Any, problem: Problem, *, columns: Any = None, first_step: int | None = None) -> CheckedLog:
    """Read a log and check every row of it.

    Args:
        log: As in `open_log`.
        problem: The problem that it is a log of.
        columns: Column of each role; those that are not named are guessed.
        first_step: Number that the log gives to the first step of an episode; if None, 0 or 1, whichever
            occurs. Steps from 1 on are refused then if laws differ between stages.

    Raises:
        InvalidInput: The log cannot be read, or a row is wrong; the message names its line and column.
    """
    if first_step is not None:
        first_step = integer("first_step", first_step, low=-(10**9), high=10**9, remedy="Such as 0 or 1.")
    source = open_log(log)
    chosen = choose_columns(source, columns)
    read = source.read({name: _KINDS.get(role, "number") for role, names in chosen.items() for name in names})
    n_rows = len(read[chosen["reward"][0]])
    if not n_rows:
        fail(source.name, "must have at least one row", "none", "Check the file.")
    rows, names, order = _rows(source, chosen, read, problem, n_rows)
    arranged = arrange(source, rows, problem, chosen, first_step)
    if not arranged.log.n_steps:
        rule = "must have a row whose next state is known"
        fail(source.name, rule, f"{n_rows} rows without one", "Name the column of the next state.")
    plan = _plan(source, chosen, arranged, problem, order)
    return CheckedLog(plan, arranged.log, log_digest(arranged.log, names))


def _rows(
    source: Source, chosen: dict[str, tuple[str, ...]], read: dict[str, Any], problem: Problem, n_rows: int
) -> tuple[Rows, list[str], str]:
    """Return checked cells, the names of the episodes, and their order in words."""

    def vector(role: str) -> FloatArray:
        return join_coordinates(source, chosen[role], [read[name] for name in chosen[role]], problem)

    def one(role: str) -> FloatArray:
        column: FloatArray = read[chosen[role][0]]
        if column.ndim > 1:
            fail(f"{source.name}, column {chosen[role][0]!r}", "must have one number a row", column.shape, "Check it.")
        return column

    everywhere = np.ones(n_rows, dtype=np.bool_)
    states = checked_states(source, chosen["state"], vector("state"), problem, everywhere)
    has_next: BoolArray = ~everywhere
    next_states = np.zeros_like(states)
    if "next_state" in chosen:
        raw = vector("next_state")
        has_next = ~np.all(np.isnan(raw).reshape(n_rows, -1), axis=1)
        next_states = checked_states(source, chosen["next_state"], raw, problem, has_next)
    flags = {role: read[chosen[role][0]] if role in chosen else ~everywhere for role in ("terminated", "truncated")}
    steps = one("step") if "step" in chosen else None
    played = join_actions(source, chosen["action"], [read[name] for name in chosen["action"]], problem)
    if "episode" in chosen:
        labels: Labels = read[chosen["episode"][0]]
        episodes, names = labels.codes(), labels.names
        order = "episodes in the order of their numbers" if labels.are_numbers else "episodes as they first appear"
    else:
        cut = flags["terminated"] | flags["truncated"]
        if not ("terminated" in chosen or "truncated" in chosen):
            rule = "must have a column for the episode, or flags where an episode was terminated or truncated"
            fail(source.name, rule, "neither", "Name one: columns={'episode': …}.")
        episodes = np.concatenate([[0], np.cumsum(cut)[:-1]])
        names, order = [], "episodes in the order of the rows"
    rows = Rows(
        episodes=episodes,
        steps=steps,
        states=states,
        actions=checked_actions(source, chosen["action"], played, states, problem),
        rewards=checked_rewards(source, chosen["reward"][0], one("reward"), problem),
        next_states=next_states,
        has_next=has_next,
        terminated=flags["terminated"],
        truncated=flags["truncated"],
    )
    return rows, names, order


def _plan(
    source: Source, chosen: dict[str, tuple[str, ...]], arranged: Arranged, problem: Problem, order: str
) -> LogPlan:
    log, horizon = arranged.log, problem.task.horizon
    ends = log.offsets[1:] - 1
    late = np.asarray(log.firsts) > 0
    early = ~log.ended[ends] & (log.stages[ends] < horizon - 1)
    used = {name for names in chosen.values() for name in names}
    return LogPlan(
        source=source.name,
        columns=chosen,
        ignored=tuple(column for column in source.columns if column not in used),
        n_episodes=log.n_episodes,
        n_steps=log.n_steps,
        n_partial=int((late | early).sum()),
        n_late=int(late.sum()),
        n_early=int(early.sum()),
        n_left_out=len(arranged.left_out),
        left_out=tuple(source.place(row) for row in arranged.left_out[:_SHOWN].tolist()),
        first_step=arranged.first_step,
        notes=(order,),
        selection=arranged.selection,
    )


def log_digest(log: StepLog, names: list[str]) -> bytes:
    """Return the SHA-256 digest of the steps of a log and the names of its episodes.

    Args:
        log: The steps.
        names: Name of each episode; a number is written as a float.
    """
    found = hashlib.sha256()
    for name in NAMES:
        array = getattr(log, name)
        array = np.ascontiguousarray(array, dtype=np.float64 if array.dtype.kind == "f" else np.int64)
        found.update(f"{name} {array.dtype} {array.shape};".encode())
        found.update(array.tobytes())
    found.update("\n".join(names).encode(errors="surrogatepass"))
    return found.digest()
