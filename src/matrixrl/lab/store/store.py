"""Store of the results of one experiment: an SQLite file in WAL mode, written in one transaction for each block."""

from __future__ import annotations

import hashlib
import json
import platform
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from matrixrl.errors import InvalidInput, StoreError
from matrixrl.lab.spec import Experiment
from matrixrl.lab.store.connection import connect, release_on_error, store_errors
from matrixrl.lab.store.lock import WriterLock
from matrixrl.lab.store.schema import COLUMNS, FILE, FORMAT_VERSION, SCHEMA
from matrixrl.records import FloatArray

__all__ = ["RunRow", "Store"]

_PACKAGES = ("matrixrl", "numpy", "scipy", "gymnasium", "numba")
_PAGE = 16_384  # bytes; blocks have tens of kilobytes, so large pages are faster
_NOT_COMPARED = "seconds"  # wall time differs between equal runs


@dataclass(frozen=True)
class RunRow:
    """One seed of one cell.

    Attributes:
        cell: Index of the cell, in the order of the spec.
        seed: Seed of the run.
        status: pending, running, done or failed.
        episodes: Number of stored episodes.
        reason: Reason of a failure, else None.
        alarms: Number of episodes with a misspecification alarm.
        outcome: Final certificate and number of plans of a finished run, else {}.
    """

    cell: int
    seed: int
    status: str
    episodes: int
    reason: str | None
    alarms: int
    outcome: dict[str, Any]


