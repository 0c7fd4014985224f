"""Progress bar in the terminal, with rate and remaining time, and lines below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from matrixrl.printable import literal

__all__ = ["EpisodeProgress", "sparkline"]

_BARS = "▁▂▃▄▅▆▇█"
_UNKNOWN = "·"


def sparkline(values: NDArray[Any], *, low: float | None = None, high: float | None = None) -> str:
    """Return the last 40 values as a line of block characters, with a dot for NaN.

    Args:
        values: (n,) numbers, at least one of them not NaN.
        low: Value of the lowest block; the least value that is shown by default.
        high: Value of the highest block; the largest value that is shown by default.

    >>> sparkline(np.array([0.0, np.nan, 1.0, 2.0])), sparkline(np.array([1.0, 1.0]), low=0.0, high=1.0)
    ('▁·▅█', '██')
    """
    shown = values[-40:]
    if np.isnan(shown).all():
        return _UNKNOWN * len(shown)
    bottom = float(np.nanmin(shown)) if low is None else low
    top = float(np.nanmax(shown)) if high is None else high
    if top <= bottom:
        return "".join(_UNKNOWN if np.isnan(x) else _BARS[0] for x in shown)
    heights = np.clip((shown - bottom) / (top - bottom), 0.0, 1.0) * (len(_BARS) - 1)
    return "".join(_UNKNOWN if np.isnan(x) else _BARS[round(float(x))] for x in heights)


class _WithLines(Progress):
    """A progress bar with lines of text below it."""

    lines: tuple[str, ...] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return the bar and the lines."""
        yield self.make_tasks_table(self.tasks)
        for line in self.lines:
            yield Text(line, no_wrap=True, overflow="ellipsis")


class EpisodeProgress:
    """A progress bar over episodes, by default on standard error, so that standard output holds results only.

    Args:
        label: Text before the bar.
        total: Number of episodes to play.
        console: Console to draw on; standard error by default. Nothing is drawn if it is not a terminal.
        visible: Whether to draw the bar.
    """

    def __init__(self, label: str, total: int, *, console: Console | None = None, visible: bool = True) -> None:
        terminal = Console(stderr=True) if console is None else console
        self._progress = _WithLines(
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

    @property
    def is_drawn(self) -> bool:
        """Whether there is anything to see."""
        return not self._progress.disable

    def advance(self, note: str = "", count: int = 1, lines: Sequence[str] = ()) -> None:
        """Advance the bar.

        Args:
            note: Text after the bar.
            count: Number of episodes that were finished since the last call.
            lines: Lines of plain text below the bar.
        """
        if self._progress.disable:
            return
        task = self._progress.tasks[0]
        self._progress.lines = tuple(lines)
        rate = "" if task.speed is None else f"{task.speed:,.0f}/s"
        self._progress.update(self._task, advance=count, rate=rate, note=note)
