"""YW19 (1): regret by exact evaluation equals regret by playing, and is never the cumulative reward."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import run_seeds
from matrixrl.envs import RiverSwim
from matrixrl.problems import RegretEvaluator, evaluate


@pytest.mark.slow
def test_exact_regret_is_the_mean_of_realised_shortfall():
    """Over 500 episodes of 64 seeds the two differ by noise only (5 standard errors: 1 in a million)."""
    result = run_seeds("river-swim", n_episodes=500, seeds=64, preset="tuned")
    realised = result.optimal_value - result.returns
    difference = (realised - result.regret).sum(axis=1)
    standard_error = difference.std(ddof=1) / np.sqrt(len(difference))
    assert abs(difference.mean()) < 5 * standard_error


def test_the_optimal_policy_has_no_regret_and_the_worst_has_all_of_it():
    mdp = RiverSwim(6, 24).mdp
    judge = RegretEvaluator(mdp)
    stay_left = np.zeros((1, 24, 6), dtype=int)
    value = evaluate(mdp, stay_left[0])[0, 0]
    assert value == pytest.approx(24 * 0.005)
    assert judge.regret(stay_left)[0] == pytest.approx(judge.optimal_value - value)
    assert judge.regret(judge.solution.policy[None])[0] == 0.0


@pytest.mark.parametrize(("n_states", "horizon", "value"), [(4, 20, 8.271), (6, 24, 5.517), (12, 48, 5.078)])
def test_river_swim_has_the_published_optimum(n_states, horizon, value):
    assert RegretEvaluator(RiverSwim(n_states, horizon).mdp).optimal_value == pytest.approx(value, abs=5e-4)


@pytest.mark.slow
def test_headline_regret_on_river_swim():
    """The figures of the README in a smaller form: the paper's ball learns nothing, the cut one learns."""
    common = {"n_episodes": 400, "seeds": 4, "preset": "optimistic", "radius": "theorem"}
    paper = run_seeds("river-swim", set="frobenius", **common)
    ours = run_seeds("river-swim", set="normalised", **common)
    tuned = run_seeds("river-swim", n_episodes=1000, seeds=8, preset="tuned")
    assert paper.final_regret.mean() > 0.95 * 400 * paper.optimal_value
    assert ours.final_regret.mean() < 0.7 * paper.final_regret.mean()
    assert ours.optimistic_share == 1.0
    assert paper.optimistic_share == 1.0
    assert tuned.final_regret.mean() < 80


@pytest.mark.slow
def test_linear_mdp_normalised_is_a_hundred_times_better():
    common = {"n_episodes": 300, "seeds": 2, "preset": "optimistic", "radius": "theorem"}
    paper = run_seeds("linear-mdp", set="frobenius", **common)
    ours = run_seeds("linear-mdp", set="normalised", **common)
    assert ours.final_regret.mean() < paper.final_regret.mean() / 100
    assert ours.optimistic_share == 1.0
