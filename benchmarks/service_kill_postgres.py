"""Kill processes of a service on PostgreSQL at random moments under load: nothing may be lost or changed.

    python benchmarks/service_kill_postgres.py --database postgresql://… --kills 50 --learner-kills 20

needs an empty database. Two processes answer, and two stand for the learner. Every request goes to one of the first
two at random, so an episode is asked and reported here and there, and some questions are asked again at the other
process. At random moments one of the processes that answer, or the one that learns, is killed (SIGKILL) and started
again. In the end every answer that was heard is compared with the log, every digest is verified, and the log is
replayed. Then the learner alone is killed, and the time until the other one learns is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from service_common import HORIZON, Connection, Refused, launch, start, stop, write_problem
from service_kill import Heard, compare, report


class Learning:
    """A process that learns or waits until it may, and the moment at which it began."""

    def __init__(self, address: str, problem: Path) -> None:
        self.process: subprocess.Popen[str] = launch(address, problem, "--role", "learner")
        self.since: float | None = None
        self.waits = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.waits = True  # it says so first
            if line.startswith("learning"):
                self.since = time.perf_counter()


class Cluster:
    """Two processes that answer, two that stand for the learner, and what was heard from them."""

    def __init__(self, address: str, problem: Path) -> None:
        self._address, self._problem = address, problem
        self.learners = [Learning(address, problem) for _ in range(2)]
        self.webs = [self.start_web() for _ in range(2)]
        self.heard: Heard = {}
        self.starts: list[float] = []
        self.n_retried = self.n_repeated = self.n_given_up = 0
        self.over = False

    def start_web(self):
        begin = time.perf_counter()
        found = start(self._address, self._problem, "--role", "web")
        if hasattr(self, "starts"):
            self.starts.append(time.perf_counter() - begin)
        return found

    async def kill_web(self, number: int) -> None:
        stop(self.webs[number][0], signal.SIGKILL)
        self.webs[number] = await asyncio.to_thread(self.start_web)

    async def kill_learner(self) -> float:
        """Kill the process that learns, start another one, and return the seconds until the one that waited learns."""
        while not any(one.since for one in self.learners):
            await asyncio.sleep(0.01)
        old = next(one for one in self.learners if one.since)
        begin = time.perf_counter()
        old.process.kill()
        old.process.wait()
        self.learners.remove(old)
        waiting = self.learners[0]
        while waiting.since is None:
            await asyncio.sleep(0.002)
        self.learners.append(Learning(self._address, self._problem))
        return waiting.since - begin

    def stop(self) -> None:
        for process in [*(one.process for one in self.learners), *(web[0] for web in self.webs)]:
            stop(process, signal.SIGTERM)  # also one that has only just begun


class Player:
    """Plays episodes, where each request goes to one of the processes at random until it is answered."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster, self._rng = cluster, random.Random(seed)
        self._connections: dict[int, Connection] = {}

    async def _post(self, path: str, body: dict[str, object]) -> dict[str, object]:
        while True:
            _, host, port = self._rng.choice(self._cluster.webs)
            connection = self._connections.setdefault(port, Connection(host, port))
            try:
                return await connection.post(path, body)
            except Refused as error:
                if error.status != 503:
                    raise
            except (OSError, asyncio.IncompleteReadError):
                connection.close()
            self._cluster.n_retried += 1
            await asyncio.sleep(0.02)

    async def play(self) -> None:
        while not self._cluster.over:
            try:
                await self._episode()
            except Refused as error:
                if error.status != 409:
                    raise
                self._cluster.n_given_up += 1  # it timed out while a process was away

    async def _episode(self) -> None:
        rng, heard = self._rng, self._cluster.heard
        name, state = f"k{rng.getrandbits(60):x}", 0
        answer = await self._post("/v1/episodes", {"episode": name})
        heard["opened", name, 0] = answer["plan"]
        for step in range(HORIZON):
            body: dict[str, object] = {"state": state, "step": step}
            action = int(str((await self._post(f"/v1/episodes/{name}/ask", body))["action"]))
            heard["asked", name, step] = action
            if rng.random() < 0.1:  # the same question again, perhaps at the other process
                self._cluster.n_repeated += 1
                if int(str((await self._post(f"/v1/episodes/{name}/ask", body))["action"])) != action:
                    raise SystemExit(f"step {step} of {name} was answered in two ways")
            stock = state + action
            state = stock - min(stock, sum(rng.random() < 0.25 for _ in range(20)))
            reward = rng.random()
            await self._post(f"/v1/episodes/{name}/tell", {"reward": reward, "next_state": state, "step": step})
            heard["told", name, step] = reward


async def _run(cluster: Cluster, options: argparse.Namespace, rng: random.Random) -> dict[str, object]:
    players = [asyncio.create_task(Player(cluster, 1000 + k).play()) for k in range(options.connections)]
    victims = {"web": 0, "learner": 0}
    for number in range(options.kills):
        await asyncio.sleep(rng.uniform(0.05, options.longest))
        target = rng.randrange(3)
        victims["learner" if target == 2 else "web"] += 1
        await (cluster.kill_learner() if target == 2 else cluster.kill_web(target))
        print(f"kill {number + 1}: {len(cluster.heard):,} acknowledged", flush=True)
    times = []
    for number in range(options.learner_kills):
        while not all(one.waits for one in cluster.learners):  # a start takes longer than a take-over
            await asyncio.sleep(0.05)
        await asyncio.sleep(rng.uniform(2.0, 2.0 + options.longest))
        times.append(await cluster.kill_learner())
        print(f"learner {number + 1}: taken over after {times[-1]:.2f} s", flush=True)
    cluster.over = True
    await asyncio.gather(*players)
    return {
        "kills": victims,
        "retried": cluster.n_retried,
        "repeated": cluster.n_repeated,
        "given_up": cluster.n_given_up,
        "longest_start": max(cluster.starts, default=None),
        "take_over_median": statistics.median(times) if times else None,
        "take_over_max": max(times, default=None),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", required=True, help="address of an empty PostgreSQL database")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--learner-kills", type=int, default=20)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--longest", type=float, default=3.0, help="longest time until a kill, in seconds")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        problem = write_problem(Path(folder) / "inventory.toml", time_out=5.0, default_reward=0.0)
        cluster = Cluster(options.database, problem)
        try:
            found = asyncio.run(_run(cluster, options, random.Random(options.seed)))
        finally:
            cluster.stop()
    report({**found, **compare(options.database, cluster.heard)}, options.out, "kill-postgres.json")


if __name__ == "__main__":
    main()
