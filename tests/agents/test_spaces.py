"""Agents speak in the elements of the environment's spaces, and learn as they do from numbers."""

from __future__ import annotations

import csv

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from matrixrl import (
    Agent,
    CheckpointError,
    FunctionalTask,
    InvalidInput,
    KernelMatrixRL,
    KnownDynamics,
    MatrixRL,
    Policy,
    run_seeds,
)
from matrixrl.spaces import DiscreteCodec, TupleCodec, codec_of

STATES, ACTIONS, HORIZON = 12, 6, 5
OBSERVED = {
    "tuple": spaces.Tuple([spaces.Discrete(3, start=4), spaces.Discrete(4)]),
    "array": spaces.MultiDiscrete([2, 3, 2], start=[0, 1, 5]),
    "dictionary": spaces.Dict({"b": spaces.Discrete(3), "a": spaces.MultiBinary(2)}),
    "nested": spaces.Tuple(
        [spaces.Dict({"x": spaces.Discrete(2)}), spaces.Tuple([spaces.Discrete(3), spaces.Discrete(2)])]
    ),
}
PLAYED = {
    "tuple": spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3, start=-1)]),
    "array": spaces.MultiDiscrete([3, 2]),
    "dictionary": spaces.Dict({"y": spaces.Discrete(3), "x": spaces.Discrete(2)}),
    "nested": spaces.Dict({"z": spaces.Tuple([spaces.Discrete(3)]), "w": spaces.MultiBinary(1)}),
}


class Numbers(gym.Env):
    """A random walk on numbers that sometimes ends; its transitions are not known."""

    observation_space: spaces.Space = spaces.Discrete(STATES)
    action_space: spaces.Space = spaces.Discrete(ACTIONS)
    horizon = HORIZON

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = int(self.np_random.integers(2))
        return self.outside(), {}

    def step(self, action):
        number = self.inside(action)
        reward = float(self.np_random.random() < (self.state + number) / (STATES + ACTIONS))
        self.state = (self.state + number + int(self.np_random.integers(2))) % STATES
        ended = bool(self.np_random.random() < 0.1)
        return self.outside(), reward, ended, False, {}

    def outside(self):
        return self.state

    def inside(self, action):
        return action


class Combined(Numbers):
    """The same walk with elements of other spaces in place of the numbers."""

    def __init__(self, form):
        self.observation_space, self.action_space = OBSERVED[form], PLAYED[form]
        self._states, self._actions = (
            codec_of("observation", self.observation_space),
            codec_of("action", self.action_space),
        )

    def outside(self):
        return self._states.decode(self.state)

    def inside(self, action):
        assert self.action_space.contains(action), action
        return self._actions.encode("action", action, "…")


class Recycled(Combined):
    """The same, with one dictionary that every step overwrites."""

    def outside(self):
        self.kept = getattr(self, "kept", {})
        self.kept.update(super().outside())
        return self.kept


AGENTS = {
    "matrix-rl": {"seed": 3},
    "a ball": {"set": "normalised", "seed": 3},
    "psrl": {"seed": 3},
    "q-learning": {"seed": 3},
    "random": {"seed": 3},
}


def made(name, env, **more):
    algorithm = "matrix-rl" if name == "a ball" else name
    return Agent(env, algorithm, **AGENTS[name], **more)


def assert_same(one, other):
    np.testing.assert_array_equal(one.history.returns, other.history.returns)
    for name, array in one.algorithm.state().items():
        np.testing.assert_array_equal(array, other.algorithm.state()[name], err_msg=name)


@pytest.mark.parametrize("form", OBSERVED)
@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_learns_from_elements_exactly_as_from_their_numbers(name, form, tmp_path):
    plain, other = made(name, Numbers()), made(name, Combined(form))
    plain.learn(6)
    other.learn(3)
    other.save(tmp_path / "a")
    other = Agent.load(tmp_path / "a", Combined(form))
    other.learn(3)
    assert_same(plain, other)
    states, actions = other.problem.states, other.problem.actions
    for number in range(STATES):
        obs = states.decode(number)
        expected = plain.predict(number, stage=2)
        assert actions.encode("action", other.predict(obs, stage=2), "…") == expected
        assert actions.encode("action", other.policy.act(obs, 2), "…") == plain.policy.act(number, 2)
        assert PLAYED[form].contains(other.predict(obs, stage=2))


