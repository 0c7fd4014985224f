"""Two machines in network namespaces: a Ray cluster with a token, a node that is killed, and a head that is killed.

It needs root and iproute2 (Linux), and prints what the commands print. Processes are ended by the ids that belong to
its own two namespaces.

    python benchmarks/two_nodes.py --out out/two-nodes
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

HEAD, NODE = "matrixrl-head", "matrixrl-node"
ADDRESS = {HEAD: "10.77.0.1", NODE: "10.77.0.2"}
CLUSTER = f"{ADDRESS[HEAD]}:6379"
SPEC = """\
name = "two-nodes"
episodes = {episodes}
seeds = 4
block = 100
batch = 1
[[env]]
name = "river-swim"
[[agent]]
name = "psrl"
[[agent]]
name = "ucbvi"
settings = {{ preset = "tuned" }}
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def connect() -> None:
    """Make two namespaces and one cable between them."""
    for name in ADDRESS:
        ip("netns", "add", name)
    ip("link", "add", "mrl0", "type", "veth", "peer", "name", "mrl1")
    for name, device in zip(ADDRESS, ("mrl0", "mrl1"), strict=True):
        ip("link", "set", device, "netns", name)
        ip("-n", name, "addr", "add", f"{ADDRESS[name]}/24", "dev", device)
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "link", "set", device, "up")


def processes(name: str) -> list[int]:
    found = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=True).stdout
    return [int(pid) for pid in found.split()]


def kill(name: str, *, but: int | None = None) -> None:
    for pid in processes(name):
        if pid != but:
            os.kill(pid, signal.SIGKILL)


def start_cluster(env: dict[str, str]) -> None:
    common = ["--num-cpus=1", "--object-store-memory=100000000", "--disable-usage-stats"]
    ray = str(Path(sys.executable).with_name("ray"))
    head = [ray, "start", "--head", "--port=6379", "--include-dashboard=false"]
    node = [ray, "start", f"--address={CLUSTER}"]
    for name, command in ((HEAD, head), (NODE, node)):
        words = [*command, f"--node-ip-address={ADDRESS[name]}", *common]
        print("$", " ".join(["ray", *words[1:]]), flush=True)
        subprocess.run(["ip", "netns", "exec", name, *words], env=env, check=True, capture_output=True)


def launch(log: Path, env: dict[str, str], *words: str) -> subprocess.Popen[bytes]:
    print("$", "matrixrl", *words, flush=True)
    command = ["ip", "netns", "exec", HEAD, sys.executable, "-m", "matrixrl", *words]
    return subprocess.Popen(command, env=env, stdout=log.open("wb"), stderr=subprocess.STDOUT)


def wait_until(log: Path, share: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a line of progress says that so many per cent are done."""
    while process.poll() is None:
        said = re.findall(r"\((\d+) %\)", log.read_text(errors="replace"))
        if said and int(said[-1]) >= share:
            return
        time.sleep(0.5)


def finish(log: Path, process: subprocess.Popen[bytes]) -> int:
    code = process.wait(timeout=1800)
    print(log.read_text(errors="replace").rstrip())
    print(f"exit {code}\n", flush=True)
    return code


def digest(log: Path) -> str:
    return re.findall(r"rows\s+([0-9a-f]{16})", log.read_text(errors="replace"))[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/two-nodes"))
    parser.add_argument("--episodes", type=int, default=1500)
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True)
    spec, token = out / "spec.toml", out / "token"
    spec.write_text(SPEC.format(episodes=given.episodes), encoding="utf-8")
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32), encoding="utf-8")
    env = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "OPENBLAS_NUM_THREADS": "1"}
    env["MATRIXRL_PROGRESS_SECONDS"] = "5"
    on = ["--on", "ray", "--address", CLUSTER]
    log = out / "log"
    connect()
    try:
        start_cluster(env)
        run = launch(log, env, "compare", str(spec), "--out", str(out / "s"), *on)
        wait_until(log, 20, run)
        print("the second node is killed", flush=True)
        kill(NODE)
        wait_until(log, 50, run)
        print("the head is killed", flush=True)
        kill(HEAD, but=run.pid)
        finish(log, run)
        kill(HEAD)
        start_cluster(env)
        resumed = launch(log, env, "resume", str(out / "s"), *on)
        assert finish(log, resumed) == 0
        on_ray = digest(log)
    finally:
        for name in ADDRESS:
            kill(name)
            ip("netns", "delete", name)
    alone = launch_alone(log, env, spec, out)
    assert finish(log, alone) == 0
    print(f"rows on Ray {on_ray}, rows in one process {digest(log)}")
    assert on_ray == digest(log)


def launch_alone(log: Path, env: dict[str, str], spec: Path, out: Path) -> subprocess.Popen[bytes]:
    words = ["compare", str(spec), "--out", str(out / "alone"), "--on", "serial"]
    print("$", "matrixrl", *words, flush=True)
    command = [sys.executable, "-m", "matrixrl", *words]
    return subprocess.Popen(command, env=env, stdout=log.open("wb"), stderr=subprocess.STDOUT)


if __name__ == "__main__":
    main()
