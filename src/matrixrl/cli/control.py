"""``matrixrl run`` for control tasks: live curve, table, picture, video."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from matrixrl.lab import draw_control
from matrixrl.simulate import ControlResult, ControlRun, OutputDirectory
from matrixrl.simulate.control import sparkline
from matrixrl.simulate.recording import record_episode, require_recorder

__all__ = ["ControlOrder", "run_control"]


@dataclass(frozen=True)
class ControlOrder:
    """What was asked for on the command line."""

    env: str
    env_settings: dict[str, Any]
    settings: dict[str, Any]
    n_episodes: int
    seeds: list[int]
    record: Path | None
    as_json: bool


def run_control(order: ControlOrder, directory: OutputDirectory | None) -> None:
    """Run the seeds and report."""
    if order.record is not None:
        require_recorder()
    run = ControlRun(
        order.env,
        n_episodes=order.n_episodes,
        seeds=order.seeds,
        settings=order.settings,
        env_settings=order.env_settings,
    )
    interrupted = False
    try:
        result = run.run(progress=not order.as_json)
    except KeyboardInterrupt:
        interrupted, result = True, run.result()
    files: list[Path] = []
    if directory is not None and not np.isnan(result.returns).all():
        files = directory.write_control(result, lambda path: draw_control(result, run.agents[0], path))
    if order.record is not None and not interrupted:
        files.append(record_episode(run.agents[0], order.env, order.env_settings, order.record))
    if order.as_json:
        typer.echo(json.dumps(result.as_dict(), allow_nan=False))
    else:
        _print(result, files)
    if interrupted:
        raise typer.Exit(130)


def _print(result: ControlResult, files: list[Path]) -> None:
    console = Console()
    title = f"{result.env}  H={result.horizon}  KernelMatrixRL"
    table = Table(title=title, title_justify="left", title_style="bold", padding=(0, 1, 0, 0))
    for heading in ("seed", "returns", "best", "second half", "features", "s/episode"):
        table.add_column(heading, justify="left" if heading == "returns" else "right", no_wrap=True)
    for k, seed in enumerate(result.seeds):
        played = result.returns[k][~np.isnan(result.returns[k])]
        if not len(played):
            continue
        half = result.second_half(k)
        pace = np.nanmean(result.seconds[k])
        cells = [f"{played.max():.4g}", f"{half:.4g}", str(result.features[k]), f"{pace:.2f}"]
        table.add_row(str(seed), sparkline(played), *cells)
    console.print(table)
    console.print(f"[yellow]no proof:[/] {result.guarantee}.", highlight=False)
    for file in files:
        console.print(f"wrote {file}", highlight=False, soft_wrap=True)