@pytest.mark.parametrize("form", OBSERVED)
def test_a_policy_that_was_saved_acts_with_elements(form, tmp_path):
    agent = MatrixRL(Combined(form), seed=3)
    agent.learn(5)
    policy, states = agent.greedy(), agent.problem.states
    policy.save(tmp_path / "p.json")
    policy.save(tmp_path / "p.npz")
    policy.to_csv(tmp_path / "p.csv")
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["stage", *states.names("state"), *agent.problem.actions.names("action")]
    for copied in (Policy.load(tmp_path / "p.json"), Policy.load(tmp_path / "p.npz")):
        assert copied == policy
        for stage, number in np.ndindex(HORIZON, STATES):
            obs = states.decode(number)
            action = copied.act(obs, stage)
            assert PLAYED[form].contains(action)
            chosen = agent.problem.actions.encode("action", action, "…")
            assert chosen == policy.table[stage, number]
            cells = states.cells(np.array([number]))[0], agent.problem.actions.cells(np.array([chosen]))[0]
            row = [stage, *cells[0].tolist(), *cells[1].tolist()]
            assert rows[1 + stage * STATES + number] == [str(n) for n in row]
    with pytest.raises(InvalidInput, match="obs"):
        policy.act(None, 0)
    with pytest.raises(InvalidInput, match="stage must be a whole number"):
        policy.act(states.decode(0), [0, 1])
    function = agent.compare(lambda obs, stage: policy.act(obs, stage), policy)
    assert (function.lower, function.upper) == (0.0, 0.0)
    with pytest.raises(InvalidInput, match=r"policy must return actions of .*None .*stage 0"):
        agent.compare(lambda *_: None, policy)
    other = MatrixRL(Numbers(), seed=3)
    with pytest.raises(InvalidInput, match="must be a policy of this problem"):
        other.compare(policy, policy)


@pytest.mark.parametrize(
    "changes",
    [
        {"states": DiscreteCodec(2)},
        {"states": 3},
        {"states": TupleCodec((DiscreteCodec(3),))},
        {"actions": TupleCodec((DiscreteCodec(3),))},
        {"states": TupleCodec((DiscreteCodec(2),)), "first_state": 1},
    ],
    ids=str,
)
def test_codecs_that_do_not_fit_a_policy_are_refused(changes):
    assert Policy([[0, 1]], n_actions=2, states=TupleCodec((DiscreteCodec(2),))).act((1,), 0) == 1
    with pytest.raises(InvalidInput, match=r"states must|actions must"):
        Policy([[0, 1]], n_actions=2, **changes)


@pytest.mark.parametrize("form", OBSERVED)
def test_vector_environments_of_elements_are_those_of_numbers(form):
    one, other = MatrixRL(Numbers(), seed=3), MatrixRL(Combined(form), seed=3)
    one.learn(6, env=SyncVectorEnv([Numbers] * 3))
    other.learn(6, env=SyncVectorEnv([lambda: Combined(form)] * 3))
    assert_same(one, other)
    with pytest.raises(InvalidInput, match="must have the actions"):
        other.learn(1, env=SyncVectorEnv([Numbers]))


@pytest.mark.parametrize("form", OBSERVED)
def test_logs_have_one_column_for_each_part(form, tmp_path):
    """What one agent saw teaches another one the same, through a file, as the same steps in numbers do."""
    seen, plain = (MatrixRL(env, keep_log=True, seed=3) for env in (Combined(form), Numbers()))
    seen.learn(4)
    plain.learn(4)
    seen.export(tmp_path / "seen.csv")
    plain.export(tmp_path / "plain.csv")
    header = (tmp_path / "seen.csv").read_text().splitlines()[0].split(",")
    states, actions = seen.problem.states, seen.problem.actions
    assert [name for name in header if name.startswith("state")] == [f"state_{i}" for i in range(len(states.sizes))]
    learned, expected = MatrixRL(Combined(form), seed=0), MatrixRL(Numbers(), seed=0)
    learned.learn_from(tmp_path / "seen.csv")
    expected.learn_from(tmp_path / "plain.csv")
    assert_same(learned, expected)
    part = len(actions.sizes) - 1
    cells = pd.read_csv(tmp_path / "seen.csv")
    cells.loc[1, "state_1"] = 99
    first = states.firsts[1]
    words = rf"column 'state_1' must be a whole number in {first} … {first + states.sizes[1] - 1}, part 2 of a state"
    with pytest.raises(InvalidInput, match=words):
        learned.learn_from(cells)
    bad = pd.read_csv(tmp_path / "seen.csv").drop(columns=f"action_{part}")
    with pytest.raises(InvalidInput, match=f"must have {part + 1} coordinates for an action"):
        learned.learn_from(bad)


