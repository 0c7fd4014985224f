"""Requests and answers of clients, without any input or output."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from matrixrl.errors import InvalidInput, MatrixRLError, StoreError
from matrixrl_serve.desk.answers import ActionBounds, Answer, Closed, Opened, Recorded
from matrixrl_serve.errors import Conflict, Denied, NotFound, ServiceError, TooMany

__all__ = ["RETRIED", "Call", "ask", "close", "open_episode", "pauses", "read", "result", "tell"]

RETRIED = (429, 502, 503, 504)
"""Statuses after which the same request is sent again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """A request that may be sent any number of times: it has an idempotency key.

    Attributes:
        method: Method.
        path: Path.
        body: Body as plain data; None without one.
        key: Idempotency key.
        read: Function of the answer as plain data that returns the record of it.
    """

    method: str
    path: str
    body: dict[str, Any] | None
    key: str | None
    read: Callable[[dict[str, Any]], Any]

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the request."""
        return {} if self.key is None else {"Idempotency-Key": self.key}


def open_episode(episode: str | None, key: str | None) -> Call:
    """Return the request that opens an episode."""
    return Call("POST", "/v1/episodes", _given(episode=episode), key or _key(), lambda data: Opened(**data))


def ask(episode: str, state: Any, allowed: list[Any] | None, step: int | None, key: str | None) -> Call:
    """Return the request that asks what to do."""
    body = {"state": state} | _given(allowed=allowed, step=step)
    return Call("POST", _path(episode, "ask"), body, key or _key(), _answer)


def tell(episode: str, reward: float, key: str | None, **rest: Any) -> Call:
    """Return the request that reports an outcome."""
    return Call(
        "POST",
        _path(episode, "tell"),
        {"reward": reward} | _given(**rest),
        key or _key(),
        lambda data: Recorded(**data),
    )


def close(episode: str, how: str, key: str | None) -> Call:
    """Return the request that ends, abandons or times out an episode."""
    return Call("POST", _path(episode, how), {}, key or _key(), lambda data: Closed(**data))


def read(path: str) -> Call:
    """Return a request that changes nothing; its answer is plain data."""
    return Call("GET", path, None, None, lambda data: data)


def result(call: Call, response: httpx.Response) -> Any:
    """Return the record of an answer, or raise what the service says."""
    if response.status_code == 200:
        return call.read(response.json())
    try:
        found = response.json()
        words, argument = str(found["error"]), found.get("argument")
    except (ValueError, KeyError, TypeError):
        words, argument = f"the service answered with status {response.status_code}", None
    raise _error(response.status_code, words, argument)


def pauses(retries: int) -> list[float]:
    """Return the seconds to wait before each repetition of a request.

    >>> pauses(3)
    [0.05, 0.1, 0.2]
    """
    return [min(_FIRST_PAUSE * 2**k, _LONGEST_PAUSE) for k in range(retries)]


def _error(status: int, words: str, argument: str | None) -> MatrixRLError:
    if status == 422:
        refused = InvalidInput(words)
        refused.argument = argument
        return refused
    if status in (401, 403):
        return Denied(words, status=status)
    kinds: dict[int, type[MatrixRLError]] = {404: NotFound, 409: Conflict, 429: TooMany, 503: StoreError}
    return kinds.get(status, ServiceError)(words)


def _answer(data: dict[str, Any]) -> Answer:
    why = data["why"]
    return Answer(**{**data, "why": None if why is None else tuple(ActionBounds(**bound) for bound in why)})


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _path(episode: str, what: str) -> str:
    return f"/v1/episodes/{quote(episode, safe='')}/{what}"


def _key() -> str:
    return secrets.token_hex(12)
