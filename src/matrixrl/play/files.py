"""The output directory of a run. Earlier runs are not overwritten by default, and every file is written atomically."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from matrixrl.archive import atomic_write
from matrixrl.errors import MatrixRLError, OutputExists
from matrixrl.play.results import RunResult

__all__ = ["OutputDirectory"]

_SUMMARY, _EPISODES = "result.json", "episodes.csv"
_HEADINGS = (
    "run",
    "seed",
    "episode",
    "alarm",
    "return",
    "length",
    "seconds",
    "regret",
    "cumulative_regret",
    "upper",
    "certified_lower",
    "certified_upper",
)
_PICTURES = {"regret": "regret.png", "return": "returns.png", "film": "film.gif", "shop": "shop.png"}


class OutputDirectory:
    """The directory to which the results of a run are written.

    Args:
        path: Path of the directory, which is created if it does not exist.
        overwrite: Whether to replace the files of an earlier run.

    Raises:
        OutputExists: The directory holds a run and `overwrite` is False.
        MatrixRLError: The directory cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self.path = Path(path)
        held = [name for name in (_SUMMARY, _EPISODES, *_PICTURES.values()) if (self.path / name).exists()]
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
        """Write the summary and the episodes of results, by label, and return the paths of the two files."""
        summary = {label: result.as_dict() for label, result in results.items()}
        whole: Any = next(iter(summary.values())) if len(summary) == 1 else summary
        return [
            self.write_summary(whole),
            self.write(_EPISODES, lambda file: _dump_episodes(file, results)),
        ]

    def write_summary(self, data: Any) -> Path:
        """Write plain data as the summary and return its path."""
        return self.write(_SUMMARY, lambda file: _dump_json(file, data))

    def write_picture(
        self, draw: Callable[[Path], None], *, of: Literal["regret", "return", "film", "shop"] = "regret"
    ) -> Path:
        """Write a picture and return its path.

        Args:
            draw: Function that saves the picture to a path.
            of: Quantity that is drawn, which determines the name of the file.
        """
        return self.write(_PICTURES[of], draw)

    def write(self, name: str, fill: Callable[[Path], None]) -> Path:
        """Write the file `name` in the directory by `atomic_write` and return its path."""
        target = self.path / name
        atomic_write(target, fill)
        return target


def _dump_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False), encoding="utf-8")


def _dump_episodes(path: Path, results: Mapping[str, RunResult]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_HEADINGS)
        for label, result in results.items():
            regret = result.cumulative_regret if result.measures_regret else np.full(result.returns.shape, np.nan)
            series = (result.returns, result.lengths, result.seconds, result.regret, regret, result.upper)
            for k, seed in enumerate(result.seeds):
                table = np.concatenate([np.stack([one[k] for one in series], axis=1), result.certified[k]], axis=1)
                alarms = result.alarms[k].astype(int).tolist()
                for n, (row, alarm) in enumerate(zip(table.tolist(), alarms, strict=True)):
                    if row[0] == row[0]:  # not NaN: the episode was played
                        writer.writerow([label, seed, n + 1, alarm, *("" if x != x else x for x in row)])