def test_minari_sets_have_vectors_of_parts(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    seen = MatrixRL(Combined("array"), keep_log=True, seed=3)
    seen.learn(4)
    seen.export("minari:spaces/array-v0")
    seen.export(tmp_path / "seen.csv")
    one, other = (MatrixRL(Combined("array"), seed=0) for _ in range(2))
    one.learn_from("minari:spaces/array-v0")
    other.learn_from(tmp_path / "seen.csv")
    assert_same(one, other)


@pytest.mark.parametrize("form", OBSERVED)
def test_masks_are_about_elements(form):
    """A function of the observation that returns actions allows what a table of numbers allows."""
    states, actions = codec_of("observation", OBSERVED[form]), codec_of("action", PLAYED[form])

    def some(number):
        return [number % ACTIONS, (number + 1) % ACTIONS]

    def allowed(obs):
        return [actions.decode(a) for a in some(states.encode("obs", obs, "…"))]

    table = np.zeros((STATES, ACTIONS), dtype=bool)
    for number in range(STATES):
        table[number, some(number)] = True
    one, other = (
        MatrixRL(Numbers(), allowed=table, seed=3),
        MatrixRL(Combined(form), allowed=allowed, seed=3),
    )
    one.learn(5)
    other.learn(5)
    assert_same(one, other)
    np.testing.assert_array_equal(other.problem.task.allowed[:STATES], table)
    episode, obs = other.begin_episode(), states.decode(3)
    assert actions.encode("action", episode.act(obs, allowed=[actions.decode(4)]), "…") == 4
    with pytest.raises(InvalidInput, match="allowed must be among the actions"):
        episode.act(obs, allowed=[actions.decode(0)])
    with pytest.raises(InvalidInput, match=r"action must be one of .*allows"):
        episode.observe(obs, actions.decode(0), 0.0, obs)
    assert episode.stage == 0


def test_an_environment_may_overwrite_its_observation():
    assert_same(MatrixRL(Recycled("dictionary"), seed=3), MatrixRL(Numbers(), seed=3))
    one, other = MatrixRL(Recycled("dictionary"), seed=3), MatrixRL(Numbers(), seed=3)
    one.learn(8)
    other.learn(8)
    assert_same(one, other)


def test_ask_and_tell_with_elements_and_a_file_in_between(tmp_path):
    agent, plain = MatrixRL(Combined("dictionary"), seed=0), MatrixRL(Numbers(), seed=0)
    episode, other = agent.begin_episode(), plain.begin_episode()
    obs = {"a": np.array([1, 0]), "b": 2}
    number = agent.problem.states.encode("obs", obs, "…")
    action, expected = episode.act(obs), other.act(number)
    assert agent.problem.actions.encode("action", action, "…") == expected
    episode.observe(obs, action, 1.0, {"a": [0, 0], "b": 0})
    other.observe(number, expected, 1.0, 0)
    agent.save(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a")  # without the environment
    again = loaded.open_episodes[0]
    assert again.act({"a": [0, 0], "b": 1}) == episode.act({"a": [0, 0], "b": 1})
    again.observe({"a": [0, 0], "b": 0}, {"y": 2, "x": 1}, 0.0, {"a": [1, 1], "b": 0}, terminated=True)
    other.observe(0, 5, 0.0, 9, terminated=True)
    again.end()
    other.end()
    assert_same(loaded, plain)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda e: e.act({"a": [1, 2], "b": 0}), r"obs\['a'\]\[1\] must be in 0 … 1; got 2"),
        (lambda e: e.act(3), "obs must be a dictionary with the keys 'a', 'b'"),
        (lambda e: e.observe({"a": [1, 1], "b": 0}, 3, 0.0, {"a": [1, 1], "b": 0}), "action must be a dictionary with"),
        (
            lambda e: e.observe({"a": [1, 1], "b": 0}, {"y": 3, "x": 0}, 0.0, {"a": [1, 1], "b": 0}),
            r"action\['y'\] must be in 0 … 2; got 3\. Choose from action_space",
        ),
        (
            lambda e: e.observe({"a": [1, 1], "b": 0}, {"y": 0, "x": 0}, 0.0, {"a": [1, 1]}),
            "next_obs must have the keys 'a', 'b'",
        ),
        (lambda e: e._agent.policy.act({"a": [1, 1], "b": 5}, 0), r"obs\['b'\] must be in 0 … 2"),
    ],
)
def test_a_bad_element_is_one_error_that_changes_nothing(call, words):
    agent = MatrixRL(Combined("dictionary"), seed=0)
    episode = agent.begin_episode()
    before = agent.algorithm.state()
    with pytest.raises(InvalidInput, match=words):
        call(episode)
    assert episode.stage == 0
    assert all(np.array_equal(array, agent.algorithm.state()[name]) for name, array in before.items())


def test_the_spaces_are_part_of_the_identity_of_a_saved_agent(tmp_path):
    MatrixRL(Combined("tuple"), seed=0).save(tmp_path / "a")
    shuffled = Combined("tuple")
    shuffled.observation_space = spaces.Tuple([spaces.Discrete(4), spaces.Discrete(3, start=4)])
    for env in (shuffled, Combined("array"), Numbers()):  # of the same size
        with pytest.raises(CheckpointError, match=r"observation space .* \(saved: Tuple\(Discrete\(3, start=4\), Disc"):
            MatrixRL.load(tmp_path / "a", env)


