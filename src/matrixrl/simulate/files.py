"""The directory a run is written to: refused if it holds one already, each file whole or not at all."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from matrixrl.errors import MatrixRLError, OutputExists
from matrixrl.simulate.control import ControlResult
from matrixrl.simulate.results import RunResult

__all__ = ["OutputDirectory", "write_whole"]

Result = TypeVar("Result")

_SUMMARY, _EPISODES, _PICTURE, _RETURNS = "result.json", "episodes.csv", "regret.png", "returns.png"


class OutputDirectory:
    """Where the results of a run go.

    Args:
        path: created if it is missing.
        overwrite: replace the files of an earlier run.

    Raises:
        OutputExists: the directory holds a run and `overwrite` is False.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self.path = Path(path)
        held = [name for name in (_SUMMARY, _EPISODES, _PICTURE, _RETURNS) if (self.path / name).exists()]
        if held and not overwrite:
            raise OutputExists(
                f"{self.path} already holds a run ({', '.join(held)}); choose another directory or pass --overwrite"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / f".probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise MatrixRLError(f"cannot write to {self.path}: {error.strerror}") from error

    def write_results(self, results: Mapping[str, RunResult]) -> list[Path]:
        """Write summary and episodes of one or more labelled results; return the files."""
        summary = {label: result.as_dict() for label, result in results.items()}
        whole: Any = next(iter(summary.values())) if len(summary) == 1 else summary
        return [
            self.write(_SUMMARY, lambda file: _dump_json(file, whole)),
            self.write(_EPISODES, lambda file: _dump_episodes(file, results)),
        ]

    def write_control(self, result: ControlResult, draw: Callable[[Path], None]) -> list[Path]:
        """Write summary, episodes and picture of a control task; return the files."""
        return [
            self.write(_SUMMARY, lambda file: _dump_json(file, result.as_dict())),
            self.write(_EPISODES, lambda file: _dump_returns(file, result)),
            self.write(_RETURNS, draw),
        ]

    def write_picture(self, draw: Callable[[Path], None]) -> Path:
        """Write the picture that `draw` saves to the path it is given."""
        return self.write(_PICTURE, draw)

    def write(self, name: str, fill: Callable[[Path], None]) -> Path:
        """Let `fill` write a temporary file, then rename it into place."""
        target = self.path / name
        write_whole(target, fill)
        return target


def write_whole(path: Path, fill: Callable[[Path], Result]) -> Result:
    """Let `fill` write a temporary file beside `path`, then rename it into place: a file is whole or not there.

    The temporary name ends as the name does, because writers of pictures and tables choose their format by it.
    """
    temporary = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            result = fill(temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise MatrixRLError(f"cannot write {path}: {error.strerror or error}") from error
    return result


def _dump_returns(path: Path, result: ControlResult) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["seed", "episode", "return", "length", "seconds"])
        for k, seed in enumerate(result.seeds):
            columns = np.stack([result.returns[k], result.lengths[k], result.seconds[k]], axis=1)
            writer.writerows([seed, n + 1, *row] for n, row in enumerate(columns.tolist()) if row[0] == row[0])


def _dump_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False), encoding="utf-8")


def _dump_episodes(path: Path, results: Mapping[str, RunResult]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            [
                "run",
                "seed",
                "episode",
                "return",
                "regret",
                "cumulative_regret",
                "upper",
                "alarm",
                "certified_lower",
                "certified_upper",
            ]
        )
        for label, result in results.items():
            columns = (result.returns, result.regret, result.cumulative_regret, result.upper)
            for k, seed in enumerate(result.seeds):
                table = np.stack([column[k] for column in columns], axis=1).tolist()
                alarms = result.alarms[k].astype(int).tolist()
                bands = [["" if x != x else x for x in pair] for pair in result.certified[k].tolist()]
                writer.writerows(
                    [label, seed, n + 1, *row, alarm, *band]
                    for n, (row, alarm, band) in enumerate(zip(table, alarms, bands, strict=True))
                )
