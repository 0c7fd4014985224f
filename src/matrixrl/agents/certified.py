"""The best bounds that an agent has certified so far: all of them hold on one event (docs/proofs.md, section 11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matrixrl.agents.frozen_returns import FrozenReturns, checked_policy, is_chain, start_of
from matrixrl.checks import integer
from matrixrl.core.backup import Frame
from matrixrl.errors import InvalidInput
from matrixrl.features import OneHotPhi
from matrixrl.printable import printable
from matrixrl.problems import Problem
from matrixrl.records import IntArray, Steps

__all__ = ["CONTRADICTION", "CertifiedPolicy", "CertifiedSoFar"]

_ENTRIES = {"least_upper", "lower", "basis", "start", "origin", "episodes_start", "doubts", "contradiction"}
CONTRADICTION = "the bounds contradict each other: the assumptions are false (or a δ event)"
"""Words for an upper bound that is below a lower bound."""
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
        self._starts: dict[int, int] = {}
        self._episodes_start: int | None = None
        self._doubts: str | None = None  # why the returns of all episodes say nothing about one start
        self.contradiction: str | None = None
        """Words, if bounds contradicted each other at some time."""

    def observe(self, number: int, table: Callable[[], IntArray] | None, steps: Steps) -> None:
        """Take note of a finished episode.

        Args:
            number: Number of the episode, counted from 1.
            table: Function that returns the policy (H, S) that it was begun with; None if no policy is kept.
            steps: (1, k) Its steps.
        """
        start = self._start_of(int(steps.states[0, 0]))
        chain = is_chain(steps)
        if self._doubts is None and self._episodes_start not in (None, start):
            self._doubts = "episodes began in different states"
        if self._doubts is None and not chain:
            self._doubts = "a step did not begin in the state in which the one before it ended"
        length = steps.actions.shape[1]
        if self._doubts is None and length < self._problem.task.horizon and not steps.ended[0, -1]:
            self._doubts = "an episode was ended before its last step"
        self._episodes_start = start
        if table is not None:
            self.returns.observe(number, table, steps, start, is_chain=chain)

    def _start_of(self, first_state: int) -> int:
        """Return `start_of` of a first state; the answers are kept, as episodes begin in few states."""
        if first_state not in self._starts:
            self._starts[first_state] = start_of(self._problem, first_state)
        return self._starts[first_state]

    def doubts(self) -> str | None:
        """Return why the returns of all episodes say nothing about V* of the last certificate, or None if they do."""
        if self._doubts is None and self._episodes_start not in (None, self._start):
            return "episodes did not begin where the bound on V* is for"
        return self._doubts

    def contradict(self, *, upper: float, lower: float) -> None:
        """Note it if an upper bound is below a lower bound by more than rounding; it is never taken back."""
        if upper < lower - 1e-9 * (1.0 + abs(upper) + abs(lower)):
            self.contradiction = CONTRADICTION

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
        self._compare()

    def note_returns(self) -> None:
        """Take the best policy by its returns, if its bound is larger than the one at hand."""
        found = None if self._start is None else self.returns.best(self._start)
        self._offer(None if found is None else CertifiedPolicy(*found, "returns"))
        self._compare()

    def tighten(
        self, first_state: int | None, table: IntArray | None, interval: tuple[float, float]
    ) -> tuple[float, float]:
        """Return an interval of the value of a policy, cut to what was certified so far for the same start.

        Args:
            first_state: First state that the interval is for; None if it is for the start of the problem.
            table: (H, S) The policy, if it is deterministic.
            interval: Lower and upper bound on its value, in the environment's unit.
        """
        lower, upper = interval
        if self.least_upper is None or start_of(self._problem, first_state) != self._start:
            return interval
        if self.best is not None and table is not None and np.array_equal(self.best.table, table):
            lower = max(lower, self.best.lower)
        return lower, min(upper, self.least_upper)

    def _compare(self) -> None:
        if self.least_upper is not None and self.best is not None:
            self.contradict(upper=self.least_upper, lower=self.best.lower)

    def _offer(self, policy: CertifiedPolicy | None) -> None:
        if policy is not None and (self.best is None or policy.lower > self.best.lower):
            self.best = policy

    def permit(self, frame: Frame) -> None:
        """Forget what newer masks make wrong: a best policy with an action that is not allowed.

        With one-hot φ the least upper bound stays: it was for more actions, of which those that are left are a part.
        With others, pairs that do not exist may have entered the bound on the norm of the core (docs/proofs.md, 13).
        """
        features = self._problem.features
        if features is None or not isinstance(features.phi, OneHotPhi):
            self.least_upper = None
        if self.best is not None and not frame.permits(self.best.table):
            self.best = None
        self.returns.permit(frame)

    def forget(self) -> None:
        """Forget the bounds; they were for another first state or another range of rewards."""
        self.least_upper, self.best = None, None

    def header(self) -> dict[str, Any]:
        """Return the numbers as plain data, for saving."""
        best = self.best
        return {
            "least_upper": self.least_upper,
            "lower": None if best is None else best.lower,
            "basis": None if best is None else best.basis,
            "start": self._start,
            "origin": self.returns.origin,
            "episodes_start": self._episodes_start,
            "doubts": self._doubts,
            "contradiction": self.contradiction,
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
        for name in ("start", "episodes_start"):
            if header[name] is not None:
                last = self._problem.finite_task.n_states - 1
                integer(name, header[name], low=-1, high=last, remedy="It is damaged.")
        for name in ("doubts", "contradiction"):
            if header[name] is not None and not isinstance(header[name], str):
                raise InvalidInput(f"{name} must be words")
        self._episodes_start = header["episodes_start"]
        self._doubts = None if header["doubts"] is None else printable(header["doubts"])
        self.contradiction = None if header["contradiction"] is None else printable(header["contradiction"])
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
        task, weight = self._problem.task, self._problem.total_weight
        low, high = task.reward_range or (-np.inf, np.inf)
        slack = 1e-6 * (1.0 + weight * (high - low))
        if not isinstance(value, float) or not weight * low - slack <= value <= weight * high + slack:
            raise InvalidInput("certified bounds must be values of the problem")