def test_actions_of_an_environment_with_vectors():
    class Vectors(Combined):
        def __init__(self):
            super().__init__("dictionary")
            self.observation_space = spaces.Box(0.0, 1.0, (1,), dtype=np.float64)

        def outside(self):
            return np.array([self.state / STATES])

    agent = KernelMatrixRL(Vectors(), reward_range=(0, 1), seed=0)
    assert agent.learn(2).n_episodes == 2
    assert PLAYED["dictionary"].contains(agent.predict([0.5], stage=0))

    class Plain(Vectors):
        action_space = Numbers.action_space

        def __init__(self):
            super().__init__()
            self.action_space = Numbers.action_space

        def inside(self, action):
            return action

    plain = KernelMatrixRL(Plain(), reward_range=(0, 1), seed=0)
    np.testing.assert_array_equal(plain.learn(2).returns, agent.history.returns)


def test_actions_of_a_functional_task():
    def hats(states):
        return np.stack([1.0 - states / STATES, states / STATES], axis=1)

    class Walk(Combined):
        def outside(self):
            return self.state

    env = Walk("tuple")
    env.observation_space = Numbers.observation_space
    task = FunctionalTask(
        phi=lambda s: np.repeat(hats(s)[:, None], ACTIONS, axis=1),
        psi=hats,
        sampler=lambda rng, m: (rng.integers(0, STATES, m), np.full(m, STATES / m)),
        n_actions=ACTIONS,
        horizon=HORIZON,
        start=0,
        end_state=0,
        env=env,
    )
    agent = MatrixRL(task, columns=40, seed=0)
    assert agent.learn(2).n_episodes == 2
    assert PLAYED["tuple"].contains(agent.predict(3, stage=0))


def test_kernels_of_combined_states_lie_on_a_grid_and_leave_the_end_alone():
    agent = KernelMatrixRL(Combined("tuple"), seed=0)
    gram = agent.problem.features.phi.table[:, 0] @ agent.problem.features.phi.table[:, 0].T
    states = agent.problem.states
    near = gram[states.encode("", (4, 0), ""), states.encode("", (5, 0), "")]
    far = gram[states.encode("", (4, 0), ""), states.encode("", (6, 3), "")]
    assert near > far
    np.testing.assert_allclose(near, np.exp(-0.5 / agent.settings.length_scale**2), rtol=1e-9)
    assert not gram[STATES, :STATES].any()
    assert agent.learn(2).n_episodes == 2
    assert Agent(Combined("tuple"), "kernel-ucbvi", seed=0).learn(2).n_episodes == 2


def test_blackjack_from_end_to_end(tmp_path):
    env = gym.make("Blackjack-v1")
    agent = MatrixRL(env, horizon=8, reward_range=(-1, 1), known_reward=False, preset="tuned", seed=0)
    assert str(agent.problem.states) == "Tuple(Discrete(32), Discrete(11), Discrete(2))"
    assert agent.problem.summary == "Blackjack-v1: 704 states and the end state, 2 actions, 8 steps"
    agent.learn(20)
    agent.save(tmp_path / "a")
    other = MatrixRL.load(tmp_path / "a", gym.make("Blackjack-v1"))
    np.testing.assert_array_equal(agent.learn(10).returns, other.learn(10).returns)
    assert agent.predict((20, 10, 0), stage=0) in (0, 1)
    shown = agent.certificate()
    assert -8.0 <= shown.lower <= shown.upper <= 8.0
    assert shown.guarantee
    result = run_seeds("gym:Blackjack-v1", n_episodes=3, seeds=2, agent="psrl", horizon=8, reward_range=(-1, 1))
    assert set(np.unique(result.returns)) <= {-1.0, 0.0, 1.0}


@pytest.mark.parametrize("name", ["CliffWalking-v1", "Taxi-v4", "FrozenLake-v1"])
def test_environments_with_a_table_are_read_as_before(name):
    agent = MatrixRL(gym.make(name), horizon=10, seed=0)
    assert agent.learn(2).regret is not None
    assert agent.problem.mdp.n_states == agent.problem.n_observed + 1


def test_states_that_are_vectors_read_like_tuples():
    dynamics = KnownDynamics(
        lambda s, _a, w: ((w, s[0]), 0.0),
        outcomes=2,
        states=gym.spaces.MultiDiscrete([2, 2]),
        n_actions=1,
        horizon=2,
        start=(1, 0),
    )
    assert "state (1, 0), the declared start" in str(MatrixRL(dynamics).certificate())
