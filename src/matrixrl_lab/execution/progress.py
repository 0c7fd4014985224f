"""Progress of a campaign, on standard error or in a notebook."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from matrixrl.display import literal
from matrixrl.progress import ProgressLines, can_draw, progress_console
from matrixrl_lab.execution.campaign import Campaign

__all__ = ["CampaignProgress"]


class CampaignProgress:
    """Draw a bar over all episodes of all runs; without a terminal or a notebook, print lines (`ProgressLines`).

    Args:
        label: Text before the bar.
        console: Console to draw on; standard error by default.
        visible: Whether to show progress.
    """

    def __init__(self, label: str, *, console: Console | None = None, visible: bool = True) -> None:
        is_drawn = visible and can_draw(console)
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TextColumn("·"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=progress_console(console),
            disable=not is_drawn,
            transient=True,
            refresh_per_second=4,
        )
        self._task = self._progress.add_task(literal(label), total=None, note="")
        show_lines = visible and not is_drawn
        self._lines = ProgressLines(label, console=console) if show_lines else None

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
        failed = f"{campaign.failures} failed" if campaign.failures else ""
        words = ", ".join(filter(None, (note, failed)))
        if self._lines is not None:
            self._lines.show(campaign.stored, campaign.total, words)
        note += f", [red]{failed}[/]" if failed else ""
        self._progress.update(self._task, total=campaign.total, completed=campaign.stored, note=note)
