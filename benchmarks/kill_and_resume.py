"""Kill runs at random moments (kill -9 of the parent alone), resume them, and compare what is stored.

python benchmarks/kill_and_resume.py [HOW_MANY]

After each kill no process of the run may be left, and a run that was killed and resumed must have the digest of one
that was not.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from matrixrl_lab.execution import Campaign, make_executor
from matrixrl_lab.spec import read_spec, work_out
from matrixrl_lab.store import Store

SPEC = """
name = "load"
episodes = 300
seeds = 8
block = 25
batch = 4
[[env]]
name = "river-swim"
settings = { n_states = 4 }
[[agent]]
name = "matrix-rl"
settings = { preset = "tuned" }
[[agent]]
name = "psrl"
[[agent]]
name = "rlsvi"
[[agent]]
name = "random"
"""
PATIENCE = 30.0  # seconds until a process that is left counts as left behind
_LATEST = 15.0  # seconds after which a command is killed at the latest, so that one run is killed many times


def processes_of(group: int) -> list[int]:
    """Return the processes of a process group."""
    found = subprocess.run(["pgrep", "-g", str(group)], capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in found.split()]


def seconds_until_empty(group: int) -> float | None:
    """Wait until a process group is empty; return the seconds, or None if processes are left."""
    started = time.monotonic()
    while processes_of(group):
        if time.monotonic() - started > PATIENCE:
            return None
        time.sleep(0.1)
    return time.monotonic() - started


def share_of(folder: Path) -> float:
    """Return the share of the episodes that are stored."""
    if not Store.is_there(folder):
        return 0.0
    with Store.open_to_read(folder) as store:
        return float(np.mean([row.episodes for row in store.runs()]) / store.experiment.episodes)


def main(how_many: int) -> int:
    """Kill and resume until enough kills were made; return the number of failures."""
    folder = Path(tempfile.mkdtemp())
    spec = folder / "load.toml"
    spec.write_text(SPEC)
    with Store.create(folder / "whole", work_out(read_spec(spec))) as store:
        Campaign(store, make_executor("processes")).run()  # the first time loops are compiled
        wanted = store.digest()
    started = time.monotonic()
    command = [sys.executable, "-m", "matrixrl", "compare", str(spec), "--out", str(folder / "timed")]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    whole = time.monotonic() - started
    print(f"uninterrupted: {wanted} in {whole:.0f} s", flush=True)
    rng = np.random.default_rng(0)
    kills, runs, left, unequal = 0, 0, 0, 0
    shares, waits = [], []
    while kills < how_many:
        target = folder / f"run-{runs}"
        while True:
            words = ["resume", str(target)] if Store.is_there(target) else ["compare", str(spec), "--out", str(target)]
            process = subprocess.Popen(
                [sys.executable, "-m", "matrixrl", *words],
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            latest = min(whole, _LATEST)
            until = time.monotonic() + float(rng.uniform(0.2, latest)) if kills < how_many else float("inf")
            while time.monotonic() < until and process.poll() is None:
                time.sleep(0.01)
            if process.poll() is not None:
                break
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            waited = seconds_until_empty(process.pid)
            left += waited is None
            waits.append(PATIENCE if waited is None else waited)
            kills += 1
            shares.append(share_of(target))
        runs += 1
        with Store.open_to_read(target) as store:
            found = store.digest()
        unequal += found != wanted or process.returncode != 0
        print(f"run {runs}: {found}, status {process.returncode}, after {kills} kills in all", flush=True)
    print(
        f"{kills} kills at {min(shares):.0%} … {max(shares):.0%} of a run: processes left behind after {left} of them, "
        f"the last one ended after {max(waits):.1f} s at most ({np.median(waits):.1f} s in the middle); "
        f"{runs - unequal} of {runs} runs equal"
    )
    shutil.rmtree(folder)
    return left + unequal


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50) > 0)
