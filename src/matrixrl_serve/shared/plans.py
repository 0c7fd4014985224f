"""Published plans in the database: the learner writes them, and all processes read them."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

import sqlalchemy as sa

from matrixrl.archive import pack, unpack
from matrixrl.errors import StoreError
from matrixrl_serve.fold import Book
from matrixrl_serve.learning import Publication
from matrixrl_serve.log import EventLog
from matrixrl_serve.log.database import failing
from matrixrl_serve.log.shared_tables import plans

__all__ = ["StoredPlans", "forget_plans", "write_plan"]

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


def forget_plans(connection: sa.Connection, book: Book) -> None:
    """Delete plans that no open episode has, except the newest one that is known and later ones."""
    used = {episode.plan for episode in book.episodes.values()}
    connection.execute(plans.delete().where(plans.c.version < book.plan, plans.c.version.not_in(used)))


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

    def keep(self, book: Book) -> None:
        """Read the newest plan, and forget those that no open episode has.

        A newer plan than the newest one of the book may have replaced that in the database, if the book is behind.
        """
        used = {episode.plan for episode in book.episodes.values()} | {book.plan}
        for version in set(self._known) - used:
            del self._known[version]
        self.get(book.plan)

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
