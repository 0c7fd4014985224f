"""The state of an experiment as plain data: progress, coarse curves and failures."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.errors import StoreError
from matrixrl_lab.analysis.statistics import grid_of
from matrixrl_lab.spec import Cell
from matrixrl_lab.store import RunRow, Store

__all__ = ["CURVE_POINTS", "Watcher", "snapshot", "snapshots_of"]

CURVE_POINTS = 100
_STATUSES = ("done", "running", "pending", "failed")

_CurveKey = tuple[str, int, tuple[int, ...], int]
"""Hash of the experiment, cell, seeds and episodes, which together determine the curve."""


def snapshot(folder: Path) -> dict[str, Any]:
    """Return the state of the experiment in a directory.

    Args:
        folder: Directory of the store, which is only read; another process may be writing to it.

    Returns:
        Plain data for JSON: name, title, hash, episodes and seeds of the spec; `progress` and `finished` of the whole
        experiment; `environments`, each with id, measure ("regret" or "return") and its cells; `failures` with their
        reasons. A cell has its progress, a status and a `curve`: cumulative regret, or the return of each episode, as
        the mean over the seeds with the most episodes, so that it never gets shorter.

    Raises:
        StoreError: The directory holds no store, or a damaged one.
    """
    return Watcher(folder).snapshot()


class Watcher:
    """Takes repeated snapshots of one directory and reads only cells with new episodes again.

    Args:
        folder: Directory of the store; it may be created later.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._curves: dict[_CurveKey, dict[str, list[Any]]] = {}

    def snapshot(self) -> dict[str, Any]:
        """Return the present state; see the function `snapshot`."""
        with Store.open_to_read(self.folder) as store:
            rows: dict[int, list[RunRow]] = {}
            for row in store.runs():
                rows.setdefault(row.cell, []).append(row)
            return self._state(store, rows)

    def _state(self, store: Store, rows: dict[int, list[RunRow]]) -> dict[str, Any]:
        experiment, before = store.experiment, self._curves
        self._curves = {}  # curves that are not used again are dropped
        environments: dict[str, dict[str, Any]] = {}
        for number, cell in enumerate(experiment.cells):
            panel = environments.setdefault(cell.env_id, {"id": cell.env_id, "measure": cell.measure, "cells": []})
            progress = _progress(rows[number], experiment.episodes)
            curve = self._curve(store, number, cell, rows[number], before)
            panel["cells"].append({"cell": number, "agent": cell.agent_id, **progress, **curve})
        whole = _progress([row for some in rows.values() for row in some], experiment.episodes)
        return {
            "name": experiment.name,
            "title": experiment.title,
            "hash": experiment.hash,
            "folder": str(self.folder),
            "episodes": experiment.episodes,
            "seeds": len(experiment.seeds),
            "progress": whole,
            "finished": whole["running"] == whole["pending"] == 0,
            "environments": list(environments.values()),
            "failures": [
                failure for number, cell in enumerate(experiment.cells) for failure in _failures(cell, rows[number])
            ],
        }

    def _curve(
        self, store: Store, number: int, cell: Cell, rows: list[RunRow], before: dict[_CurveKey, dict[str, list[Any]]]
    ) -> dict[str, Any]:
        """Return the mean curve of the seeds with the most episodes, and the number of these seeds."""
        n = max(row.episodes for row in rows)
        seeds = tuple(row.seed for row in rows if row.episodes == n)
        if n == 0:
            return {"curve": {"episode": [], "mean": []}, "curve_seeds": 0}
        key = (store.experiment.hash, number, seeds, n)
        curve = before.get(key)
        if curve is None:
            series = store.read(number, cell.measure, seeds)[:, :n]  # more may have been written since
            if series.shape[1] == 0:  # the seeds have started again
                return {"curve": {"episode": [], "mean": []}, "curve_seeds": 0}
            mean = series.mean(axis=0)
            at = grid_of(series.shape[1], CURVE_POINTS)
            values = mean if cell.measure == "return" else np.cumsum(mean)
            shown = values[at.astype(int) - 1].tolist()
            curve = {"episode": at.astype(int).tolist(), "mean": [y if math.isfinite(y) else None for y in shown]}
            key = (*key[:3], series.shape[1])
        self._curves[key] = curve
        return {"curve": curve, "curve_seeds": len(seeds)}


def snapshots_of(folder: Path) -> Callable[[], dict[str, str]]:
    """Return a function that takes a snapshot as JSON, for a `Feed`.

    Args:
        folder: Directory of the store; if it holds no store, the snapshot has an error message in `problem`.
    """
    watcher = Watcher(folder)

    def take() -> dict[str, str]:
        try:
            found = {"problem": None, **watcher.snapshot()}
        except (StoreError, OSError) as error:
            found = {"problem": str(error)}
        except (ValueError, LookupError) as error:  # rows in an unknown format
            found = {"problem": f"{folder} is damaged: {error}"}
        return {"message": json.dumps(found, allow_nan=False, separators=(",", ":"))}

    return take


def _progress(rows: list[RunRow], episodes: int) -> dict[str, Any]:
    """Return the number of seeds by status, and of episodes that are stored, planned, and lost to failed seeds."""
    count = Counter(row.status for row in rows)
    stored = sum(row.episodes for row in rows)
    lost = sum(episodes - row.episodes for row in rows if row.status == "failed")
    return {
        **{status: count[status] for status in _STATUSES},
        "stored": stored,
        "lost": lost,
        "total": episodes * len(rows),
        "status": _status(count, stored),
    }


def _status(count: Counter[str], stored: int) -> str:
    """Return one status for several seeds; a cell is running as soon as one of its seeds has episodes."""
    if count["pending"] == count["running"] == 0:
        return "failed" if count["failed"] else "done"
    return "running" if stored else "pending"


def _failures(cell: Cell, rows: list[RunRow]) -> list[dict[str, Any]]:
    """Return the failures of a cell; seeds with the same reason are merged."""
    found: dict[str, list[int]] = {}
    for row in rows:
        if row.status == "failed":
            found.setdefault(row.reason or "unknown", []).append(row.seed)
    return [
        {"environment": cell.env_id, "agent": cell.agent_id, "seeds": seeds, "reason": reason}
        for reason, seeds in found.items()
    ]
