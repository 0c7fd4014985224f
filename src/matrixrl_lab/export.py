"""Export a store as one flat table in CSV or Parquet, with one row for each episode."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.archive import atomic_write
from matrixrl.checks import choice
from matrixrl.errors import MissingExtra
from matrixrl.records import FloatArray
from matrixrl_lab.store import COLUMNS, Store

__all__ = ["FORMATS", "export"]

FORMATS = ("csv", "parquet")
_KEYS = ("env", "agent", "seed", "episode")


def export(store: Store, path: Path, form: str) -> int:
    """Write all stored episodes to a file and return their number; the file is written completely or not at all.

    Args:
        store: Store, opened for reading.
        path: File to write; an existing file is replaced.
        form: csv or parquet. Numbers are exact in both; a series that an agent does not have is empty.
    """
    choice("--format", form, FORMATS)
    writers: dict[str, Callable[[Store, Path], int]] = {"csv": _write_csv, "parquet": _write_parquet}
    with store.reading():
        return atomic_write(path, lambda temporary: writers[form](store, temporary))


def _runs(store: Store) -> Iterator[tuple[str, str, int, dict[str, FloatArray]]]:
    """Yield environment, agent, seed and series of every run with at least one episode."""
    for row in store.runs():
        if row.episodes:
            cell = store.experiment.cells[row.cell]
            columns = {name: store.read(row.cell, name, [row.seed], as_measured=True)[0] for name in COLUMNS}
            yield cell.env_id, cell.agent_id, row.seed, columns


def _write_csv(store: Store, path: Path) -> int:
    count = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*_KEYS, *COLUMNS])
        for env, agent, seed, columns in _runs(store):
            n = len(columns["return"])
            lists = [["" if x != x else x for x in columns[name].tolist()] or [""] * n for name in COLUMNS]
            writer.writerows([env, agent, seed, i + 1, *row] for i, row in enumerate(zip(*lists, strict=True)))
            count += n
    return count


def _write_parquet(store: Store, path: Path) -> int:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtra("Parquet needs pyarrow; pip install 'matrixrl[lab]'") from error
    kinds: list[tuple[str, Any]] = [("env", arrow.string()), ("agent", arrow.string())]
    kinds += [("seed", arrow.int64()), ("episode", arrow.int64())]
    kinds += [(name, arrow.float64()) for name in COLUMNS]
    schema, count = arrow.schema(kinds), 0
    with parquet.ParquetWriter(path, schema) as writer:
        for env, agent, seed, columns in _runs(store):
            n = len(columns["return"])
            table = {"env": [env] * n, "agent": [agent] * n, "seed": np.full(n, seed), "episode": np.arange(1, n + 1)}
            for name, values in columns.items():
                stored = values if len(values) else np.full(n, np.nan)
                table[name] = arrow.array(stored, mask=np.isnan(stored))
            writer.write_table(arrow.table(table, schema=schema))
            count += n
    return count
