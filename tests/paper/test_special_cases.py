"""H = 1 is a linear bandit; one-hot features are counts; Ψ = I and orthonormal Φ give the simple constants."""

from __future__ import annotations

import math

import numpy as np
import pytest

from matrixrl import FiniteMDP, MatrixRL
from matrixrl.core import regularity
from matrixrl.features import Features, OneHotPsi, TablePhi
from matrixrl.problems import low_rank


def test_h_equal_one_with_unknown_rewards_is_oful():
    """The index of every arm in every round; most are below 1, where the clip does not hide them."""
    arms, d, delta, ridge = 6, 3, 0.1, 0.01
    contexts = np.vstack([np.eye(d), np.array([[2, 2, -1], [-1, 2, 2], [2, -1, 2]]) / 3])
    theta = np.array([0.3, 0.25, 0.2])
    features = Features(TablePhi(contexts[None]), OneHotPsi(1))
    mdp = FiniteMDP(np.ones((1, arms, 1)), (contexts @ theta)[None], 1, features=features)
    chosen = {"preset": "optimistic", "radius": "self-normalised", "ridge": ridge}
    agent = MatrixRL(mdp, seed=0, known_reward=False, delta=delta, **chosen)
    # |φᵀθ*| <= 1 at two orthonormal bases, a sixth of the weight each: ‖θ*‖² <= 3 (docs/proofs.md, section 4)
    norm = math.sqrt(ridge * d)

    def radius_of(logdet):  # Abbasi-Yadkori et al. 2011, Theorem 2, R = 1/2, δ/2 of the shared δ
        return norm + 0.5 * math.sqrt(2 * math.log(2 / delta) + logdet)

    ours = []
    for _ in range(300):
        agent.begin_episode()
        arm = agent.act(0)
        ours.append((arm, agent.algorithm.model.bounds(agent.algorithm.clock, "agent")[0].most[0, :, 0]))
        agent.observe(0, arm, float(mdp.task.reward[0, arm]), 0)
        agent.end_episode()
    # The bandit by hand, fed with the same arms: the same index of every arm, and ours among its maximisers.
    matrix, moment, unclipped = ridge * np.eye(d), np.zeros(d), 0
    for arm, upper in ours:
        inverse = np.linalg.inv(matrix)
        width = np.sqrt(np.einsum("ad,de,ae->a", contexts, inverse, contexts))
        logdet = np.linalg.slogdet(matrix / ridge)[1]
        index = np.clip(contexts @ inverse @ moment + radius_of(logdet) * width, 0, 1)
        np.testing.assert_allclose(upper, index, atol=1e-9)
        assert index[arm] >= index.max() - 1e-9
        unclipped += int((index < 1).sum())
        matrix += np.outer(contexts[arm], contexts[arm])
        moment += mdp.task.reward[0, arm] * contexts[arm]
    assert unclipped > 0.8 * 300 * arms


def test_one_hot_features_give_empirical_frequencies():
    """M_n is counts/(1 + visits): the tabular model with one pseudo-visit."""
    from matrixrl import make

    agent = MatrixRL(make("river-swim", n_states=4), seed=0, set="normalised")
    steps = np.zeros((4, 2, 4))
    for _ in range(30):
        obs, _ = agent.problem.env.reset(seed=None)
        agent.begin_episode()
        for _ in range(agent.problem.task.horizon):
            a = agent.act(obs)
            following, r, *_ = agent.problem.env.step(a)
            agent.observe(obs, a, r, following)
            steps[obs, a, following] += 1
            obs = following
        agent.end_episode()
    model = np.einsum("sad,dt->sat", agent.algorithm.problem.features.phi.table, agent.algorithm.model.core_matrix()[0])
    np.testing.assert_allclose(model, steps / (1 + steps.sum(axis=2, keepdims=True)))


def test_identity_psi_and_orthonormal_phi_give_the_papers_constants():
    """Ψ = I and Σ φφᵀ = I: C_ψ' = 1, C_ψ = 1 (columns), ‖M*‖_F² <= number of pairs as each row is a law."""
    world = low_rank(n_states=12, n_actions=2, d=4, horizon=3, seed=0)
    rows = world.features.phi.table.reshape(-1, 4)
    orthonormal = np.linalg.qr(rows)[0]
    features = Features(TablePhi(orthonormal.reshape(12, 2, 4)), OneHotPsi(12))
    constants = regularity(features)
    np.testing.assert_allclose(orthonormal.T @ orthonormal, np.eye(4), atol=1e-12)
    assert constants.c_psi_inv == 1.0
    assert constants.c_psi_max_norm == 1.0
    states, actions = np.divmod(np.arange(24), 2)
    core = orthonormal.T @ world.mdp.transitions.rows(states, actions)
    np.testing.assert_allclose(orthonormal @ core, world.mdp.transitions.rows(states, actions), atol=1e-12)
    assert np.linalg.norm(core) <= constants.core_norm
    assert constants.c_phi * constants.d == pytest.approx((orthonormal**2).sum(axis=1).max())
