"""The greedy step of compiled backups."""

from __future__ import annotations

from typing import Any

from matrixrl.core.compiled.jit import compiled

__all__ = ["choose"]


@compiled
def choose(action: int, q: Any, tie: float, score: Any, chosen: Any) -> None:
    """Take an action where its value, with what breaks ties, is the largest so far.

    Args:
        action: Number of the action.
        q: (S,) Its values.
        tie: Number that is added to break ties.
        score: (S,) Largest value so far, changed in place.
        chosen: (S,) Action with that value, as a float so that all lanes of the loop have one width; likewise.
    """
    for s in range(len(q)):
        x = q[s] + tie
        chosen[s] = action if x > score[s] else chosen[s]
        score[s] = max(score[s], x)
