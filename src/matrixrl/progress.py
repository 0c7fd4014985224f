"""Progress bar in the terminal or a notebook, with rate and remaining time."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from matrixrl.notebooks import NotebookBar
from matrixrl.printable import literal, printable

__all__ = ["EpisodeProgress"]


class EpisodeProgress:
    """A progress bar over episodes, by default on standard error, so that standard output holds results only.

    In a notebook it is one output of the cell that is updated in place.

    Args:
        label: Text before the bar.
        total: Number of episodes to play.
        console: Console to draw on; standard error by default. Nothing is drawn outside a terminal and a
            notebook.
        visible: Whether to draw the bar.
    """

    def __init__(self, label: str, total: int, *, console: Console | None = None, visible: bool = True) -> None:
        terminal = Console(stderr=True) if console is None else console
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            TextColumn("{task.fields[note]}"),
            console=terminal,
            disable=not (visible and terminal.is_terminal),
            transient=True,
            refresh_per_second=8,
        )
        self._notebook = NotebookBar(printable(label)) if visible and terminal.is_jupyter else None
        self._done, self._total, self._begun = 0, total, time.monotonic()
        self._task: TaskID = self._progress.add_task(literal(label), total=total, rate="", note="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()
        if self._notebook is not None:
            self._notebook.close()

    def advance(self, note: str = "", count: int = 1) -> None:
        """Advance the bar.

        Args:
            note: Text after the bar.
            count: Number of episodes that were finished since the last call.
        """
        if self._notebook is not None:
            self._done += count
            speed = self._done / max(time.monotonic() - self._begun, 1e-9)
            counted = f"{self._done:,} of {self._total:,} episodes, {speed:,.0f}/s"
            self._notebook.show(self._done / max(self._total, 1), f"{counted} {note}".rstrip())
        if self._progress.disable:
            return
        task = self._progress.tasks[0]
        rate = "" if task.speed is None else f"{task.speed:,.0f}/s"
        self._progress.update(self._task, advance=count, rate=rate, note=note)
