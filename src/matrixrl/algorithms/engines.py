"""Which engine an agent runs on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from matrixrl.algorithms.matrix_rl.finite import MatrixRLEngine
from matrixrl.algorithms.matrix_rl.sampled import ColumnEngine
from matrixrl.algorithms.matrix_rl.settings import MatrixRLSettings
from matrixrl.algorithms.matrix_rl.state_oracle import make_oracle
from matrixrl.checks import fail
from matrixrl.core import Regularity
from matrixrl.features import Blocks, Features
from matrixrl.problems import FunctionalTask, Task
from matrixrl.records import FloatArray, IntArray

__all__ = ["Engine", "Learner", "make_engine"]


class Learner(Protocol):
    """What a simulation asks of any algorithm, ours or a baseline."""

    episode: int
    plans: IntArray

    @property
    def guarantee(self) -> Literal[True] | str: ...

    def next_plan(self) -> Any: ...

    def upper(self, plan: Any, start: Any = None) -> FloatArray: ...

    def update(
        self,
        states: NDArray[Any],
        actions: IntArray,
        next_states: NDArray[Any],
        weights: FloatArray,
        rewards: FloatArray,
    ) -> None: ...

    def arrays(self) -> dict[str, NDArray[Any]]: ...

    def check_arrays(self, arrays: dict[str, NDArray[Any]]) -> None: ...

    def restore_arrays(self, arrays: dict[str, NDArray[Any]]) -> None: ...

    def planning_state(self) -> tuple[Any, ...]: ...

    def restore_planning(self, state: tuple[Any, ...]) -> None: ...

    def random_states(self) -> list[dict[str, Any]]: ...

    def restore_random_states(self, states: Sequence[object]) -> None: ...


class Engine(Learner, Protocol):
    """What agents ask beside it of an engine that can certify; starts are whatever that engine makes of them."""

    regularity: Regularity
    blocks: Blocks

    def certificate_guarantee(self, alarmed: bool) -> Literal[True] | str: ...

    def plan(self, *, break_ties_at_random: bool = True) -> Any: ...

    def start_at(self, state: Any) -> Any: ...

    def certify(self, plan: Any, start: Any = None) -> tuple[FloatArray, FloatArray, IntArray]: ...


def make_engine(
    task: Task | FunctionalTask,
    features: Features | None,
    settings: MatrixRLSettings,
    seeds: Sequence[int],
    *,
    pseudo: bool = False,
    compiled: bool | None = None,
) -> Engine:
    """Return the engine of all columns, or of sampled ones where the settings or the task ask for them.

    Whether plans are compiled is asked of the first kind only: a plan of sampled columns is made where it is queried.
    """
    if settings.columns is not None:
        if compiled:
            fail("compiled", "must be left out with sampled columns", compiled, "Leave one of them out.")
        source = make_oracle(task, features, settings.columns, settings.column_weights)
        return ColumnEngine(source, settings, seeds, pseudo=pseudo)
    if isinstance(task, FunctionalTask) or features is None:
        fail("columns", "must be given for a task whose states are not enumerated", None, "Try columns=2000.")
    return MatrixRLEngine(task, features, settings, seeds, compiled=compiled)
