"""What will be learned from a log, for the user to read before it happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["LogPlan"]

_WORDS = {"next_state": "next state"}


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
    first_step: int | None
    notes: tuple[str, ...]
    selection: str | None

    def __str__(self) -> str:
        steps, episodes = _count(self.n_steps, "step"), _count(self.n_episodes, "episode")
        lines = [f"{self.source}: {steps} of {episodes}"]
        for role in ("episode", "step", "state", "action", "reward", "next_state", "terminated", "truncated"):
            lines.append(_line(_WORDS.get(role, role), self._taken(role)))
        lines.append(_line("ignored", ", ".join(map(repr, self.ignored)) or "nothing"))
        late = f"{_count(self.n_late, 'episode')} after the first stage"
        lines.append(_line("begin", late if self.n_late else "all episodes at the first stage"))
        early = f"{_count(self.n_early, 'episode')} before the last stage without being terminated"
        early += ", counted without the rows that are left out" if self.n_left_out else ""
        lines.append(_line("stop", early if self.n_early else "all episodes at the last stage, or terminated"))
        if self.n_left_out:
            places = ", ".join(self.left_out) + ", …" * (self.n_left_out > len(self.left_out))
            lines.append(
                _line(
                    "left out", f"{_count(self.n_left_out, 'row')} without a next state, also their rewards: {places}"
                )
            )
        lines += [_line("note", note) for note in self.notes]
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
        return f"{taken}, counted from {self.first_step}" if role == "step" else taken


def _line(what: str, words: str) -> str:
    return f"  {what:<11} {words}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
