"""Migration of stores of format 2, which had no checksums, to format 3."""

from __future__ import annotations

from itertools import groupby

from matrixrl.lab.store.connection import damaged
from matrixrl.lab.store.database import Database, sealed
from matrixrl.lab.store.schema import COLUMNS, FORMAT_VERSION, TABLES

__all__ = ["OLDEST_FORMAT", "migrate"]

OLDEST_FORMAT = 2

_KEYS = {
    "meta": ("key",),
    "cells": ("cell",),
    "runs": ("run",),
    "blocks": ("run", "series", "first"),
    "states": ("cell", "first_seed"),
}
_SERIES_OF_RUNS = (
    "SELECT cell, group_concat(series) FROM (SELECT DISTINCT cell, run, series FROM runs JOIN blocks USING (run) "
    "ORDER BY run, series) GROUP BY run"
)


def migrate(database: Database) -> None:
    """Add the columns of format 3 and the checksum of every row, in one transaction; no result is changed.

    Args:
        database: Store of format 2, opened for writing.

    Raises:
        StoreError: The store is damaged; it is left as it was.
    """
    with database.writing():
        verdict = database.query("PRAGMA integrity_check(1)")
        if verdict != [("ok",)]:
            raise damaged(database.folder, str(verdict[0][0]))
        _check_blocks(database)
        database.execute("ALTER TABLE runs ADD COLUMN alarms INTEGER NOT NULL DEFAULT 0")
        database.execute("ALTER TABLE runs ADD COLUMN series TEXT NOT NULL DEFAULT ''")
        database.execute(
            "UPDATE runs SET alarms = (SELECT coalesce(sum(count), 0) FROM alarms WHERE alarms.run = runs.run)"
        )
        for run, names in _series(database).items():
            database.execute("UPDATE runs SET series = ? WHERE run = ?", (" ".join(names), run))
        database.execute("DROP TABLE alarms")
        database.execute("UPDATE meta SET value = ? WHERE key = 'format'", (str(FORMAT_VERSION),))
        for table in TABLES:
            _seal(database, table)


def _check_blocks(database: Database) -> None:
    """Raise unless the blocks of every series of every run cover exactly the episodes that the run has."""
    covered = database.query(
        "SELECT runs.run, runs.episodes, blocks.series, sum(blocks.count), max(blocks.first + blocks.count), "
        "sum(length(blocks.data)) FROM runs JOIN blocks USING (run) GROUP BY runs.run, blocks.series"
    )
    for run, episodes, series, count, end, size in covered:
        if not episodes == count == end or size != 8 * count:
            raise damaged(database.folder, f"run {run} has {episodes} episodes, but {count} of {series}")
    kinds = {(cell, names) for cell, names in database.query(_SERIES_OF_RUNS)}
    if len(kinds) > len({cell for cell, _ in kinds}):
        raise damaged(database.folder, "two runs of one cell do not have the same series")
    found = {run for run, *_ in covered}
    begun = {run for (run,) in database.query("SELECT run FROM runs WHERE episodes > 0")}
    if begun != found:
        raise damaged(database.folder, "a run has no blocks, or blocks have no run")


def _series(database: Database) -> dict[int, list[str]]:
    """Return the names of the series that every run has, in the order of `COLUMNS`."""
    rows = database.query("SELECT DISTINCT run, series FROM blocks ORDER BY run")
    found = {run: {name for _, name in group} for run, group in groupby(rows, key=lambda row: row[0])}
    return {run: [name for name in COLUMNS if name in names] for run, names in found.items()}


def _seal(database: Database, table: str) -> None:
    """Add the column `checksum` to a table and fill it, one row at a time because blocks may be large."""
    database.execute(f"ALTER TABLE {table} ADD COLUMN checksum BLOB NOT NULL DEFAULT x''")
    names, keys = TABLES[table], _KEYS[table]
    where = " AND ".join(f"{key} = ?" for key in keys)
    for key in database.query(f"SELECT {', '.join(keys)} FROM {table}"):
        [row] = database.query(f"SELECT {', '.join(names)} FROM {table} WHERE {where}", key)
        database.execute(f"UPDATE {table} SET checksum = ? WHERE {where}", (sealed(table, row)[-1], *key))
