"""A short way for the requests that come most: decisions do not pass the router."""

from __future__ import annotations

from matrixrl.errors import MatrixRLError
from matrixrl_serve.http.asgi import App, Message, Receive, Send, refused, respond
from matrixrl_serve.http.write_routes import COMMANDS, KEY, Command, Doors, answered

__all__ = ["Lane"]

_PREFIX = "/v1/episodes"
_BY_PATH = {name.replace("_", "-"): command for name, command in COMMANDS.items() if name != "open"}
_KEY = KEY.encode()


class Lane:
    """ASGI middleware that answers requests about episodes as the routes of the application would.

    The routes describe them in OpenAPI, and both call `answered`.

    Args:
        app: Application that answers all other requests.
        doors: What requests need.
    """

    def __init__(self, app: App, *, doors: Doors) -> None:
        self._app, self._doors = app, doors

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request about an episode, or pass it on."""
        found = _find(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            return await self._app(scope, receive, send)
        command, episode = found
        authorization, key = "", None
        for name, value in scope["headers"]:
            if name == b"authorization":
                authorization = value.decode("latin-1")
            elif name == _KEY:
                key = value.decode("latin-1")
        body = (await receive()).get("body", b"")  # the gate has read it whole
        try:
            answer = await answered(self._doors, command, episode, authorization, key, body)
        except MatrixRLError as error:
            return await respond(send, *refused(error))
        return await respond(send, 200, answer)


def _find(path: str) -> tuple[Command, str | None] | None:
    """Return the request of a path and the name of its episode; None if it is another path."""
    if not path.startswith(_PREFIX):
        return None
    parts = path[len(_PREFIX) :].split("/")
    if len(parts) == 1 and not parts[0]:
        return COMMANDS["open"], None
    command = _BY_PATH.get(parts[2]) if len(parts) == 3 and parts[1] else None
    return None if command is None or parts[0] else (command, parts[1])
