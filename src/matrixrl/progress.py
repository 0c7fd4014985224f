"""Progress of a run: a bar with lines below it, and one line now and then without a terminal (CI, Slurm, a pipe)."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from importlib.util import find_spec
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from matrixrl.checks import fail
from matrixrl.display import literal, printable

__all__ = ["EpisodeProgress", "ProgressLines", "can_draw", "progress_console"]

_VARIABLE = "MATRIXRL_PROGRESS_SECONDS"
_SECONDS = 30.0


def progress_console(console: Console | None) -> Console:
    """Return the console of a progress bar: the given one, or standard error."""
    return Console(stderr=True) if console is None else console


def can_draw(console: Console | None) -> bool:
    """Return whether a bar can be redrawn on a console: a terminal, or a notebook with ipywidgets.

    Standard error must be a terminal itself: settings such as FORCE_COLOR make Rich treat any file as one, and a bar
    would fill a log with copies of itself.
    """
    given = progress_console(console)
    if given.is_jupyter:
        return find_spec("ipywidgets") is not None
    is_terminal = sys.stderr.isatty() if console is None else given.is_terminal
    return is_terminal and not given.is_dumb_terminal


class ProgressLines:
    """One line of progress at most every so many seconds: done and total, rate, and time left.

    A run that ends earlier prints nothing. The rate is that of all episodes but those that were done first, because
    compiling is part of their time.

    Args:
        label: Text before the numbers.
        console: Console to print on; standard error by default.
        seconds: Least time between two lines, and before the first; that of the environment variable
            MATRIXRL_PROGRESS_SECONDS by default, or 30. 0 prints no lines.

    Raises:
        InvalidInput: The environment variable is not a number of seconds.

    >>> lines = ProgressLines("demo", console=Console(width=10), seconds=1e-9)
    >>> lines.show(0, 100)
    >>> lines.show(10, 100)  # the rate is measured from here
    demo: 10 of 100 episodes (10 %), time left unknown
    >>> lines.show(50, 100, "1 failed")  # doctest: +ELLIPSIS
    demo: 50 of 100 episodes (50 %), .../s, ... left, 1 failed
    """

    def __init__(self, label: str, *, console: Console | None = None, seconds: float | None = None) -> None:
        self._label, self._console = printable(label), progress_console(console)
        self._seconds = _seconds_of_environment() if seconds is None else seconds
        self._last = time.monotonic()
        self._before: int | None = None  # episodes of earlier runs
        self._mark: tuple[int, float] | None = None  # episodes that were done first, and when

    def show(self, done: int, total: int, note: str = "") -> None:
        """Print a line if the last one is long enough ago; episodes of earlier runs count as done."""
        now = time.monotonic()
        if self._before is None:
            self._before = done
            return
        if self._mark is None and done > self._before:
            self._mark = done, now
        if self._seconds == 0.0 or now - self._last < self._seconds:
            return
        self._last, pace = now, "time left unknown"
        if self._mark is not None and done > self._mark[0]:
            rate = (done - self._mark[0]) / max(now - self._mark[1], 1e-9)
            shown = f"{rate:,.0f}" if rate >= 10.0 else f"{rate:.2g}"
            pace = f"{shown}/s, {timedelta(seconds=round((total - done) / rate))} left"
        words = f"{self._label}: {done:,} of {total:,} episodes ({100 * done // max(total, 1)} %), {pace}"
        words += f", {printable(note)}" if note else ""
        self._console.print(words, highlight=False, markup=False, emoji=False, soft_wrap=True)


def _seconds_of_environment() -> float:
    given = os.environ.get(_VARIABLE, "")
    try:
        seconds = float(given or _SECONDS)
    except ValueError:
        seconds = math.nan
    if not 0.0 <= seconds < math.inf:
        fail(f"environment variable {_VARIABLE}", "must be a number of seconds", repr(given), "0 prints no lines.")
    return seconds


class _WithLines(Progress):
    """A progress bar with lines of text below it."""

    lines: tuple[str, ...] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return the bar and the lines."""
        yield self.make_tasks_table(self.tasks)
        for line in self.lines:
            yield Text(line, no_wrap=True, overflow="ellipsis")


class EpisodeProgress:
    """Progress over episodes, by default on standard error, so that standard output holds results only.

    Args:
        label: Text before the bar.
        total: Number of episodes to play.
        console: Console to draw on; standard error by default. If it is neither a terminal nor a
            notebook with ipywidgets, lines are printed instead of a bar (`ProgressLines`).
        visible: Whether to show progress.

    Attributes:
        done: Number of episodes that were played.
    """

    def __init__(self, label: str, total: int, *, console: Console | None = None, visible: bool = True) -> None:
        is_drawn = visible and can_draw(console)
        self._progress = _WithLines(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            TextColumn("{task.fields[note]}"),
            console=progress_console(console),
            disable=not is_drawn,
            transient=True,
            refresh_per_second=8,
        )
        self.done, self._total = 0, total
        self._task: TaskID = self._progress.add_task(literal(label), total=total, rate="", note="")
        show_lines = visible and not is_drawn
        self._lines = ProgressLines(label, console=console) if show_lines else None
        self._print_line("")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    @property
    def is_drawn(self) -> bool:
        """Whether there is anything to see."""
        return not self._progress.disable

    def advance(self, note: str = "", count: int = 1, lines: Sequence[str] = ()) -> None:
        """Advance the bar by `count` episodes, with a note after it and lines of plain text below it."""
        self.done += count
        self._print_line(note)
        if self._progress.disable:
            return
        task = self._progress.tasks[0]
        self._progress.lines = tuple(lines)
        rate = "" if task.speed is None else f"{task.speed:,.0f}/s"
        self._progress.update(self._task, advance=count, rate=rate, note=note)

    def _print_line(self, note: str) -> None:
        if self._lines is not None:
            self._lines.show(self.done, self._total, note)
