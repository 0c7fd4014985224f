"""Lemma (Optimism): if M* is in the set, Q_n >= Q* everywhere; on random MDPs with random data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrixrl.core import SETS, MatrixBounds, greedy_plan
from matrixrl.problems import optimal_q, solve
from tolerances import ALGEBRA
from worlds import WORLDS, algorithm_with_data, phi_rows


def distance(world, algorithm, order):
    """‖A^{1/2}(M* − M_n)‖ from A itself: Frobenius (the paper's) or operator norm (self-normalised)."""
    rows = phi_rows(world)
    arrays = algorithm.model.design.arrays()
    matrix = arrays["design"][0] if "design" in arrays else np.diag(1.0 + arrays["counts"][0])
    assert matrix.shape == (rows.shape[1],) * 2
    root = np.linalg.cholesky(matrix).T  # ‖A^{1/2}X‖ = ‖LᵀX‖ for both norms
    return np.linalg.norm(root @ (world.core - algorithm.model.core_matrix()[0]), order)


def planned(world, algorithm, radius):
    """Return the belief of a set of the given radius √β, and the plan that is optimistic in it."""
    size, reward = np.array([[radius]]), algorithm.unit_reward
    belief = MatrixBounds.of(
        world.features.phi,
        world.features.psi,
        algorithm.model.confidence.set,
        algorithm.model.design,
        algorithm.model.core_matrix(),
        (size, size),
        (reward, reward),
    )
    return belief, greedy_plan(belief, algorithm.frame, np.zeros((1, world.mdp.n_actions)))


@pytest.mark.parametrize("order", ["fro", 2])
@pytest.mark.parametrize("kind", SETS)  # each set's bound is valid for any M* that is inside, in either norm
@given(
    name=st.sampled_from(sorted(WORLDS)),
    seed=st.integers(0, 10_000),
    episodes=st.integers(0, 25),
)
def test_values_are_optimistic_at_every_stage_state_and_action(kind, order, name, seed, episodes):
    world = WORLDS[name](seed)
    algorithm, _ = algorithm_with_data(world, np.random.default_rng(seed), episodes=episodes, set=kind)
    radius = distance(world, algorithm, order) * (1 + 1e-9) + 1e-12
    belief, plan = planned(world, algorithm, radius)
    task = world.mdp.task
    assert plan.empty[0] == 0
    best = solve(world.mdp)
    assert (plan.values[0] >= best.values - ALGEBRA).all()
    q_star = optimal_q(world.mdp)
    for h in range(task.horizon - 1):  # the agent's own Q_n(s, a), for every action
        q = task.reward + belief.bound(plan.values[:, h + 1])[0].T
        assert (q >= q_star[h] - ALGEBRA).all()


def test_without_the_true_core_in_the_set_optimism_can_fail():
    """The test above can fail: a radius of zero with little data is not optimistic."""
    world = WORLDS["tabular"](0)
    algorithm, _ = algorithm_with_data(world, np.random.default_rng(0), episodes=1, set="frobenius")
    _, plan = planned(world, algorithm, 0.0)
    assert (plan.values[0] < solve(world.mdp).values - 0.1).any()
