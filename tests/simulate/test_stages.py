"""Runs of staged and discounted problems: compiled, NumPy and agents play the same, and results say what they are."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from agents.contract import WORLDS
from matrixrl import MatrixRL, evaluate, run_seeds, solve
from matrixrl.errors import CheckpointError
from matrixrl.play import Simulation, inspect_problem
from matrixrl.play.resume import restore_simulation, save_simulation
from matrixrl.play.video import Recorder
from small_worlds import calendar

SAME = {"rtol": 1e-12, "atol": 1e-10}  # sums of some hundred terms, in another order
DISCOUNTED = ("discounted stages", "endless")
SETTINGS = [
    {},
    {"known_reward": False},
    {"set": "normalised"},
    {"set": "likelihood", "switch_growth": 0.5},
    {"preset": "tuned"},
    {"preset": "tuned", "ties": "estimate", "known_reward": False},
]


def world(name):
    return WORLDS[name]().unwrapped.mdp


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("name", ["stages", *DISCOUNTED])
def test_compiled_numpy_and_agents_play_the_same(name, settings):
    """Returns, regret, values of plans and certificates of one seed, by three routes."""
    mdp, count = world(name), 25
    fast, slow = (
        run_seeds(mdp, n_episodes=count, seeds=[4], certify=True, compiled=compiled, **settings)
        for compiled in (True, False)
    )
    agent = MatrixRL(mdp, seed=4, n_episodes=count, **settings)
    history = agent.learn(count, certify=True)
    assert fast.discount == slow.discount == mdp.task.discount
    np.testing.assert_array_equal(fast.lengths, slow.lengths)
    np.testing.assert_allclose(fast.returns, slow.returns, **SAME)
    np.testing.assert_allclose(fast.regret, slow.regret, **SAME)
    np.testing.assert_allclose(fast.upper, slow.upper, atol=1e-6)
    np.testing.assert_allclose(fast.certified, slow.certified, atol=1e-6)
    np.testing.assert_allclose(history.returns, slow.returns[0], **SAME)
    np.testing.assert_allclose(history.regret, slow.regret[0], **SAME)
    np.testing.assert_allclose(history.upper, slow.upper[0], atol=1e-6)
    steps = agent._seen.all()[0]
    np.testing.assert_allclose(steps.returns(mdp.task.discount), history.returns, **SAME)
    plan = agent.algorithm.plan()
    value = float(evaluate(mdp, mdp.stages.own(plan.policy[0]))[0] @ mdp.task.start)
    regret = solve(mdp).start_value - value - mdp.task.tail * mdp.task.reward_range[0]
    again = MatrixRL(mdp, seed=4, n_episodes=count, **settings)
    again.learn(count)
    assert again.learn(1).regret[-1] == pytest.approx(regret, abs=1e-10)


@pytest.mark.parametrize("name", ["stages", *DISCOUNTED])
def test_returns_are_sums_of_discounted_rewards(name):
    """Without noise, what an episode earns is its mean reward along the path, from its definition."""
    mdp = copy.copy(world(name))
    mdp.noisy_rewards = False
    for compiled in (True, False):
        run = Simulation(mdp, n_episodes=30, seeds=[1, 2], compiled=compiled)
        while run.done < 30:
            run.advance(1)
            last = run.last
            rewards = mdp.task.reward[last.states[:, 0, : mdp.horizon], last.actions[:, 0]]
            weights = mdp.task.discount ** np.arange(mdp.horizon)
            np.testing.assert_allclose(last.returns[:, 0], rewards @ weights, **SAME)


@pytest.mark.parametrize("certify", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_run_is_resumed_bit_for_bit(certify, compiled):
    mdp = world("discounted stages")
    options = {"n_episodes": 20, "seeds": [3, 5], "certify": certify, "compiled": compiled}
    whole = Simulation(mdp, **options).run()
    head = Simulation(mdp, window=range(8), **options)
    head.run()
    tail = Simulation(mdp, window=range(8, 20), **options)
    restore_simulation(tail, save_simulation(head))
    found = tail.run()
    for name in ("returns", "regret", "upper", "certified"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name)[:, 8:])
    for other, words in (
        (calendar(n_states=5, horizon=6), "."),
        (WORLDS["stages"]().unwrapped.mdp, "discount"),
    ):
        with pytest.raises(CheckpointError, match=words):
            restore_simulation(Simulation(other, window=range(8, 20), **options), save_simulation(head))


def test_the_summary_says_what_was_played():
    result = run_seeds(world("discounted stages"), n_episodes=5, seeds=2)
    summary = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert (summary["n_actions"], summary["stage_classes"], summary["horizon"], summary["discount"]) == (3, 3, 6, 0.8)
    assert summary["d"] == 5 * 3 * 3
    plain = run_seeds("river-swim", n_episodes=5, seeds=1).as_dict()
    assert plain["discount"] == 1.0
    assert "stage_classes" not in plain


def test_an_inspection_counts_the_actions_of_the_user_and_classes():
    found = inspect_problem(world("discounted stages"))
    assert (found.sizes["n_actions"], found.sizes["stage_classes"], found.sizes["horizon"]) == (3, 3, 6)
    weight = (1.0 - 0.8**6) / 0.2
    assert found.optimal_value == pytest.approx(solve(world("discounted stages")).start_value)
    assert [b["largest"] for b in found.bounds] == pytest.approx([b["n_episodes"] * weight for b in found.bounds])
    endless = inspect_problem(world("endless"))
    assert endless.bounds[0]["largest"] == pytest.approx(endless.bounds[0]["n_episodes"] * 1.5 / 0.4)
    assert endless.optimal_value == pytest.approx(solve(world("endless")).start_value)
    n = endless.informative_from
    explicit = MatrixRL(world("endless"), seed=0).algorithm.claims.regret_bound
    assert explicit(n) < n / 0.4 <= explicit(n - 1) * n / (n - 1)


@pytest.mark.parametrize("options", [{"stage_dependent": True, "horizon": 5}, {"discount": 0.8}], ids=str)
def test_an_episode_of_gymnasium_is_recorded(options, tmp_path):
    run = Simulation("gym:FrozenLake-v1", n_episodes=5, seeds=[0], env_settings=options)
    run.run()
    video = Recorder("gym:FrozenLake-v1", options, tmp_path / "video").record(run.algorithm)
    assert video.path.stat().st_size > 0
