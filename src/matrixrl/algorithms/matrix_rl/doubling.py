"""Doubling: epochs of growing length, for a number of episodes N that is not known."""

from __future__ import annotations

from dataclasses import dataclass

from matrixrl.core import Clock

__all__ = ["DOUBLING", "Epoch", "clock_of", "epoch_of", "restarts"]

DOUBLING = ("off", "restart", "keep")


@dataclass(frozen=True, slots=True)
class Epoch:
    """Consecutive episodes that are played with one N.

    Attributes:
        number: Number j of the epoch, counted from 1.
        start: First episode of the epoch, counted from 0.
        n_episodes: N that its radius uses.
    """

    number: int
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
    number, start, length = 1, 0, 2
    while episode >= start + length:
        number += 1
        start += length
        length *= 2
    return Epoch(number, start, length if doubling == "restart" else start + length)


def clock_of(episode: int, doubling: str, n_episodes: int | None) -> Clock:
    """Return n, counted from 1 since the data begin, the N that a radius may use, and the run, for the episode to come.

    With `restart` every epoch is a run with its own data, which has the part δ/(j(j + 1)) of δ; the parts of all runs
    add up to δ. With `keep` the data of all epochs are one run, and a radius that holds for all n at once has all of δ.

    >>> [tuple(clock_of(5, doubling, n)) for doubling, n in (("off", 100), ("restart", None), ("keep", None))]
    [(6, 100, 0), (4, 4, 2), (6, 6, 0)]
    """
    if doubling == "off":
        return Clock(episode + 1, n_episodes)
    epoch = epoch_of(episode, doubling)
    if doubling == "keep":
        return Clock(episode + 1, epoch.n_episodes)
    return Clock(episode + 1 - epoch.start, epoch.n_episodes, epoch.number)


def restarts(episode: int, doubling: str) -> bool:
    """Say whether the data are forgotten before this episode."""
    return doubling == "restart" and epoch_of(episode, doubling).start == episode > 0
