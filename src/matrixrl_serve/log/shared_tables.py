"""Tables that only a database with several processes needs: plans and checkpoints, which one process makes for all."""

from __future__ import annotations

import sqlalchemy as sa

__all__ = ["checkpoints", "plans", "shared_metadata"]

shared_metadata = sa.MetaData()

plans = sa.Table(
    "plans",
    shared_metadata,
    sa.Column("version", sa.BigInteger(), primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger(), nullable=False),
    sa.Column("tables", sa.LargeBinary(), nullable=False),
)
"""Tables of the plans that open episodes have, and of the newest one; `seq` is the event that published it."""

checkpoints = sa.Table(
    "checkpoints",
    shared_metadata,
    sa.Column("seq", sa.BigInteger(), primary_key=True, autoincrement=False),
    sa.Column("agent", sa.LargeBinary(), nullable=False),
    sa.Column("state", sa.LargeBinary(), nullable=False),
)
"""The newest checkpoints: the two files of each."""
