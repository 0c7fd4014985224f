"""docs/proofs.md, 5: blocks of features are found, and each has its own radius."""

from __future__ import annotations

import math

import numpy as np
import pytest

from matrixrl import MatrixRL, make, tensor_product
from matrixrl.core import RADII
from matrixrl.features import OneHotPhi, TablePhi
from tolerances import ALGEBRA
from worlds import model_radii


def test_blocks_are_found_not_asked_for(rng):
    assert OneHotPhi(4, 3).blocks().count == 12
    per_action = tensor_product(rng.random((6, 3)) + 0.1, np.eye(4)).blocks()
    assert per_action.count == 4
    np.testing.assert_array_equal(np.unique(np.bincount(per_action.pair_block)), [6])
    assert TablePhi(rng.random((5, 2, 3)) + 0.1).blocks().count == 1
    one_hot_table = TablePhi(OneHotPhi(3, 2).table).blocks()
    assert one_hot_table.count == 6


def test_a_pair_without_features_belongs_anywhere():
    table = np.zeros((3, 1, 2))
    table[0, 0, 0] = table[1, 0, 1] = 1.0
    blocks = TablePhi(table).blocks()
    assert blocks.count == 2
    assert blocks.pair_block.max() < 2


def test_radius_by_visits_number_by_number():
    agent = MatrixRL(make("river-swim", n_states=4), seed=0, delta=0.1, ridge=0.5)
    agent.learn(15)
    n = agent.algorithm.model.design.counts[0]
    scale = math.sqrt(1 - 1 / 4)
    by_hand = 0.5 / np.sqrt(0.5 + n) + np.where(
        n > 0, scale * np.sqrt(2 * math.log(8 / 0.1) + np.log(1 + n / 0.5)), 0.0
    )
    np.testing.assert_allclose(model_radii(agent.algorithm)[0], by_hand, rtol=ALGEBRA)


def test_block_logdet_of_dense_features_is_that_of_the_block(rng):
    env = make("river-swim", n_states=4, horizon=6)
    phi = tensor_product(rng.dirichlet(np.ones(3), size=4), np.eye(2))
    agent = MatrixRL(env, phi=phi, seed=0)
    agent.learn(10)
    blocks = agent.algorithm.model.confidence.blocks
    found = agent.algorithm.model.design.block_logdet(blocks.members)[0]
    whole = agent.algorithm.model.design.logdet[0]
    assert found.sum() == pytest.approx(whole, rel=ALGEBRA)  # block diagonal
    for k, member in enumerate(blocks.members):
        part = agent.algorithm.model.design.matrix[0][np.ix_(member, member)]
        assert found[k] == pytest.approx(np.linalg.slogdet(part)[1], rel=ALGEBRA)


def test_one_block_is_the_self_normalised_radius():
    env = make("linear-mdp", n_states=30, d=4, horizon=5)
    agent = MatrixRL(env, seed=0)
    agent.learn(5)
    assert agent.algorithm.model.confidence.blocks.count == 1
    inputs = agent.algorithm.model.confidence.inputs(agent.algorithm.model.design, agent.algorithm.clock)
    whole = RADII["self-normalised"]()(inputs)
    np.testing.assert_allclose(RADII["block"]()(inputs), whole, rtol=ALGEBRA)


@pytest.mark.slow
def test_the_guaranteed_ball_uses_it_and_learns_river_swim():
    """Far below the self-normalised radius, always optimistic."""
    from matrixrl import run_seeds

    block = run_seeds("river-swim", n_episodes=600, seeds=4, preset="optimistic", set="normalised")
    whole = run_seeds(
        "river-swim", n_episodes=600, seeds=4, preset="optimistic", set="normalised", radius="self-normalised"
    )
    assert block.settings["radius"] == "block"
    assert block.guarantee
    assert block.final_regret.mean() < 0.5 * whole.final_regret.mean()
    assert block.optimistic_share == 1.0
