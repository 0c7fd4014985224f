"""The client of a service for asyncio."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import httpx

from matrixrl.errors import StoreError
from matrixrl_serve.client import calls
from matrixrl_serve.client.calls import RETRIED, Call, pauses, result
from matrixrl_serve.desk.answers import Answer, Closed, Opened, Recorded

__all__ = ["AsyncClient", "AsyncClientEpisode"]


class AsyncClient:
    """`Client` for asyncio: the same methods, to be awaited.

    Args:
        url: Address of the service.
        token: Token, if the service needs one.
        app: Application in the same process, in place of an address; for tests. Its lifespan is that of the caller.
        retries: Number of times that a request is sent again.
        timeout: Seconds to wait for an answer.
        transport: Transport of httpx, in place of the network.

    >>> client = AsyncClient("http://127.0.0.1:8799")
    >>> client.retries
    6
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8799",
        *,
        token: str | None = None,
        app: Any = None,
        retries: int = 6,
        timeout: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        chosen = transport if app is None else httpx.ASGITransport(app=app)
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, transport=chosen)
        self.retries = retries

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def open(self, episode: str | None = None, *, key: str | None = None) -> AsyncClientEpisode:
        """Open an episode.

        Args:
            episode: Name of the episode; the service chooses one by default.
            key: Idempotency key; a random one by default.
        """
        return AsyncClientEpisode(self, await self.send(calls.open_episode(episode, key)))

    async def episode(self, name: str) -> dict[str, Any]:
        """Return an episode, open or over, with its steps."""
        found: dict[str, Any] = await self.get(f"/v1/episodes/{name}")
        return found

    async def certificate(self) -> dict[str, Any]:
        """Return what is proven about the recommended policy."""
        found: dict[str, Any] = await self.get("/v1/certificate")
        return found

    async def get(self, path: str) -> Any:
        """Return what the service says at an address that changes nothing."""
        return await self.send(calls.read(path))

    async def send(self, call: Call) -> Any:
        """Send a request until it is answered, and return its record."""
        for pause in [*pauses(self.retries), None]:
            try:
                response = await self._http.request(call.method, call.path, json=call.body, headers=call.headers)
            except httpx.TransportError as error:
                if pause is None:
                    raise StoreError(f"the service cannot be reached: {error}") from error
            else:
                if pause is None or response.status_code not in RETRIED:
                    return result(call, response)
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")


class AsyncClientEpisode:
    """An episode that a client opened.

    Attributes:
        opened: What the service said.
    """

    def __init__(self, client: AsyncClient, opened: Opened) -> None:
        self._client, self.opened = client, opened

    @property
    def name(self) -> str:
        """Name of the episode."""
        return self.opened.episode

    async def ask(
        self, state: Any, *, allowed: list[Any] | None = None, step: int | None = None, key: str | None = None
    ) -> Answer:
        """Return what to do in a state; arguments as in the HTTP request."""
        found: Answer = await self._client.send(calls.ask(self.name, state, allowed, step, key))
        return found

    async def tell(
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
        rest = {"next_state": next_state, "terminated": terminated, "state": state, "action": action, "step": step}
        found: Recorded = await self._client.send(calls.tell(self.name, reward, key, **rest))
        return found

    async def end(self, *, key: str | None = None) -> Closed:
        """End the episode before its last step."""
        found: Closed = await self._client.send(calls.close(self.name, "end", key))
        return found

    async def abandon(self, *, key: str | None = None) -> Closed:
        """Forget the episode."""
        found: Closed = await self._client.send(calls.close(self.name, "abandon", key))
        return found

    async def time_out(self, *, key: str | None = None) -> Closed:
        """Close the episode, because its outcomes do not come."""
        found: Closed = await self._client.send(calls.close(self.name, "time-out", key))
        return found
