"""Progress bar of a campaign, on standard error or in a notebook."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from matrixrl.lab.execution.campaign import Campaign
from matrixrl.notebooks import NotebookBar
from matrixrl.printable import literal, printable

__all__ = ["CampaignProgress"]


class CampaignProgress:
    """Draw a bar over all episodes of all runs; nothing is drawn outside a terminal and a notebook.

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
        self._notebook = NotebookBar(printable(label)) if visible and terminal.is_jupyter else None
        self._task = self._progress.add_task(literal(label), total=None, note="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
        if self._notebook is not None:
            self._notebook.close()

    def tick(self, campaign: Campaign) -> None:
        """Show the current progress of a campaign."""
        note = f"{campaign.tasks_done}/{campaign.tasks} tasks"
        if self._notebook is not None:
            failed = f", {campaign.failures} failed" if campaign.failures else ""
            self._notebook.show(campaign.stored / max(campaign.total, 1), f"{note}{failed}")
        if campaign.failures:
            note += f", [red]{campaign.failures} failed[/]"
        self._progress.update(self._task, total=campaign.total, completed=campaign.stored, note=note)
