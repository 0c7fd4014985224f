"""Export a store as one flat table in CSV or Parquet, with one row for each episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.archive import atomic_write
from matrixrl.checks import choice
from matrixrl.extras import require_packages
from matrixrl.spaces import cell_text
from matrixrl_lab.store import COLUMNS, Store

__all__ = ["FORMATS", "export"]

FORMATS = ("csv", "parquet")


def export(store: Store, path: Path, form: str) -> int:
    """Write all stored episodes to a file and return their number; the file is written completely or not at all.

    Args:
        store: Store, opened for reading.
        path: File to write; an existing file is replaced.
        form: csv or parquet. Numbers are exact in both; a series that an agent does not have is empty. In CSV a name
            that a spreadsheet program would compute is written after an apostrophe.
    """
    choice("--format", form, FORMATS)
    require_packages(["pyarrow"], extra="lab", purpose="an export")
    with store.reading():
        return atomic_write(path, lambda temporary: _write(store, temporary, form))


def _write(store: Store, path: Path, form: str) -> int:
    import pyarrow as arrow
    from pyarrow.csv import CSVWriter, WriteOptions
    from pyarrow.parquet import ParquetWriter

    kinds: list[tuple[str, Any]] = [("env", arrow.string()), ("agent", arrow.string())]
    kinds += [("seed", arrow.int64()), ("episode", arrow.int64()), *((name, arrow.float64()) for name in COLUMNS)]
    schema, count = arrow.schema(kinds), 0
    quotes = WriteOptions(quoting_style="needed")
    with ParquetWriter(path, schema) if form == "parquet" else CSVWriter(path, schema, write_options=quotes) as writer:
        for row in store.runs():
            if not row.episodes:
                continue
            cell, n = store.experiment.cells[row.cell], row.episodes
            names = cell.env_id, cell.agent_id
            env, agent = names if form == "parquet" else map(cell_text, names)
            table = {"env": [env] * n, "agent": [agent] * n, "seed": np.full(n, row.seed)}
            table["episode"] = np.arange(1, n + 1)
            for name in COLUMNS:
                series = store.read(row.cell, name, [row.seed], as_measured=True)[0]
                stored = series if len(series) else np.full(n, np.nan)
                table[name] = arrow.array(stored, mask=np.isnan(stored))
            writer.write_table(arrow.table(table, schema=schema))
            count += n
    return count
