"""A log in PostgreSQL: addresses, connections, and the locks by which processes write one after another."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from matrixrl.checks import fail
from matrixrl.errors import InvalidInput
from matrixrl.extras import require_packages
from matrixrl_serve.log.tables import metadata, shared_metadata

__all__ = [
    "LEARN",
    "SCHEMA",
    "create_tables",
    "is_address",
    "lock_log",
    "make_engine",
    "parsed_address",
    "shown_place",
]

_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
_FORM = "Write postgresql://USER@HOST:PORT/DATABASE, and characters such as @ in a password as %40."


def is_address(data: str | os.PathLike[str]) -> bool:
    """Say whether the place of a log is the address of a database, and not a directory."""
    return isinstance(data, str) and "://" in data


def parsed_address(address: str) -> sa.URL:
    """Return the address of a PostgreSQL database.

    No message shows any of it: what looks like a host may be part of a password.

    Raises:
        InvalidInput: It is none.

    >>> parsed_address("postgresql://shop@db.example/shop").host
    'db.example'
    """
    if address.partition("://")[0] not in _SCHEMES:
        fail("data", "must be a directory, or begin with postgresql://", "another address", _FORM)
    if address.count("@") > 1:
        fail("data", "must have at most one @", "an address with several", _FORM)
    try:
        return sa.make_url(address).set(drivername="postgresql+psycopg")
    except (sa.exc.SQLAlchemyError, ValueError):
        raise InvalidInput(f"data must be the address of a PostgreSQL database; got another text. {_FORM}") from None


def shown_place(data: str | os.PathLike[str]) -> str:
    """Return the place of a log for messages: an address without password and parameters.

    >>> shown_place("postgresql://shop:secret@db.example/shop?sslpassword=secret")
    'postgresql://shop@db.example/shop'
    """
    if not isinstance(data, str) or not is_address(data):
        return os.fspath(data)
    url = parsed_address(data)
    bare = sa.URL.create("postgresql", url.username, None, url.host, url.port, url.database)
    return bare.render_as_string(hide_password=True)


_CREATE, _APPEND, LEARN = 0x6D617401, 0x6D617402, 0x6D617403
"""First keys of the advisory locks."""
SCHEMA = "hashtext(coalesce(current_schema(), ''))"
"""Second key: a database may hold several services, each in a schema of its own."""
_CONNECTION: dict[str, Any] = {
    "application_name": "matrixrl",
    "connect_timeout": 10,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""A machine that vanished is noticed after about ten seconds; the address may say otherwise."""
_SESSION = {
    "lock_timeout": "12s",
    "idle_in_transaction_session_timeout": "10s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "synchronous_commit": "on",
}
"""A process that stops inside a transaction, or vanishes, loses its locks after ten seconds, and others go on.

Acknowledged means durable, whatever the server's default is.
"""
_DEADLINE = 15.0  # seconds without a sign of the server after which a statement fails; locks are waited for less long


def make_engine(address: str, *, pooled: bool = True) -> sa.Engine:
    """Return connections to a database.

    Args:
        address: Its address.
        pooled: Whether connections are kept for later use; a session that holds a lock must end with its connection.
    """
    require_packages(["psycopg"], extra="postgres", purpose="PostgreSQL")
    url = parsed_address(address)
    given = {name: value for name, value in _CONNECTION.items() if name not in url.query}
    own = url.query.get("options", "")
    given["options"] = " ".join([*(f"-c {name}={value}" for name, value in _SESSION.items()), str(own)]).strip()
    pool: dict[str, Any] = {"pool_pre_ping": True} if pooled else {"poolclass": NullPool}
    # A snapshot for each statement: what others committed while we waited for the lock must be seen.
    engine = sa.create_engine(url, connect_args=given, isolation_level="READ COMMITTED", hide_parameters=True, **pool)
    sa.event.listen(engine, "do_connect", lambda _dialect, _record, _, names: _connection_type().connect(**names))
    return engine


@cache
def _connection_type() -> Any:
    """Return the type of connections whose statements have a deadline.

    A server that stalls while its machine goes on acknowledges packets, so no time-out of TCP ever notices.
    """
    import psycopg

    class BoundedConnection(psycopg.Connection[Any]):
        def wait(self, gen: Any, *more: Any, **named: Any) -> Any:
            return super().wait(self._bounded(gen), *more, **named)

        def _bounded(self, gen: Any) -> Generator[Any, Any, Any]:
            deadline = time.monotonic() + _DEADLINE
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if ready:
                        deadline = time.monotonic() + _DEADLINE
                        wanted = gen.send(ready)
                    elif time.monotonic() > deadline:
                        self.pgconn.finish()
                        raise psycopg.OperationalError(f"the server did not answer for {_DEADLINE:g} seconds")
            except StopIteration as end:
                return end.value

    return BoundedConnection


def create_tables(engine: sa.Engine) -> None:
    """Create what is missing; several processes may start at the same time."""
    with engine.begin() as connection:
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_CREATE}, {SCHEMA})"))
        metadata.create_all(connection)
        shared_metadata.create_all(connection)


def lock_log(connection: sa.Connection) -> float:
    """Wait in a transaction for the lock of the log, and return the time of the database in seconds since 1970."""
    query = f"SELECT pg_advisory_xact_lock({_APPEND}, {SCHEMA}), extract(epoch FROM clock_timestamp())::float8"
    return float(connection.execute(sa.text(query)).one()[1])
