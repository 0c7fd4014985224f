"""Addresses of databases: recognised, checked, and shown without what is secret in them."""

from __future__ import annotations

import os

import sqlalchemy as sa

from matrixrl.checks import fail
from matrixrl.errors import InvalidInput

__all__ = ["is_address", "parsed_address", "shown_place"]

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
