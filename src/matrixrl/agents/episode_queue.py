"""Overlapping, late and timed-out episodes: those that were begun and not yet learned from."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from matrixrl.agents import ask_and_tell
from matrixrl.agents.episodes import OpenEpisode
from matrixrl.errors import ProtocolError
from matrixrl.interrupts import uninterrupted
from matrixrl.play.engine import Finished
from matrixrl.records import Episode

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["LATE_EPISODES", "EpisodeQueue"]

LATE_EPISODES = ("wait", "learn")
"""Treatment of an episode that ends before one that was begun earlier."""


class EpisodeQueue:
    """The episodes that were begun by `Agent.begin_episode` and not yet learned from, in the order of their begin.

    Learning in the order in which episodes were begun keeps every proof (docs/proofs.md, section 3), so an episode that
    is ended before one that was begun earlier waits, unless late episodes are learned from at once.

    Args:
        agent: The agent, which learns from them.
        late: One of `LATE_EPISODES`.

    Attributes:
        n_begun: Number of episodes that were begun; the number of the next one.
        late: Treatment of late episodes.
        delay: Largest number of episodes that were learned from between the begin of an episode and its own turn.
        n_time_outs: Number of episodes that timed out.
    """

    def __init__(self, agent: Agent, late: str) -> None:
        self._agent, self.late = agent, late
        self.n_begun = self.delay = self.n_time_outs = 0
        self._open: dict[int, OpenEpisode] = {}
        self._waiting: list[tuple[int, OpenEpisode]] = []  # a heap

    @property
    def open(self) -> tuple[OpenEpisode, ...]:
        """Open episodes in the order of their begin."""
        return tuple(self._open.values())

    @property
    def n_open(self) -> int:
        """Number of open episodes."""
        return len(self._open)

    @property
    def waiting(self) -> tuple[OpenEpisode, ...]:
        """Ended episodes that were not learned from yet, in the order of their begin."""
        return tuple(episode for _, episode in sorted(self._waiting, key=lambda pair: pair[0]))

    @property
    def n_waiting(self) -> int:
        """Number of episodes that wait."""
        return len(self._waiting)

    def find(self, number: int) -> OpenEpisode | None:
        """Return the open episode with a number, or None."""
        return self._open.get(number)

    def only(self, call: str) -> OpenEpisode:
        """Return the only open episode; refuse a call if there are none or several."""
        if not self._open:
            raise ProtocolError(f"{call} was called outside an episode; call begin_episode first")
        if len(self._open) > 1:
            raise ProtocolError(f"{call} was called while {len(self._open)} episodes are open; call it on one of them")
        return self.open[0]

    def add(self, episode: OpenEpisode) -> None:
        """Add an open episode, begun after all others."""
        self._open[episode.number] = episode
        self.n_begun = max(self.n_begun, episode.number + 1)

    def wait(self, episode: OpenEpisode) -> None:
        """Let an open episode wait until all episodes that were begun before it are closed."""
        self._open.pop(episode.number, None)
        heapq.heappush(self._waiting, (episode.number, episode))
        episode._life = "waiting"

    def close(self, episode: OpenEpisode) -> Episode | None:
        """Learn from an ended episode and from those that waited for it, or let it wait for its turn."""
        is_first = next(iter(self._open)) == episode.number
        if not is_first and self.late == "wait":
            self.wait(episode)
            return None
        with uninterrupted():
            self._learn_ready()
            if not is_first:
                number = self._agent.n_episodes + 1
                self._agent._note_selection(f"episode {number} was ended before one that was begun earlier")
            record = self._learn(episode)
            self._open.pop(episode.number, None)
            self._learn_ready()
        return record

    def _learn(self, episode: OpenEpisode) -> Episode:
        """Learn from an episode that was ended."""
        plan, steps, agent = episode._plan, episode.data.steps(), self._agent
        self.delay = max(self.delay, agent.n_episodes - episode._planned_after)
        played = Finished(plan, steps, episode._off_plan, episode._is_certifying, certificate=episode._certificate)
        record = ask_and_tell.learn_steps(agent, played)
        episode._life, episode._record, episode._plan = "closed", record, None
        return record

    def time_out(self, episode: OpenEpisode) -> Episode | None:
        """Close an episode whose last step timed out."""
        self.n_time_outs += 1
        if self._agent.problem.mdp is not None:
            words = "an episode timed out, which the known transition table does not have as an outcome"
            self._agent._note_doubt(words)
        return self.close(episode)

    def abandon(self, episode: OpenEpisode) -> None:
        """Forget an open episode, and learn from those that waited for it."""
        self._open.pop(episode.number, None)
        episode._life, episode._plan = "closed", None
        with uninterrupted():
            self._learn_ready()

    def drop(self, error: BaseException, n_steps: int | None) -> None:
        """Forget all episodes after an error or an interrupt; an error may be due to what was observed.

        Args:
            error: The error or interrupt.
            n_steps: Number of steps of an episode that is not in the queue; None if there is none.
        """
        left = (*self.open, *self.waiting)
        self._open, self._waiting = {}, []
        for episode in left:
            episode._life, episode._plan = "closed", None
        lengths = [episode.stage for episode in left] + ([] if n_steps is None else [n_steps])
        if isinstance(error, Exception) and lengths:
            self._agent._note_selection(f"an episode ended in an error after {max(lengths)} of its steps")

    def _learn_ready(self) -> None:
        """Learn from the episodes that wait and before which no open one was begun."""
        while self._waiting and (not self._open or self._waiting[0][0] < next(iter(self._open))):
            self._learn(self._waiting[0][1])
            heapq.heappop(self._waiting)
