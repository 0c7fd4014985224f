"""How the learner publishes a plan: its events and its tables, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from matrixrl_serve.errors import went_back
from matrixrl_serve.fold import Book
from matrixrl_serve.learning import Publication
from matrixrl_serve.log import Draft
from matrixrl_serve.log.events import chained
from matrixrl_serve.log.postgres import insert
from matrixrl_serve.log.tables import event_of, events
from matrixrl_serve.problem import ServedProblem
from matrixrl_serve.shared.election import Deposed, Leadership
from matrixrl_serve.shared.plans import forget_plans, packed, write_plan

__all__ = ["publish"]


def publish(
    leadership: Leadership, publication: Publication, drafts: Sequence[Draft], problem: ServedProblem, book: Book
) -> None:
    """Append the events of a plan, and write its tables; a change of mode only if it was not changed meanwhile.

    Args:
        leadership: The session of the learner.
        publication: The plan.
        drafts: Its events, of which the first one publishes it.
        problem: The problem.
        book: What the learner knows of the log.

    Raises:
        Deposed: Another learner published a plan meanwhile, or may do so.
        WentBack: The log is not the one that the plan was made from.
    """
    tables = packed(publication)
    with leadership.appending() as (connection, now):
        learned = connection.execute(sa.select(events.c.digest).where(events.c.seq == book.seq)).scalar()
        if learned != book.digest:
            raise went_back(leadership.place, book.seq)
        newest, change = _newest(connection, "planned"), _newest(connection, "mode")
        if publication.version != (0 if newest is None else newest["plan"]) + 1:
            raise Deposed(f"plan {publication.version} was published by another learner")
        mode = problem.file.mode if change is None else change["to"]
        head = connection.execute(sa.select(events.c.seq, events.c.digest).order_by(events.c.seq.desc()).limit(1)).one()
        seq, digest, rows = int(head.seq), str(head.digest), []
        for draft in drafts:
            if draft.kind != "mode" or draft.body["from"] == mode:
                rows.append(chained(draft, seq + 1, now, digest))
                seq, digest = rows[-1].seq, rows[-1].digest
        insert(connection, rows)
        write_plan(connection, publication.version, tables, rows[0].seq)
        forget_plans(connection, book)


def _newest(connection: sa.Connection, kind: str) -> dict[str, Any] | None:
    """Return the body of the newest event of a kind; None without one."""
    # The condition on the four kinds is that of the index.
    query = (
        sa.select(events)
        .where(sa.text("kind IN ('planned', 'mode', 'alarm', 'created')"), events.c.kind == kind)
        .order_by(events.c.seq.desc())
        .limit(1)
    )
    found = connection.execute(query).first()
    return None if found is None else event_of(found).body
