"""Progress bar of a campaign, on standard error."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from matrixrl.lab.execution.campaign import Campaign
from matrixrl.printable import literal

__all__ = ["CampaignProgress"]


class CampaignProgress:
    """Draw a bar over all episodes of all runs; nothing is drawn if the console is not a terminal.

    Args:
        label: Text before the bar.
        console: Console to draw on; standard error by default.
        visible: Whether to draw the bar.
    """

    def __init__(self, label: str, *, console: Console | None = None, visible: bool = True) -> None:
        terminal = Console(stderr=True) if console is None else console
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TextColumn("·"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=terminal,
            disable=not (visible and terminal.is_terminal),
            transient=True,
            refresh_per_second=4,
        )
        self._task = self._progress.add_task(literal(label), total=None, note="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def tick(self, campaign: Campaign) -> None:
        """Show the current progress of a campaign."""
        note = f"{campaign.tasks_done}/{campaign.tasks} tasks"
        if campaign.failures:
            note += f", [red]{campaign.failures} failed[/]"
        self._progress.update(self._task, total=campaign.total, completed=campaign.stored, note=note)
