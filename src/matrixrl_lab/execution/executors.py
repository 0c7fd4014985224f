"""Executors of blocks: this process, processes of this machine, or a Ray cluster. All give the same rows."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any, Protocol, get_args

from matrixrl.checks import choice, integer
from matrixrl.errors import InvalidInput, MatrixRLError
from matrixrl.extras import naming_the_extra, require_packages
from matrixrl.interrupts import uninterrupted
from matrixrl.references import SAFE_PATH, safe_path
from matrixrl_lab.execution.blocks import BlockResult, Order, play_block
from matrixrl_lab.spec.models import ExecutorName

__all__ = ["EXECUTORS", "Executor", "OrderResult", "check_executor", "make_executor", "starting_processes"]

_ATTEMPTS = 3  # largest number of workers that one block may lose
_POLL = 0.2  # seconds to wait for results before progress is redrawn
# After Ctrl-C, loky's tracker may report a semaphore whose removal it was not told of; it removes it itself if need be.
_NO_TRACKER_WARNING = "ignore:resource_tracker"


@dataclass(frozen=True)
class OrderResult:
    """Result of an order, or the reason why it failed."""

    order: Order
    result: BlockResult | None
    reason: str | None = None


class Executor(Protocol):
    """Object that plays orders, in any sequence."""

    slots: int
    """Number of orders that can be played at the same time."""

    def submit(self, order: Order) -> None:
        """Add an order."""
        ...

    def collect(self) -> list[OrderResult]:
        """Wait a moment and return the finished orders, if any."""
        ...

    def close(self) -> None:
        """Drop unfinished orders and release all workers."""
        ...


@contextmanager
def starting_processes() -> Iterator[None]:
    """Delay Ctrl-C until the block is finished; processes that are started in the block never receive it.

    A terminal sends SIGINT to all processes of a command. Processes inherit the set of blocked signals from the thread
    that starts them, so they are safe before they have run any code of their own.

    >>> with starting_processes():
    ...     started = True
    """
    with uninterrupted():
        if not hasattr(signal, "pthread_sigmask"):  # Windows
            yield
            return
        # Its start unblocks SIGINT, so it must not happen while the signal is blocked here.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _error_line(error: BaseException) -> str:
    """Return an error as one line of text, with file and line unless it is a `MatrixRLError`."""
    if isinstance(error, MatrixRLError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""  # noqa: PTH119
    return f"{type(error).__name__}: {error}{where}"


class SerialExecutor:
    """Play orders in this process, one in each call of `collect`."""

    slots = 1

    def __init__(self, play: Callable[[Order], BlockResult] = play_block) -> None:
        self._play = play
        self._waiting: deque[Order] = deque()

    def submit(self, order: Order) -> None:
        """Add an order."""
        self._waiting.append(order)

    def collect(self) -> list[OrderResult]:
        """Play one order and return its answer."""
        if not self._waiting:
            return []
        order = self._waiting.popleft()
        try:
            return [OrderResult(order, self._play(order))]
        except Exception as error:  # noqa: BLE001  # an error of one agent must not stop the other cells
            return [OrderResult(order, None, _error_line(error))]

    def close(self) -> None:
        """Drop waiting orders."""
        self._waiting.clear()


class ProcessExecutor:
    """Play orders in worker processes of this machine (loky), with one BLAS thread each.

    If a worker dies, the whole pool is lost, and it is not known which block caused it. The blocks in progress are
    then played again one at a time, and a block fails if its worker dies repeatedly while it is played alone.

    Args:
        workers: Number of workers; the number of cores by default.
        play: Function that plays an order.
    """

    def __init__(self, workers: int | None = None, play: Callable[[Order], BlockResult] = play_block) -> None:
        require_packages(("loky",), extra="lab", purpose="the lab")
        import loky

        pool: Any = loky
        self.slots = int(pool.cpu_count()) if workers is None else workers
        self._make: Callable[[], Any] = lambda: pool.get_reusable_executor(
            max_workers=self.slots,
            timeout=60,
            initializer=start_worker,
            initargs=(os.getpid(),),
            env=dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1") | SAFE_PATH,
        )
        self._pool: Any = None
        self._play = play
        self._waiting: deque[Order] = deque()
        self._suspects: deque[Order] = deque()
        self._in_progress: dict[Future[BlockResult], Order] = {}
        self._deaths: dict[tuple[tuple[int, int], int], int] = {}

    def submit(self, order: Order) -> None:
        """Add an order."""
        self._waiting.append(order)
        self._start()

    def _start(self) -> None:
        """Submit the orders that may be played now: one suspect alone, or else all waiting orders."""
        if self._suspects:
            if not self._in_progress:
                self._launch(self._suspects.popleft())
            return
        while self._waiting:
            self._launch(self._waiting.popleft())

    def _launch(self, order: Order) -> None:
        filters = [os.environ.get("PYTHONWARNINGS"), _NO_TRACKER_WARNING]
        with safe_path(PYTHONWARNINGS=",".join(filter(None, filters))), starting_processes():
            self._pool = self._make()
            self._in_progress[self._pool.submit(self._play, order)] = order

    def collect(self) -> list[OrderResult]:
        """Wait a moment and return the finished orders."""
        done, _ = wait(self._in_progress, timeout=_POLL, return_when=FIRST_COMPLETED)
        is_alone = len(self._in_progress) == 1
        answers = []
        for future in done:
            order = self._in_progress.pop(future)
            error = future.exception()
            if error is None:
                answers.append(OrderResult(order, future.result()))
            elif isinstance(error, BrokenProcessPool):
                answers += self._retry(order, is_alone)
            else:
                answers.append(OrderResult(order, None, _error_line(error)))
        self._start()
        return answers

    def _retry(self, order: Order, is_alone: bool) -> list[OrderResult]:
        """Schedule an order whose worker died to be played alone, or fail it after too many attempts."""
        key = order.key, order.first
        self._deaths[key] = self._deaths.get(key, 0) + is_alone
        if self._deaths[key] >= _ATTEMPTS:
            return [OrderResult(order, None, f"its worker died {_ATTEMPTS} times (killed, or out of memory)")]
        self._suspects.append(order)
        return []

    def close(self) -> None:
        """Stop the workers, if any were started; a second Ctrl-C waits until they have ended."""
        with uninterrupted():
            if self._pool is not None:
                self._pool.shutdown(wait=True, kill_workers=True)
                self._pool = None


class RayExecutor:
    """Play orders as tasks on a Ray cluster; Ray repeats a task whose worker died.

    Args:
        workers: Number of cores of a local cluster; all by default.
        address: Address of a running cluster; a local cluster is started by default.
        play: Function that plays an order.
    """

    def __init__(
        self,
        workers: int | None = None,
        address: str | None = None,
        play: Callable[[Order], BlockResult] = play_block,
    ) -> None:
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        with naming_the_extra("ray", "this executor"):
            import ray as installed
        self._ray: Any = installed
        ray = self._ray
        quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        try:
            if address is None:
                ray.init(num_cpus=workers, include_dashboard=False, **quiet)
            else:
                ray.init(address=address, **quiet)
        except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            first = str(error).strip().partition("\n")[0]
            hint = "" if address is None else "; its token and its versions of Ray and Python must be used here too"
            raise MatrixRLError(f"cannot use Ray at {address or 'this machine'}: {first}{hint}") from error
        self.slots = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._task: Any = ray.remote(num_cpus=1, max_retries=_ATTEMPTS - 1)(play)
        self._in_progress: dict[Any, Order] = {}

    def submit(self, order: Order) -> None:
        """Add an order."""
        self._in_progress[self._task.remote(order)] = order

    def collect(self) -> list[OrderResult]:
        """Wait a moment and return the finished orders."""
        if not self._in_progress:
            return []
        ready, _ = self._ray.wait(list(self._in_progress), timeout=_POLL)
        answers = []
        for reference in ready:
            order = self._in_progress.pop(reference)
            try:
                answers.append(OrderResult(order, self._ray.get(reference)))
            except self._ray.exceptions.RayTaskError as error:
                answers.append(OrderResult(order, None, _error_line(error.cause or error)))
            except self._ray.exceptions.RayError as error:
                answers.append(OrderResult(order, None, f"its worker died {_ATTEMPTS} times ({type(error).__name__})"))
        return answers

    def close(self) -> None:
        """Disconnect from the cluster; a local cluster is shut down."""
        self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise if no process listens at the address; Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return  # such as "auto", which Ray resolves
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except (OSError, OverflowError) as error:
        raise MatrixRLError(
            f"no Ray cluster answers at {address} ({error}); start one, or leave --address out"
        ) from error


EXECUTORS: tuple[str, ...] = get_args(ExecutorName)
"""Names of all executors."""


def check_executor(on: str, workers: int | None, address: str | None) -> None:
    """Raise if `make_executor` would not accept the arguments."""
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
        workers: Number of blocks that are played at the same time; the number of cores by default.
        address: Address of a running Ray cluster.
    """
    check_executor(on, workers, address)
    if on == "serial":
        return SerialExecutor()
    return ProcessExecutor(workers) if on == "processes" else RayExecutor(workers, address)


_PAUSE = 0.5  # seconds between two looks at the parent
_FAILURE = 1


def start_worker(parent: int) -> None:
    """Prepare a worker; the first thing that it runs.

    A parent that is killed cannot stop its workers, and one in the middle of a long block would not notice.

    Args:
        parent: Process id of the parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers
    threading.Thread(target=_end_with, args=(parent,), name="end-with-parent", daemon=True).start()


def _end_with(parent: int) -> None:
    """Wait for the end of the parent, then end this process without cleaning up: nobody would read the result."""
    if os.name == "posix":
        while os.getppid() == parent:
            time.sleep(_PAUSE)
    else:
        process = multiprocessing.parent_process()
        if process is None:
            return
        process.join()
    os._exit(_FAILURE)
