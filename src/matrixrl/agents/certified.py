"""The best bounds that an agent has certified so far: all of them hold on one event (docs/proofs.md, section 11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matrixrl.agents.frozen_returns import FrozenReturns, checked_policy, start_of
from matrixrl.checks import flag, integer
from matrixrl.errors import InvalidInput
from matrixrl.problems import Problem
from matrixrl.records import IntArray, Steps

__all__ = ["CertifiedPolicy", "CertifiedSoFar"]

_ENTRIES = {"least_upper", "lower", "basis", "start", "origin", "first", "same_start"}
_BEST = "best"


class CertifiedPolicy(NamedTuple):
    """A policy with a certified lower bound.

    Attributes:
        lower: Lower bound on its value, in the environment's unit.
        table: (H, S) Its actions.
        basis: What the bound comes from, `model` or `returns`.
    """

    lower: float
    table: IntArray
    basis: str


class CertifiedSoFar:
    """The least upper bound on V* and the policy with the largest lower bound.

    Bounds for one first state are forgotten when a certificate for another one is made.

    Args:
        problem: The problem.
        returns_delta: Probability with which the bounds from returns may fail; 0 leaves them out.
    """

    def __init__(self, problem: Problem, returns_delta: float) -> None:
        self._problem = problem
        self.returns = FrozenReturns(problem, returns_delta)
        self.least_upper: float | None = None
        self.best: CertifiedPolicy | None = None
        self._start: int | None = None
        self._first: int | None = None
        self.same_start = True
        """Whether all episodes began in the same state, or at the start of the problem."""

    def observe(self, number: int, table: IntArray, steps: Steps) -> None:
        """Take note of a finished episode.

        Args:
            number: Number of the episode, counted from 1.
            table: (H, S) Policy that it was begun with.
            steps: (1, k) Its steps.
        """
        if self._problem.mdp is None:
            first = int(steps.states[0, 0])
            self._first = first if self._first is None else self._first
            self.same_start = self.same_start and first == self._first
        self.returns.observe(number, table, steps)

    def note(self, first_state: int | None, upper: float, policy: CertifiedPolicy | None) -> None:
        """Take note of a certificate.

        Args:
            first_state: First state that it is for; None if it is for the start of the problem.
            upper: Upper bound on V*(s0), in the environment's unit.
            policy: The policy and its lower bound, if it has a table.
        """
        start = start_of(self._problem, first_state)
        if start != self._start:
            self.forget()
            self._start = start
        self.least_upper = upper if self.least_upper is None else min(self.least_upper, upper)
        self._offer(policy)

    def note_returns(self) -> None:
        """Take the best policy by its returns, if its bound is larger than the one at hand."""
        found = None if self._start is None else self.returns.best(self._start)
        self._offer(None if found is None else CertifiedPolicy(*found, "returns"))

    def _offer(self, policy: CertifiedPolicy | None) -> None:
        if policy is not None and (self.best is None or policy.lower > self.best.lower):
            self.best = policy

    def forget(self) -> None:
        """Forget the bounds; they were for another first state or another range of rewards."""
        self.least_upper, self.best = None, None

    @property
    def gap(self) -> float:
        """Distance of the least upper and the largest lower bound; infinite before the first certificate."""
        return np.inf if self.least_upper is None or self.best is None else self.least_upper - self.best.lower

    def header(self) -> dict[str, Any]:
        """Return the numbers as plain data, for saving."""
        best = self.best
        return {
            "least_upper": self.least_upper,
            "lower": None if best is None else best.lower,
            "basis": None if best is None else best.basis,
            "start": self._start,
            "origin": self.returns.origin,
            "first": self._first,
            "same_start": self.same_start,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the tables and counts, for saving."""
        return ({} if self.best is None else {_BEST: self.best.table}) | self.returns.arrays()

    def restore(self, header: Any, arrays: Mapping[str, NDArray[Any]], n_episodes: int) -> None:
        """Take back what `header` and `arrays` returned after so many episodes.

        Raises:
            InvalidInput: The bounds cannot be those of the problem after so many episodes.
        """
        if not isinstance(header, dict) or set(header) != _ENTRIES:
            raise InvalidInput(f"the certified bounds must have the entries {sorted(_ENTRIES)}")
        least, lower, basis, start = (header[name] for name in ("least_upper", "lower", "basis", "start"))
        for value in (least, lower):
            self._check_value(value)
        if (lower is None) != (basis is None) or basis not in (None, "model", "returns"):
            raise InvalidInput("the basis of a certified bound must be model or returns")
        for name in ("start", "first"):
            if header[name] is not None:
                last = self._problem.finite_task.n_states - 1
                integer(name, header[name], low=-1, high=last, remedy="It is damaged.")
        self._first, self.same_start = header["first"], flag("same_start", header["same_start"])
        if (_BEST in arrays) != (lower is not None):
            raise InvalidInput("a certified bound must have its policy")
        self.returns.restore(header["origin"], {n: a for n, a in arrays.items() if n != _BEST}, n_episodes)
        self.least_upper, self._start = least, start
        if lower is not None:
            self.best = CertifiedPolicy(lower, checked_policy(self._problem, arrays[_BEST], 2), basis)

    def _check_value(self, value: Any) -> None:
        """Refuse anything but None and a possible value of an episode."""
        if value is None:
            return
        task = self._problem.task
        low, high = task.reward_range or (-np.inf, np.inf)
        slack = 1e-6 * (1.0 + task.horizon * (high - low))
        if not isinstance(value, float) or not task.horizon * low - slack <= value <= task.horizon * high + slack:
            raise InvalidInput("certified bounds must be values of the problem")
