"""How far an experiment is, as plain data: progress, coarse curves, failures."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.lab.analysis.statistics import grid_of
from matrixrl.lab.spec import Cell
from matrixrl.lab.store import RunRow, Store

__all__ = ["CURVE_POINTS", "Watcher", "snapshot"]

CURVE_POINTS = 100
_STATUSES = ("done", "running", "pending", "failed")

_CurveKey = tuple[str, int, tuple[int, ...], int]
"""Hash of the experiment, cell, seeds, episodes: the same key always has the same numbers."""


def snapshot(folder: Path) -> dict[str, Any]:
    """Return where the experiment of a directory stands.

    Args:
        folder: of the store, which is only read; somebody may be writing to it.

    Returns:
        Plain data for JSON: name, title, hash, episodes and seeds of the spec; `progress` and `finished` of the whole;
        `environments`, each with id, measure ("regret" or "return") and its cells; `failures` with their reasons. A
        cell has its progress, a status, and a `curve`: cumulative regret, or return of each episode, as the mean of
        the seeds that are furthest ahead, so that it only grows.

    Raises:
        StoreError: the directory holds no store, or a damaged one.
    """
    return Watcher(folder).snapshot()


class Watcher:
    """Takes snapshots of one directory again and again; only cells with new episodes are read again.

    Args:
        folder: of the store; it may be missing now and come later.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._curves: dict[_CurveKey, dict[str, list[Any]]] = {}

    def snapshot(self) -> dict[str, Any]:
        """Return what `snapshot` returns."""
        with Store.open_to_read(self.folder) as store:
            rows: dict[int, list[RunRow]] = {}
            for row in store.runs():
                rows.setdefault(row.cell, []).append(row)
            return self._all(store, rows)

    def _all(self, store: Store, rows: dict[int, list[RunRow]]) -> dict[str, Any]:
        experiment, before = store.experiment, self._curves
        self._curves = {}  # what is not asked for again is forgotten
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
        """Return the curve of the seeds that are furthest ahead, and how many they are."""
        n = max(row.episodes for row in rows)
        seeds = tuple(row.seed for row in rows if row.episodes == n)
        if n == 0:
            return {"curve": {"episode": [], "mean": []}, "curve_seeds": 0}
        key = (store.experiment.hash, number, seeds, n)
        curve = before.get(key)
        if curve is None:
            series = store.read(number, cell.measure, seeds)[:, :n]  # more may have come since the rows were read
            if series.shape[1] == 0:  # … or the seeds began anew
                return {"curve": {"episode": [], "mean": []}, "curve_seeds": 0}
            mean = series.mean(axis=0)
            at = grid_of(series.shape[1], CURVE_POINTS)
            values = mean if cell.is_control else np.cumsum(mean)
            shown = values[at.astype(int) - 1].tolist()
            curve = {"episode": at.astype(int).tolist(), "mean": [y if math.isfinite(y) else None for y in shown]}
            key = (*key[:3], series.shape[1])
        self._curves[key] = curve
        return {"curve": curve, "curve_seeds": len(seeds)}


def _progress(rows: list[RunRow], episodes: int) -> dict[str, Any]:
    """Return seeds by status, episodes that are stored, that are wanted, and that failed seeds will not play."""
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
    """Return one word for many seeds; a cell whose later seeds wait for earlier ones is running."""
    if count["pending"] == count["running"] == 0:
        return "failed" if count["failed"] else "done"
    return "running" if stored else "pending"


def _failures(cell: Cell, rows: list[RunRow]) -> list[dict[str, Any]]:
    """Return the failures of a cell, seeds with the same reason together."""
    found: dict[str, list[int]] = {}
    for row in rows:
        if row.status == "failed":
            found.setdefault(row.reason or "unknown", []).append(row.seed)
    return [
        {"environment": cell.env_id, "agent": cell.agent_id, "seeds": seeds, "reason": reason}
        for reason, seeds in found.items()
    ]
