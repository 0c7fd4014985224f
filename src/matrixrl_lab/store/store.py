"""Store of the results of one experiment: an SQLite file in WAL mode, written in one transaction for each block."""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from matrixrl.errors import InvalidInput, StoreError
from matrixrl.folder_lock import FolderLock
from matrixrl.measurement import held
from matrixrl.records import FloatArray
from matrixrl_lab.spec import Experiment
from matrixrl_lab.store.database import Database, connect, damaged, release_on_error, store_errors, writer_lock
from matrixrl_lab.store.schema import COLUMNS, FILE, FORMAT_VERSION, META, SCHEMA

__all__ = ["RunRow", "Store"]

_PACKAGES = ("matrixrl", "numpy", "scipy", "gymnasium", "numba")
_PAGE = 16_384  # bytes; blocks have tens of kilobytes, so large pages are faster
_NOT_COMPARED = "seconds"  # wall time differs between equal runs
_NEVER = 2**63 - 1  # later than every episode
_UNPLAYED = ("pending", 0, None, None, 0, "")
"""Status, episodes, reason, outcome, alarms and series of a run without episodes."""


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

    Open a store with `create`, `open_to_write` or `open_to_read`, and use it as a context manager. Every row has a
    checksum: one that was changed after it was written raises a `StoreError` when it is read.

    Attributes:
        folder: Directory of the store.
        experiment: The experiment.
    """

    def __init__(self, folder: Path, database: Database, lock: FolderLock | None) -> None:
        self.folder, self._db, self._lock = folder, database, lock
        try:
            with database.reading():
                self._meta = self._read_meta()
                self.experiment = self._read_experiment()
                self._check_cells()
                self._runs = {(row[1], row[2]): row[0] for row in self._run_rows()}
        except BaseException:
            self.close()
            raise

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
        cls.check_free(folder, experiment)
        path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot write to {folder}: {error.strerror}") from error
        lock = writer_lock(folder)
        fresh = folder / f".{FILE}"  # written under another name and renamed, so that a store is always complete
        with store_errors(folder), release_on_error(lock):
            if cls.is_there(folder):  # created by another process just before this one had the lock
                raise StoreError(f"another process created a store in {folder}; choose another directory")
            for stale in (fresh, folder / f"{FILE}-wal", folder / f"{FILE}-shm"):  # of a store that was removed
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
            new = Database(folder, building, is_writer=True)
            new.put("meta", meta.items())
            new.put("cells", ((i, cell.id, None) for i, cell in enumerate(experiment.cells)))
            pairs = ((i, seed) for i in range(len(experiment.cells)) for seed in experiment.seeds)
            new.put("runs", ((run, *pair, *_UNPLAYED) for run, pair in enumerate(pairs, start=1)))
            building.execute("COMMIT")
            building.close()
            fresh.rename(path)
            return cls(folder, Database(folder, connect(path), is_writer=True), lock)

    @classmethod
    def check_free(cls, folder: Path, experiment: Experiment) -> None:
        """Raise a `StoreError` if a directory holds a store already; the message says how to continue."""
        if not cls.is_there(folder):
            return
        with cls.open_to_read(folder) as held:
            other = held.experiment
            if other.hash == experiment.hash:
                raise StoreError(f"{folder} already holds this experiment; continue with {held.resume_command}")
        raise StoreError(
            f"{folder} holds another experiment ({other.name}, {other.hash}; this one is "
            f"{experiment.hash}), and results are never mixed; choose another directory with --out"
        )

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
        lock = writer_lock(folder)
        with store_errors(folder), release_on_error(lock):
            return cls(folder, _opened(folder, is_writer=True), lock)

    @classmethod
    def open_to_read(cls, folder: Path) -> Self:
        """Open the store of a directory for reading, which is possible while another process writes."""
        _must_exist(folder)
        with store_errors(folder):
            return cls(folder, _opened(folder, is_writer=False), None)

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

    @property
    def resume_command(self) -> str:
        """Command that continues the experiment."""
        trust = ["--trust-code"] if self.experiment.imports_code else []
        return shlex.join(["matrixrl", "resume", str(self.folder), *trust])

    @property
    def is_finished(self) -> bool:
        """Whether all episodes of all runs are stored."""
        return all(row[3] == "done" for row in self._run_rows())

    def changed_versions(self) -> dict[str, tuple[str, str]]:
        """Return the packages whose version changed since the store was created, with the old and the new version."""
        now = _versions()
        return {name: (then, now[name]) for name, then in self.versions.items() if now.get(name, then) != then}

    @property
    def versions(self) -> dict[str, str]:
        """Versions of Python and of packages when the store was created."""
        return self._parsed(self._meta["versions"], "the versions")

    @property
    def source(self) -> str:
        """Text of the spec."""
        return self._meta["source"]

    @property
    def command(self) -> str:
        """Arguments of ``matrixrl compare`` that run the spec again."""
        return self._meta["command"]

    def runs(self) -> list[RunRow]:
        """Return all runs, ordered by cell and seed."""
        return [
            RunRow(cell, seed, status, episodes, reason, alarms, self._parsed(end or "{}", "the outcome of a run"))
            for _, cell, seed, status, episodes, reason, end, alarms, _ in self._run_rows()
        ]

    def facts(self, cell: int) -> dict[str, Any]:
        """Return properties of a cell (horizon, sizes, V*, guarantee); {} before its first block is stored."""
        rows = self._db.select("cells", "WHERE cell = ?", (cell,))
        if len(rows) != 1:
            raise damaged(self.folder, f"cell {cell} is missing")
        return self._parsed(rows[0][2] or "{}", "the facts of a cell")

    def read(
        self, cell: int, series: str, seeds: Sequence[int] | None = None, *, as_measured: bool = False
    ) -> FloatArray:
        """Return a series of a cell.

        Where regret is measured in every k-th episode only, those in between have the last measured regret.

        Args:
            cell: Index of the cell.
            series: A name of `COLUMNS`.
            seeds: The K seeds to read; all by default.
            as_measured: Whether episodes whose regret was not measured are NaN instead.

        Returns:
            Array of shape (K, n), where n is the number of episodes that all K seeds have; n is 0 if the series is not
            stored.

        Raises:
            StoreError: An episode is missing, or a block does not have its checksum.
        """
        if series not in COLUMNS:
            raise InvalidInput(f"series must be one of {', '.join(COLUMNS)}; got {series!r}. Pick one of those names.")
        chosen = self.experiment.seeds if seeds is None else seeds
        with self.reading():
            rows = [self._run_row(cell, seed) for seed in chosen]
            counts = [row[4] if series in row[8].split() else 0 for row in rows]
            found: FloatArray = np.empty((len(chosen), min(counts)))
            for target, row, count in zip(found, rows, counts, strict=True):
                for _, _, first, n, data in self._blocks(row[0], series, count, before=len(target)):
                    target[first : first + n] = np.frombuffer(data, dtype="<f8")[: len(target) - first]
        fills = series == "regret" and not as_measured
        return held(found, max(self.experiment.regret_every, 1)) if fills else found

    def _blocks(self, run: int, series: str, episodes: int, *, before: int) -> list[tuple[Any, ...]]:
        """Return the blocks of a series that begin before an episode, after a check that no episode is missing.

        Args:
            run: Number of the run.
            series: Name of the series.
            episodes: Number of episodes of the series.
            before: First episode that is not needed; if it is `episodes`, later blocks must not exist.
        """
        last = before if before < episodes else _NEVER
        rows = self._db.select(
            "blocks", "WHERE run = ? AND series = ? AND first < ? ORDER BY first", (run, series, last)
        )
        end = 0
        for found, name, first, count, data in rows:
            if (found, name, first) != (run, series, end) or len(data) != 8 * count or count < 1:
                raise damaged(self.folder, f"{series} has a gap after episode {end}")
            end = first + count
        if end < before or end > episodes:
            raise damaged(self.folder, f"{series} has {end} episodes, but its run has {episodes}")
        return rows

    def state(self, cell: int, first_seed: int) -> tuple[int, bytes] | None:
        """Return the number of episodes of a task and the state of its simulation, or None if none is stored."""
        rows = self._db.select("states", "WHERE cell = ? AND first_seed = ?", (cell, first_seed))
        return (rows[0][2], rows[0][3]) if rows else None

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
        """Write a block in one transaction; a block that is stored already is left as it is.

        Args:
            cell: Index of the cell.
            seeds: The K seeds that were played together.
            first: First episode of the block, counted from 0.
            columns: Series by name, shape (K, n) each.
            state: State of the simulation after the block; None after the last block.
            alarms: For each seed, the number of episodes with a misspecification alarm; zero by default.
            facts: Properties of the cell, with its first block.
            outcomes: Final certificate and number of plans of each seed, with its last block.

        Raises:
            StoreError: The block does not begin where its runs end, or it cannot be written.
        """
        count = next(iter(columns.values())).shape[1]
        after = first + count
        status = "done" if after >= self.experiment.episodes else "running"
        with self._db.writing():
            rows = [self._run_row(cell, seed) for seed in seeds]
            if all(row[4] >= after for row in rows):
                return
            for k, (run, _, seed, _, stored, _, _, alarmed, names) in enumerate(rows):
                if stored != first:
                    raise StoreError(f"{self.folder}: seed {seed} has {stored} episodes, the block begins at {first}")
                self._db.put("blocks", [(run, name, first, count, _bytes(x[k])) for name, x in columns.items()])
                outcome = None if outcomes is None else json.dumps(outcomes[k])
                total = alarmed + (alarms[k] if alarms else 0)
                series = names if stored else " ".join(name for name in COLUMNS if name in columns)
                self._db.put("runs", [(run, cell, seed, status, after, None, outcome, total, series)])
            self._db.execute("DELETE FROM states WHERE cell = ? AND first_seed = ?", (cell, seeds[0]))
            if state is not None:
                self._db.put("states", [(cell, seeds[0], after, state)])
            if facts is not None:
                self._db.put("cells", [(cell, self.experiment.cells[cell].id, json.dumps(facts))])

    def restart(self, cell: int, seeds: Sequence[int]) -> None:
        """Delete the blocks of some seeds, which have to be played again because their state was not stored."""
        with self._db.writing():
            for seed in seeds:
                run = self._runs[cell, seed]
                self._db.execute("DELETE FROM blocks WHERE run = ?", (run,))
                self._db.put("runs", [(run, cell, seed, *_UNPLAYED)])
            self._db.execute("DELETE FROM states WHERE cell = ? AND first_seed = ?", (cell, seeds[0]))

    def fail(self, cell: int, seeds: Sequence[int], reason: str) -> None:
        """Mark runs as failed with a reason; their blocks are kept."""
        with self._db.writing():
            for seed in seeds:
                run, _, _, _, episodes, _, *rest = self._run_row(cell, seed)
                self._db.put("runs", [(run, cell, seed, "failed", episodes, reason, *rest)])

    def digest(self) -> str:
        """Return a hash of all results: of what was played, and of all its numbers except wall times.

        The name of the experiment, the ids of agents, the executor, blocks and batches do not enter. Runs of another
        batch have another digest only if their numbers differ, which they may do in the last digits.
        """
        total = hashlib.sha256()
        with self.reading():
            for run in self.runs():
                cell = self.experiment.cells[run.cell]
                what = [cell.env, cell.env_settings, cell.agent, cell.settings, run.seed, run.episodes, run.outcome]
                total.update(json.dumps(what, sort_keys=True).encode())
                for series in COLUMNS:
                    if series != _NOT_COMPARED:
                        numbers = self.read(run.cell, series, [run.seed], as_measured=True)[0]
                        total.update(f" {series} {len(numbers)} ".encode())
                        total.update(_bytes(numbers))
        return total.hexdigest()[:16]

    def reading(self) -> AbstractContextManager[None]:
        """Read from one snapshot of the store inside a ``with`` statement, while another process may write."""
        return self._db.reading()

    def _run_rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of all runs, after a check that they are those of the experiment."""
        rows = self._db.select("runs", "ORDER BY cell, run")
        pairs = [(i, seed) for i in range(len(self.experiment.cells)) for seed in self.experiment.seeds]
        if [row[1:3] for row in rows] != pairs:
            raise damaged(self.folder, "its runs are not those of the experiment")
        return rows

    def _run_row(self, cell: int, seed: int) -> tuple[Any, ...]:
        """Return the row of one run."""
        rows = self._db.select("runs", "WHERE run = ?", (self._runs[cell, seed],))
        if [row[1:3] for row in rows] != [(cell, seed)]:
            raise damaged(self.folder, f"the run of seed {seed} is missing")
        return rows[0]

    def _check_cells(self) -> None:
        rows = self._db.select("cells", "ORDER BY cell")
        if [row[0] for row in rows] != list(range(len(self.experiment.cells))):
            raise damaged(self.folder, "its cells are not those of the experiment")

    def _read_meta(self) -> dict[str, str]:
        found: dict[str, str] = dict(self._db.select("meta"))
        for key in META:
            if key not in found:
                raise damaged(self.folder, f"it has no {key}")
        return found

    def _read_experiment(self) -> Experiment:
        try:
            experiment = Experiment.from_json(self._meta["experiment"])
            if experiment.hash != self._meta["hash"]:
                raise ValueError("its spec does not have the hash that it was made with")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise damaged(self.folder, str(error)) from error
        return experiment

    def _parsed(self, text: str, what: str) -> dict[str, Any]:
        """Return a JSON object of the store."""
        try:
            found = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise damaged(self.folder, f"{what} cannot be read ({error})") from error
        if not isinstance(found, dict):
            raise damaged(self.folder, f"{what} must be a JSON object")
        return found


def _opened(folder: Path, *, is_writer: bool) -> Database:
    """Return an open store of the present format."""
    database = Database(folder, connect(folder / FILE, read_only=not is_writer), is_writer=is_writer)
    try:
        _check_format(database)
    except BaseException:
        database.close()
        raise
    return database


def _check_format(database: Database) -> None:
    """Refuse a store of another format."""
    rows = database.query("SELECT value FROM meta WHERE key = 'format'")
    found = rows[0][0] if rows else None
    if found == str(FORMAT_VERSION):
        return
    if not isinstance(found, str) or not found.isdecimal() or len(found) > 9:
        raise damaged(database.folder, f"it has format {found}")
    remedy = "read it with the version that wrote it, or run the experiment again"
    age, remedy = ("older", remedy) if int(found) < FORMAT_VERSION else ("newer", "upgrade")
    path, number = database.folder / FILE, FORMAT_VERSION
    raise StoreError(f"{path} has format {found}, {age} than the {number} that this matrixrl reads; {remedy}")


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
