"""Episodes of `learn` as TensorBoard curves."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from matrixrl.checks import fail
from matrixrl.errors import MatrixRLError, MissingExtra
from matrixrl.records import Episode, History

__all__ = ["TensorBoardCallback", "open_writer"]

_FLUSH_SECONDS = 5


def open_writer(folder: Path, *, purge: bool = False) -> Any:
    """Return a tensorboardX writer for a directory, which is made if it is missing.

    Args:
        folder: of one run, as TensorBoard calls it.
        purge: whether what earlier files of the directory say is hidden, because all of it is written again.

    Raises:
        MissingExtra: tensorboardX is not installed.
        MatrixRLError: the directory cannot be written.
    """
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        raise MissingExtra("TensorBoard files need tensorboardX; pip install 'matrixrl[lab]'") from error
    try:
        # Its file names have whole seconds, and a second writer would empty the file of the first.
        suffix = f".{time.time_ns()}.{os.getpid()}"
        return SummaryWriter(
            str(folder), flush_secs=_FLUSH_SECONDS, filename_suffix=suffix, purge_step=0 if purge else None
        )
    except OSError as error:
        raise MatrixRLError(f"cannot write TensorBoard files to {folder}: {error.strerror}") from error


class TensorBoardCallback:
    """Writes every finished episode to TensorBoard: a callback of `learn`, and a context manager.

    Step N is the N-th episode of the agent's life. Curves: episode/return, episode/length, regret/episode and
    regret/cumulative where the MDP is known, value/upper (the optimistic value of the start), and certificate/lower,
    /upper and /gap where certificates were asked for.

    Args:
        log_dir: directory of this run.
        history: what the agent has played before (`agent.history`), if anything.

    >>> import tempfile, matrixrl
    >>> agent = matrixrl.MatrixRL(matrixrl.make("river-swim"), seed=0)
    >>> with tempfile.TemporaryDirectory() as folder, TensorBoardCallback(folder) as callback:
    ...     agent.learn(3, callback=callback).n_episodes
    3
    """

    def __init__(self, log_dir: str | os.PathLike[str], *, history: History | None = None) -> None:
        self._next = 0 if history is None else history.n_episodes
        self._cumulative = 0.0 if history is None or history.regret is None else float(history.regret.sum())
        self._writer = open_writer(Path(log_dir))

    def __call__(self, episode: Episode) -> None:
        """Write one episode."""
        if episode.index != self._next:
            fail(
                "history",
                f"must end before the first episode that is written, here {self._next}",
                f"episode {episode.index}",
                "Make the callback with history=agent.history.",
            )
        self._next += 1
        self._write("episode/return", episode.episode_return)
        self._write("episode/length", episode.length)
        self._write("value/upper", episode.upper)
        if episode.regret is not None:
            self._cumulative += episode.regret
            self._write("regret/episode", episode.regret)
            self._write("regret/cumulative", self._cumulative)
        if episode.certificate is not None:
            self._write("certificate/lower", episode.certificate.lower)
            self._write("certificate/upper", episode.certificate.upper)
            self._write("certificate/gap", episode.certificate.gap)

    def _write(self, tag: str, value: float) -> None:
        if math.isfinite(value):  # regret is not known of an episode in which somebody acted otherwise than advised
            self._writer.add_scalar(tag, value, self._next)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what is left to the disk; nothing can be added afterwards."""
        self._writer.close()
