"""Open episodes: their life, several at once, what they are numbered from, and the rule for alarms."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from agents.contract import recorded_plans
from agents.helpers import RaiseOnce, assert_same_agent, assert_same_arrays
from continuum import Line, line
from matrixrl import FiniteMDP, InvalidInput, KernelMatrixRL, MatrixRL, ProtocolError, Task, make, run_seeds
from matrixrl.agents import OpenEpisode
from matrixrl.envs import GridWorld, PointObservations
from matrixrl.features import Features, OneHotPsi, TablePhi
from matrixrl.problems import MDPEnv, tabular
from named_agents import AGENTS
from worlds import Hidden


@pytest.fixture
def agent():
    return MatrixRL("river-swim", env_settings={"n_states": 4, "horizon": 3}, seed=0)


def tell(episode, steps):
    for obs, following in steps:
        episode.observe(obs, episode.act(obs), 0.0, following)


def test_the_life_of_an_episode(agent):
    episode = agent.begin_episode()
    assert isinstance(episode, OpenEpisode)
    assert agent.open_episodes == (episode,)
    for stage in range(3):
        assert (episode.stage, episode.is_open, episode.is_finished) == (stage, True, False)
        tell(episode, [(0, 1)])
    assert (episode.stage, episode.is_open, episode.is_finished) == (3, True, True)
    for call in (lambda: episode.act(0), lambda: episode.observe(0, 0, 0.0, 0)):
        with pytest.raises(ProtocolError, match="was called after the last step"):
            call()
    assert episode.end().length == 3
    assert (episode.is_open, agent.open_episodes) == (False, ())
    for call in (lambda: episode.act(0), lambda: episode.observe(0, 0, 0.0, 0), episode.end):
        with pytest.raises(ProtocolError, match="ended or abandoned; begin another one"):
            call()
    episode.abandon()  # once more is harmless
    assert agent.n_episodes == 1


def test_an_abandoned_episode_teaches_nothing(agent):
    agent.learn(2)
    before = agent.algorithm.state()
    episode = agent.begin_episode()
    tell(episode, [(0, 1), (1, 2)])
    episode.abandon()
    after = agent.algorithm.state()
    kept = {name for name in before if name.startswith("kept_")}  # ties of the plan are broken again
    for name in before.keys() - {"n_plans", "streams"} - kept:
        np.testing.assert_array_equal(after[name], before[name])
    with pytest.raises(ProtocolError, match="ended or abandoned"):
        episode.end()
    assert agent.history.n_episodes == 2
    agent.begin_episode()
    agent.abandon_episode()
    assert agent.open_episodes == ()


def test_the_short_forms_are_of_the_only_open_episode(agent):
    first, second = agent.begin_episode(), agent.begin_episode()
    for name, call in {
        "act": lambda: agent.act(0),
        "observe": lambda: agent.observe(0, 0, 0.0, 0),
        "end_episode": agent.end_episode,
        "abandon_episode": agent.abandon_episode,
    }.items():
        with pytest.raises(ProtocolError, match=f"{name} was called while 2 episodes are open; call it on one of them"):
            call()
    assert first.stage == second.stage == 0
    first.abandon()
    agent.observe(0, agent.act(0), 0.0, 1)
    assert second.stage == 1
    with pytest.raises(ProtocolError, match="learn was called while an episode is open"):
        agent.learn(1)
    assert agent.end_episode().length == 1


def test_predict_needs_a_stage_or_an_episode(agent):
    episode = agent.begin_episode()
    tell(episode, [(0, 1)])
    with pytest.raises(InvalidInput, match=r"stage must be given.*neither"):
        agent.predict(0)
    with pytest.raises(InvalidInput, match=r"stage must be given.*both"):
        agent.predict(0, 1, episode=episode)
    assert agent.predict(0, episode=episode) == agent.predict(0, stage=1)


def test_the_policy_is_a_record(agent):
    agent.learn(5)
    policy = agent.policy
    np.testing.assert_array_equal(np.asarray(policy), policy.table)
    assert np.asarray(policy, dtype=float).dtype == float
    assert policy.act(2, stage=1) == policy.table[1, 2]
    assert agent.predict(2, stage=1) == agent.greedy().act(2, stage=1)
    assert policy.description == f"matrix-rl on {agent.problem.name}, 5 episodes: the plan of the next episode"
    for state, stage, words in ((4, 0, "obs must be in 0 … 3"), (-1, 0, "obs must be"), (0, 3, "stage must be in")):
        with pytest.raises(InvalidInput, match=words):
            policy.act(state, stage)


def test_advice_does_not_change_when_it_is_asked_for_twice():
    """An agent that draws when it acts: the draw is kept until the next step."""
    agent = AGENTS["random"](make("mountain-car", horizon=40), seed=0)
    episode = agent.begin_episode()
    seen = set()
    for i in range(40):
        obs = np.array([-0.5, 0.001 * i])
        action = episode.act(obs)
        assert all(episode.act(obs) == action for _ in range(5))
        episode.observe(obs, action, -1.0, obs)
        seen.add(action)
    assert seen == {0, 1, 2}


def test_advice_is_kept_for_the_state_that_was_asked_about():
    agent = MatrixRL(Task(np.eye(3), 1), seed=0)
    episode = agent.begin_episode()
    assert [episode.act(state) for state in (0, 2, 1, 2, 0)] == [0, 2, 1, 2, 0]


def numbered_from(first_state, first_action, reward=None):
    class Shifted(Hidden):
        observation_space = gym.spaces.Discrete(3, start=first_state)
        action_space = gym.spaces.Discrete(2, start=first_action)

        def reset(self, *, seed=None, options=None):
            obs, info = super().reset(seed=seed)
            return obs + first_state, info

        def step(self, action):
            assert action in (first_action, first_action + 1)
            obs, *rest = super().step(action - first_action)
            return obs + first_state, *rest

    return Shifted()


@pytest.mark.parametrize(("first_state", "first_action"), [(3, 0), (0, 5), (7, 2), (-2, -1)])
def test_states_and_actions_may_be_numbered_from_anywhere(first_state, first_action, tmp_path):
    reward = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    options = {"reward": reward, "horizon": 6, "seed": 0, "preset": "tuned"}
    plain, shifted = MatrixRL(Hidden(), **options), MatrixRL(numbered_from(first_state, first_action), **options)
    plain.learn(12)
    shifted.learn(12)
    assert_same_agent(shifted, plain)
    assert shifted.predict(first_state + 1, stage=1) == plain.predict(1, stage=1) + first_action
    assert shifted.policy.act(first_state + 1, 1) == plain.policy.act(1, 1) + first_action
    with pytest.raises(InvalidInput, match=f"obs must be in {first_state} … {first_state + 2}"):
        shifted.predict(first_state + 3, stage=0)
    with pytest.raises(InvalidInput, match=f"obs must be in {first_state} …"):
        shifted.predict(first_state - 1, stage=0)
    episode = shifted.begin_episode()
    with pytest.raises(InvalidInput, match=f"action must be in {first_action} … {first_action + 1}"):
        episode.observe(first_state, first_action + 2, 0.0, first_state)
    action = episode.act(first_state)
    episode.observe(first_state, action, 0.0, first_state + 1)
    shifted.save(tmp_path / "a")
    with pytest.raises(InvalidInput, match="env must be the problem"):
        MatrixRL.load(tmp_path / "a", Hidden())
    for env in (None, numbered_from(first_state, first_action)):
        loaded = MatrixRL.load(tmp_path / "a", env)
        assert loaded.act(first_state + 1) == episode.act(first_state + 1)
        loaded.observe(first_state + 1, loaded.act(first_state + 1), 0.0, first_state)
        assert loaded.end_episode().length == 2


def misspecified():
    """Features that say that two actions differ by a factor, which no probability does."""
    world = tabular(n_states=4, n_actions=2, horizon=6, seed=0).mdp
    phi = np.ones((4, 2, 2)) * [1.0, 0.0]
    phi[:, 1] = [2.0, 0.0]
    return FiniteMDP(world.transitions, world.task.reward, 6, features=Features(TablePhi(phi), OneHotPsi(4)))


def until_the_alarm():
    agent = MatrixRL(misspecified(), seed=0)
    while not agent.history.alarms.any():
        assert "alarm" not in agent.guarantee.reason  # P is known here, and not represented
        agent.learn(1)
        assert agent.n_episodes < 300
    return agent


def test_an_alarm_ends_the_guarantee_for_good(tmp_path):
    agent = until_the_alarm()
    words = f"misspecification alarm in episode {agent.n_episodes}: the features cannot represent P"
    assert words in agent.guarantee.reason
    agent.learn(3)
    assert words in agent.guarantee.reason  # the first one counts
    assert "misspecification alarm" in agent.certificate().guarantee.reason
    agent.save(tmp_path / "a")
    assert MatrixRL.load(tmp_path / "a").guarantee == agent.guarantee


def test_an_alarm_counts_once_its_episode_is_ended():
    """The plan of an open episode raises it; an episode that is abandoned never happened."""
    quiet = until_the_alarm().n_episodes - 1
    agent = MatrixRL(misspecified(), seed=0)
    agent.learn(quiet)
    assert "alarm" not in agent.guarantee.reason  # P is known here, and not represented
    alarmed, other = agent.begin_episode(), agent.begin_episode()
    assert "alarm" not in agent.guarantee.reason
    alarmed.abandon()
    assert "alarm" not in agent.guarantee.reason
    alarmed = agent.begin_episode()
    for episode in (alarmed, other):
        episode.observe(0, episode.act(0), 0.0, 1)
    assert other.end().alarm  # made of the same data
    assert f"alarm in episode {quiet + 1}" in agent.guarantee.reason
    assert alarmed.end().alarm
    assert f"alarm in episode {quiet + 1}" in agent.guarantee.reason


def test_a_guarantee_that_depends_on_the_number_of_episodes_ends_with_them():
    agent = AGENTS["q-learning"](make("river-swim", n_states=4, horizon=4), n_episodes=3, seed=0)
    agent.learn(3)
    assert agent.guarantee
    agent.learn(1)
    assert "more than the 3 episodes" in agent.guarantee.reason


@pytest.mark.parametrize(("kind", "counts"), [("normalised", "counts"), ("tightest", "next_times")])
def test_restarts_forget_at_the_same_place_with_episodes_that_overlap(kind, counts):
    """Epochs of 2 and 4 episodes. Two episodes that were begun in the first epoch end in the second."""
    overlapping = AGENTS["doubling-matrix-rl"](Task(np.full((3, 2), 0.5), 4), set=kind, seed=0)
    first, second, third = (overlapping.begin_episode() for _ in range(3))
    told = [(0, 1), (1, 2), (2, 2), (2, 0)]
    for episode in (first, second, third):
        tell(episode, told)
        episode.end()
    assert overlapping.algorithm.state()[counts].sum() == 4.0  # of the third episode alone
    tell(overlapping.begin_episode(), told)
    overlapping.end_episode()
    assert overlapping.algorithm.state()[counts].sum() == 8.0


def test_value_targets_are_those_of_the_plan_that_the_episode_was_played_with():
    """UCRL-VTR regresses the values of its own plan, also if newer plans were made while the episode was open."""
    agent = AGENTS["ucrl-vtr"](make("river-swim", n_states=4, horizon=6), preset="tuned", seed=0, late_episodes="learn")
    plans = recorded_plans(agent)
    agent.learn(2)
    early = agent.begin_episode()
    tell(early, [(0, 1), (1, 2), (2, 3)])
    played = plans[-1].values
    for _ in range(3):
        later = agent.begin_episode()
        tell(later, [(0, 3), (3, 2), (2, 3)])
        later.end()
    assert np.abs(plans[-1].values - played).max() > 0.1
    early.end()
    np.testing.assert_array_equal(agent.algorithm.state()["played"], played)


def test_a_broken_certified_episode_leaves_no_certificate_behind(tmp_path):
    """Where no start is declared and states are not numbered, a certificate is about a state that is named."""
    agent = MatrixRL(line(start=None, env=Anywhere()), columns=50, seed=0)
    agent.learn(2, certify=True)
    agent.save(tmp_path / "a")
    with pytest.raises(InvalidInput, match="start must be known"):
        agent.certificate()
    before = agent.certificate(start=[0.25])
    assert before.start == "state [0.25]"
    RaiseOnce(agent.problem.env, "step", 3, RuntimeError)
    with pytest.raises(RuntimeError):
        agent.learn(1, certify=True)
    after = agent.certificate(start=[0.25])
    assert (after.lower, after.upper) == (before.lower, before.upper)
    assert MatrixRL.load(tmp_path / "a", line(start=None, env=Anywhere())).certificate(start=[0.25]) == before


class Anywhere(Line):
    """Episodes start anywhere."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.random(1)
        return self.place, {}


