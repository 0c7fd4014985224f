"""The best bounds that an agent has certified so far: all of them hold on one event (docs/proofs.md, section 11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matrixrl.agents.frozen_returns import FrozenReturns, checked_policy, is_chain
from matrixrl.core.backup import Frame
from matrixrl.errors import InvalidInput
from matrixrl.features import OneHotPhi
from matrixrl.printable import printable
from matrixrl.problems import Problem
from matrixrl.records import IntArray, Steps

__all__ = ["CONTRADICTION", "CertifiedPolicy", "CertifiedSoFar"]

_ENTRIES = {"least_upper", "lower", "basis", "doubts", "contradiction"}
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

    All bounds are about one start, the declared one or the distribution of first states, so the best ones stay valid.

    Args:
        problem: The problem.
        returns_delta: Probability with which the bounds from returns may fail; 0 leaves them out.
    """

    def __init__(self, problem: Problem, returns_delta: float) -> None:
        self._problem = problem
        self.returns = FrozenReturns(problem, returns_delta)
        self.least_upper: float | None = None
        self.best: CertifiedPolicy | None = None
        self._doubts: str | None = None  # why the returns of all episodes say nothing about the start
        self.contradiction: str | None = None
        """Words, if bounds contradicted each other at some time."""

    def observe(self, number: int, table: Callable[[], IntArray] | None, steps: Steps, *, is_drawn: bool) -> None:
        """Take note of a finished episode.

        Args:
            number: Number of the episode, counted from 1.
            table: Function that returns the policy (H, S) that it was begun with; None if no policy is kept.
            steps: (1, k) Its steps.
            is_drawn: Whether its first state was drawn from the start that certificates are about.
        """
        chain = is_chain(steps)
        if self._doubts is None and not chain:
            self._doubts = "a step did not begin in the state in which the one before it ended"
        length = steps.actions.shape[1]
        if self._doubts is None and length < self._problem.task.horizon and not steps.ended[0, -1]:
            self._doubts = "an episode was ended before its last step"
        if table is not None:
            self.returns.observe(number, table, steps, counts=chain and is_drawn)

    def doubts(self) -> str | None:
        """Return why the returns of all episodes say nothing about the start, or None if they do."""
        return self._doubts

    def contradict(self, *, upper: float, lower: float) -> None:
        """Note it if an upper bound is below a lower bound by more than rounding; it is never taken back."""
        if upper < lower - 1e-9 * (1.0 + abs(upper) + abs(lower)):
            self.contradiction = CONTRADICTION

    def note(self, upper: float, policy: CertifiedPolicy | None) -> None:
        """Take note of a certificate.

        Args:
            upper: Upper bound on V*(s0), in the environment's unit.
            policy: The policy and its lower bound, if it has a table.
        """
        self.least_upper = upper if self.least_upper is None else min(self.least_upper, upper)
        self._offer(policy)
        self._compare()

    def note_returns(self) -> None:
        """Take the best policy by its returns, if its bound is larger than the one at hand."""
        found = self.returns.best()
        self._offer(None if found is None else CertifiedPolicy(*found, "returns"))
        self._compare()

    def tighten(self, table: IntArray | None, interval: tuple[float, float]) -> tuple[float, float]:
        """Return an interval of the value of a policy, cut to what was certified so far.

        Args:
            table: (H, S) The policy, if it is deterministic.
            interval: Lower and upper bound on its value, in the environment's unit.
        """
        lower, upper = interval
        if self.least_upper is None:
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
        """Forget the bounds; they were for another range of rewards."""
        self.least_upper, self.best = None, None

    def header(self) -> dict[str, Any]:
        """Return the numbers as plain data, for saving."""
        best = self.best
        return {
            "least_upper": self.least_upper,
            "lower": None if best is None else best.lower,
            "basis": None if best is None else best.basis,
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
        least, lower, basis = (header[name] for name in ("least_upper", "lower", "basis"))
        for value in (least, lower):
            self._check_value(value)
        if (lower is None) != (basis is None) or basis not in (None, "model", "returns"):
            raise InvalidInput("the basis of a certified bound must be model or returns")
        for name in ("doubts", "contradiction"):
            if header[name] is not None and not isinstance(header[name], str):
                raise InvalidInput(f"{name} must be words")
        self._doubts = None if header["doubts"] is None else printable(header["doubts"])
        self.contradiction = None if header["contradiction"] is None else printable(header["contradiction"])
        if (_BEST in arrays) != (lower is not None):
            raise InvalidInput("a certified bound must have its policy")
        self.returns.restore({n: a for n, a in arrays.items() if n != _BEST}, n_episodes)
        self.least_upper = least
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
