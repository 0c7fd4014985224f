"""Agents on sampled columns are saved, loaded, pickled and copied as any other."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from matrixrl import Agent, KernelMatrixRL, MatrixRL, make
from matrixrl.algorithms.matrix_rl.sampled import SampledMatrixRL

KERNEL = {"columns": 10**4}  # more than there are states
CASES = {
    "kernel": (KernelMatrixRL, lambda: make("grid-world", size=3), KERNEL),
    "kernel, rare switching": (KernelMatrixRL, lambda: make("grid-world", size=3), {**KERNEL, "switch_growth": 0.5}),
    "drawn again": (MatrixRL, lambda: make("linear-mdp"), {"columns": 20}),
    "drawn once": (
        MatrixRL,
        lambda: make("linear-mdp"),
        {"columns": 20, "column_weights": "uniform", "column_draw": "fixed"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_agent_with_columns_goes_on_from_a_file_a_pickle_or_a_copy(case, tmp_path):
    kind, world, settings = CASES[case]
    agent = kind(world(), seed=0, **settings)
    agent.learn(n_episodes=3)
    agent.save(tmp_path / "agent.npz")
    others = [loads.load(tmp_path / "agent.npz", env=world()) for loads in (kind, Agent)]
    others += [pickle.loads(pickle.dumps(agent)), copy.deepcopy(agent)]  # noqa: S301
    assert isinstance(agent.algorithm, SampledMatrixRL)
    expected = agent.learn(n_episodes=3).returns
    for other in others:
        assert other.algorithm.name == agent.algorithm.name == agent.name
        np.testing.assert_array_equal(other.learn(n_episodes=3).returns, expected)
