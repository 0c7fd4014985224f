"""Checkpoints in the database, so that any process on any machine can go on from them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from matrixrl.errors import CheckpointError
from matrixrl_serve.fold import Book
from matrixrl_serve.learning import Learner
from matrixrl_serve.learning.checkpoints import Checkpoints
from matrixrl_serve.log import EventLog
from matrixrl_serve.log.database import failing
from matrixrl_serve.log.shared_tables import checkpoints
from matrixrl_serve.problem import ServedProblem

__all__ = ["StoredCheckpoints"]

_KEPT = 2


class StoredCheckpoints:
    """The checkpoints of a database, as the same two files that a directory would hold.

    Args:
        log: The log.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def numbers(self) -> list[int]:
        """Return the numbers of the events that checkpoints cover, in order."""
        with failing(self._log.data), self._log.engine.connect() as connection:
            return list(connection.execute(sa.select(checkpoints.c.seq).order_by(checkpoints.c.seq)).scalars())

    def row(self, learner: Learner, digest: str) -> dict[str, Any]:
        """Return a checkpoint as a row; do this before the transaction that writes it, which must not take long."""
        with tempfile.TemporaryDirectory(prefix="matrixrl-") as folder:
            seq = Checkpoints(Path(folder)).save(learner, digest)
            agent, state = (path.read_bytes() for path in Checkpoints(Path(folder)).files(seq))
        return {"seq": seq, "agent": agent, "state": state}

    def save(self, connection: sa.Connection, row: dict[str, Any]) -> int:
        """Write a checkpoint in a transaction, and return the number of the event that it covers."""
        seq = int(row["seq"])
        connection.execute(checkpoints.delete().where(checkpoints.c.seq == seq))
        connection.execute(checkpoints.insert(), row)
        newest = sa.select(checkpoints.c.seq).order_by(checkpoints.c.seq.desc()).limit(_KEPT)
        connection.execute(checkpoints.delete().where(checkpoints.c.seq.not_in(newest)))
        return seq

    def load(self, problem: ServedProblem, seq: int) -> tuple[Learner, str]:
        """Return the learner of a checkpoint, and the digest of the last event that it was fed."""
        with self._in_files(seq) as files:
            return files.load(problem, seq)

    def load_book(self, problem: ServedProblem, seq: int) -> tuple[Book, str]:
        """Return the book of a checkpoint, and the digest of its last event."""
        with self._in_files(seq, with_agent=False) as files:
            return files.load_book(problem, seq)

    @contextmanager
    def _in_files(self, seq: int, *, with_agent: bool = True) -> Iterator[Checkpoints]:
        columns = [checkpoints.c.state, *([checkpoints.c.agent] if with_agent else [])]
        with failing(self._log.data), self._log.engine.connect() as connection:
            row = connection.execute(sa.select(*columns).where(checkpoints.c.seq == seq)).first()
        if row is None:
            raise CheckpointError(f"the checkpoint after event {seq} was replaced by a newer one")
        with tempfile.TemporaryDirectory(prefix="matrixrl-") as folder:
            files = Checkpoints(Path(folder))
            agent, state = files.files(seq)
            state.write_bytes(row.state)
            if with_agent:
                agent.write_bytes(row.agent)
            yield files
