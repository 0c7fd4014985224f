"""Tokens: random, stored as digests, with scopes, revocable."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from matrixrl.checks import choice, fail, shown
from matrixrl_serve.errors import Denied
from matrixrl_serve.log import Draft, EventLog
from matrixrl_serve.log.database import failing
from matrixrl_serve.log.tables import tokens

__all__ = ["LOCAL", "SCOPES", "Access", "TokenRecord", "create_token", "list_tokens", "revoke_token"]

SCOPES = ("ask", "tell", "read", "admin")
"""ask: open, ask; tell: report, end, abandon, time out; read: everything that changes nothing; admin: the mode."""
LOCAL = "local"
"""Actor of requests without a token, as long as no token was created."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RESERVED = (LOCAL, "learner", "clock")


class TokenRecord(NamedTuple):
    """A token without its secret.

    Attributes:
        name: Name, which is the actor in events.
        sha256: Digest of the secret.
        scopes: What it may do.
        created_at: Time in seconds since 1970.
        revoked_at: Time; None while it is valid.
        noted: What the log says about it: "", created or revoked.
    """

    name: str
    sha256: str
    scopes: tuple[str, ...]
    created_at: float
    revoked_at: float | None
    noted: str


def create_token(log: EventLog, name: str, scopes: Iterable[str]) -> str:
    """Create a token and return its secret, which is not stored.

    Args:
        log: The log that it is for; a service that runs takes notice within seconds.
        name: Name of the token.
        scopes: Some of `SCOPES`.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _RESERVED:
        rule = f"must be letters, digits, '.', '_' and '-', and none of {', '.join(_RESERVED)}"
        fail("name", rule, shown(name), "Such as shop-server.")
    chosen = tuple(choice("scope", scope, SCOPES) for scope in dict.fromkeys(scopes))
    if not chosen:
        fail("scope", f"must be some of {', '.join(SCOPES)}", "none", "Give at least one.")
    secret = secrets.token_urlsafe(32)
    row = {
        "name": name,
        "sha256": _digest(secret),
        "scopes": ",".join(chosen),
        "created_at": time.time(),
        "revoked_at": None,
        "noted": "",
    }
    with failing(log.data), log.engine.begin() as connection:
        if connection.execute(sa.select(tokens.c.name).where(tokens.c.name == name)).first() is not None:
            fail("name", "must be new", name, "Names are never used again, so that the log stays clear.")
        connection.execute(tokens.insert(), row)
    return secret


def revoke_token(log: EventLog, name: str) -> None:
    """Revoke a token for good."""
    changed = tokens.update().where(tokens.c.name == name, tokens.c.revoked_at.is_(None)).values(revoked_at=time.time())
    with failing(log.data), log.engine.begin() as connection:
        if connection.execute(changed).rowcount == 0:
            fail("name", "must be that of a valid token", shown(name), "See: matrixrl serve token list DIR.")


def list_tokens(log: EventLog) -> list[TokenRecord]:
    """Return all tokens, also those that were revoked, in the order of their creation."""
    query = sa.select(tokens).order_by(tokens.c.created_at)
    with failing(log.data), log.engine.connect() as connection:
        return [
            TokenRecord(r.name, r.sha256, tuple(r.scopes.split(",")), r.created_at, r.revoked_at, r.noted)
            for r in connection.execute(query)
        ]


class Access:
    """Recognises tokens; as long as none was created, everybody is `LOCAL` and may do everything.

    Args:
        log: The log whose tokens are valid.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._known: list[TokenRecord] = []
        self.refresh()

    @property
    def is_open(self) -> bool:
        """Whether no token was ever created."""
        return not self._known

    def refresh(self) -> None:
        """Read the tokens again."""
        self._known = list_tokens(self._log)

    def unnoted(self) -> list[Draft]:
        """Return events about tokens that were created or revoked since they were noted in the log."""
        drafts = []
        for token in self._known:
            for what in _history(token):
                body: dict[str, Any] = {"name": token.name, "scopes": list(token.scopes), "what": what}
                drafts.append(Draft("token", LOCAL, body))
        return drafts

    def note_in(self, connection: sa.Connection) -> None:
        """Remember in a transaction that the events of `unnoted` are in the log."""
        for token in self._known:
            if _history(token):
                now = "created" if token.revoked_at is None else "revoked"
                connection.execute(tokens.update().where(tokens.c.name == token.name).values(noted=now))

    def actor(self, secret: str | None, scopes: Sequence[str]) -> str:
        """Return who sends a request, or refuse it.

        Args:
            secret: The token of the request.
            scopes: Scopes of which one is needed.

        Raises:
            Denied: There is no valid token, or none of its scopes is one of those.
        """
        if self.is_open:
            return LOCAL
        if secret is None:
            raise Denied("a token is needed; send the header Authorization: Bearer …")
        digest, found = _digest(secret), None
        for token in self._known:  # all of them, so that the time says nothing
            if hmac.compare_digest(token.sha256, digest):
                found = token
        if found is None or found.revoked_at is not None:
            raise Denied("the token is not valid; create one: matrixrl serve token create DIR NAME")
        if not set(scopes) & set(found.scopes):
            need, has = " or ".join(scopes), ", ".join(found.scopes)
            raise Denied(f"the token {found.name} may {has}, and this needs {need}", status=403)
        return found.name


def _history(token: TokenRecord) -> list[str]:
    """Return what the log does not say about a token yet."""
    happened = ["created"] if token.revoked_at is None else ["created", "revoked"]
    return happened[happened.index(token.noted) + 1 :] if token.noted in happened else happened


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
