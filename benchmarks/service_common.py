"""The inventory case, a server process, and a small HTTP client for the benchmarks of the service."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

N_STATES, N_ACTIONS, HORIZON = 51, 21, 30
"""Units in stock 0 … 50, units to order 0 … 20, days."""


def write_inventory(path: Path, room: int, most: int, horizon: int, **more: object) -> Path:
    """Write the problem file of an inventory: pairs with the same stock after the order share a law.

    Args:
        path: Where to write it; tables are written beside it.
        room: Units that fit on the shelves.
        most: Largest order.
        horizon: Days.
        more: Other keys.
    """
    groups = [[min(s + a, room) for a in range(most + 1)] for s in range(room + 1)]
    allowed = [[int(s + a <= room) for a in range(most + 1)] for s in range(room + 1)]
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in (("groups", groups), ("allowed", allowed)):
        (folder / f"{name}.csv").write_text("\n".join(",".join(map(str, row)) for row in table) + "\n")
    keys = {"name": "inventory", "states": room + 1, "actions": most + 1, "horizon": horizon, "start": 0, "seed": 0}
    keys |= {"groups": "groups.csv", "allowed": "allowed.csv", **more}
    path.write_text("\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items()) + "\n")
    return path


def write_problem(path: Path, **more: object) -> Path:
    """Write the problem file of an inventory of 50 units."""
    return write_inventory(path, N_STATES - 1, N_ACTIONS - 1, HORIZON, **more)


def launch(data: Path | str, problem: Path | None = None, *options: str) -> subprocess.Popen[str]:
    """Start a process of a service on a free port."""
    command = [sys.executable, "-m", "matrixrl", "serve", *([] if problem is None else [str(problem)])]
    return subprocess.Popen(
        [*command, "--data", str(data), "--port", "0", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


def start(data: Path | str, problem: Path | None = None, *options: str) -> tuple[subprocess.Popen[str], str, int]:
    """Start a server on a free port, and return its process, host and port."""
    process = launch(data, problem, *options)
    assert process.stdout is not None
    found = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
    if found is None:
        raise RuntimeError("the server did not start")
    return process, found[1], int(found[2])


def stop(process: subprocess.Popen[str], how: signal.Signals = signal.SIGINT) -> None:
    """End a server."""
    process.send_signal(how)
    process.wait(120)
    if process.stdout is not None:
        process.stdout.close()


class Refused(RuntimeError):
    """An answer other than 200."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Connection:
    """One HTTP connection that is kept, with as little work on this side as possible."""

    def __init__(self, host: str, port: int) -> None:
        self._place = host, port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: dict[str, object]) -> dict[str, object]:
        """Send a request and return its answer, which must be 200."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(*self._place)
        assert self._reader is not None
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self._place[0]}\r\nContent-Length: {len(data)}\r\n\r\n"
        self._writer.write(head.encode() + data)
        headers = await self._reader.readuntil(b"\r\n\r\n")
        size = int(re.search(rb"content-length: (\d+)", headers.lower())[1])  # type: ignore[index]
        answer: dict[str, object] = json.loads(await self._reader.readexactly(size))
        if not headers.startswith(b"HTTP/1.1 200"):
            raise Refused(int(headers.split()[1]), f"{path}: {answer}")
        return answer

    def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None
