"""A published plan: immutable tables from which answers are read, with the bounds of every action."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.agents import PlannedAhead
from matrixrl.core.greedy import best_among
from matrixrl.records import BoolArray, FloatArray, IntArray
from matrixrl_serve.projection import Follows

__all__ = ["Publication"]

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Publication:
    """A plan with a version; states and actions count from 0.

    Attributes:
        version: Number of the plan, counted from 1.
        ahead: The plan as the agent has it; None where answers are read and nothing is learned.
        policy: (H, S) Actions of the optimistic plan.
        scores: (H, S, A) Q of the plan, which decides if a request does not allow its action.
        lower: (H, S, A) Proven lower bounds on Q*.
        upper: (H, S, A) Proven upper bounds on Q*.
        recommended: (H, S) Actions of the policy with the largest certified lower bound.
        report: What the event of the plan says.
    """

    version: int
    ahead: PlannedAhead | None
    policy: IntArray
    scores: FloatArray
    lower: FloatArray
    upper: FloatArray
    recommended: IntArray
    report: dict[str, Any]

    @property
    def digest(self) -> str:
        """SHA-256 of the tables."""
        found = hashlib.sha256()
        for table in map(np.ascontiguousarray, self.tables.values()):
            kind = np.int64 if table.dtype.kind in "iu" else np.float64
            found.update(str(table.shape).encode())
            found.update(table.astype(kind).tobytes())
        return found.hexdigest()

    def action(self, follows: Follows, stage: int, state: int, among: BoolArray | None) -> int:
        """Return the action of a policy, or the best of some actions if it is none of them.

        Args:
            follows: "plan", or "recommended", for which the best action has the largest lower bound.
            stage: Stage h, counted from 0.
            state: The state.
            among: (A,) Actions that are allowed just now; None for all.
        """
        table, scores = (self.policy, self.scores) if follows == "plan" else (self.recommended, self.lower)
        action = int(table[stage, state])
        if among is None or among[action]:
            return action
        q = np.nan_to_num(scores[stage, state], nan=-np.inf, neginf=-np.inf)
        return int(best_among(q[None], among, len(self.policy))[0])

    def bounds(self, stage: int, state: int) -> tuple[list[float], list[float]]:
        """Return lower and upper bounds on Q* of every action, (A,) each; NaN of those that are not allowed."""
        return self.lower[stage, state].tolist(), self.upper[stage, state].tolist()

    @property
    def tables(self) -> Arrays:
        """The tables by name."""
        return {
            "policy": self.policy,
            "scores": self.scores,
            "lower": self.lower,
            "upper": self.upper,
            "recommended": self.recommended,
        }

    def arrays(self, plan: Mapping[str, NDArray[Any]]) -> Arrays:
        """Return the tables by name, and those of the agent's plan, for checkpoints."""
        return self.tables | {f"plan_{name}": table for name, table in plan.items()}
