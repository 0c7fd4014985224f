"""Small experiments that several tests of the lab run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matrixrl_lab.execution import Campaign, make_executor
from matrixrl_lab.execution.executors import Executor
from matrixrl_lab.spec import Experiment, read_spec, work_out
from matrixrl_lab.store import Store

SMALL = """\
name = "small"
title = "Small"
episodes = 60
seeds = 3
block = 20
batch = 2

[[env]]
name = "river-swim"
settings = { n_states = 4, horizon = 6 }

[[agent]]
name = "matrix-rl"
settings = { preset = "tuned" }

[[agent]]
name = "psrl"

[[agent]]
name = "random"
"""


def experiment(folder: Path, text: str = SMALL, **overrides: Any) -> Experiment:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "spec.toml"
    path.write_text(text, encoding="utf-8")
    return work_out(read_spec(path, overrides))


def finished(folder: Path, text: str = SMALL, executor: Executor | None = None, **overrides: Any) -> str:
    """Run an experiment into `folder` and return the digest of its rows."""
    with Store.create(folder, experiment(folder, text, **overrides), text) as store:
        outcome = Campaign(store, executor or make_executor("serial")).run()
        assert not outcome.failed, outcome.failed
        return store.digest()