class Store:
    """Results of one experiment, in a directory.

    Open a store with `create`, `open_to_write` or `open_to_read`, and use it as a context manager.

    Attributes:
        folder: Directory of the store.
        experiment: The experiment.
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: WriterLock | None) -> None:
        self.folder = folder
        self._db = connection
        self._lock = lock
        try:
            self.experiment = self._read_experiment()
            runs = self._query("SELECT run, cell, seed FROM runs")
        except BaseException:
            self.close()
            raise
        self._runs: dict[tuple[int, int], int] = {(cell, seed): run for run, cell, seed in runs}

    @classmethod
    def create(cls, folder: Path, experiment: Experiment, source: str = "", command: str = "") -> Self:
        """Create a store for an experiment and open it for writing.

        Args:
            folder: Directory; it is created if it is missing.
            experiment: The experiment.
            source: Text of the spec.
            command: Arguments of ``matrixrl compare`` that run the spec again.

        Raises:
            StoreError: The directory holds a store already, or cannot be written.
        """
        path = folder / FILE
        if cls.is_there(folder):
            if cls.is_at(folder, experiment):
                raise StoreError(f"{folder} already holds this experiment; continue with matrixrl resume {folder}")
            with cls.open_to_read(folder) as held:
                other = held.experiment
            raise StoreError(
                f"{folder} holds another experiment ({other.name}, {other.hash}; this one is "
                f"{experiment.hash}), and results are never mixed; choose another directory with --out"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot write to {folder}: {error.strerror}") from error
        lock = WriterLock(folder)
        fresh = folder / f".{FILE}"  # written under another name and renamed, so that a store is always complete
        with store_errors(folder), release_on_error(lock):
            if cls.is_there(folder):  # created by another process just before this one had the lock
                raise StoreError(f"another process created a store in {folder}; choose another directory")
            for stale in (
                fresh,
                folder / f"{FILE}-wal",
                folder / f"{FILE}-shm",
            ):  # left over from a store that was removed
                stale.unlink(missing_ok=True)
            building = sqlite3.connect(fresh, isolation_level=None)
            building.execute(f"PRAGMA page_size = {_PAGE}")
            building.executescript(f"BEGIN; {SCHEMA}")
            meta = {
                "format": str(FORMAT_VERSION),
                "experiment": experiment.to_json(),
                "hash": experiment.hash,
                "source": source,
                "command": command,
                "versions": json.dumps(_versions()),
            }
            building.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            for i, cell in enumerate(experiment.cells):
                building.execute("INSERT INTO cells VALUES (?, ?, NULL)", (i, cell.id))
                rows = [(i, seed) for seed in experiment.seeds]
                building.executemany("INSERT INTO runs (cell, seed, status) VALUES (?, ?, 'pending')", rows)
            building.execute("COMMIT")
            building.close()
            fresh.rename(path)
            return cls(folder, connect(path), lock)

    @staticmethod
    def is_there(folder: Path) -> bool:
        """Return whether a directory holds a store."""
        return (folder / FILE).is_file()

    @classmethod
    def is_at(cls, folder: Path, experiment: Experiment) -> bool:
        """Return whether a directory holds a store of this experiment."""
        if not cls.is_there(folder):
            return False
        with cls.open_to_read(folder) as held:
            return held.experiment.hash == experiment.hash

    @classmethod
    def open_to_write(cls, folder: Path) -> Self:
        """Open the store of a directory for writing; only one process can."""
        _must_exist(folder)
        lock = WriterLock(folder)
        with store_errors(folder), release_on_error(lock):
            return cls(folder, connect(folder / FILE), lock)

    @classmethod
    def open_to_read(cls, folder: Path) -> Self:
        """Open the store of a directory for reading, which is possible while another process writes."""
        _must_exist(folder)
        with store_errors(folder):
            return cls(folder, connect(folder / FILE, read_only=True), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and release the lock."""
        self._db.close()
        if self._lock is not None:
            self._lock.release()

    @property
    def path(self) -> Path:
        """File of the store."""
        return self.folder / FILE

    def changed_versions(self) -> dict[str, tuple[str, str]]:
        """Return the packages whose version changed since the store was created, with the old and the new version."""
        now = _versions()
        return {name: (then, now[name]) for name, then in self.versions.items() if now.get(name, then) != then}

    @property
    def versions(self) -> dict[str, str]:
        """Versions of Python and of packages when the store was created."""
        found: dict[str, str] = json.loads(self._meta("versions"))
        return found

    @property
    def source(self) -> str:
        """Text of the spec."""
        return self._meta("source")

    @property
    def command(self) -> str:
        """Arguments of ``matrixrl compare`` that run the spec again."""
        return self._meta("command")

    def runs(self) -> list[RunRow]:
        """Return all runs, ordered by cell and seed."""
        rows = self._query(
            "SELECT cell, seed, status, episodes, reason, "
            "(SELECT coalesce(sum(count), 0) FROM alarms WHERE alarms.run = runs.run), outcome "
            "FROM runs ORDER BY cell, run"
        )
        return [RunRow(c, s, t, n, why, k, json.loads(end) if end else {}) for c, s, t, n, why, k, end in rows]

    def facts(self, cell: int) -> dict[str, Any]:
        """Return properties of a cell (horizon, sizes, V*, guarantee); {} before its first block is stored."""
        (text,) = self._query("SELECT facts FROM cells WHERE cell = ?", (cell,))[0]
        return {} if text is None else dict(json.loads(text))

    def read(self, cell: int, series: str, seeds: Sequence[int] | None = None) -> FloatArray:
        """Return a series of a cell.

        Args:
            cell: Index of the cell.
            series: A name of `COLUMNS`.
            seeds: The K seeds to read; all by default.

        Returns:
            Array of shape (K, n), where n is the number of episodes that all K seeds have; n is 0 if the series is not
            stored.
        """
        if series not in COLUMNS:
            raise InvalidInput(f"series must be one of {', '.join(COLUMNS)}; got {series!r}. Pick one of those names.")
        chosen = self.experiment.seeds if seeds is None else seeds
        counts = [self._count(self._runs[cell, seed], series) for seed in chosen]
        found: FloatArray = np.empty((len(chosen), min(counts)))
        for row, seed in zip(found, chosen, strict=True):
            self._fill(row, self._runs[cell, seed], series)
        return found

    def _count(self, run: int, series: str) -> int:
        """Return the number of episodes of a run that have a series; only the index is read."""
        text = "SELECT first + count FROM blocks WHERE run = ? AND series = ? ORDER BY first DESC LIMIT 1"
        rows = self._query(text, (run, series))
        return int(rows[0][0]) if rows else 0

    def _fill(self, row: FloatArray, run: int, series: str) -> None:
        """Copy the first episodes of a series into `row`."""
        text = "SELECT first, data FROM blocks WHERE run = ? AND series = ? AND first < ? ORDER BY first"
        filled = 0
        for first, data in self._query(text, (run, series, len(row))):
            if first != filled:
                break
            block = np.frombuffer(data, dtype="<f8")[: len(row) - first]
            row[first : first + len(block)] = block
            filled = first + len(block)
        if filled != len(row):
            raise StoreError(f"{self.path} is damaged: {series} has a gap after episode {filled}")

    def state(self, cell: int, first_seed: int) -> tuple[int, bytes] | None:
        """Return the number of episodes of a task and the state of its simulation, or None if none is stored."""
        rows = self._query("SELECT episodes, data FROM states WHERE cell = ? AND first_seed = ?", (cell, first_seed))
        return (int(rows[0][0]), bytes(rows[0][1])) if rows else None

    def write_block(
        self,
        cell: int,
        seeds: Sequence[int],
        first: int,
        columns: Mapping[str, FloatArray],
        *,
        state: bytes | None,
        alarms: Sequence[int] = (),
        facts: Mapping[str, Any] | None = None,
        outcomes: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Write a block in one transaction; writing the same block twice has no further effect.

        Args:
            cell: Index of the cell.
            seeds: The K seeds that were played together.
            first: First episode of the block, counted from 0.
            columns: Series by name, shape (K, n) each.
            state: State of the simulation after the block; None after the last block.
            alarms: For each seed, the number of episodes with a misspecification alarm; zero by default.
            facts: Properties of the cell, with its first block.
            outcomes: Final certificate and number of plans of each seed, with its last block.
        """
        count = next(iter(columns.values())).shape[1]
        after = first + count
        status = "done" if after >= self.experiment.episodes else "running"
        with self._transaction():
            for k, seed in enumerate(seeds):
                run = self._runs[cell, seed]
                rows = [(run, name, first, count, _bytes(values[k])) for name, values in columns.items()]
                self._db.executemany("INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?, ?)", rows)
                if alarms and alarms[k]:
                    self._db.execute("INSERT OR REPLACE INTO alarms VALUES (?, ?, ?)", (run, first, alarms[k]))
                outcome = None if outcomes is None else json.dumps(outcomes[k])
                self._db.execute(
                    "UPDATE runs SET episodes = ?, status = ?, reason = NULL, outcome = ? WHERE run = ?",
                    (after, status, outcome, run),
                )
            self._db.execute("DELETE FROM states WHERE cell = ? AND first_seed = ?", (cell, seeds[0]))
            if state is not None:
                self._db.execute("INSERT INTO states VALUES (?, ?, ?, ?)", (cell, seeds[0], after, state))
            if facts is not None:
                self._db.execute("UPDATE cells SET facts = ? WHERE cell = ?", (json.dumps(facts), cell))

    def restart(self, cell: int, seeds: Sequence[int]) -> None:
        """Delete the blocks of some seeds, which have to be played again because their state was not stored."""
        with self._transaction():
            for seed in seeds:
                run = self._runs[cell, seed]
                self._db.execute("DELETE FROM blocks WHERE run = ?", (run,))
                self._db.execute("DELETE FROM alarms WHERE run = ?", (run,))
                self._db.execute("UPDATE runs SET episodes = 0, status = 'pending' WHERE run = ?", (run,))
            self._db.execute("DELETE FROM states WHERE cell = ? AND first_seed = ?", (cell, seeds[0]))

    def fail(self, cell: int, seeds: Sequence[int], reason: str) -> None:
        """Mark runs as failed with a reason; their blocks are kept."""
        with self._transaction():
            for seed in seeds:
                self._db.execute(
                    "UPDATE runs SET status = 'failed', reason = ? WHERE run = ?", (reason, self._runs[cell, seed])
                )

    def digest(self) -> str:
        """Return a hash of all numbers in the store except wall times."""
        total = hashlib.sha256(self.experiment.hash.encode())
        rows = self._db.execute(
            "SELECT cell, seed, series, first, count, data FROM runs JOIN blocks USING (run) WHERE series <> ? "
            "ORDER BY cell, seed, series, first",
            (_NOT_COMPARED,),
        )
        for *key, data in rows:
            total.update(json.dumps(key).encode())
            total.update(data)
        for row in self._query("SELECT cell, seed, status, episodes, outcome FROM runs ORDER BY cell, seed"):
            total.update(json.dumps(row).encode())
        return total.hexdigest()[:16]

    def _meta(self, key: str) -> str:
        rows = self._query("SELECT value FROM meta WHERE key = ?", (key,))
        if not rows:
            raise StoreError(f"{self.path} is damaged: it has no {key}")
        return str(rows[0][0])

    def _read_experiment(self) -> Experiment:
        found = self._meta("format")
        if found != str(FORMAT_VERSION):
            age = "older" if found.isdigit() and int(found) < FORMAT_VERSION else "newer"
            remedy = "run the experiment again" if age == "older" else "upgrade"
            raise StoreError(
                f"{self.path} has format {found}, {age} than the {FORMAT_VERSION} that this matrixrl reads; {remedy}"
            )
        try:
            experiment = Experiment.from_json(self._meta("experiment"))
            if experiment.hash != self._meta("hash"):
                raise ValueError("its spec does not have the hash that it was made with")
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self.path} is damaged: {error}") from error
        return experiment

    def _query(self, text: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with store_errors(self.folder):
            return self._db.execute(text, values).fetchall()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read from one snapshot of the store inside a ``with`` statement, while another process may write."""
        if self._db.in_transaction:
            yield
            return
        with store_errors(self.folder):
            self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("COMMIT")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit all changes of the body, or none if it raises."""
        if self._lock is None:
            raise StoreError(f"{self.folder} was opened to read only")
        with store_errors(self.folder):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise


def _must_exist(folder: Path) -> None:
    if not Store.is_there(folder):
        raise StoreError(f"{folder} holds no results ({FILE} is missing); run matrixrl compare SPEC --out {folder}")


def _bytes(row: FloatArray) -> bytes:
    return np.ascontiguousarray(row, dtype="<f8").tobytes()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # optional
        return "absent"


def _versions() -> dict[str, str]:
    found = {name: _version(name) for name in _PACKAGES}
    return {**found, "python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
