"""The client of a service."""

from __future__ import annotations

import time
from typing import Any, Self

import httpx

from matrixrl.errors import StoreError
from matrixrl_serve.client import calls
from matrixrl_serve.client.calls import RETRIED, Call, pauses, result
from matrixrl_serve.client.in_process import InProcess
from matrixrl_serve.desk.answers import Answer, Closed, Opened, Recorded

__all__ = ["Client", "ClientEpisode"]


class Client:
    """Asks a service for decisions, and reports what came of them.

    A request that fails on its way is sent again with the same idempotency key, so it is done once.

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
    >>> with Service(problem, tempfile.mkdtemp()) as service, Client(app=make_app(service)) as client:
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
        return ClientEpisode(self, self.send(calls.open_episode(episode, key)))

    def episode(self, name: str) -> dict[str, Any]:
        """Return an episode, open or over, with its steps."""
        found: dict[str, Any] = self.get(f"/v1/episodes/{name}")
        return found

    def certificate(self) -> dict[str, Any]:
        """Return what is proven about the recommended policy."""
        found: dict[str, Any] = self.get("/v1/certificate")
        return found

    def get(self, path: str) -> Any:
        """Return what the service says at an address that changes nothing."""
        return self.send(calls.read(path))

    def send(self, call: Call) -> Any:
        """Send a request until it is answered, and return its record."""
        for pause in [*pauses(self._retries), None]:
            try:
                response = self._http.request(call.method, call.path, json=call.body, headers=call.headers)
            except httpx.TransportError as error:
                if pause is None:
                    raise StoreError(f"the service cannot be reached: {error}") from error
            else:
                if pause is None or response.status_code not in RETRIED:
                    return result(call, response)
            time.sleep(pause)
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
        found: Answer = self._client.send(calls.ask(self.name, state, allowed, step, key))
        return found

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
        rest = {"next_state": next_state, "terminated": terminated, "state": state, "action": action, "step": step}
        found: Recorded = self._client.send(calls.tell(self.name, reward, key, **rest))
        return found

    def end(self, *, key: str | None = None) -> Closed:
        """End the episode before its last step."""
        found: Closed = self._client.send(calls.close(self.name, "end", key))
        return found

    def abandon(self, *, key: str | None = None) -> Closed:
        """Forget the episode."""
        found: Closed = self._client.send(calls.close(self.name, "abandon", key))
        return found

    def time_out(self, *, key: str | None = None) -> Closed:
        """Close the episode, because its outcomes do not come."""
        found: Closed = self._client.send(calls.close(self.name, "time-out", key))
        return found
