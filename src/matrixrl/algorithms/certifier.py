"""Bounds on values and policies that an algorithm proves, for certificates and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from numpy.typing import NDArray

from matrixrl.checks import fail
from matrixrl.core.backup import PolicyIntervals
from matrixrl.core.start import Start
from matrixrl.errors import ProtocolError
from matrixrl.logs import StepLog
from matrixrl.records import Bounds, FloatArray, IntArray, Steps

if TYPE_CHECKING:
    from matrixrl.algorithms.base import Algorithm

__all__ = ["Certifier"]


class Certifier:
    """The bounds of a started algorithm; this one, of an algorithm that has none, refuses."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm: Any = algorithm

    @property
    def purpose(self) -> str:
        """What episodes are played for: to earn (`regret`) or to certify a policy (`certificate`)."""
        return "regret"

    @purpose.setter
    def purpose(self, purpose: str) -> None:
        rule = f"must be left out for {self._algorithm.name} on this problem"
        fail(
            "explore_for",
            rule,
            repr(purpose),
            "Use MatrixRL with numbered states, without columns and with planner='sweep'.",
        )

    def certify(self, plan: Any, start: Start | None = None) -> Bounds:
        """Bound V*(s0) from above and the value of a plan's policy from below.

        Args:
            plan: Its policy is the one that is bounded from below.
            start: Where episodes start; as the problem says by default.
        """
        del plan, start
        self._refuse("certificates")

    def safest_plan(self) -> Any:
        """Return the plan whose policy has the largest certified lower bound; what the data advise by default."""
        return self._algorithm.advice()

    def gaps(self, plan: Any, steps: Steps, *, every: bool = False) -> FloatArray | None:
        """Return by how much played steps fell short of a plan's optimistic values, in the environment's unit: (B,).

        It is asked for before the steps are learned from. None if the proof is about the algorithm's own actions only.

        Args:
            plan: The plan that the episode was begun with.
            steps: Steps of one episode in each replica.
            every: Whether actions of the plan may fall short too.
        """
        del plan, steps, every
        return None

    def own_gap(self, plan: Any, steps: Steps) -> float:
        """Return the gap of an episode of the agent's own actions: 0, as its plan is optimistic but for ties."""
        del plan, steps
        return 0.0

    def bound_policies(
        self, first: NDArray[Any], second: NDArray[Any], start: Start | None = None, parts: int = 1
    ) -> PolicyIntervals:
        """Bound V(s0) of two given policies, and the difference of the first and the second, from both sides.

        Args:
            first: (B, H, S) Actions, or (B, H, A, S) probabilities of actions.
            second: Likewise, of the other policy.
            start: Where episodes start; as the problem says by default.
            parts: Number of equal parts of δ of which the bounds have one.
        """
        del first, second, start, parts
        self._refuse("bounds of given policies")

    def estimate_policies(self, tables: Sequence[NDArray[Any]], start: Start | None = None) -> list[float] | None:
        """Return the values of policies in the estimated model, in the environment's unit; None without a model.

        Args:
            tables: Policies (H, S) of actions, or (H, A, S) of probabilities of actions.
            start: Where episodes start; as the problem says by default.
        """
        del tables, start
        return None

    def imagine(self, log: StepLog) -> Any:
        """Return problems to draw from what was seen, in which a copy of the algorithm plays on, for forecasts.

        Args:
            log: All steps that the algorithm learned from.
        """
        del log
        self._refuse("forecasts")

    def widths_by_pair(self, table: IntArray, log: StepLog) -> FloatArray:
        """Return what each pair adds to the width of a policy's interval (H, S), in the environment's unit: (A, S).

        Args:
            table: Actions.
            log: All steps that the algorithm learned from.
        """
        del table, log
        self._refuse("widths by pair")

    def bound_actions(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds on Q* in unit rewards, each (B, H, A, S), at the tightest proven radius.

        Those of an action that is not allowed are −∞.
        """
        self._refuse("bounds of single actions")

    def _refuse(self, what: str) -> NoReturn:
        raise ProtocolError(
            f"{self._algorithm.name} has no {what} on this problem; matrix-rl and kernel-matrix-rl have, on numbered "
            "states, without sampled columns and with planner='sweep'"
        )
