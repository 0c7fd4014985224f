from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from agents.helpers import assert_same_arrays
from matrixrl import Agent, FiniteMDP, InvalidInput, MatrixRL, ProtocolError, Task, make
from matrixrl.problems import MDPEnv, tabular
from worlds import Hidden


class Pictures(gym.Env):
    """Observations that are neither numbers nor vectors."""

    observation_space, action_space = gym.spaces.Text(3), gym.spaces.Discrete(2)


@pytest.fixture
def agent():
    return MatrixRL(make("river-swim", n_states=4, horizon=3), seed=0)


def play_by_hand(agent, env, episodes, seed):
    """The ask/tell loop as a user would write it."""
    for i in range(episodes):
        obs, _ = env.reset(seed=seed if i == 0 else None)
        agent.begin_episode()
        for _ in range(agent.problem.task.horizon):
            action = agent.act(obs)
            following, reward, terminated, truncated, _ = env.step(action)
            agent.observe(obs, action, reward, following, terminated)
            obs = following
            if terminated or truncated:
                break
        agent.end_episode()


@pytest.mark.parametrize("kind", ["normalised", "tightest"])
def test_ask_and_tell_is_learn(kind):
    from matrixrl.random_streams import stream_seed

    learner = MatrixRL(make("river-swim", n_states=4), seed=5, preset="tuned", set=kind)
    learner.learn(20)
    advisor = MatrixRL(learner.problem.task, seed=5, preset="tuned", set=kind)
    play_by_hand(advisor, make("river-swim", n_states=4), 20, stream_seed(5, "env"))
    np.testing.assert_array_equal(advisor.history.returns, learner.history.returns)
    told, learned = (
        {name: array for name, array in one.algorithm.learned().items() if not name.startswith("given_")}
        for one in (advisor, learner)
    )
    assert_same_arrays(told, learned)
    assert len(advisor.algorithm.learned()["given_codes"]) > 0  # watched, as no table generates the rewards
    assert len(learner.algorithm.learned()["given_codes"]) == 0
    assert advisor.history.regret is None  # it never saw an MDP


def test_calls_out_of_order_are_refused_and_change_nothing(agent):
    with pytest.raises(ProtocolError, match="act was called outside an episode"):
        agent.act(0)
    with pytest.raises(ProtocolError, match="observe was called outside"):
        agent.observe(0, 0, 0.0, 0)
    with pytest.raises(ProtocolError, match="end_episode was called outside"):
        agent.end_episode()
    agent.abandon_episode()  # of none
    agent.begin_episode()
    with pytest.raises(ProtocolError, match="before any step was observed"):
        agent.end_episode()
    with pytest.raises(ProtocolError, match="learn was called while an episode is open"):
        agent.learn(1)
    for _ in range(3):
        agent.observe(0, 0, 0.0, 0)
    with pytest.raises(ProtocolError, match="after the last step"):
        agent.act(0)
    with pytest.raises(ProtocolError, match="after the last step"):
        agent.observe(0, 0, 0.0, 0)
    assert agent.end_episode().length == 3
    assert agent.n_episodes == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((9, 0, 0.0, 0), "obs must be in 0 … 3; got 9"),
        ((-1, 0, 0.0, 0), "obs must be in"),
        ((0.5, 0, 0.0, 0), "obs must be a whole number"),
        ((np.nan, 0, 0.0, 0), "obs must be a whole number"),
        ((0, 2, 0.0, 0), "action must be in 0 … 1; got 2"),
        ((0, "left", 0.0, 0), "action must be a whole number"),
        ((0, 0, np.nan, 0), "reward must be finite"),
        ((0, 0, np.inf, 0), "reward must be finite"),
        ((0, 0, 1.5, 0), "reward must lie in [0, 1], the declared range"),
        ((0, 0, None, 0), "reward must be a number"),
        ((0, 0, 0.0, 4), "next_obs must be in"),
        ((0, 0, 0.0, 0, True), "terminated must be False for a problem without an end state"),
    ],
)
def test_bad_observations_are_refused_and_change_nothing(agent, args, words):
    agent.begin_episode()
    agent.observe(0, 1, 0.0, 1)
    with pytest.raises(InvalidInput) as caught:
        agent.observe(*args)
    assert words in str(caught.value)
    assert agent.open_episodes[0].stage == 1
    agent.observe(1, 1, 0.0, 2)
    assert agent.end_episode().length == 2


