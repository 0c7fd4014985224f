from __future__ import annotations

import numpy as np
import pytest

import matrixrl
from matrixrl import InvalidInput, MatrixRL, Task
from matrixrl.problems import solve


def river(**options):
    return MatrixRL("river-swim", env_settings={"n_states": 4}, seed=3, **options)


def play(episode, world, rng):
    """Play an episode from its plan in a known MDP."""
    state = 0
    while not episode.is_finished:
        action = episode.act(state)
        following = int(rng.choice(4, p=world.transitions.law()[state, action]))
        episode.observe(state, action, float(world.task.reward[state, action]), following)
        state = following
    episode.end()


def test_what_is_learned_does_not_depend_on_whose_plan_was_played():
    """The same steps teach the same, whether a plan was shared or made for each episode."""
    mdp = matrixrl.make("river-swim", n_states=4).unwrapped.mdp
    own, shared = river(), river()
    ahead = shared.plan_ahead()
    for k in range(6):
        episode = shared.begin_episode(ahead)
        play(episode, mdp, np.random.default_rng(k))
        steps, other = episode_steps(k, mdp, ahead, shared), own.begin_episode()
        for step in steps:
            other.observe(*step)
        other.end()
    assert np.array_equal(own.algorithm.model.counts.totals(), shared.algorithm.model.counts.totals())
    assert own.history.returns.tolist() == shared.history.returns.tolist()


def episode_steps(seed, mdp, ahead, agent):
    """Return the steps that `play` takes with a seed."""
    rng, state, steps = np.random.default_rng(seed), 0, []
    for stage in range(mdp.horizon):
        action = int(ahead.plan.policy[0, stage, state])
        following = int(rng.choice(4, p=mdp.transitions.law()[state, action]))
        steps.append((state, action, float(mdp.task.reward[state, action]), following))
        state = following
    return steps


def test_a_shared_plan_says_how_late_it_is():
    agent = river()
    mdp = matrixrl.make("river-swim", n_states=4).unwrapped.mdp
    ahead = agent.plan_ahead()
    play(agent.begin_episode(ahead), mdp, np.random.default_rng(0))
    play(agent.begin_episode(ahead), mdp, np.random.default_rng(1))
    assert agent._queue.delay == 1


@pytest.mark.parametrize("options", [{}, {"stage_dependent": True}])
def test_bounds_of_actions_hold_and_those_of_the_start_contain_the_certificate(options):
    agent = river(preset="optimistic", **options)
    mdp = matrixrl.make("river-swim", n_states=4).unwrapped.mdp
    agent.learn(n_episodes=300)
    tables = agent.action_tables(agent.plan_ahead())
    solution = solve(mdp)
    q = mdp.task.reward[None] + np.einsum("sat,ht->hsa", mdp.transitions.law(), solution.values[1:])
    assert (tables.lower <= q + 1e-9).all()
    assert (q <= tables.upper + 1e-9).all()
    bounds = agent.algorithm.certifier.certify(agent.algorithm.certifier.safest_plan())
    assert tables.lower[0, 0].max() == pytest.approx(bounds.lower[0], rel=1e-9)
    assert tables.upper[0, 0].max() >= bounds.upper[0]  # which is a claim on one policy, not on all actions
    assert (tables.scores[0, 0] <= tables.scores[0, 0, tables.policy[0, 0]] + 1e-9).all()


def test_bounds_of_actions_are_in_the_unit_of_the_rewards():
    """Rewards 10·r − 5 have bounds 10·Q − 5·(H − h)."""
    found = []
    for low, high in ((0.0, 1.0), (-5.0, 5.0)):
        task = Task(n_states=3, n_actions=2, horizon=4, reward_range=(low, high))
        agent = MatrixRL(task, seed=0)
        for k in range(20):
            episode = agent.begin_episode()
            for h in range(4):
                reward = low + (high - low) * ((k + h) % 2)
                episode.observe(h % 3, k % 2, reward, (h + 1) % 3)
            episode.end()
        found.append(agent.action_tables(agent.plan_ahead()))
    left = np.arange(4, 0, -1.0)[:, None, None]
    for name in ("lower", "upper"):
        assert np.allclose(getattr(found[1], name), 10.0 * getattr(found[0], name) - 5.0 * left)


def test_forbidden_actions_have_no_bounds():
    task = Task(n_states=2, n_actions=3, horizon=2, allowed=[[True, False, True], [True, True, True]])
    tables = MatrixRL(task, seed=0).action_tables(MatrixRL(task, seed=0).plan_ahead())
    assert np.isnan(tables.lower[:, 0, 1]).all()
    assert np.isneginf(tables.scores[:, 0, 1]).all()
    assert np.isfinite(tables.upper[:, 0, [0, 2]]).all()


def test_a_noted_answer_can_time_out_and_has_its_gap():
    task = Task(n_states=2, n_actions=3, horizon=3, may_terminate=True)
    agent = MatrixRL(task, seed=0)
    episode = agent.begin_episode(agent.plan_ahead())
    episode.note_answer(1, 2, allowed=[0, 2])
    record = episode.time_out(0.25)
    assert record is not None
    assert record.episode_return == 0.25
    assert agent.guarantee
    assert agent.bound().gaps == 0.0  # nothing is known of any action yet


def test_a_noted_answer_must_have_been_allowed():
    agent = MatrixRL(Task(n_states=2, n_actions=3, horizon=3), seed=0)
    with pytest.raises(InvalidInput, match="action must be one of those"):
        agent.begin_episode().note_answer(1, 1, allowed=[0, 2])
