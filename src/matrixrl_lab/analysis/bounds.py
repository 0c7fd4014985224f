"""Regret bounds of an agent as numbers to draw and to print, with the episodes at which they say nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from matrixrl.records import FloatArray
from matrixrl_lab.analysis.number_text import rounded

__all__ = ["RegretBounds"]


@dataclass(frozen=True)
class RegretBounds:
    """Regret bounds of one agent on one environment, in the unit of the environment.

    Attributes:
        episode: (m,) Numbers of episodes N.
        theorem_2: (m,) Formula of Theorem 2 with c = 1, whose constant c is not proven.
        explicit: (m,) Bound that the regret of N episodes exceeds with probability at most 2δ; None if nothing is
            proven. Agents of the lab play their own plans, so that the gaps of docs/proofs.md, 7.1, are 0.
        largest: (m,) NH, the largest regret that is possible.
        informative_from: Smallest N at which the explicit bound is below NH; None if nothing is proven.
    """

    episode: FloatArray
    theorem_2: FloatArray
    explicit: FloatArray | None
    largest: FloatArray
    informative_from: int | None

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Self | None:
        """Return the bounds among the stored facts of a cell, or None if there are none.

        Facts without `largest` are of an older version, whose explicit bound left out learned rewards, rare switching
        and chance; that bound is not used.
        """
        stored = facts.get("bounds")
        if stored is None:
            return None
        episode, theorem_2 = np.asarray(stored["episode"]), np.asarray(stored["theorem_2"])
        if stored.get("largest") is None:
            return cls(episode, theorem_2, None, np.full(len(episode), np.nan), None)
        explicit = None if stored["explicit"] is None else np.asarray(stored["explicit"])
        return cls(episode, theorem_2, explicit, np.asarray(stored["largest"]), stored["informative_from"])

    @property
    def is_trivial(self) -> bool:
        """Whether the explicit bound is NH at every N, so that it says nothing."""
        return self.explicit is not None and bool((self.explicit >= self.largest).all())

    @property
    def extent(self) -> str:
        """Words that say up to which episode the explicit bound is trivial."""
        if self.explicit is None:
            return "nothing is proven"
        first = self.informative_from
        return "trivial at any N" if first is None else f"trivial until N = {rounded(first)}"
