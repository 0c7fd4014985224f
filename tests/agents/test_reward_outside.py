"""Rewards outside the declared range: refused, clipped, or the range is widened and what was learned is re-scaled."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from agents.helpers import assert_same_agent
from continuum import line
from hostile import array_of, changed, members_of, npy
from matrixrl import Agent, CheckpointError, InvalidInput, KernelMatrixRL, MatrixRL, Task, run_seeds
from matrixrl.agents.baselines import BASELINE_AGENTS
from matrixrl.problems import low_rank
from matrixrl.simulate import Simulation
from matrixrl.simulate.resume import restore_simulation, save_simulation

N_STATES, N_ACTIONS, HORIZON = 4, 2, 5
OUTSIDE = "learned_outside_rewards.npy"
BASELINES = sorted(set(BASELINE_AGENTS) - {"lin-ucb", "kernel-ucb"})  # those are for a horizon of 1


class Surprise(gym.Env):
    """A walk on a circle without a table; one step in ten pays 2.5 and one in ten −0.5, all others in [0, 1]."""

    observation_space = gym.spaces.Discrete(N_STATES)
    action_space = gym.spaces.Discrete(N_ACTIONS)
    horizon = HORIZON

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return 0, {}

    def step(self, action):
        self.state = (self.state + int(action)) % N_STATES
        u = self.np_random.random()
        reward = 2.5 if u < 0.1 else -0.5 if u < 0.2 else u
        return self.state, reward, False, False, {}


class SurpriseVectors(Surprise):
    observation_space = gym.spaces.Box(0.0, 3.0, (1,))

    def reset(self, *, seed=None, options=None):
        _, info = super().reset(seed=seed)
        return np.zeros(1, dtype=np.float32), info

    def step(self, action):
        state, *rest = super().step(action)
        return np.array([state], dtype=np.float32), *rest


def features(kind):
    if kind == "one-hot":
        return {}
    made = low_rank(n_states=N_STATES, n_actions=N_ACTIONS, d=3, seed=1).features
    return {"phi": made.phi, "psi": made.psi}


def play(agent, rng, episodes, rewards):
    """Tell the agent random steps with given rewards (episodes, H)."""
    for n in range(episodes):
        episode = agent.begin_episode()
        for h in range(HORIZON):
            s, a, t = rng.integers(N_STATES), rng.integers(N_ACTIONS), rng.integers(N_STATES)
            episode.observe(int(s), int(a), float(rewards[n, h]), int(t))
        episode.end()


def task(reward_range, **timing):
    return Task(np.zeros((N_STATES, N_ACTIONS)), HORIZON, reward_range=reward_range, **timing)


def drawn(rng, episodes=12):
    """Rewards in [0, 1] with a few in [−1, 3], the first of them in the third episode."""
    rewards = rng.random((episodes, HORIZON))
    rewards[2, 1], rewards[5, 0], rewards[5, 3], rewards[8, 4] = 3.0, -1.0, 2.0, 1.5
    return rewards


def test_a_reward_outside_is_refused_by_default_with_the_range_that_was_declared():
    agent = MatrixRL(task((0.0, 1.0)), known_reward=False, seed=0)
    episode = agent.begin_episode()
    words = r"reward must lie in \[0, 1\], the declared range of rewards; got 2.5\. .* reward_outside='clip' or 'widen'"
    with pytest.raises(InvalidInput, match=words):
        episode.observe(0, 0, 2.5, 0)
    assert episode.stage == 0
    episode.observe(0, 0, 1.0 + 1e-12, 0)  # rounding
    with pytest.raises(InvalidInput, match="reward must lie in"):
        MatrixRL(Surprise(), known_reward=False, seed=0).learn(20)
    with pytest.raises(InvalidInput, match="reward_outside must be one of error, clip, widen; got 'wide'"):
        MatrixRL(Surprise(), known_reward=False, reward_outside="wide")


@pytest.mark.parametrize("policy", ["clip", "widen"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, "1", None, 1e13])
def test_what_is_no_reward_at_all_is_always_refused(policy, bad):
    agent = MatrixRL(task((0.0, 1.0)), known_reward=False, reward_outside=policy, seed=0)
    with pytest.raises(InvalidInput, match="reward must be"):
        agent.begin_episode().observe(0, 0, bad, 0)


@pytest.mark.parametrize("settings", [{}, {"switch_growth": 0.5}], ids=str)
@pytest.mark.parametrize("kind", ["one-hot", "low rank"])
def test_widening_is_as_if_the_wide_range_had_been_declared_from_the_start(kind, settings):
    rewards = drawn(np.random.default_rng(3))
    settings = {**settings, **features(kind), "set": "normalised", "known_reward": False, "seed": 0}
    told = MatrixRL(task((-1.0, 3.0)), **settings)
    found = MatrixRL(task((0.0, 1.0)), reward_outside="widen", **settings)
    for agent in (told, found):
        play(agent, np.random.default_rng(4), len(rewards), rewards)
    assert found.problem.task.reward_range == (-1.0, 3.0)
    np.testing.assert_allclose(found.algorithm.reward_moment, told.algorithm.reward_moment, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found.algorithm.cross_moment, told.algorithm.cross_moment)
    np.testing.assert_array_equal(found.policy, told.policy)
    one, other = found.certificate(), told.certificate()
    assert (one.upper, one.lower) == pytest.approx((other.upper, other.lower), rel=1e-12)
    np.testing.assert_array_equal(found.history.returns, rewards.sum(axis=1))


def test_known_rewards_are_mapped_to_the_wider_range_too():
    known = Task(np.linspace(0.0, 1.0, 8).reshape(4, 2), HORIZON)
    wide = Task(known.reward, HORIZON, reward_range=(-1.0, 3.0))
    ball = {"set": "normalised", "seed": 0}
    found, told = MatrixRL(known, reward_outside="widen", **ball), MatrixRL(wide, **ball)
    for agent in (found, told):
        play(agent, np.random.default_rng(4), 12, drawn(np.random.default_rng(3)))
    assert found.certificate().upper == pytest.approx(told.certificate().upper, rel=1e-12)


def test_widening_says_that_bounds_start_anew():
    agent = MatrixRL(task((0.0, 1.0)), known_reward=False, reward_outside="widen", seed=0)
    rewards = drawn(np.random.default_rng(3))
    play(agent, np.random.default_rng(4), 2, rewards[:2])
    assert agent.guarantee is True
    play(agent, np.random.default_rng(5), 10, rewards[2:])
    words = (
        "2 rewards outside the declared range [0, 1] (the first in episode 3) widened it to [-1, 3]: bounds start "
        "again, and nothing is proven for a range that was chosen by data"
    )
    assert agent.guarantee == agent.certificate().guarantee == words


@pytest.mark.parametrize("discount", [1.0, 0.6])
def test_widening_keeps_the_plans_of_open_episodes_in_the_environments_unit(discount):
    agent = MatrixRL(task((0.0, 1.0), discount=discount), known_reward=False, reward_outside="widen", seed=0)
    play(agent, np.random.default_rng(4), 3, np.random.default_rng(0).random((3, HORIZON)))
    surprising, other = agent.begin_episode(), agent.begin_episode()  # learned from in this order
    before = agent.algorithm.upper(other._plan, np.array([2]))
    surprising.observe(0, 0, 2.0, 1)
    surprising.observe(1, 0, -1.0, 1)
    surprising.end()
    assert agent.algorithm.task.reward_range == (-1.0, 2.0)
    assert agent.algorithm.upper(other._plan, np.array([2])) == pytest.approx(before, rel=1e-12)
    other.observe(2, 0, 0.5, 1)
    assert other.end().upper == pytest.approx(float(before[0]), rel=1e-12)


def test_a_plan_of_the_old_range_is_not_played_again():
    agent = MatrixRL(task((0.0, 1.0)), known_reward=False, reward_outside="widen", switch_growth=1e6, seed=0)
    rewards = drawn(np.random.default_rng(3))
    play(agent, np.random.default_rng(4), 2, rewards)
    assert agent.algorithm.n_plans == 1
    play(agent, np.random.default_rng(4), 2, rewards[2:])
    assert agent.algorithm.n_plans == 2


@pytest.mark.parametrize("name", ["matrix-rl", "kernel-matrix-rl", *BASELINES])
def test_clipping_learns_from_the_nearest_reward_inside_and_reports_what_was_earned(name):
    rewards = drawn(np.random.default_rng(3))
    clipped, told = (
        Agent(task((0.0, 1.0)), name, known_reward=False, seed=0, reward_outside=policy) for policy in ("clip", "error")
    )
    play(clipped, np.random.default_rng(4), len(rewards), rewards)
    play(told, np.random.default_rng(4), len(rewards), rewards.clip(0.0, 1.0))
    for key, array in told.algorithm.state().items():
        np.testing.assert_array_equal(clipped.algorithm.state()[key], array, err_msg=key)
    np.testing.assert_array_equal(clipped.history.returns, rewards.sum(axis=1))
    words = "4 rewards outside the declared range [0, 1] (the first in episode 3) were clipped: the bounds hold for the"
    assert clipped.guarantee.startswith(words)


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_refuse_to_widen_before_they_play(name):
    with pytest.raises(InvalidInput, match=f"reward_outside must be 'error' or 'clip' for {name}"):
        Agent(task((0.0, 1.0)), name, reward_outside="widen")


def test_sampled_columns_refuse_to_widen_and_can_clip():
    with pytest.raises(InvalidInput, match="reward_outside must be 'error' or 'clip' for matrix-rl"):
        MatrixRL(line(), columns=50, reward_outside="widen")
    agent = MatrixRL(line(), columns=50, reward_outside="clip", known_reward=False, seed=0)
    episode = agent.begin_episode()
    episode.observe([0.0], 0, 9.0, [0.1])
    episode.end()
    assert "clipped" in agent.guarantee


@pytest.mark.parametrize("policy", ["clip", "widen"])
@pytest.mark.parametrize(
    ("make", "env"),
    [
        (lambda env, **o: MatrixRL(env, known_reward=False, **o), Surprise),
        (lambda env, **o: MatrixRL(env, known_reward=False, switch_growth=0.3, **o), Surprise),
        (lambda env, **o: KernelMatrixRL(env, known_reward=False, **o), Surprise),
        (lambda env, **o: KernelMatrixRL(env, reward_range=(0, 1), **o), SurpriseVectors),
    ],
    ids=["matrix-rl", "rare switching", "kernel", "vectors"],
)
def test_learn_survives_surprises_and_a_saved_agent_goes_on(make, env, policy, tmp_path):
    agent = make(env(), reward_outside=policy, seed=1)
    history = agent.learn(8)
    assert history.n_episodes == 8
    assert agent.algorithm.outside.count > 0
    low, high = agent.problem.task.reward_range
    assert (low, high) == ((0.0, 1.0) if policy == "clip" else (-0.5, 2.5))
    agent.save(tmp_path / "a")
    loaded = type(agent).load(tmp_path / "a", env())
    assert loaded.guarantee == agent.guarantee
    assert loaded.problem.reward_outside == policy
    agent.learn(5)
    loaded.learn(5)
    assert_same_agent(loaded, agent)


def test_an_agent_of_ask_and_tell_keeps_its_open_episode_with_a_surprise_in_it(tmp_path):
    agent = MatrixRL(task((0.0, 1.0)), known_reward=False, reward_outside="widen", seed=0)
    episode = agent.begin_episode()
    episode.observe(0, 0, 7.0, 1)
    agent.save(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a")
    for one in (agent, loaded):
        one.end_episode()
    assert_same_agent(loaded, agent)
    assert agent.problem.task.reward_range == (0.0, 7.0)


@pytest.mark.parametrize("policy", ["clip", "widen"])
def test_run_seeds_goes_on_and_says_so(policy):
    result = run_seeds(Surprise(), n_episodes=10, seeds=2, known_reward=False, reward_outside=policy)
    assert result.returns.max() > HORIZON * 0.5
    assert ("clipped" if policy == "clip" else "bounds start again") in result.guarantee


@pytest.mark.parametrize("policy", ["clip", "widen"])
def test_a_simulation_in_two_blocks_is_the_whole_one(policy):
    options = {
        "n_episodes": 8,
        "seeds": [0],
        "settings": {"known_reward": False},
        "reward_outside": policy,
    }
    whole = Simulation(Surprise(), **options).run()
    first = Simulation(Surprise(), window=range(4), **options)
    first.run()
    second = Simulation(Surprise(), window=range(4, 8), **options)
    restore_simulation(second, save_simulation(first))
    np.testing.assert_array_equal(second.run().upper, whole.upper[:, 4:])
    assert second.result().guarantee == whole.guarantee


def saved_after_surprises(policy, tmp_path):
    """Return the bytes of an agent with 8 episodes, the first surprise in one of them, and its array of surprises."""
    agent = MatrixRL(Surprise(), known_reward=False, reward_outside=policy, seed=1)
    agent.learn(8)
    agent.save(tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    return data, array_of(dict(members_of(data))[OUTSIDE])


def saved_without_surprises(policy, tmp_path):
    """Return the bytes of an agent that saw no reward outside [0, 1], and its array of surprises."""
    agent = MatrixRL(task((0.0, 1.0)), known_reward=False, reward_outside=policy, seed=0)
    play(agent, np.random.default_rng(4), 3, np.full((3, HORIZON), 0.5))
    agent.save(tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    return data, array_of(dict(members_of(data))[OUTSIDE])


COUNT, FIRST, DECLARED, NOW = (0,), (1,), (2, 3), (4, 5)


def refuse(data, array, edit, path, words):
    """Assert that a file with some numbers of its array of surprises edited, and a new digest, is not loaded."""
    for where, value in edit.items():
        array[list(where)] = value
    path.write_bytes(changed(data, {OUTSIDE: npy(array)}))
    with pytest.raises(CheckpointError, match=words):
        MatrixRL.load(path)


AFTER_SURPRISES = {
    "no count": {COUNT: 0},
    "no first episode": {FIRST: 0},
    "half a reward": {COUNT: 1.5},
    "half an episode": {FIRST: 1.5},
    "a negative count": {COUNT: -1},
    "a negative episode": {FIRST: -1},
    "an episode that was not played": {COUNT: 1, FIRST: 9},
    "more rewards than steps": {COUNT: 8 * HORIZON + 1},
    "more rewards than steps since the first": {COUNT: HORIZON + 1, FIRST: 8},
    "a wider range": {NOW: (-5.0, 5.0)},
    "a range without limits": {NOW: (-1e13, 1e13)},
    "a range that is no range": {DECLARED: (1.0, 0.0)},
    "two other ranges": {DECLARED: (-9.0, 9.0), NOW: (-9.0, 9.0)},
}


@pytest.mark.parametrize("policy", ["clip", "widen"])
@pytest.mark.parametrize("edit", AFTER_SURPRISES.values(), ids=AFTER_SURPRISES)
def test_a_file_with_an_impossible_record_of_surprises_is_refused(edit, policy, tmp_path):
    data, array = saved_after_surprises(policy, tmp_path)
    refuse(data, array, edit, tmp_path / "a", "outside_rewards")


def test_a_range_that_was_widened_in_a_file_has_rewards_that_widened_it(tmp_path):
    data, array = saved_after_surprises("widen", tmp_path)
    refuse(data, array, {COUNT: 0, FIRST: 0}, tmp_path / "a", "if, and only if, rewards have widened it")


@pytest.mark.parametrize("policy", ["clip", "widen"])
@pytest.mark.parametrize("edit", [{COUNT: 1}, {FIRST: 1}, {NOW: (-1.0, 2.0)}, {DECLARED: (0.2, 0.8)}], ids=str)
def test_a_file_without_surprises_has_one_range_and_no_counts(edit, policy, tmp_path):
    data, array = saved_without_surprises(policy, tmp_path)
    refuse(data, array, edit, tmp_path / "a", "outside_rewards")


def test_clipped_rewards_change_no_range_in_a_file(tmp_path):
    data, array = saved_after_surprises("clip", tmp_path)
    refuse(data, array, {DECLARED: (0.2, 0.8)}, tmp_path / "a", "if, and only if, rewards have widened it")


def test_a_file_has_one_range_in_its_problem_and_in_what_was_learned(tmp_path):
    data, array = saved_without_surprises("widen", tmp_path)
    refuse(data, array, {COUNT: 1, FIRST: 1, NOW: (-1.0, 2.0)}, tmp_path / "a", "two different ranges of rewards")


def test_returns_that_only_clipped_rewards_explain_need_a_count_of_them(tmp_path):
    agent = MatrixRL(task((0.0, 1.0)), known_reward=False, reward_outside="clip", seed=0)
    play(agent, np.random.default_rng(4), 1, np.full((1, HORIZON), 3.0))
    agent.save(tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    array = array_of(dict(members_of(data))[OUTSIDE])
    refuse(data, array, {COUNT: 0, FIRST: 0}, tmp_path / "a", "returns must be sums of rewards of the declared range")


@pytest.mark.parametrize("chosen", ["value-targeted", "likelihood"])
def test_likelihood_sets_refuse_to_widen_and_say_what_can(chosen):
    with pytest.raises(InvalidInput, match=r"reward_outside must be 'error' or 'clip' .* without a likelihood set"):
        MatrixRL(task((0.0, 1.0)), set=chosen, known_reward=False, reward_outside="widen")
