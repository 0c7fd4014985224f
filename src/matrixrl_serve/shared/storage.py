"""Published plans and checkpoints in the database, which all processes read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from matrixrl.archive import pack, unpack
from matrixrl.errors import CheckpointError, StoreError
from matrixrl_serve.learner import Learner, Publication
from matrixrl_serve.learner.checkpoints import Checkpoints
from matrixrl_serve.log import EventLog
from matrixrl_serve.log.database import failing
from matrixrl_serve.log.tables import checkpoints, plans
from matrixrl_serve.problem import ServedProblem
from matrixrl_serve.projection import Projection

if TYPE_CHECKING:
    from matrixrl_serve.shared.leadership import Leadership

__all__ = ["StoredCheckpoints", "StoredPlans", "forget_plans", "write_plan"]

_KIND = "matrixrl-plan"


def packed(publication: Publication) -> bytes:
    """Return the tables of a plan as bytes; do this before a transaction that others wait for."""
    return pack(_KIND, {"plan": publication.version}, publication.tables)


def write_plan(connection: sa.Connection, version: int, tables: bytes, seq: int) -> None:
    """Write the tables of a plan in the transaction that publishes it.

    Args:
        connection: The transaction.
        version: Version of the plan.
        tables: What `packed` returned.
        seq: Number of the event that publishes it.
    """
    connection.execute(plans.insert(), {"version": version, "seq": seq, "tables": tables})


def forget_plans(connection: sa.Connection, projection: Projection) -> None:
    """Delete plans that no open episode has, except the newest one that is known and later ones."""
    used = {episode.plan for episode in projection.episodes.values()}
    connection.execute(plans.delete().where(plans.c.version < projection.plan, plans.c.version.not_in(used)))


class StoredPlans(MutableMapping[int, Publication]):
    """Plans by their versions: those in memory, else from the database.

    Args:
        log: The log, whose events say what the tables of each plan are.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._known: dict[int, Publication] = {}

    def __getitem__(self, version: int) -> Publication:
        found = self._known.get(version)
        if found is None:
            found = self._known[version] = self._read(version)
        return found

    def __setitem__(self, version: int, publication: Publication) -> None:
        self._known[version] = publication

    def __delitem__(self, version: int) -> None:
        del self._known[version]

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._known))

    def __len__(self) -> int:
        return len(self._known)

    def keep(self, projection: Projection) -> None:
        """Read the newest plan, and forget those that no open episode has.

        If the projection is behind, a newer plan may have replaced its newest one in the database.
        """
        used = {episode.plan for episode in projection.episodes.values()} | {projection.plan}
        for version in set(self._known) - used:
            del self._known[version]
        self.get(projection.plan)

    def _read(self, version: int) -> Publication:
        with failing(self._log.data), self._log.engine.connect() as connection:
            row = connection.execute(sa.select(plans.c.seq, plans.c.tables).where(plans.c.version == version)).first()
        if row is None:
            raise KeyError(version)
        _, tables = unpack(_KIND, row.tables, f"plan {version}")
        report = self._log.page(row.seq - 1, limit=1, until=row.seq)[0].body
        found = Publication(version, None, report=report, **tables)
        if report.get("plan") != version or found.digest != report.get("digest"):
            raise StoreError(f"plan {version} in {self._log.data} is not the one that event {row.seq} published")
        return found


_KEPT = 2


class StoredCheckpoints:
    """The checkpoints of a database, as the same two files that a directory would hold.

    Args:
        log: The log.
        leadership: The session of the learner, if checkpoints are written.
    """

    def __init__(self, log: EventLog, leadership: Leadership | None = None) -> None:
        self._log, self._leadership = log, leadership

    def numbers(self) -> list[int]:
        """Return the numbers of the events that checkpoints cover, in order."""
        with failing(self._log.data), self._log.engine.connect() as connection:
            return list(connection.execute(sa.select(checkpoints.c.seq).order_by(checkpoints.c.seq)).scalars())

    def save(self, learner: Learner, digest: str) -> int:
        """Write a checkpoint, and return the number of the event that it covers; only the learner may."""
        assert self._leadership is not None
        with tempfile.TemporaryDirectory(prefix="matrixrl-") as folder:  # before the transaction, which must be short
            seq = Checkpoints(Path(folder)).save(learner, digest)
            agent, state = (path.read_bytes() for path in Checkpoints(Path(folder)).files(seq))
        newest = sa.select(checkpoints.c.seq).order_by(checkpoints.c.seq.desc()).limit(_KEPT)
        with self._leadership.transaction() as connection:
            connection.execute(checkpoints.delete().where(checkpoints.c.seq == seq))
            connection.execute(checkpoints.insert(), {"seq": seq, "agent": agent, "state": state})
            connection.execute(checkpoints.delete().where(checkpoints.c.seq.not_in(newest)))
        return seq

    def load(self, problem: ServedProblem, seq: int) -> tuple[Learner, str]:
        """Return the learner of a checkpoint, and the digest of the last event that it was fed."""
        with self._in_files(seq) as files:
            return files.load(problem, seq)

    def load_projection(self, problem: ServedProblem, seq: int) -> tuple[Projection, str]:
        """Return the projection of a checkpoint, and the digest of its last event."""
        with self._in_files(seq, with_agent=False) as files:
            return files.load_projection(problem, seq)

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
