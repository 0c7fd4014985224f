"""docs/proofs.md, 3: data that are a selection by their outcomes prove nothing, and the agent says so."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from matrixrl import InvalidInput, MatrixRL, Task, make
from matrixrl.records import Guarantee
from printed_ball import PrintedColumnBall

HORIZON, END = 8, 2
CHANCE = "which data are learned from may depend on what was observed"


def coin_task():
    """State 0 ends the episode or leads to state 1, each with probability ½; state 1 pays 1 a step: V* = 3.5."""
    return Task([[0.0], [1.0], [0.0]], HORIZON, start=[1.0, 0.0, 0.0], end_state=END)


def play_side_by_side(agent, n_episodes, *, in_order):
    """Open episodes together; end each as soon as it is over, or all of them in the order of their begin."""
    rng = np.random.default_rng(0)
    opened = [agent.begin_episode() for _ in range(n_episodes)]
    for episode in opened:
        episode.observe(0, 0, 0.0, *((0, True) if rng.random() < 0.5 else (1, False)))
    for episode in [] if in_order else opened:
        if episode.is_finished:
            episode.end()
    if in_order:
        for episode in opened:
            while not episode.is_finished:
                episode.observe(1, 0, 1.0, 1)
            episode.end()


def test_a_selection_by_outcomes_gives_wrong_bounds_and_no_claim():
    """300 episodes begin together; those that ended after one step are learned from first, and are all alike."""
    agent = MatrixRL(coin_task(), seed=0, late_episodes="learn")
    play_side_by_side(agent, 300, in_order=False)
    found = agent.certificate()
    assert found.upper < 3.5 - 1.0  # wrong: V* = 3.5
    assert CHANCE in found.guarantee.reason
    assert CHANCE in agent.guarantee.reason


def test_episodes_that_overlap_are_proven_in_the_order_of_their_begin():
    agent = MatrixRL(coin_task(), seed=0)
    play_side_by_side(agent, 300, in_order=True)
    found = agent.certificate()
    assert found.lower <= 3.5 <= found.upper
    assert found.guarantee
    assert agent.guarantee


def test_an_episode_that_is_abandoned_after_a_step_withdraws_the_proof(tmp_path):
    agent = MatrixRL(coin_task(), seed=0)
    agent.begin_episode().abandon()
    assert agent.guarantee  # nothing was observed
    episode = agent.begin_episode()
    episode.observe(0, 0, 0.0, 1)
    episode.abandon()
    words = f"an episode was abandoned after 1 of its steps: {CHANCE}"
    assert agent.guarantee == agent.certificate().guarantee == Guarantee(False, words)
    agent.save(tmp_path / "agent")
    assert MatrixRL.load(tmp_path / "agent").guarantee.reason == words


def test_an_interrupt_is_no_selection():
    agent = MatrixRL(make("river-swim", n_states=3, horizon=4), seed=0)

    def stop(*_, **__):
        raise KeyboardInterrupt

    act, agent.algorithm.act = agent.algorithm.act, stop
    with pytest.raises(KeyboardInterrupt):
        agent.learn(1)
    agent.algorithm.act = act
    agent.learn(2)
    assert agent.guarantee


def test_the_assumptions_are_said_in_words():
    known = MatrixRL("river-swim", seed=0, delta=0.1).assumptions
    assert known.startswith("with probability 0.9, for all episodes at once, if P(s'|s,a) = φᵀM*ψ(s')")
    assert "in the order in which they were begun" in known
    assert "the given rewards are the expected ones" in known
    assert MatrixRL("river-swim", seed=0, set=PrintedColumnBall()).assumptions == ""
    learned = MatrixRL(make("linear-mdp", n_states=10, d=3), seed=0, known_reward=False).assumptions
    assert "learned rewards, mapped to [0, 1], have the mean φᵀθ*" in learned


class Gamble(gym.Env):
    """Action 1 pays 1 or, half of the time, -5, which is outside the declared range and stops `learn`."""

    observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)

    def __init__(self):
        self.coin = np.random.default_rng(3)  # not the generator that learn rewinds

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stage = 0
        return 0, {}

    def step(self, action):
        self.stage += 1
        if self.stage == 1:
            return (0 if action == 0 else int(1 + self.coin.integers(2))), 0.2, False, False, {}
        return 0, 1.0, False, self.stage == 2, {}


class Unlucky(Gamble):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, (-5.0 if obs == 2 else reward), terminated, truncated, info


def test_an_episode_that_ends_in_an_error_withdraws_the_proof():
    """Its error may be due to what was observed, as a reward outside the range is."""
    agent = MatrixRL(Unlucky(), horizon=2, reward_range=(0, 1), known_reward=False, seed=0)
    with pytest.raises(InvalidInput, match="reward must lie in"):
        agent.learn(200)
    assert "ended in an error after 0 of its steps" in agent.guarantee.reason
    assert not agent.certificate().guarantee


class LateError(Gamble):
    def step(self, action):
        if self.stage == 1 and self.coin.random() < 0.5:
            raise RuntimeError("the machine stopped")
        return super().step(action)


def test_an_error_after_a_step_withdraws_the_proof():
    agent = MatrixRL(LateError(), horizon=2, reward_range=(0, 1), known_reward=False, seed=0)
    with pytest.raises(RuntimeError):
        agent.learn(200)
    assert "ended in an error after 1 of its steps" in agent.guarantee.reason
