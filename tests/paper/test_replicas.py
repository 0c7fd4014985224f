"""Replicas: those that run together are the runs of the same seeds one by one, and the agent's own."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import MatrixRL, make, run_seeds
from matrixrl.core import RADII, SETS
from matrixrl.envs import ENVIRONMENTS
from tolerances import ALGEBRA

SMALL = {
    "river-swim": {"n_states": 5, "horizon": 12},
    "deep-sea": {"size": 5},
    "combination-lock": {"n_states": 5, "horizon": 9},
    "four-rooms": {"size": 5, "horizon": 15},
    "linear-mdp": {"n_states": 30, "d": 6, "horizon": 5},
    "soft-grid": {"side": 12, "regions": (3, 3), "horizon": 6},
    "grid-world": {"size": 4, "horizon": 8},
    "double-integrator": {"positions": 7, "speeds": 5, "horizon": 6},
    "lost-sales": {"capacity": 5, "mean_demand": 2.0, "horizon": 6},
    "queue-admission": {"servers": 2, "capacity": 3, "horizon": 10},
    "perishable-stock": {"max_order": 3, "mean_demand": 1.5, "horizon": 6},
    "dynamic-pricing": {"capacity": 3, "horizon": 4, "prices": (40.0, 80.0, 150.0)},
    "emission-river": {"n_latent": 3, "n_states": 9, "horizon": 5},
    "linear-lock": {"length": 2, "n_actions": 2, "n_views": 2},
    "hypercube": {"dimension": 3, "horizon": 4},
    "factors": {"n_factors": 3, "n_states": 9, "n_actions": 3, "d": 4, "horizon": 5},
    "gym:FrozenLake-v1": {"horizon": 15},
}
LARGE = {"icu-sepsis"}  # it has one size, which balls take minutes for


TUNED = {"preset": "tuned", "exploration": None}

CASES = [
    *[(name, {"set": kind}) for name in SMALL for kind in SETS],
    *[("river-swim", {"radius": radius}) for radius in RADII],
    *[("linear-mdp", {"radius": radius}) for radius in RADII],
    *[(name, {"set": "normalised", "known_reward": False}) for name in SMALL],
    *[(name, {}) for name in ("river-swim", "linear-mdp", "gym:FrozenLake-v1")],
    *[("four-rooms", {"known_reward": False})],
    *[
        ("river-swim", {"agent": "doubling-matrix-rl", "radius": "theorem", "keep_data": keep})
        for keep in (True, False)
    ],
    *[(name, {"set": "normalised", "switch_growth": 0.5}) for name in ("river-swim", "linear-mdp")],
    *[("river-swim", {"switch_growth": 0.5})],
    *[("soft-grid", {"columns": 60, "column_draw": draw, **TUNED}) for draw in ("resampled", "fixed")],
]


@pytest.mark.parametrize(("name", "changes"), CASES, ids=str)
def test_batched_equals_looped(name, changes):
    settings = {"exploration": 0.5, **changes}
    seeds = [3, 1, 4]
    together = run_seeds(name, n_episodes=20, seeds=seeds, env_settings=SMALL[name], **settings)
    for i, seed in enumerate(seeds):
        alone = run_seeds(name, n_episodes=20, seeds=[seed], env_settings=SMALL[name], **settings)
        np.testing.assert_allclose(alone.regret[0], together.regret[i], atol=ALGEBRA)
        np.testing.assert_allclose(alone.returns[0], together.returns[i], atol=ALGEBRA)
        np.testing.assert_allclose(alone.upper[0], together.upper[i], atol=ALGEBRA)


@pytest.mark.parametrize("name", SMALL)
def test_the_agent_on_the_gymnasium_environment_plays_the_same_episodes(name):
    together = run_seeds(name, n_episodes=50, seeds=[7, 8], env_settings=SMALL[name], preset="tuned")
    for i, seed in enumerate([7, 8]):
        agent = MatrixRL(make(name, **SMALL[name]), seed=seed, preset="tuned", n_episodes=50)
        history = agent.learn(50)
        np.testing.assert_allclose(history.regret, together.regret[i], atol=ALGEBRA)
        np.testing.assert_allclose(history.returns, together.returns[i], atol=ALGEBRA)


def test_every_environment_of_ours_is_covered_here():
    assert set(ENVIRONMENTS) <= set(SMALL) | LARGE


def test_replicas_share_no_data():
    """Different seeds differ; adding a replica does not change the others."""
    few = run_seeds("river-swim", n_episodes=40, seeds=[0, 1], preset="tuned")
    more = run_seeds("river-swim", n_episodes=40, seeds=[0, 1, 2, 3, 4], preset="tuned")
    np.testing.assert_allclose(few.regret, more.regret[:2], atol=ALGEBRA)
    assert np.abs(more.returns[0] - more.returns[1]).max() > 0.1
