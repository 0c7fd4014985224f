"""When N is not known (doubling) and when to plan again (rare switching)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DOUBLING", "Epoch", "epoch_of"]

DOUBLING = ("off", "restart", "keep")


@dataclass(frozen=True, slots=True)
class Epoch:
    """A stretch of episodes that is played as if its end were N.

    Attributes:
        start: the first episode of the epoch, counted from 0.
        n_episodes: the N that its radius uses.
    """

    start: int
    n_episodes: int


def epoch_of(episode: int, doubling: str) -> Epoch:
    """Return the epoch of an episode: N = 2, 4, 8, … one after the other.

    `restart` forgets all data at the start of an epoch (the paper's); `keep` keeps them, and N is then the total
    number of episodes at the end of the epoch.

    >>> [epoch_of(n, "restart").start for n in range(8)]
    [0, 0, 2, 2, 2, 2, 6, 6]
    >>> [epoch_of(n, "keep").n_episodes for n in range(8)]
    [2, 2, 6, 6, 6, 6, 14, 14]
    """
    start, length = 0, 2
    while episode >= start + length:
        start += length
        length *= 2
    return Epoch(start, length if doubling == "restart" else start + length)
