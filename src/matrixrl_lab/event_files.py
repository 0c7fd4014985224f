"""TensorBoard files of the episodes that an agent plays."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any, Self

import numpy as np

from matrixrl.checks import fail
from matrixrl.errors import MatrixRLError
from matrixrl.extras import naming_the_extra
from matrixrl.history import Episode, History
from matrixrl.measurement import held

__all__ = ["TensorBoardCallback", "open_writer"]

_FLUSH_SECONDS = 5


def open_writer(folder: Path, *, purge: bool = False) -> Any:
    """Return a tensorboardX writer for a directory, which is created if it does not exist.

    Args:
        folder: Directory of one TensorBoard run.
        purge: Whether TensorBoard should hide the entries of earlier files in the directory, because all of them are
            written again.

    Raises:
        MissingExtra: tensorboardX is not installed.
        MatrixRLError: The directory cannot be written.
    """
    with naming_the_extra("lab", "a TensorBoard file"):
        from tensorboardX import SummaryWriter
    try:
        # tensorboardX names files by whole seconds, so two writers of one second would overwrite each other's file.
        suffix = f".{time.time_ns()}.{os.getpid()}"
        return SummaryWriter(
            str(folder), flush_secs=_FLUSH_SECONDS, filename_suffix=suffix, purge_step=0 if purge else None
        )
    except OSError as error:
        raise MatrixRLError(f"cannot write TensorBoard files to {folder}: {error.strerror}") from error


class TensorBoardCallback:
    """A callback of `learn` that writes every finished episode to TensorBoard; also a context manager.

    Step n is the n-th episode of the agent, counted from 1. The curves are episode/return, episode/length, value/upper
    (the optimistic value of the start), regret/episode and regret/cumulative where regret is measured (episodes in
    between count with the last measured regret), and certificate/lower, certificate/upper and certificate/gap if
    certificates were requested.

    Args:
        log_dir: Directory of this run.
        history: Episodes that the agent has already played (`agent.history`), or None if there are none.

    >>> import tempfile, matrixrl
    >>> agent = matrixrl.MatrixRL(matrixrl.make("river-swim"), seed=0)
    >>> with tempfile.TemporaryDirectory() as folder, TensorBoardCallback(folder) as callback:
    ...     agent.learn(3, callback=callback).n_episodes
    3
    """

    def __init__(self, log_dir: str | os.PathLike[str], *, history: History | None = None) -> None:
        self._next = 0 if history is None else history.n_episodes
        self._cumulative, self._last = 0.0, math.nan
        if history is not None and history.regret is not None:
            series = held(history.regret, history.regret_every)
            self._cumulative, self._last = float(np.nansum(series)), float(series[-1])
        self._writer = open_writer(Path(log_dir))

    def __call__(self, episode: Episode) -> None:
        """Write the curves of one episode."""
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
            self._last = episode.regret
            self._write("regret/episode", episode.regret)
        if not math.isnan(self._last):
            self._cumulative += self._last
            self._write("regret/cumulative", self._cumulative)
        if episode.certificate is not None:
            self._write("certificate/lower", episode.certificate.lower)
            self._write("certificate/upper", episode.certificate.upper)
            self._write("certificate/gap", episode.certificate.gap)

    def _write(self, tag: str, value: float) -> None:
        if math.isfinite(value):  # the regret of an episode is NaN if other actions were taken than those of the policy
            self._writer.add_scalar(tag, value, self._next)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Write the remaining entries to disk and close the file."""
        self._writer.close()
