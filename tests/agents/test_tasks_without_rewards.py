"""A task need not know its rewards, and agents then learn them without being told to."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import Agent, FiniteMDP, InvalidInput, KernelMatrixRL, MatrixRL, Task, make, run_seeds
from matrixrl.algorithms import UCMatrixRL
from matrixrl.algorithms.baselines import BASELINES, PSRL
from matrixrl.problems import Problem

S, A, H = 4, 2, 3
SIZES = {"n_states": S, "n_actions": A, "horizon": H}
STEP = 1  # episodes of the two bandits have one step


def told(agent, n_episodes=4, *, ends=False):
    """Tell an agent about random episodes, and return it."""
    rng = np.random.default_rng(0)
    for _ in range(n_episodes):
        episode, obs = agent.begin_episode(), int(rng.integers(S))
        while not episode.is_finished:
            following = int(rng.integers(S))
            terminated = ends and bool(rng.random() < 0.3)
            episode.observe(obs, int(rng.integers(A)), float(rng.random()), following, terminated)
            obs = following
        episode.end()
    return agent


def assert_same(one, other):
    for name, array in one.algorithm.state().items():
        np.testing.assert_array_equal(array, other.algorithm.state()[name], err_msg=name)
    np.testing.assert_array_equal(one.policy.table, other.policy.table)


@pytest.mark.parametrize("name", ["matrix-rl", "kernel-matrix-rl", *BASELINES])
def test_every_agent_learns_as_with_a_table_of_zeros_that_it_does_not_look_at(name, tmp_path):
    horizon = STEP if name in ("lin-ucb", "kernel-ucb") else H
    own, zeros = Task(n_states=S, n_actions=A, horizon=horizon), Task(np.zeros((S, A)), horizon)
    agent, other = Agent(own, name, seed=0), Agent(zeros, name, known_reward=False, seed=0)
    assert agent.settings.known_reward is False
    assert_same(told(agent), told(other))
    agent.save(tmp_path / "a")
    loaded = Agent.load(tmp_path / "a")
    assert loaded.problem.task.knows_reward is False
    assert_same(told(agent), told(loaded))


@pytest.mark.parametrize("made", [{"set": "normalised"}, {"preset": "tuned"}, {"switch_growth": 0.5}])
def test_other_forms_of_matrix_rl(made):
    assert_same(
        told(MatrixRL(Task(**SIZES), seed=0, **made)),
        told(MatrixRL(Task(np.zeros((S, A)), H), known_reward=False, seed=0, **made)),
    )


def test_the_summary_says_that_rewards_are_learned():
    assert str(MatrixRL(Task(**SIZES), seed=0)) == (
        "<matrix-rl on Task: 4 states, 2 actions, 3 steps, rewards learned; 0 episodes>"
    )
    assert "learned" not in str(MatrixRL(make("river-swim"), seed=0))
    assert "rewards learned; 0 episodes" in str(MatrixRL(make("river-swim"), known_reward=False, seed=0))


@pytest.mark.parametrize(
    "make_agent",
    [
        lambda: MatrixRL(Task(**SIZES), known_reward=True),
        lambda: KernelMatrixRL(Task(**SIZES), known_reward=True),
        lambda: Agent(Task(**SIZES), PSRL(known_reward=True)),
        lambda: UCMatrixRL(known_reward=True).start(Problem.of(Task(**SIZES)), seeds=[0]),
    ],
)
def test_an_agent_that_is_to_know_rewards_says_what_to_pass(make_agent):
    with pytest.raises(InvalidInput, match=r"reward must be given .*known_reward=False"):
        make_agent()


def test_known_rewards_are_used_by_default_and_not_if_they_are_to_be_learned():
    reward = np.random.default_rng(0).random((S, A))
    assert MatrixRL(Task(reward, H), seed=0).settings.known_reward is True
    assert MatrixRL(Task(reward, H), known_reward=False, seed=0).settings.known_reward is False
    known = run_seeds("river-swim", n_episodes=3, seeds=1)
    np.testing.assert_array_equal(known.upper, run_seeds("river-swim", n_episodes=3, seeds=1, known_reward=True).upper)


@pytest.mark.parametrize("span", [(0.0, 1.0), (-2.0, 3.0), (1.0, 4.0), (-4.0, -1.0)])
def test_any_range_of_rewards(span):
    task = Task(**SIZES, reward_range=span)
    agent = MatrixRL(task, seed=0)
    episode = agent.begin_episode()
    for _ in range(H):
        episode.observe(0, 1, float(np.mean(span)), 1)
    assert episode.end().episode_return == pytest.approx(H * np.mean(span))
    shown = agent.certificate()
    assert H * span[0] - 1e-9 <= shown.lower <= shown.upper <= H * span[1] + 1e-9


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "reward must be given, or n_states and n_actions if rewards are learned"),
        ({"n_states": 3}, "reward must be given, or n_states and n_actions"),
        ({"n_states": 0, "n_actions": 2, "horizon": 3}, "n_states must be at least 1"),
        ({"n_states": 2.5, "n_actions": 2, "horizon": 3}, "n_states must be a whole number"),
        ({"n_states": 10**9, "n_actions": 10**6, "horizon": 3}, "n_states must fit in memory"),
        ({"n_states": 3, "n_actions": 2}, "horizon must be a whole number; got None"),
        (
            {"reward": np.zeros((3, 2)), "horizon": 3, "n_states": 4},
            r"n_states must be 3, as reward has shape \(3, 2\)",
        ),
        ({"reward": np.zeros((3, 2)), "horizon": 3, "n_actions": 4}, "n_actions must be 2, as reward has shape"),
        ({**SIZES, "may_terminate": True, "end_state": 3}, "end_state must be left out if the end state is added"),
        ({**SIZES, "may_terminate": 1}, "may_terminate must be true or false"),
        (
            {**SIZES, "may_terminate": True, "reward_range": (1.0, 2.0)},
            "reward_range must contain 0 if episodes can end",
        ),
    ],
)
def test_bad_sizes(arguments, words):
    with pytest.raises(InvalidInput, match=words):
        Task(**arguments)


def test_sizes_may_be_said_together_with_rewards():
    assert Task(np.zeros((3, 2)), 5, n_states=3, n_actions=2).knows_reward
    with pytest.raises(InvalidInput, match="reward must be given"):
        FiniteMDP(np.full((2, 1, 2), 0.5), None, 3)


@pytest.mark.parametrize("settings", [{}, {"set": "normalised"}])
def test_an_end_state_that_is_added_is_the_one_that_a_user_would_add(settings, tmp_path):
    added = Task(**SIZES, may_terminate=True, start=[0.5, 0.2, 0.2, 0.1])
    assert (added.n_states, added.n_observed, added.end_state) == (S + 1, S, S)
    assert added.start.tolist() == [0.5, 0.2, 0.2, 0.1, 0.0]
    by_hand = Task(np.zeros((S + 1, A)), H, end_state=S, start=[0.5, 0.2, 0.2, 0.1, 0.0])
    agent = told(MatrixRL(added, seed=0, **settings), ends=True)
    assert_same(agent, told(MatrixRL(by_hand, known_reward=False, seed=0, **settings), ends=True))
    agent.save(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a")
    assert loaded.problem.task.end_words == added.end_words
    assert_same(told(agent, ends=True), told(loaded, ends=True))


def test_a_terminated_episode_of_a_task_without_an_end_state_says_how_to_add_one():
    agent = MatrixRL(Task(**SIZES), seed=0)
    episode = agent.begin_episode()
    with pytest.raises(InvalidInput, match=r"terminated must be False.*may_terminate=True"):
        episode.observe(0, 0, 0.0, 1, terminated=True)
    assert episode.stage == 0
