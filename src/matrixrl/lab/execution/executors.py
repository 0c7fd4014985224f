"""Where blocks are played: here, in processes of this machine, or on a Ray cluster. The rows are the same."""

from __future__ import annotations

import os
import socket
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Protocol

from matrixrl.checks import choice, integer
from matrixrl.errors import InvalidInput, MatrixRLError, MissingExtra
from matrixrl.interrupts import ignoring_interrupts
from matrixrl.lab.execution.blocks import BlockResult, Order, play_block

__all__ = ["EXECUTORS", "Answer", "Executor", "check_executor", "make_executor"]

_ATTEMPTS = 3  # of one block, each with a new worker
_POLL = 0.2  # seconds between two looks at the screen while nothing is ready


@dataclass(frozen=True)
class Answer:
    """What became of an order: a result, or the reason why there is none."""

    order: Order
    result: BlockResult | None
    reason: str | None = None


class Executor(Protocol):
    """Plays orders, in any order."""

    slots: int
    """How many orders it is worth to have under way."""

    def submit(self, order: Order) -> None:
        """Take an order."""
        ...

    def collect(self) -> list[Answer]:
        """Wait a moment and return what is ready, which may be nothing."""
        ...

    def close(self) -> None:
        """Drop what is under way."""
        ...


def _said(error: BaseException) -> str:
    """Return an error in one line, with the place in our code where it arose unless it is a refusal of ours."""
    if isinstance(error, MatrixRLError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""  # noqa: PTH119
    return f"{type(error).__name__}: {error}{where}"


class SerialExecutor:
    """Plays each order when it is asked for, in this process."""

    slots = 1

    def __init__(self, play: Callable[[Order], BlockResult] = play_block) -> None:
        self._play = play
        self._waiting: deque[Order] = deque()

    def submit(self, order: Order) -> None:
        """Take an order."""
        self._waiting.append(order)

    def collect(self) -> list[Answer]:
        """Play one order."""
        if not self._waiting:
            return []
        order = self._waiting.popleft()
        try:
            return [Answer(order, self._play(order))]
        except Exception as error:  # noqa: BLE001  # whatever an agent does, the other cells go on
            return [Answer(order, None, _said(error))]

    def close(self) -> None:
        """Drop what is waiting."""
        self._waiting.clear()


class ProcessExecutor:
    """Worker processes of this machine (loky), one BLAS thread each; workers that die are replaced.

    A worker that dies takes the whole pool with it, and nobody knows whose block killed it. So the blocks that were
    under way are played again one at a time, and only one that dies alone is to blame.

    Args:
        workers: how many; the cores of this machine by default.
        play: what is called for each order.
    """

    def __init__(self, workers: int | None = None, play: Callable[[Order], BlockResult] = play_block) -> None:
        import loky

        pool: Any = loky
        self.slots = int(pool.cpu_count()) if workers is None else workers
        self._make: Callable[[], Any] = lambda: pool.get_reusable_executor(
            max_workers=self.slots,
            timeout=60,
            env=dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1"),
        )
        self._play = play
        self._waiting: deque[Order] = deque()
        self._suspects: deque[Order] = deque()
        self._under_way: dict[Future[BlockResult], Order] = {}
        self._deaths: dict[tuple[tuple[int, int], int], int] = {}

    def submit(self, order: Order) -> None:
        """Take an order."""
        self._waiting.append(order)
        self._start()

    def _start(self) -> None:
        """Hand out what may be played now: a suspect by itself, else everything that waits."""
        if self._suspects:
            if not self._under_way:
                self._launch(self._suspects.popleft())
            return
        while self._waiting:
            self._launch(self._waiting.popleft())

    def _launch(self, order: Order) -> None:
        with ignoring_interrupts():  # workers are born ignoring_interrupts to Ctrl-C: it is ours to stop them
            self._under_way[self._make().submit(self._play, order)] = order

    def collect(self) -> list[Answer]:
        """Wait a moment and return what is ready."""
        done, _ = wait(self._under_way, timeout=_POLL, return_when=FIRST_COMPLETED)
        is_alone = len(self._under_way) == 1
        answers = []
        for future in done:
            order = self._under_way.pop(future)
            error = future.exception()
            if error is None:
                answers.append(Answer(order, future.result()))
            elif isinstance(error, BrokenProcessPool):
                answers += self._suspect(order, is_alone)
            else:
                answers.append(Answer(order, None, _said(error)))
        self._start()
        return answers

    def _suspect(self, order: Order, is_alone: bool) -> list[Answer]:
        """Play a block again whose worker died, unless it died alone too often."""
        key = order.key, order.first
        self._deaths[key] = self._deaths.get(key, 0) + is_alone
        if self._deaths[key] >= _ATTEMPTS:
            return [Answer(order, None, f"its worker died {_ATTEMPTS} times (killed, or out of memory)")]
        self._suspects.append(order)
        return []

    def close(self) -> None:
        """Stop the workers."""
        self._make().shutdown(wait=True, kill_workers=True)


class RayExecutor:
    """Tasks on a Ray cluster, local or at an address; Ray starts a task again when its worker dies.

    Args:
        workers: cores to use of a local cluster; all by default.
        address: of a running cluster; a local one is started if it is None.
        play: what is called for each order.
    """

    def __init__(
        self,
        workers: int | None = None,
        address: str | None = None,
        play: Callable[[Order], BlockResult] = play_block,
    ) -> None:
        try:
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            import ray as installed
        except ImportError as error:
            raise MissingExtra("Ray is not installed; pip install 'matrixrl[ray]'") from error
        self._ray: Any = installed
        ray = self._ray
        quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        try:
            if address is None:
                ray.init(num_cpus=workers, include_dashboard=False, **quiet)
            else:
                ray.init(address=address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise MatrixRLError(f"cannot reach Ray at {address or 'this machine'}: {error}") from error
        self.slots = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._task: Any = ray.remote(num_cpus=1, max_retries=_ATTEMPTS - 1)(play)
        self._under_way: dict[Any, Order] = {}

    def submit(self, order: Order) -> None:
        """Take an order."""
        self._under_way[self._task.remote(order)] = order

    def collect(self) -> list[Answer]:
        """Wait a moment and return what is ready."""
        if not self._under_way:
            return []
        ready, _ = self._ray.wait(list(self._under_way), timeout=_POLL)
        answers = []
        for reference in ready:
            order = self._under_way.pop(reference)
            try:
                answers.append(Answer(order, self._ray.get(reference)))
            except self._ray.exceptions.RayTaskError as error:
                answers.append(Answer(order, None, _said(error.cause or error)))
            except self._ray.exceptions.RayError as error:
                answers.append(Answer(order, None, f"its worker died {_ATTEMPTS} times ({type(error).__name__})"))
        return answers

    def close(self) -> None:
        """Leave the cluster; a local one ends."""
        self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Refuse an address where nobody listens; Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return  # "auto" and the like: Ray knows where to look
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except (OSError, OverflowError) as error:
        raise MatrixRLError(
            f"no Ray cluster answers at {address} ({error}); start one, or leave --address out"
        ) from error


EXECUTORS = ("serial", "processes", "ray")


def check_executor(on: str, workers: int | None, address: str | None) -> None:
    """Refuse what `make_executor` could not make, before anything is begun."""
    choice("--on", on, EXECUTORS)
    if workers is not None:
        integer("--workers", workers, low=1, remedy="Leave it out for all cores.")
    if address is not None and on != "ray":
        raise InvalidInput(f"--address must be left out for {on}; got {address}. It is the address of a Ray cluster.")
    if address is not None:
        _check_reachable(address)


def make_executor(on: str, workers: int | None = None, address: str | None = None) -> Executor:
    """Return an executor by name.

    Args:
        on: serial, processes or ray.
        workers: how many blocks at once; as many as there are cores by default.
        address: of a running Ray cluster.
    """
    check_executor(on, workers, address)
    if on == "serial":
        return SerialExecutor()
    return ProcessExecutor(workers) if on == "processes" else RayExecutor(workers, address)
