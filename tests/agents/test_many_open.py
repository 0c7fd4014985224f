"""A thousand open episodes: plans are shared and made once, and a save in the middle goes on bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agents.helpers import assert_same_agent, assert_same_arrays
from matrixrl import MatrixRL, Task
from matrixrl.algorithms import DoublingMatrixRL, UCMatrixRL
from matrixrl.core.greedy import random_rankings
from matrixrl.problems import Problem, tabular
from named_agents import AGENTS

SETTINGS = [
    {},
    {"set": "normalised"},
    {"preset": "tuned"},
    {"set": "normalised", "ties": "estimate"},
    {"set": "sandwich"},
    {"known_reward": False},
    {"set": "normalised", "ties": "estimate", "known_reward": False},
    {"set": "normalised", "ties": "estimate", "known_reward": False, "preset": "tuned"},
    {"compiled": True},
    {"compiled": True, "set": "normalised", "ties": "estimate"},
]


def world(n_actions=3):
    return tabular(n_states=5, n_actions=n_actions, horizon=6, seed=2).mdp


def tables(episodes):
    """Return the different policies and values that episodes hold, as objects."""
    return {id(e.data.plan.policy) for e in episodes}, {id(e.data.plan.values) for e in episodes}


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_plans_on_the_same_data_are_those_that_would_be_made_anew(settings):
    """The first, second and later plans between two updates against full plans with the same rankings."""
    agent, other = (MatrixRL(world(), seed=4, **{"switch_growth": 0.0} | settings) for _ in range(2))
    for _ in range(3):
        agent.learn(4)
        other.learn(4)
        fresh = other.algorithm
        for _ in range(6):
            plan = agent.algorithm.plan()
            wanted = fresh.make_plan(random_rankings(fresh.streams["ties"], 3))
            if fresh.budget is not None:
                wanted = replace(fresh.budget.choose(wanted), made=plan.made)
            assert_same_arrays(plan.arrays(), wanted.arrays())
    assert (agent.algorithm.n_plans == 12 + 18).all()


def test_ties_are_still_broken_at_random():
    """Without data all actions are equal: a thousand episodes take all of them, about equally often."""
    agent = MatrixRL(world(), seed=0, known_reward=False)
    taken = np.bincount([agent.begin_episode().act(0) for _ in range(1000)], minlength=3)
    assert (np.abs(taken - 1000 / 3) < 5 * np.sqrt(1000 * 2 / 9)).all()


@pytest.mark.parametrize(
    ("settings", "most"),
    [({"preset": "optimistic"}, 2), ({}, 2 + 2 + 1), ({"set": "normalised", "ties": "estimate"}, 2 + 1)],
    ids=str,
)
def test_a_model_that_did_not_change_is_backed_up_twice_at_most(settings, most):
    """For the first plan, and for the second, which keeps Q for all others; once for what the budget charges with."""
    agent, calls = MatrixRL(world(), seed=0, **settings), []
    model = agent.algorithm.model
    bounds = model.bounds
    model.bounds = lambda clock, *levels: calls.append(levels) or bounds(clock, *levels)
    for _ in range(3):
        calls.clear()
        for _ in range(50):
            agent.begin_episode()
        assert len(calls) == most
        episode = agent.open_episodes[0]
        episode.observe(0, 0, 0.0, 1)
        episode.end()


@pytest.mark.parametrize("change", ["learn", "purpose", "restart", "load"])
def test_plans_are_made_anew_once_anything_changed(change, tmp_path):
    options = {"known_reward": False, "set": "normalised", "seed": 0}
    kind = AGENTS["doubling-matrix-rl" if change == "restart" else "matrix-rl"]
    agent = kind(Task(np.zeros((4, 2)), 3), **options)
    for _ in range(4):
        agent.begin_episode().abandon()  # Q is kept now
    episode = agent.begin_episode()
    for _ in range(3):
        episode.observe(0, 0, 0.5, 1)
    episode.end()
    if change == "restart":
        agent.begin_episode()
        for _ in range(3):
            agent.observe(2, 1, 0.5, 3)
        agent.end_episode()
    if change == "purpose":
        agent.algorithm.certifier.purpose = "certificate"
        agent.begin_episode().abandon()
        agent.algorithm.certifier.purpose = "regret"
    if change == "load":
        agent.save(tmp_path / "a")
        agent = MatrixRL.load(tmp_path / "a")
    for _ in range(3):
        plan = agent.algorithm.plan()
        wanted = agent.algorithm.advice()
        np.testing.assert_array_equal(plan.values, wanted.values)


def test_a_rewound_plan_leaves_nothing_behind():
    """`mark`, plan and undo, as after an interrupt: the next plans are as if nothing had happened."""
    one, other = (DoublingMatrixRL().start(Problem.of(world()), [0]) for _ in range(2))
    for _ in range(3):
        undo = one.mark()
        one.plan()
        one.plan()
        undo()
        for _ in range(3):
            assert_same_arrays(one.plan().arrays(), other.plan().arrays())


class Own(UCMatrixRL):
    """A user's subclass whose plans are its own."""

    made = 0

    def make_plan(self, rankings=None):
        self.made += 1
        return super().make_plan(rankings)


def test_plans_of_a_users_subclass_are_always_its_own():
    algorithm = Own(set="normalised").start(Problem.of(world()), [0])
    for _ in range(5):
        algorithm.plan()
    assert algorithm.made == 5


def play(episodes, rng, n_steps):
    """Tell random outcomes to open episodes in a random order."""
    for _ in range(n_steps):
        for i in rng.permutation(len(episodes)):
            episode = episodes[i]
            if episode.is_open and not episode.is_finished:
                state = int(rng.integers(5)) if episode.stage else 0
                episode.observe(state, episode.act(state), 0.0, int(rng.integers(5)))


def finish(agent, seed):
    """Play all open episodes to their end in a random order, end them, and begin more."""
    rng = np.random.default_rng(seed)
    episodes = list(agent.open_episodes)
    play(episodes, rng, 6)
    for i in rng.permutation(len(episodes)):
        episodes[i].end()
    agent.learn(2)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"switch_growth": 0.5, "known_reward": False}], ids=str)
def test_a_save_in_the_middle_of_a_thousand_episodes_goes_on_bit_for_bit(settings, tmp_path):
    """In each of ten rounds some of the oldest episodes are ended, and a young one that has to wait."""
    agent, rng = MatrixRL(world(), seed=0, **settings), np.random.default_rng(1)
    for _ in range(10):
        begun = [agent.begin_episode() for _ in range(110)]
        play(begun, rng, 2)
        for episode in (*agent.open_episodes[:9], begun[50]):
            episode.end()
        begun[60].act(3)
    assert len(agent.open_episodes) == 1000
    assert agent.n_waiting == 9
    agent.save(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a", world())
    assert [e.number for e in loaded.open_episodes] == [e.number for e in agent.open_episodes]
    kinds = [len(kind) for kind in tables(agent.open_episodes)]
    assert [len(kind) for kind in tables(loaded.open_episodes)] == kinds
    assert kinds[1] <= 3 * 10
    assert (tmp_path / "a").stat().st_size < 150_000 + 1_300 * sum(kinds)
    loaded.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    for one in (agent, loaded):
        finish(one, seed=3)
    assert_same_agent(loaded, agent)
    assert agent.n_episodes == 1102
    assert agent.guarantee
