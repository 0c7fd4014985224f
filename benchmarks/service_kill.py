"""Kill a service at random moments under load: nothing that it acknowledged may be lost or changed.

    python benchmarks/service_kill.py --kills 50 --connections 8 --out out/service-kill

starts ``matrixrl serve`` on the inventory case, sends requests on several connections, kills the process (SIGKILL)
after a random time, and starts it again on the same directory. In the end every answer that was heard is compared with
the log, every digest is verified, and the log is replayed.
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

from matrixrl_serve import replay
from matrixrl_serve.log import EventLog
from service_common import HORIZON, Connection, start, stop, write_problem

Heard = dict[tuple[str, str, int], object]


async def _play(connection: Connection, heard: Heard, rng: random.Random) -> None:
    """Play episodes until the connection is lost, and note what was acknowledged."""
    try:
        while True:
            answer = await connection.post("/v1/episodes", {"episode": f"k{rng.getrandbits(60):x}"})
            name, state = str(answer["episode"]), 0
            heard["opened", name, 0] = answer["plan"]
            for step in range(HORIZON):
                answer = await connection.post(f"/v1/episodes/{name}/ask", {"state": state, "step": step})
                action = int(str(answer["action"]))
                heard["asked", name, step] = action
                stock = state + action
                state = stock - min(stock, sum(rng.random() < 0.25 for _ in range(20)))
                reward = rng.random()
                body = {"reward": reward, "next_state": state, "step": step}
                await connection.post(f"/v1/episodes/{name}/tell", body)
                heard["told", name, step] = reward
    except (OSError, asyncio.IncompleteReadError):
        return


async def _round(host: str, port: int, connections: int, seconds: float, process, heard: Heard, seed: int) -> None:
    async def kill() -> None:
        await asyncio.sleep(seconds)
        stop(process, signal.SIGKILL)

    players = [_play(Connection(host, port), heard, random.Random(1000 * seed + k)) for k in range(connections)]
    await asyncio.gather(kill(), *players)


def compare(data: Path | str, heard: Heard) -> dict[str, object]:
    """Compare what was heard with the log, verify its digests, and replay it."""
    log = EventLog(data)
    stored = _in_the_log(log)
    lost = [key for key in heard if key not in stored]
    changed = [key for key, value in heard.items() if key in stored and stored[key] != value]
    checked = log.check()
    log.close()
    replayed = replay(data)
    return {
        "acknowledged": len(heard),
        "lost": len(lost),
        "changed": len(changed),
        "events": checked.n_events,
        "decisions": replayed.n_decisions,
        "plans": replayed.n_plans,
        "difference": replayed.difference,
    }


def report(found: dict[str, object], out: Path | None, name: str) -> None:
    """Print and write what was found, and fail if a kill cost anything."""
    print(json.dumps(found))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(json.dumps(found, indent=1) + "\n")
    if found["lost"] or found["changed"] or found["difference"]:
        raise SystemExit("a kill lost or changed something")


def _in_the_log(log: EventLog) -> Heard:
    names = {"opened": "plan", "asked": "action", "told": "reward"}
    return {
        (event.kind, str(event.episode), event.step or 0): event.body[names[event.kind]]
        for event in log.read()
        if event.kind in names
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--longest", type=float, default=3.0, help="longest time until a kill, in seconds")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rng, heard, starts = random.Random(options.seed), {}, []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        problem = write_problem(Path(folder) / "inventory.toml", time_out=1.0, default_reward=0.0)
        for number in range(options.kills):
            begin = time.perf_counter()
            process, host, port = start(data, problem)
            starts.append(time.perf_counter() - begin)
            seconds = rng.uniform(0.05, options.longest)
            asyncio.run(_round(host, port, options.connections, seconds, process, heard, number))
            print(f"kill {number + 1}: {len(heard):,} acknowledged, start took {starts[-1]:.2f} s", flush=True)
        found = {"kills": options.kills, **compare(data, heard), "longest_start": max(starts)}
    report(found, options.out, "kill.json")


if __name__ == "__main__":
    main()
