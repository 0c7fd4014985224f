"""A vector environment as the source of episodes: what is learned is what happened in its sub-environments."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from gymnasium.wrappers.vector import RecordEpisodeStatistics, TransformReward

from agents.helpers import RaiseOnce, assert_same_agent
from matrixrl import InvalidInput, KernelMatrixRL, MatrixRL, ProtocolError, Task, make
from matrixrl.records import Guarantee
from named_agents import AGENTS

HORIZON = 5
MODES = list(AutoresetMode)
OPTIONS = {"horizon": HORIZON, "known_reward": False, "seed": 0}


class Walk(gym.Env):
    """A walk among the states 2 … 5 that begins in state 0 or 1, never comes back there, and may end at any step.

    Observations and actions are numbered from 10 and 3. Whoever takes the first observation of an episode for the last
    one of the episode before it learns of a step into state 0 or 1, which does not exist.
    """

    observation_space, action_space = gym.spaces.Discrete(6, start=10), gym.spaces.Discrete(2, start=3)

    def __init__(self, limit=HORIZON, stop=0.15):
        self.limit, self.stop, self.told = limit, stop, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.stage, self.steps = int(self.np_random.integers(2)), 0, []
        self.told.append(self.steps)
        return self.state + 10, {}

    def step(self, action):
        following = int(2 + self.np_random.integers(4))
        terminated = bool(self.np_random.random() < self.stop)
        reward = float(self.np_random.integers(3)) / 2.0
        self.steps.append((self.state, int(action) - 3, reward, 6 if terminated else following))
        self.state, self.stage = following, self.stage + 1
        return following + 10, reward, terminated, self.limit is not None and self.stage >= self.limit, {}


def updates(agent):
    """Return the list to which the steps of every episode that is learned from will be added."""
    algorithm, seen = agent.algorithm, []
    update = algorithm.update

    def recording(steps, plan=None):
        parts = (steps.states[0], steps.actions[0], steps.rewards[0], steps.next_states[0])
        seen.append(list(zip(*(part.tolist() for part in parts), strict=True)))
        update(steps, plan)

    algorithm.update = recording
    return seen


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("limit", [HORIZON, HORIZON + 2, None], ids=str)
@pytest.mark.parametrize("late", ["wait", "learn"])
def test_the_steps_that_are_learned_are_those_of_the_sub_environments(mode, limit, late):
    """Episodes end at random, at the horizon by a time limit, or at the horizon of the agent alone."""
    env = SyncVectorEnv([partial(Walk, limit)] * 4, autoreset_mode=mode, copy=False)
    agent = MatrixRL(Walk(), late_episodes=late, **OPTIONS)
    seen, shown = updates(agent), []
    for count in (1, 3, 13, 30):
        agent.learn(count, env=env, callback=shown.append)
    assert agent.n_episodes == 47
    assert [record.index for record in shown] == list(range(47))
    assert [record.length for record in shown] == [len(steps) for steps in seen]
    # Sub-environments that are idle while the last episodes are finished take steps that belong to none.
    played = [tuple(steps[:HORIZON]) for one in env.envs for steps in one.told]
    assert set(map(tuple, seen)) <= set(played)
    assert all(sum(steps == tuple(e) for e in seen) <= played.count(steps) for steps in map(tuple, seen))
    assert {len(steps) for steps in seen} == {1, 2, 3, 4, 5}
    assert agent.open_episodes == ()
    assert agent.n_waiting == 0
    assert agent.guarantee or late == "learn"
    env.close()


@pytest.mark.parametrize("mode", MODES)
def test_no_episode_is_left_out_but_those_that_idle_ones_began(mode):
    """With more episodes than sub-environments, every episode that began before the last begin is learned from."""
    env = SyncVectorEnv([Walk] * 3, autoreset_mode=mode)
    agent = MatrixRL(Walk(), **OPTIONS)
    seen = updates(agent)
    agent.learn(40, env=env)
    for one in env.envs:
        learned = [steps for steps in one.told if steps in seen]
        assert one.told[: len(learned)] == learned  # the first ones, without a gap
    assert len(seen) == 40


@pytest.mark.parametrize("mode", MODES)
def test_sub_environments_of_other_processes_teach_the_same(mode):
    agents = []
    for kind in (SyncVectorEnv, AsyncVectorEnv):
        env = kind([Walk] * 3, autoreset_mode=mode)
        agent = MatrixRL(Walk(), **OPTIONS)
        agent.learn(7, env=env)
        agent.learn(6, env=env)
        env.close()
        agents.append(agent)
    assert_same_agent(agents[1], agents[0])


def test_one_sub_environment_is_the_environment_itself():
    """The same seed, one episode after the other: also in the order of plans and updates."""
    from matrixrl.random_streams import numbered_seed

    for mode in MODES:
        agent, other = (MatrixRL(Walk(), **OPTIONS) for _ in range(2))
        agent.learn(12, env=SyncVectorEnv([Walk], autoreset_mode=mode))
        world = Walk()
        for i in range(12):
            obs, _ = world.reset(seed=numbered_seed(0, "env", 0) if i == 0 else None)
            other.begin_episode()
            for _ in range(HORIZON):
                action = other.act(obs)
                following, reward, terminated, _, _ = world.step(action)
                other.observe(obs, action, reward, following, terminated)
                obs = following
                if terminated:
                    break
            other.end_episode()
        assert_same_agent(agent, other)


def test_a_saved_agent_goes_on_in_a_vector_environment_bit_for_bit(tmp_path):
    whole = MatrixRL(Walk(), **OPTIONS)
    whole.learn(9, env=SyncVectorEnv([Walk] * 3))
    whole.save(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a", Walk())
    for agent in (whole, loaded):
        agent.learn(5, env=SyncVectorEnv([Walk] * 3))
        agent.learn(2)
    assert_same_agent(loaded, whole)
    assert len(set(whole.history.returns[:3]) | set(whole.history.returns[9:12])) > 1


def test_a_task_learns_from_a_vector_environment_alone():
    """Without an environment of its own; states beyond those of the sub-environments may exist."""
    known = Task(np.zeros((7, 2)), HORIZON, end_state=6)
    agent = MatrixRL(known, known_reward=False, seed=0)

    class Plain(Walk):
        observation_space, action_space = gym.spaces.Discrete(6), gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            obs, info = super().reset(seed=seed)
            return obs - 10, info

        def step(self, action):
            obs, *rest = super().step(action + 3)
            return obs - 10, *rest

    assert agent.learn(9, env=SyncVectorEnv([Plain] * 2)).n_episodes == 9
    with pytest.raises(ProtocolError, match="learn needs an environment"):
        agent.learn(1)


def test_known_tables_are_those_of_the_agent_and_regret_is_measured():
    def made():
        return make("river-swim", n_states=4, horizon=6)

    agent = MatrixRL(made(), seed=0)
    history = agent.learn(20, env=RecordEpisodeStatistics(SyncVectorEnv([made] * 3)), certify=True)
    assert np.isfinite(history.regret).all()
    assert np.isfinite(history.certified).all()
    assert agent.guarantee
    other = SyncVectorEnv([made, lambda: make("river-swim", n_states=4, horizon=6, noisy_rewards=True)])
    with pytest.raises(InvalidInput, match=r"sub-environment 1 with another noise of rewards"):
        agent.learn(1, env=other)
    with pytest.raises(InvalidInput, match=r"no wrapper .*TransformReward"):
        agent.learn(1, env=TransformReward(SyncVectorEnv([made] * 3), lambda reward: reward))
    asynchronous = AsyncVectorEnv([lambda: make("river-swim", n_states=4, horizon=7)] * 2)
    with pytest.raises(InvalidInput, match=r"sub-environment 0 with another horizon"):
        agent.learn(1, env=asynchronous)
    asynchronous.close()
    assert agent.n_episodes == 20
    lake = MatrixRL(gym.make("FrozenLake-v1"), horizon=100, seed=0)
    assert np.isfinite(lake.learn(3, env=gym.make_vec("FrozenLake-v1", 2, "sync")).regret).all()


def test_vectors_as_states_and_every_algorithm():
    agent = KernelMatrixRL(make("cart-pole", horizon=15), seed=0)
    env = gym.make_vec("CartPole-v1", 3, "vector_entry_point", max_episode_steps=15)
    assert agent.learn(5, env=env).lengths.max() <= 15
    psrl = AGENTS["psrl"](make("river-swim", n_states=4, horizon=6), seed=0)
    assert psrl.learn(5, env=SyncVectorEnv([lambda: make("river-swim", n_states=4, horizon=6)] * 2)).n_episodes == 5


class Float(gym.Env):
    """Vectors as observations: the step count, and a random number."""

    observation_space, action_space = gym.spaces.Box(-1.0, 9.0, (2,), np.float64), gym.spaces.Discrete(2)

    def __init__(self):
        self.told, self.place = [], np.zeros(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place[:] = 0.0, self.np_random.random()
        return self.place.copy(), {}

    def step(self, action):
        before = self.place.tolist()
        self.place[:] = self.place[0] + 1.0, self.np_random.random()
        self.told.append((before, self.place.tolist()))
        return self.place.copy(), 0.0, bool(self.place[1] < 0.2), self.place[0] >= HORIZON, {}


@pytest.mark.parametrize("mode", MODES)
def test_vectors_are_those_of_the_sub_environments(mode):
    """With ``copy=False`` the vector environment writes all observations to one array."""
    env = SyncVectorEnv([Float] * 3, autoreset_mode=mode, copy=False)
    agent = AGENTS["random"](Float(), horizon=HORIZON, reward_range=(0, 1), seed=0)
    seen = updates(agent)
    agent.learn(20, env=env)
    pairs = [(state, following) for steps in seen for state, _, _, following in steps]
    played = [pair for one in env.envs for pair in one.told]
    assert len(pairs) > 40
    assert all(pair in played for pair in pairs)


class Strict(Walk):
    """A walk that allows the first action in even states only, and the second in odd ones; it raises otherwise."""

    def __init__(self, told):
        super().__init__()
        self.info_has_it = told

    def action_of(self):
        return self.state % 2

    def tell(self, obs):
        return obs, {"action_mask": np.arange(2) == self.action_of()} if self.info_has_it else {}

    def reset(self, *, seed=None, options=None):
        return self.tell(super().reset(seed=seed)[0])

    def step(self, action):
        if action - 3 != self.action_of():
            raise RuntimeError(f"action {action} in state {self.state}")
        obs, *rest, _ = super().step(action)
        return obs, *rest, self.tell(obs)[1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("told", [False, True])
def test_idle_sub_environments_take_allowed_actions_only(mode, told):
    """Declared masks, and those that infos tell; two of three sub-environments have no episode."""
    env = SyncVectorEnv([partial(Strict, told)] * 3, autoreset_mode=mode)
    declared = {} if told else {"allowed": np.arange(6)[:, None] % 2 == np.arange(2)}
    agent = MatrixRL(Strict(told), **OPTIONS, **declared)
    for _ in range(6):
        agent.learn(1, env=env)
    assert agent.n_episodes == 6


def test_a_callback_that_stops_lets_begun_episodes_finish():
    agent, shown = MatrixRL(Walk(), **OPTIONS), []

    def stop(record):
        shown.append(record.index)
        return record.index < 2

    agent.learn(100, env=SyncVectorEnv([Walk] * 4), callback=stop)
    assert shown == list(range(agent.n_episodes))
    assert 3 <= agent.n_episodes <= 8
    assert agent.guarantee


def test_a_gap_to_stop_at_is_looked_at():
    made = partial(make, "river-swim", n_states=3, horizon=3)
    agent = MatrixRL(made(), seed=0)
    agent.learn(3000, env=SyncVectorEnv([made] * 4), until_gap=1.0, explore_for="certificate")
    assert agent.n_episodes < 3000
    assert agent.recommend().certificate.gap <= 1.0


def test_an_interrupt_keeps_what_was_learned_and_the_proof():
    env = SyncVectorEnv([Walk] * 3)
    agent = MatrixRL(Walk(), **OPTIONS)
    RaiseOnce(env.envs[1], "step", 30)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(100, env=env)
    learned = agent.n_episodes
    assert 1 <= learned < 100
    assert (agent.open_episodes, agent.n_waiting, agent.guarantee) == ((), 0, Guarantee(True))
    agent.learn(4, env=env)
    assert agent.n_episodes == learned + 4


def test_an_interrupt_forgets_the_episodes_that_wait():
    """The first sub-environment is still in its first episode when the second one has finished some."""
    env = SyncVectorEnv([partial(Walk, None, 0.0), partial(Walk, None, 1.0)])
    agent = MatrixRL(Walk(), **OPTIONS)
    RaiseOnce(env.envs[0], "step", HORIZON)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(100, env=env)
    assert (agent.n_episodes, agent.n_waiting, agent.open_episodes, agent.guarantee) == (0, 0, (), Guarantee(True))
    assert agent.learn(3).n_episodes == 3


def test_an_error_withdraws_the_proof():
    env = SyncVectorEnv([Walk] * 3)
    agent = MatrixRL(Walk(), **OPTIONS)
    RaiseOnce(env.envs[1], "step", 30, error=RuntimeError)
    with pytest.raises(RuntimeError):
        agent.learn(100, env=env)
    assert "an episode ended in an error after" in agent.guarantee.reason
    assert agent.open_episodes == ()


@pytest.mark.parametrize("mode", MODES)
def test_an_unannounced_truncation_is_refused(mode):
    agent = MatrixRL(Walk(), **OPTIONS)
    env = SyncVectorEnv([lambda: TimeLimit(Walk(None, 0.0), 3)] * 2, autoreset_mode=mode)
    with pytest.raises(ProtocolError, match=r"truncated .*after 3 steps"):
        agent.learn(4, env=env)


class NoFinal(gym.vector.VectorWrapper):
    """A vector environment that loses the last observations of its episodes."""

    def step(self, actions):
        *rest, infos = self.env.step(actions)
        return *rest, {name: value for name, value in infos.items() if "final" not in name}


class Custom(gym.vector.VectorEnv):
    """A vector environment of its own that never ends an episode."""

    metadata: ClassVar = {"autoreset_mode": AutoresetMode.NEXT_STEP}
    num_envs = 2
    single_observation_space, single_action_space = Walk.observation_space, Walk.action_space
    observation_space = gym.vector.utils.batch_space(Walk.observation_space, 2)
    action_space = gym.vector.utils.batch_space(Walk.action_space, 2)

    def reset(self, *, seed=None, options=None):
        return np.array([10, 10]), {}

    def step(self, actions):
        no = np.zeros(2, dtype=bool)
        return np.array([12, 12]), np.zeros(2), no, no, {}


class Undeclared(Custom):
    metadata: ClassVar = {}


def test_environments_that_cannot_be_played_are_refused_in_words():
    agent = MatrixRL(Walk(), **OPTIONS)
    with pytest.raises(InvalidInput, match="env must be a vector environment"):
        agent.learn(1, env=Walk())
    with pytest.raises(InvalidInput, match="env must be a vector environment"):
        agent.learn(1, env="walk")
    with pytest.raises(InvalidInput, match=r"must declare metadata\['autoreset_mode'\]"):
        agent.learn(1, env=Undeclared())
    with pytest.raises(InvalidInput, match="must have the actions"):
        agent.learn(1, env=gym.make_vec("FrozenLake-v1", 2, "sync"))
    with pytest.raises(InvalidInput, match="must have the observations"):
        agent.learn(1, env=SyncVectorEnv([Other]))
    with pytest.raises(InvalidInput, match=r"must have observations .*Discrete\(4\)"):
        MatrixRL(Task(np.zeros((4, 2)), 3), known_reward=False, seed=0).learn(1, env=SyncVectorEnv([From0]))
    env = AsyncVectorEnv([Walk], shared_memory=False)
    with pytest.raises(InvalidInput, match=r"must have shared memory.*AsyncVectorEnv\(shared_memory=False\)"):
        agent.learn(1, env=env)
    env.close()
    agent.begin_episode()
    with pytest.raises(ProtocolError, match="learn was called while an episode is open"):
        agent.learn(1, env=SyncVectorEnv([Walk]))
    agent.abandon_episode()
    assert agent.guarantee
    assert agent.n_episodes == 0


class Other(Walk):
    observation_space = gym.spaces.Discrete(5, start=10)


class From0(Walk):
    observation_space, action_space = gym.spaces.Discrete(6), gym.spaces.Discrete(2)


def test_last_observations_that_are_missing_and_resets_that_are_not_possible():
    agent = MatrixRL(Walk(), **OPTIONS)
    with pytest.raises(ProtocolError, match=r"did not return infos\['final_obs'\]"):
        agent.learn(9, env=NoFinal(SyncVectorEnv([Walk] * 2, autoreset_mode=AutoresetMode.SAME_STEP)))
    agent = MatrixRL(Walk(), **OPTIONS)
    with pytest.raises(ProtocolError, match="goes on after the horizon"):
        agent.learn(9, env=Custom())
    with pytest.raises(InvalidInput, match="must show its sub-environments"):
        MatrixRL(make("river-swim", n_states=6), seed=0).learn(1, env=Numbered())


class Numbered(Custom):
    single_observation_space, single_action_space = gym.spaces.Discrete(6), gym.spaces.Discrete(2)


def test_a_vector_environment_is_no_problem():
    words = r"problem must be .*; got SyncVectorEnv. Give one of its sub-environments here"
    with pytest.raises(InvalidInput, match=words):
        MatrixRL(SyncVectorEnv([Walk]))
