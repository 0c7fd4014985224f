"""The store under load: ten million rows.

python benchmarks/lab_store.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from matrixrl_lab.spec import read_spec, work_out
from matrixrl_lab.store import Store

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
settings = {{ preset = "tuned" }}
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


if __name__ == "__main__":
    rows(2)
    rows(4)