def test_interleaved_posterior_samples_are_independent_draws():
    """Two episodes that are begun together have the plans of two draws, as when one follows the other."""
    law = np.full((4, 2, 4), 0.25)
    anywhere = FiniteMDP(law, np.full((4, 2), 0.5), 6, start=np.full(4, 0.25))
    one, other = (AGENTS["psrl"](anywhere, seed=3) for _ in range(2))
    together = [one.begin_episode() for _ in range(2)]
    tables = [[e.act(s) for s in range(4)] for e in together]
    apart = []
    for _ in range(2):
        episode = other.begin_episode()
        apart.append([episode.act(s) for s in range(4)])
        episode.abandon()
    assert tables == apart
    assert_same_arrays(one.algorithm.state(), other.algorithm.state())


def test_random_play_on_places_has_no_table_and_no_regret():
    """Each action is drawn when it is played, so there is no policy whose regret could be computed."""
    agent = AGENTS["random"](PointObservations(GridWorld(4)), seed=0)
    history = agent.learn(3)
    assert history.regret is None
    together = run_seeds(PointObservations(GridWorld(4)), n_episodes=3, seeds=[0], agent="random")
    np.testing.assert_array_equal(together.returns[0], history.returns)
    kernel = KernelMatrixRL(PointObservations(GridWorld(4)), seed=0).learn(2)
    assert np.isfinite(kernel.regret).all()


