"""Open episodes, and ended ones that wait for those begun before them."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matrixrl.agents.episodes import OpenEpisode

__all__ = ["LATE_EPISODES", "EpisodeOrder"]

LATE_EPISODES = ("wait", "learn")
"""Treatment of an episode that ends before one that was begun earlier."""


class EpisodeOrder:
    """The episodes that were begun and not yet learned from, in the order of their begin.

    Attributes:
        n_begun: Number of episodes that were begun; the number of the next one.
    """

    def __init__(self, n_begun: int = 0) -> None:
        self.n_begun = n_begun
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

    def is_first(self, episode: OpenEpisode) -> bool:
        """Say whether no open episode was begun before an open one."""
        return next(iter(self._open)) == episode.number

    def add(self, episode: OpenEpisode) -> None:
        """Add an open episode, begun after all others."""
        self._open[episode.number] = episode
        self.n_begun = max(self.n_begun, episode.number + 1)

    def remove(self, episode: OpenEpisode) -> None:
        """Forget an open episode; nothing happens if it is not open."""
        self._open.pop(episode.number, None)

    def wait(self, episode: OpenEpisode) -> None:
        """Let an open episode wait until all episodes that were begun before it are closed."""
        self.remove(episode)
        heapq.heappush(self._waiting, (episode.number, episode))

    def ready(self) -> OpenEpisode | None:
        """Return the next episode to learn from: it waits, and no open one was begun before it; else None."""
        if not self._waiting:
            return None
        number, episode = self._waiting[0]
        return episode if not self._open or number < next(iter(self._open)) else None

    def learned(self) -> None:
        """Forget the episode that `ready` returned."""
        heapq.heappop(self._waiting)

    def drop_waiting(self) -> None:
        """Forget the episodes that wait."""
        self._waiting = []
