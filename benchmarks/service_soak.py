"""A long log: memory while it grows, disk for each event, and how long a start takes with and without a checkpoint.

    python benchmarks/service_soak.py --events 1000000 --out out/service-soak

starts ``matrixrl serve`` on the inventory case of 51 states and 21 actions with SQLite, and plays episodes over HTTP as
fast as possible until the log has so many events: an hour of 280 events a second in accelerated form. The memory of the
service and of its learner is read every few seconds. Then the service is started again with its checkpoint, after a
kill (the newest checkpoint is some events behind), and without any checkpoint.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

from service_common import Connection, start, stop, write_problem
from service_load import play_in_turn


def memory(pid: int) -> dict[str, float]:
    """Return the resident memory of a process and its children in MB."""
    found = {}
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for name, number in [("service", str(pid)), *(("learner", child) for child in children)]:
        status = Path(f"/proc/{number}/status").read_text()
        size = next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS")), 0.0)
        found[name] = max(found.get(name, 0.0), size)  # the other child of Python is small
    return found


def count(data: Path) -> int:
    """Return the number of events in a log."""
    with closing(sqlite3.connect(f"file:{data / 'log.db'}?mode=ro", uri=True)) as database:
        return int(database.execute("SELECT max(seq) FROM events").fetchone()[0])


async def _grow(host: str, port: int, pid: int, data: Path, options: argparse.Namespace) -> list[dict[str, float]]:
    """Play until the log has so many events, and return what was measured on the way."""
    done = asyncio.Event()
    samples: list[dict[str, float]] = []

    async def play(k: int) -> None:
        connection, rng = Connection(host, port), random.Random(k)
        while not done.is_set():
            await play_in_turn(connection, rng, [])
        connection.close()

    async def watch() -> None:
        begin = time.perf_counter()
        while not done.is_set():
            samples.append({"seconds": time.perf_counter() - begin, "events": count(data), **memory(pid)})
            print({key: round(value) for key, value in samples[-1].items()}, flush=True)
            if samples[-1]["events"] >= options.events:
                done.set()
            await asyncio.sleep(0.0 if done.is_set() else 5.0)

    await asyncio.gather(watch(), *(play(k) for k in range(options.connections)))
    return samples


def start_up(data: Path, how: signal.Signals = signal.SIGKILL) -> float:
    """Return the seconds until a service answers its first question; then it is killed, or ended in order."""
    begin = time.perf_counter()
    process, host, port = start(data)

    async def ask() -> None:
        connection = Connection(host, port)
        name = (await connection.post("/v1/episodes", {}))["episode"]
        await connection.post(f"/v1/episodes/{name}/ask", {"state": 0})
        connection.close()

    asyncio.run(ask())
    took = time.perf_counter() - begin
    stop(process, how)
    return took


def main() -> None:
    """Grow a log, and start services on it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--out", type=Path, default=Path("out/service-soak"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        process, host, port = start(data, write_problem(Path(folder) / "inventory.toml"))
        samples = asyncio.run(_grow(host, port, process.pid, data, options))
        killed = Path(folder) / "killed"
        stop(process, signal.SIGKILL)
        shutil.copytree(data, killed)
        start_up(data, signal.SIGINT)  # in order, which writes a checkpoint
        size = sum(file.stat().st_size for file in data.glob("log.db*"))
        found = {"samples": samples, "bytes_per_event": size / samples[-1]["events"]}
        found["start_with_checkpoint"] = start_up(data)
        found["start_after_a_kill"] = start_up(killed)
        shutil.rmtree(data / "checkpoints")
        found["start_without_checkpoint"] = start_up(data)
    print({key: value for key, value in found.items() if key != "samples"})
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "soak.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