def ending():
    """Return an environment whose episodes end early in state 2, mostly."""
    table = np.zeros((3, 2, 3))
    table[:2, 0, 0] = table[2, :, 2] = 1.0
    table[[0, 1], 1, [1, 2]], table[:2, 1, 0] = 0.8, 0.2
    return MDPEnv(FiniteMDP(table, np.array([[0.1, 0.0], [0.1, 0.9], [0.0, 0.0]]), 5, end_state=2))


@pytest.mark.parametrize(
    "made",
    [
        lambda: make("river-swim", n_states=4),
        ending,
        lambda: make("combination-lock", noisy_rewards=True),
        lambda: make("double-integrator"),  # the first state is random
    ],
    ids=["river", "ending", "noisy", "random start"],
)
def test_a_plain_table_is_played_as_its_environment_is(made):
    """Without `env.step`: the same steps, the same random numbers left, the same history and certificate."""
    stepped, plain = made(), made()
    stepped.unwrapped.render_mode = "ansi"  # every step may be watched
    agents = [MatrixRL(env, seed=1, compiled=False) for env in (stepped, plain)]
    assert [agent._engine.world._mdp is not None for agent in agents] == [False, True]
    for agent in agents:
        agent.learn(12, certify=True)
    assert_same_agent(*agents)
    assert stepped.unwrapped.np_random.bit_generator.state == plain.unwrapped.np_random.bit_generator.state


def test_seeds_in_an_environment_begin_where_the_caller_declares():
    played = run_seeds(Hidden(), n_episodes=2, seeds=2, horizon=3, reward_range=(0.0, 1.0), start=0)
    assert played.returns.shape == (2, 2)
