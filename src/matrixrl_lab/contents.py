"""Contents of a store as plain data."""

from __future__ import annotations

from collections import Counter
from typing import Any

from matrixrl_lab.analysis.statistics import mean_interval
from matrixrl_lab.store import Store

__all__ = ["contents"]


def contents(store: Store) -> dict[str, Any]:
    """Return name, hash, versions and size of a store, and the status and total regret of each cell."""
    with store.reading():
        return _contents(store)


def _contents(store: Store) -> dict[str, Any]:
    experiment = store.experiment
    rows = store.runs()
    cells = []
    for number, cell in enumerate(experiment.cells):
        own = [row for row in rows if row.cell == number]
        begun = [row.seed for row in own if row.episodes]
        regret = store.read(number, "regret", begun) if begun and cell.measure == "regret" else None
        cells.append(
            {
                "env": cell.env_id,
                "agent": cell.agent_id,
                "seeds": dict(Counter(row.status for row in own)),
                "episodes": min((row.episodes for row in own), default=0),
                "regret": None if regret is None else mean_interval(regret.sum(axis=1)).as_dict(),
                "reasons": sorted({row.reason for row in own if row.reason}),
            }
        )
    return {
        "name": experiment.name,
        "title": experiment.title,
        "hash": experiment.hash,
        "rows": store.digest(),
        "episodes": experiment.episodes,
        "seeds": len(experiment.seeds),
        "megabytes": store.path.stat().st_size / 1e6,
        "versions": store.versions,
        "cells": cells,
    }
