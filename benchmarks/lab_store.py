"""The store under load and under fire: ten million rows, and fifty kills.

python benchmarks/lab_store.py rows
python benchmarks/lab_store.py kills [HOW_MANY]
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

from matrixrl.lab.execution import Campaign, make_executor
from matrixrl.lab.spec import read_spec, work_out
from matrixrl.lab.store import Store

SPEC = """
name = "load"
episodes = {episodes}
seeds = {seeds}
block = {block}
batch = {batch}
[[env]]
name = "river-swim"
settings = {{ n_states = 4 }}
[[agent]]
name = "matrix-rl"
settings = {{ preset = "practical" }}
"""
MORE = """
[[agent]]
name = "psrl"
[[agent]]
name = "rlsvi"
[[agent]]
name = "ucrl-vtr"
[[agent]]
name = "random"
"""


def rows(columns: int) -> None:
    """Write 1,000 seeds × 10,000 episodes of random numbers in blocks of 1,000 × 32, then read the mean curve."""
    episodes, seeds, block, batch = 10_000, 1_000, 1_000, 32
    names = ("regret", "return", "seconds", "optimistic", "lower", "upper")[:columns]
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "load.toml"
        spec.write_text(SPEC.format(episodes=episodes, seeds=seeds, block=block, batch=batch))
        data = {name: rng.random((batch, block)) for name in names}
        started = time.perf_counter()
        with Store.create(Path(folder) / "s", work_out(read_spec(spec))) as store:
            for first_seed in range(0, seeds, batch):
                chosen = range(first_seed, min(first_seed + batch, seeds))
                part = {name: values[: len(chosen)] for name, values in data.items()}
                for first in range(0, episodes, block):
                    store.write_block(0, chosen, first, part, state=None)
        written = time.perf_counter() - started
        size = (Path(folder) / "s" / "results.sqlite").stat().st_size
        started = time.perf_counter()
        with Store.open_to_read(Path(folder) / "s") as store:
            curve = np.cumsum(store.read(0, "regret").mean(axis=0))
        read = time.perf_counter() - started
        assert curve.shape == (episodes,)
    print(
        f"{episodes * seeds:,} rows of {columns} columns: written in {written:.1f} s, {size / 1e6:.0f} MB, "
        f"mean curve in {read:.2f} s"
    )


def kills(how_many: int) -> None:
    """Kill whole runs (all their processes) at random moments, resume, and compare what is stored."""
    folder = Path(tempfile.mkdtemp())
    spec = folder / "load.toml"
    spec.write_text(SPEC.format(episodes=2_000, seeds=8, block=100, batch=4) + MORE)
    with Store.create(folder / "whole", work_out(read_spec(spec))) as store:
        Campaign(store, make_executor("processes")).run()
        wanted = store.digest()
    print(f"uninterrupted: {wanted}", flush=True)
    rng = np.random.default_rng(0)
    done, finished, shares = 0, 0, []
    while done < how_many:
        target = folder / f"run-{finished}"
        while True:
            fresh = not (target / "results.sqlite").exists()
            words = ["compare", str(spec), "--out", str(target)] if fresh else ["resume", str(target)]
            process = subprocess.Popen(
                [sys.executable, "-m", "matrixrl", *words],
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            until = time.monotonic() + float(rng.uniform(0.5, 8.0)) if done < how_many else float("inf")
            while time.monotonic() < until and process.poll() is None:
                time.sleep(0.01)
            if process.poll() is not None:
                _, said = process.communicate()
                assert process.returncode == 0, said.decode()
                break
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            done += 1
            shares.append(_share(target))
        with Store.open_to_read(target) as store:
            found = store.digest()
        finished += 1
        print(f"run {finished}: {found} after {done} kills in all", flush=True)
        assert found == wanted
    print(f"{done} kills at {min(shares):.0%} … {max(shares):.0%} of a run, {finished} runs finished, all equal")
    shutil.rmtree(folder)


def _share(folder: Path) -> float:
    if not (folder / "results.sqlite").exists():
        return 0.0
    with Store.open_to_read(folder) as store:
        return float(np.mean([row.episodes for row in store.runs()]) / store.experiment.episodes)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["rows"]:
            rows(2)
            rows(4)
        case ["kills", *count]:
            kills(int(count[0]) if count else 50)
        case _:
            sys.exit(__doc__)