def test_somebody_may_act_otherwise_and_the_agent_still_learns(agent):
    agent.begin_episode()
    for _ in range(3):
        agent.observe(0, 1 - agent.act(0), 0.0, 0)
    episode = agent.end_episode()
    assert episode.regret is None  # the plan was not what was played
    assert agent.visits.sum() == 3


def test_predict_is_greedy_by_the_estimates_where_an_episode_explores():
    """Two arms: one that pays 0.6, tried 50 times, and one that was never tried."""
    agent = MatrixRL(Task(horizon=1, n_states=1, n_actions=2, reward_range=(0.0, 1.0)), seed=0)
    for _ in range(50):
        episode = agent.begin_episode()
        episode.observe(0, 0, 0.6, 0)
        episode.end()
    assert agent.begin_episode().act(0) == agent.policy.act(0, 0) == 1
    assert agent.predict(0, stage=0) == agent.greedy().act(0, 0) == 0


def test_predict_changes_nothing_not_even_a_random_stream():
    plain = MatrixRL(make("river-swim"), seed=2, preset="tuned")
    curious = MatrixRL(make("river-swim"), seed=2, preset="tuned")
    for _ in range(10):
        plain.learn(1)
        curious.predict(0, stage=3)
        curious.learn(1)
        curious.predict(1, stage=0)
    np.testing.assert_array_equal(plain.history.returns, curious.history.returns)
    assert np.asarray(curious.policy).shape == curious.policy.table.shape == (24, 6)
    with pytest.raises(InvalidInput, match="stage must be in 0 … 23"):
        curious.predict(0, stage=24)


def test_the_learned_policy_is_nearly_optimal():
    from matrixrl import evaluate, solve

    env = make("river-swim")
    agent = MatrixRL(env, seed=0, preset="tuned")
    agent.learn(500)
    mdp = env.unwrapped.mdp
    value = evaluate(mdp, agent.policy.table.astype(int))[0, 0]
    assert value > 0.98 * solve(mdp).start_value


