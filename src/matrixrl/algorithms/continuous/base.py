"""What algorithms on vectors share."""

from __future__ import annotations

from typing import ClassVar

from matrixrl.algorithms.base import Algorithm
from matrixrl.problems import ContinuousTask
from matrixrl.problems.problem import Kind
from matrixrl.seeding import Stream

__all__ = ["VectorAlgorithm"]


class VectorAlgorithm(Algorithm):
    """A learner whose states are vectors; data and plans have the environment's unit of rewards."""

    kinds: ClassVar[tuple[Kind, ...]] = ("continuous",)
    stream_names: ClassVar[tuple[Stream, ...]] = ("ties", "sampling")
    widens = True

    @property
    def task(self) -> ContinuousTask:
        """Description of the problem, as far as an agent may know it."""
        assert isinstance(self.problem.task, ContinuousTask)
        return self.problem.task

    def widen(self, low: float, high: float) -> None:
        """Use a wider range of rewards; nothing that was learned depends on the range."""
        self.problem = self.problem.with_range(low, high)
