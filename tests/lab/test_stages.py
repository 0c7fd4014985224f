"""Experiments on environments whose laws depend on the stage, and on discounted ones."""

from __future__ import annotations

import numpy as np
from experiments import finished

from matrixrl import run_seeds
from matrixrl_lab.analysis import summarise
from matrixrl_lab.store import Store

SPEC = """\
name = "stages"
title = "Stages"
episodes = 12
seeds = 2
block = 5

[[env]]
id = "stages"
name = "gym:FrozenLake-v1"
settings = { horizon = 6, stage_dependent = [0, 0, 0, 1, 1, 1] }

[[env]]
id = "discounted"
name = "gym:FrozenLake-v1"
settings = { discount = 0.8 }

[[agent]]
name = "matrix-rl"

[[agent]]
name = "psrl"
"""


def test_an_experiment_plays_what_run_seeds_plays(tmp_path):
    """Regret and returns of every seed in the store, against a run without the lab."""
    finished(tmp_path, SPEC)
    with Store.open_to_read(tmp_path) as store:
        cells = {(cell.env_id, cell.agent): i for i, cell in enumerate(store.experiment.cells)}
        for (env_id, agent), cell in cells.items():
            settings = store.experiment.cells[cell].env_settings
            wanted = run_seeds("gym:FrozenLake-v1", env_settings=dict(settings), n_episodes=12, seeds=2, agent=agent)
            for series, played in (("regret", wanted.regret), ("return", wanted.returns)):
                found = store.read(cell, series)
                np.testing.assert_allclose(found, played, atol=1e-9, err_msg=f"{env_id} {agent}")
        for env in summarise(store):
            sizes = env.facts["sizes"]
            assert sizes["n_actions"] == 4
            assert sizes.get("stage_classes") == (2 if env.id == "stages" else None)