def test_learn_a_then_b_is_learn_a_plus_b():
    one = MatrixRL(make("river-swim"), seed=4, radius="theorem")
    two = MatrixRL(make("river-swim"), seed=4, radius="theorem")
    whole = one.learn(30)
    two.learn(11)
    parts = two.learn(19)
    for name in ("returns", "lengths", "upper", "alarms", "regret"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


def test_callback_sees_every_episode_and_can_stop():
    seen = []
    agent = MatrixRL(make("river-swim", n_states=4), seed=0)

    def watch(episode):
        seen.append(episode)
        return len(seen) < 5

    history = agent.learn(50, callback=watch)
    assert history.n_episodes == 5
    assert [e.index for e in seen] == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(history.regret, [e.regret for e in seen])


def test_an_error_in_the_environment_leaves_the_agent_after_the_last_whole_episode():
    class Broken(MDPEnv):
        count, keeps_table = 0, True

        def step(self, action):
            Broken.count += 1
            if Broken.count == 17:
                raise RuntimeError("the wheel came off")
            return super().step(action)

    agent = MatrixRL(Broken(tabular(n_states=3, n_actions=2, horizon=5).mdp), seed=0)
    with pytest.raises(RuntimeError, match="wheel"):
        agent.learn(10)
    assert agent.n_episodes == 3
    assert agent.open_episodes == ()
    assert agent.learn(2).n_episodes == 5


def test_an_environment_without_a_table_needs_rewards_or_learns_them():
    reward = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    with pytest.raises(InvalidInput, match=r"reward must be given.*shape \(3, 2\)"):
        MatrixRL(Hidden(), horizon=6, known_reward=True)
    assert MatrixRL(Hidden(), horizon=6).settings.known_reward is False
    with pytest.raises(InvalidInput, match="horizon must be given"):
        MatrixRL(Hidden(), reward=reward)
    agent = MatrixRL(Hidden(), reward=reward, horizon=6, seed=0, preset="tuned")
    history = agent.learn(40)
    assert history.regret is None
    assert history.returns[-10:].min() == 1.0
    with pytest.raises(AttributeError, match="known MDP"):
        _ = history.cumulative_regret


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"set": "normalized"}, "Did you mean 'normalised'"),
        ({"radius": "theorm"}, "Did you mean 'theorem'"),
        ({"preset": "tunned"}, "Did you mean 'tuned'"),
        ({"exploratio": 1.0}, "Did you mean 'exploration'"),
        ({"exploration": -1.0}, "exploration must be finite and in [0, 1e+06]"),
        ({"exploration": float("nan")}, "exploration must be finite"),
        ({"delta": 0.0}, "delta must be finite and in (0, 1)"),
        ({"delta": 1.0}, "delta"),
        ({"n_episodes": 0}, "n_episodes must be at least 1"),
        ({"c_core": -2.0}, "c_core"),
        ({"beta": -1.0}, "beta"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(InvalidInput) as caught:
        MatrixRL(make("river-swim"), **settings)
    assert words in str(caught.value)


def test_bad_problems_and_calls():
    with pytest.raises(InvalidInput, match="problem must be the name"):
        MatrixRL(3)
    with pytest.raises(InvalidInput, match="Did you mean 'river-swim'"):
        MatrixRL("river-swin")
    with pytest.raises(InvalidInput, match="env_settings must be empty"):
        MatrixRL(make("river-swim"), env_settings={"n_states": 4})
    with pytest.raises(InvalidInput, match="n_episodes must be at least 1"):
        MatrixRL(make("river-swim")).learn(0)
    with pytest.raises(ProtocolError, match="begin_episode"):
        MatrixRL(Task(np.zeros((2, 2)), 3)).learn(1)
    with pytest.raises(InvalidInput, match="horizon cannot be changed"):
        MatrixRL(make("river-swim"), horizon=5)
    with pytest.raises(InvalidInput, match=r"must have numbered states.*vectors as observations.*KernelControl"):
        MatrixRL(gym.make("CartPole-v1"))
    with pytest.raises(InvalidInput, match="observation_space must be finite: Discrete, MultiDiscrete"):
        MatrixRL(Pictures(), reward=np.zeros((2, 2)), horizon=3)
    with pytest.raises(InvalidInput, match=r"agent must be one of .*mean 'psrl'"):
        Agent(make("river-swim"), "psrll")
    with pytest.raises(InvalidInput, match="agent must be a name"):
        Agent(make("river-swim"), 3)
    assert Agent(make("river-swim"), "psrl").name == "psrl"


def test_seeds_are_kept_even_when_none_was_given():
    agent = MatrixRL(make("river-swim"), preset="tuned")
    first = agent.learn(5).returns
    again = MatrixRL(make("river-swim"), seed=agent.seed, preset="tuned").learn(5).returns
    np.testing.assert_array_equal(first, again)


def test_guarantee_says_why_not():
    env = make("river-swim")
    assert MatrixRL(env).guarantee
    assert "below 1" in MatrixRL(env, exploration=0.5).guarantee.reason
    assert "constant c" in MatrixRL(env, radius="theorem").guarantee.reason
    assert "tuned" in MatrixRL(env, radius="constant").guarantee.reason


def test_rewards_in_another_unit_give_the_same_decisions():
    """Mapping rewards by an affine function maps values and regret by it, and changes no action."""
    base = tabular(n_states=4, n_actions=2, horizon=5, seed=3).mdp
    scaled = FiniteMDP(base.transitions, base.task.reward * 20 - 10, 5, reward_range=(-10.0, 10.0))
    one = MatrixRL(base, seed=0, preset="tuned").learn(60)
    two = MatrixRL(scaled, seed=0, preset="tuned").learn(60)
    np.testing.assert_allclose(two.regret, 20 * one.regret, atol=1e-9)
    np.testing.assert_allclose(two.upper, 20 * one.upper - 50, atol=1e-9)
    np.testing.assert_allclose(two.returns, 20 * one.returns - 50, atol=1e-9)
