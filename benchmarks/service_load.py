"""Load on a service: durable asks and tells a second, with the times of single requests.

    python benchmarks/service_load.py --seconds 30 --connections 32 --out out/service-load

starts ``matrixrl serve`` on the inventory case of 51 states and 21 actions with SQLite, and measures asks alone, tells
alone, and both in turn, as an application sends them. Every answer was durable when it was heard. The client runs on
the same machine and takes its share of the processor. With ``--database postgresql://…``, an empty database, two
processes answer and a third one learns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import tempfile
import time
from pathlib import Path

from service_common import HORIZON, N_STATES, Connection, launch, start, stop, write_problem


async def _episode(connection: Connection) -> str:
    return str((await connection.post("/v1/episodes", {}))["episode"])


async def _asks(connection: Connection, until: float, times: list[float], rng: random.Random) -> None:
    """Ask as fast as possible; outcomes are never reported."""
    while time.perf_counter() < until:
        name = await _episode(connection)
        for step in range(HORIZON):
            state = 0 if step == 0 else rng.randrange(N_STATES)
            begin = time.perf_counter()
            await connection.post(f"/v1/episodes/{name}/ask", {"state": state, "step": step})
            times.append(time.perf_counter() - begin)
            if time.perf_counter() >= until:
                break
        await connection.post(f"/v1/episodes/{name}/abandon", {})


async def _tells(connection: Connection, until: float, times: list[float], rng: random.Random) -> None:
    """Report as fast as possible what nobody asked for."""
    while time.perf_counter() < until:
        name, state = await _episode(connection), 0
        for step in range(HORIZON):
            following = rng.randrange(N_STATES)
            action = rng.randrange(min(20, 50 - state) + 1)
            body = {"state": state, "action": action, "reward": rng.random(), "next_state": following, "step": step}
            begin = time.perf_counter()
            await connection.post(f"/v1/episodes/{name}/tell", body)
            times.append(time.perf_counter() - begin)
            state = following
            if step < HORIZON - 1 and time.perf_counter() >= until:
                await connection.post(f"/v1/episodes/{name}/end", {})
                break


async def _both(connection: Connection, until: float, times: list[float], rng: random.Random) -> None:
    """Ask and report in turn: sales are binomial, and what is sold earns."""
    while time.perf_counter() < until:
        await play_in_turn(connection, rng, times)


async def play_in_turn(connection: Connection, rng: random.Random, times: list[float]) -> None:
    """Play one episode."""
    name, state = await _episode(connection), 0
    for step in range(HORIZON):
        begin = time.perf_counter()
        answer = await connection.post(f"/v1/episodes/{name}/ask", {"state": state, "step": step})
        stock = state + int(str(answer["action"]))
        sold = min(stock, sum(rng.random() < 0.25 for _ in range(20)))
        body = {"reward": max(0.0, min(1.0, 0.05 * sold - 0.004 * stock)), "next_state": stock - sold, "step": step}
        middle = time.perf_counter()
        await connection.post(f"/v1/episodes/{name}/tell", body)
        times += [middle - begin, time.perf_counter() - middle]
        state = stock - sold


async def _measure(work, places: list[tuple[str, int]], connections: int, seconds: float) -> dict[str, float]:
    open_ones = [Connection(*places[k % len(places)]) for k in range(connections)]
    times: list[float] = []
    begin = time.perf_counter()
    jobs = [work(one, begin + seconds, times, random.Random(k)) for k, one in enumerate(open_ones)]
    await asyncio.gather(*jobs)
    took = time.perf_counter() - begin
    for one in open_ones:
        one.close()
    times.sort()
    part = {name: 1e3 * times[int(share * (len(times) - 1))] for name, share in (("p50", 0.5), ("p99", 0.99))}
    return {"requests": len(times), "per_second": len(times) / took, "p50_ms": part["p50"], "p99_ms": part["p99"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--database", help="address of an empty PostgreSQL database; SQLite by default")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = {}
    for name, work in (("asks", _asks), ("tells", _tells), ("both", _both)):
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "data"
            problem = write_problem(Path(folder) / "inventory.toml")
            others = []
            if options.database is None:
                servers = [start(data, problem)]
            else:
                others = [launch(options.database, problem, "--role", "learner")]
                servers = [start(options.database, problem, "--role", "web") for _ in range(2)]
            try:
                places = [(host, port) for _, host, port in servers]
                found[name] = asyncio.run(_measure(work, places, options.connections, options.seconds))
            finally:
                for process in [*(process for process, _, _ in servers), *others]:
                    stop(process, signal.SIGTERM)
            if options.database is None:
                size = sum(file.stat().st_size for file in data.glob("log.db*"))
                found[name]["log_bytes_per_request"] = size / max(found[name]["requests"], 1)
        print(name, json.dumps({key: round(value, 2) for key, value in found[name].items()}), flush=True)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "load.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
