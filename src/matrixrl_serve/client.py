"""The client of a service: requests over HTTP, sent again until they are answered."""

from __future__ import annotations

import json
import secrets
import time
from contextlib import ExitStack
from typing import Any, Self
from urllib.parse import quote

import httpx
from anyio.from_thread import start_blocking_portal

from matrixrl.checks import fail, shown
from matrixrl.errors import InvalidInput, MatrixRLError, StoreError
from matrixrl_serve.decisions.answers import ActionBounds, Answer, Closed, Opened, Recorded
from matrixrl_serve.errors import Conflict, Denied, NotFound, ServiceError, TooMany

__all__ = ["Client", "ClientEpisode", "InProcess"]

_JSON = {"Content-Type": "application/json"}
_RETRIED = (429, 502, 503, 504)  # statuses after which a request is sent again; a proxy gives some of them
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds between two attempts; each pause is twice the one before


class Client:
    """Asks a service for decisions, and reports what came of them.

    A request that fails on its way is sent again with the same idempotency key, so it is done once. Several threads may
    share a client; in asyncio, call it with `asyncio.to_thread`.

    Args:
        url: Address of the service.
        token: Token, if the service needs one.
        app: Application in the same process, in place of an address; for tests.
        retries: Number of times that a request is sent again.
        timeout: Seconds to wait for an answer.
        transport: Transport of httpx, in place of the network.

    >>> import tempfile
    >>> from matrixrl_serve import ProblemFile, Service, make_app
    >>> problem = ProblemFile(states=2, actions=["wait", "order"], horizon=1)
    >>> service = Service(problem, tempfile.mkdtemp(), learning=False)
    >>> with service, Client(app=make_app(service)) as client:
    ...     episode = client.open()
    ...     answer = episode.ask(0)
    ...     episode.tell(1.0, next_state=1).ended
    True
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8799",
        *,
        token: str | None = None,
        app: Any = None,
        retries: int = 6,
        timeout: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        chosen = transport if app is None else InProcess(app)
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, transport=chosen)
        self._retries = retries

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def open(self, episode: str | None = None, *, key: str | None = None) -> ClientEpisode:
        """Open an episode.

        Args:
            episode: Name of the episode; the service chooses one by default.
            key: Idempotency key; a random one by default.
        """
        return ClientEpisode(self, Opened(**self.post("/v1/episodes", _given(episode=episode), key)))

    def episode(self, name: str) -> dict[str, Any]:
        """Return an episode, open or over, with its steps."""
        found: dict[str, Any] = self.get(f"/v1/episodes/{quote(name, safe='')}")
        return found

    def certificate(self) -> dict[str, Any]:
        """Return what is proven about the recommended policy."""
        found: dict[str, Any] = self.get("/v1/certificate")
        return found

    def get(self, path: str) -> Any:
        """Return what the service says at an address that changes nothing."""
        return self._send("GET", path, None, {})

    def post(self, path: str, body: dict[str, Any], key: str | None = None) -> Any:
        """Send a request that changes something, with a random idempotency key if none is given."""
        return self._send("POST", path, body, {"Idempotency-Key": key or secrets.token_hex(12), **_JSON})

    def _send(self, method: str, path: str, body: dict[str, Any] | None, headers: dict[str, str]) -> Any:
        """Send a request until it is answered, and return the answer as plain data."""
        content = None if body is None else json.dumps(body, default=_plain).encode()
        for attempt in range(self._retries + 1):
            try:
                response = self._http.request(method, path, content=content, headers=headers)
            except httpx.TransportError as error:
                if attempt == self._retries:
                    raise StoreError(f"the service cannot be reached: {error}") from error
            else:
                if attempt == self._retries or response.status_code not in _RETRIED:
                    return _result(response)
            time.sleep(min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE))
        raise AssertionError("the last attempt returns or raises")


class ClientEpisode:
    """An episode that a client opened.

    Attributes:
        opened: What the service said.
    """

    def __init__(self, client: Client, opened: Opened) -> None:
        self._client, self.opened = client, opened

    @property
    def name(self) -> str:
        """Name of the episode."""
        return self.opened.episode

    def ask(
        self, state: Any, *, allowed: list[Any] | None = None, step: int | None = None, key: str | None = None
    ) -> Answer:
        """Return what to do in a state; arguments as in the HTTP request."""
        found = self._post("ask", {"state": state} | _given(allowed=allowed, step=step), key)
        why = found["why"]
        return Answer(**found | {"why": None if why is None else tuple(ActionBounds(**bound) for bound in why)})

    def tell(
        self,
        reward: float,
        *,
        next_state: Any = None,
        terminated: bool = False,
        state: Any = None,
        action: Any = None,
        step: int | None = None,
        key: str | None = None,
    ) -> Recorded:
        """Report the outcome of a step; arguments as in the HTTP request."""
        rest = _given(next_state=next_state, terminated=terminated, state=state, action=action, step=step)
        return Recorded(**self._post("tell", {"reward": reward} | rest, key))

    def end(self, *, key: str | None = None) -> Closed:
        """End the episode before its last step."""
        return Closed(**self._post("end", {}, key))

    def abandon(self, *, key: str | None = None) -> Closed:
        """Forget the episode."""
        return Closed(**self._post("abandon", {}, key))

    def time_out(self, *, key: str | None = None) -> Closed:
        """Close the episode, because its outcomes do not come."""
        return Closed(**self._post("time-out", {}, key))

    def _post(self, what: str, body: dict[str, Any], key: str | None) -> Any:
        return self._client.post(f"/v1/episodes/{quote(self.name, safe='')}/{what}", body, key)


class InProcess(httpx.BaseTransport):
    """Runs an ASGI application in an event loop of its own thread; its lifespan lasts until `close`.

    Args:
        app: The application, such as `make_app(service)`.
    """

    def __init__(self, app: Any) -> None:
        self._inner, self._stack = httpx.ASGITransport(app=app, raise_app_exceptions=False), ExitStack()
        self._portal = self._stack.enter_context(start_blocking_portal())
        self._stack.enter_context(self._portal.wrap_async_context_manager(app.router.lifespan_context(app)))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the answer of the application."""
        return self._portal.call(self._answer, request)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        body = request.read()
        own = httpx.Request(request.method, request.url, headers=request.headers, content=body)
        answer = await self._inner.handle_async_request(own)
        content = b"".join([part async for part in answer.aiter_raw()])  # compressed as its headers say
        return httpx.Response(answer.status_code, headers=answer.headers, content=content)

    def close(self) -> None:
        """End the application and its thread."""
        self._stack.close()


def _plain(value: Any) -> Any:
    """Return a number or an array of NumPy as plain data."""
    if not hasattr(value, "tolist"):
        fail("the request", "must be made of numbers, text, lists and dictionaries", shown(value), "Convert it.")
    return value.tolist()


def _result(response: httpx.Response) -> Any:
    """Return an answer as plain data, or raise what the service says."""
    if response.status_code == 200:
        return response.json()
    try:
        found = response.json()
        words, argument = str(found["error"]), found.get("argument")
    except (ValueError, KeyError, TypeError):
        words, argument = f"the service answered with status {response.status_code}", None
    raise _error(response.status_code, words, argument)


def _error(status: int, words: str, argument: str | None) -> MatrixRLError:
    if status == 422:
        refused = InvalidInput(words)
        refused.argument = argument
        return refused
    if status in (401, 403):
        return Denied(words, status=status)
    kinds: dict[int, type[MatrixRLError]] = {404: NotFound, 409: Conflict, 429: TooMany, 503: StoreError}
    return kinds.get(status, ServiceError)(words)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
