"""Agents on sampled columns are saved, loaded, pickled and copied as any other."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from matrixrl import Agent, KernelMatrixRL, MatrixRL
from matrixrl.algorithms.matrix_rl.sampled import SampledMatrixRL

EVERY = 10**4  # more columns than states
SMALL = {"size": 3}

CASES = {
    "kernel": lambda: KernelMatrixRL("grid-world", env_settings=SMALL, seed=0, columns=EVERY),
    "kernel, rare switching": lambda: KernelMatrixRL(
        "grid-world", env_settings=SMALL, seed=0, columns=EVERY, switch_growth=0.5
    ),
    "drawn again": lambda: MatrixRL("linear-mdp", seed=0, columns=20),
    "drawn once": lambda: MatrixRL("linear-mdp", seed=0, columns=20, column_weights="uniform", column_draw="fixed"),
}


@pytest.mark.parametrize("case", CASES)
def test_an_agent_with_columns_goes_on_from_a_file_a_pickle_or_a_copy(case, tmp_path):
    agent = CASES[case]()
    agent.learn(n_episodes=3)
    agent.save(tmp_path / "agent.npz")
    others = [kind.load(tmp_path / "agent.npz", env=agent.problem.env) for kind in (type(agent), Agent)]
    others += [pickle.loads(pickle.dumps(agent)), copy.deepcopy(agent)]
    assert isinstance(agent.algorithm, SampledMatrixRL)
    expected = agent.learn(n_episodes=3).returns
    for other in others:
        assert other.algorithm.name == agent.algorithm.name == agent.name
        np.testing.assert_array_equal(other.learn(n_episodes=3).returns, expected)
