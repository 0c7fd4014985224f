"""Unknown N by doubling (Section 3.2) and rare switching (Abbasi-Yadkori et al. 2011, section 5.1)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from matrixrl import Agent, MatrixRL, make, run_seeds
from matrixrl.algorithms import DoublingMatrixRL
from small_worlds import phi_rows
from worlds import WORLDS, algorithm_with_data, learn, model_radii, random_batch


def test_restart_is_fresh_agents_with_n_2_4_8():
    """The paper's trick, against agents made by hand for each epoch."""
    env = make("river-swim", n_states=4, horizon=8)
    doubled = Agent(env, "doubling-matrix-rl", seed=3, radius="theorem").learn(14)
    start = 0
    for n in (2, 4, 8):
        fresh = MatrixRL(env, seed=0, radius="theorem", n_episodes=n)
        assert doubled.upper[start] == pytest.approx(fresh.algorithm.upper(fresh.algorithm.plan())[0])
        start += n


def test_keep_changes_the_constants_that_depend_on_n():
    """Pitfall of a bandit library: N changes in place and never reaches β."""
    agent = Agent(make("river-swim", n_states=4), DoublingMatrixRL(radius="theorem", keep_data=True), seed=0)
    radii = []
    for _ in range(8):
        radii.append(float(model_radii(agent.algorithm)[0, 0]))
        agent.learn(1)
    h, d = agent.problem.task.horizon, 8
    by_hand = [math.sqrt(2 * math.log(n * h / d) * d) for n in (2, 2, 6, 6, 6, 6, 14, 14)]
    np.testing.assert_allclose(radii, by_hand)
    assert agent.algorithm.model.design.counts.sum() == 8 * h  # nothing was forgotten


@pytest.mark.slow
def test_regret_is_within_a_constant_factor_of_knowing_n():
    known = run_seeds("river-swim", n_episodes=500, seeds=4, preset="optimistic", radius="theorem")
    for keep_data in (False, True):
        unknown = DoublingMatrixRL(radius="theorem", keep_data=keep_data)
        doubled = run_seeds("river-swim", agent=unknown, n_episodes=500, seeds=4)
        assert doubled.final_regret.mean() < 2.0 * known.final_regret.mean()


@pytest.mark.slow
def test_plans_are_few_and_regret_is_within_the_promised_factor():
    """O(d log T) plans: each needs ln det A to grow by ln(1 + κ), and ln det A <= d ln(1 + T/d)."""
    every = run_seeds("river-swim", n_episodes=600, seeds=4, preset="optimistic", set="normalised")
    d, steps = 12, 600 * 24
    for growth in (0.1, 1.0):
        rare = run_seeds(
            "river-swim", n_episodes=600, seeds=4, preset="optimistic", set="normalised", switch_growth=growth
        )
        assert max(rare.n_plans) <= 1 + d * math.log(1 + steps / d) / math.log1p(growth)
        assert max(rare.n_plans) < 600 / 2
        assert rare.final_regret.mean() <= math.sqrt(1 + growth) * every.final_regret.mean() * 1.1
        assert rare.optimistic_share == 1.0


@pytest.mark.parametrize("growth", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("name", ["tabular", "low rank"])
def test_a_plan_is_kept_exactly_until_the_determinant_grew_by_one_plus_kappa(name, growth):
    """Against the determinants of A_n from the visited pairs themselves."""
    world = WORLDS[name](3)
    rng = np.random.default_rng(0)
    algorithm, _ = algorithm_with_data(world, rng, episodes=0, switch_growth=growth)
    rows = phi_rows(world)
    matrix, planned_at, wanted, plans = np.eye(rows.shape[1]), None, [], []
    for _ in range(60):
        before = int(algorithm.n_plans[0])
        algorithm.plan()
        plans.append(int(algorithm.n_plans[0]) > before)
        determinant = np.linalg.det(matrix)
        wanted.append(planned_at is None or determinant >= (1 + growth) * planned_at)
        planned_at = determinant if wanted[-1] else planned_at
        batch = random_batch(world, rng, 1, world.mdp.horizon)
        learn(algorithm, world, batch)
        used = rows[world.features.phi.pairs(batch.states[0], batch.actions[0])]
        matrix = matrix + used.T @ used
    assert plans == wanted
    assert 2 < sum(wanted) < 55


def test_widths_of_a_kept_plan_are_at_most_the_promised_factor_of_the_current_ones():
    """Abbasi-Yadkori et al. 2011, Lemma 12; and a factor that is close to it is attained."""
    rng = np.random.default_rng(1)
    largest = 0.0
    for _ in range(200):
        data = rng.standard_normal((rng.integers(0, 20), 4))
        before = np.eye(4) + data.T @ data
        more = rng.standard_normal((1, 4)) * rng.exponential()
        after = before + more.T @ more
        growth = np.linalg.det(after) / np.linalg.det(before)
        queried = np.vstack([more, rng.standard_normal((5, 4))])
        kept, current = (np.einsum("qd,de,qe->q", queried, np.linalg.inv(m), queried) for m in (before, after))
        assert (kept <= growth * current * (1 + 1e-9)).all()
        largest = max(largest, float((kept / current / growth).max()))
    assert largest == pytest.approx(1.0)


def test_kappa_zero_plans_every_episode():
    assert run_seeds("river-swim", n_episodes=30, seeds=2, preset="optimistic").n_plans == [30, 30]


@pytest.mark.parametrize("kind", ["normalised", "tightest"])
@pytest.mark.parametrize("settings", [{"switch_growth": 0.5}, {"keep_data": False}, {"known_reward": False}], ids=str)
def test_resume_is_bitwise_here_too(settings, kind, tmp_path):
    name = "doubling-matrix-rl" if "keep_data" in settings else "matrix-rl"
    whole, part = (
        Agent(make("river-swim", n_states=4), name, seed=1, preset="tuned", set=kind, **settings) for _ in range(2)
    )
    uninterrupted = whole.learn(30)
    for _ in range(3):
        part.learn(10)
        part.save(tmp_path / "a")
        part = Agent.load(tmp_path / "a", env=make("river-swim", n_states=4))
    np.testing.assert_array_equal(part.history.upper, uninterrupted.upper)
    np.testing.assert_array_equal(part.history.returns, uninterrupted.returns)
    assert part.algorithm.n_plans.tolist() == whole.algorithm.n_plans.tolist()
