"""Tasks whose states are never enumerated: functions and a sampler."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from matrixrl import CheckpointError, InvalidInput, LargeTask, MatrixRL, make
from matrixrl.mdp import low_rank
from tolerances import ALGEBRA

CENTRES = np.linspace(0.0, 1.0, 5)


def hats(x):
    """Five functions on [0, 1] that sum to one: (k,) → (k, 5)."""
    return np.maximum(0.0, 1.0 - 4.0 * np.abs(x[..., None] - CENTRES))


class Line(gym.Env):
    """A point on [0, 1] that aims left or right and lands around the centres near its aim; the right end pays."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)
    horizon = 8

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = np.zeros(1)
        return self.place, {}

    def step(self, action):
        aim = float(np.clip(self.place[0] + (0.2 if action == 1 else -0.2), 0.0, 1.0))
        shares = hats(np.array([aim]))[0]
        centre = CENTRES[self.np_random.choice(5, p=shares)]
        offset = self.np_random.triangular(-0.25, 0.0, 0.25)
        self.place = np.array([abs(1.0 - abs(1.0 - abs(centre + offset)))])  # reflected at both ends
        return self.place, float(shares[-1]), False, False, {}


def aims(states):
    right = np.clip(states[:, 0] + 0.2, 0.0, 1.0)
    left = np.clip(states[:, 0] - 0.2, 0.0, 1.0)
    return np.stack([hats(left), hats(right)], axis=1)


def line(**changes):
    settings = {
        "phi": aims,
        "psi": lambda states: hats(states[:, 0]),
        "sampler": lambda rng, m: (rng.random((m, 1)), np.full(m, 1.0 / m)),
        "n_actions": 2,
        "horizon": 8,
        "reward": lambda states: aims(states)[:, :, -1],
        "start": [0.0],
        "env": Line(),
    }
    return LargeTask(**{**settings, **changes})


def test_a_continuum_of_states_is_learned():
    """From 0.14 a step when playing at random to a return near the best: always right."""
    agent = MatrixRL(line(), seed=0, preset="practical", columns=300)
    history = agent.learn(60)
    env = Line()
    best = []
    for seed in range(200):
        env.reset(seed=seed)
        best.append(sum(env.step(1)[1] for _ in range(8)))
    assert history.returns[-20:].mean() > 0.85 * np.mean(best)
    assert all(agent.predict([x], stage=0) == 1 for x in (0.0, 0.3, 0.6))
    assert history.regret is None
    certificate = agent.certificate()
    assert certificate.lower <= certificate.upper
    assert "estimates" in str(certificate.guarantee)


def test_a_finite_task_given_as_functions_is_the_table():
    """The sampler takes every state once: the same plans as MatrixRL with all columns."""
    world = low_rank(n_states=25, n_actions=3, d=4, horizon=4, seed=1)
    phi, psi, reward = world.features.phi.table, world.features.psi.table, world.mdp.task.reward
    task = LargeTask(
        phi=lambda s: phi[s],
        psi=lambda s: psi[s],
        sampler=lambda _, m: (np.arange(m) % 25, np.ones(m)),
        n_actions=3,
        horizon=4,
        reward=lambda s: reward[s],
        start=0,
    )
    usual, other = MatrixRL(world.mdp, seed=0), MatrixRL(task, seed=0, columns=25)
    rng = np.random.default_rng(0)
    for _ in range(15):
        for agent in (usual, other):
            agent.begin_episode()
        state = 0
        for _ in range(4):
            action = usual.act(state)
            assert other.act(state) == action
            following = int(world.mdp.transitions.sample(np.array([state]), np.array([action]), rng.random(1))[0])
            for agent in (usual, other):
                agent.observe(state, action, reward[state, action], following)
            state = following
        assert usual.end_episode().upper == pytest.approx(other.end_episode().upper, abs=1e-8)
    assert usual.certificate().lower == pytest.approx(other.certificate().lower, abs=1e-8)


def test_unknown_rewards_of_a_continuum():
    agent = MatrixRL(line(reward=None), seed=0, preset="practical", columns=300, known_reward=False)
    assert agent.learn(80).returns[-20:].mean() > 2.0


@pytest.mark.parametrize("growth", [0.0, 0.5])
@pytest.mark.parametrize("steps", [0, 3])
def test_saved_in_the_middle_and_loaded_it_goes_on_bit_for_bit(tmp_path, growth, steps):
    def play(agent, first, last):
        for i in range(first, last):
            place = np.array([i / 10.0])
            agent.observe(place, agent.act(place), 0.0, place + 0.1)

    agents = [MatrixRL(line(env=None), seed=4, columns=100, switch_growth=growth) for _ in range(2)]
    for agent in agents:
        for _ in range(3):
            agent.begin_episode()
            play(agent, 0, 8)
            agent.end_episode()
        agent.begin_episode()
        play(agent, 0, steps)
    agents[0].save(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a", env=line(env=None))
    for agent in (agents[1], loaded):
        play(agent, steps, 8)
        agent.end_episode()
        agent.begin_episode()
        play(agent, 0, 8)
        agent.end_episode()
    np.testing.assert_array_equal(loaded.history.upper, agents[1].history.upper)
    np.testing.assert_array_equal(loaded.engine.cross_moment, agents[1].engine.cross_moment)


def test_learning_goes_on_bit_for_bit_in_an_environment_of_functions(tmp_path):
    whole = MatrixRL(make("soft-grid", side=20), seed=2, columns=80).learn(12)
    agent = MatrixRL(make("soft-grid", side=20), seed=2, columns=80)
    agent.learn(7)
    agent.save(tmp_path / "a")
    with pytest.raises(InvalidInput, match="env must be the environment"):
        MatrixRL.load(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a", env=make("soft-grid", side=20))
    np.testing.assert_array_equal(loaded.learn(5).returns, whole.returns)
    np.testing.assert_array_equal(loaded.history.regret, whole.regret)


def test_a_checkpoint_of_functions_wants_the_same_functions(tmp_path):
    agent = MatrixRL(line(), seed=0, columns=50)
    agent.learn(2)
    agent.save(tmp_path / "a")
    with pytest.raises(InvalidInput, match="env must be the LargeTask"):
        MatrixRL.load(tmp_path / "a")
    with pytest.raises(InvalidInput, match="other functions"):
        MatrixRL.load(tmp_path / "a", env=line(psi=lambda states: hats(states[:, 0]) + 1.0))
    MatrixRL.load(tmp_path / "a", env=line()).learn(1)


def test_a_hostile_column_is_refused(tmp_path):
    agent = MatrixRL(make("linear-mdp", n_states=30), seed=0, columns=10)
    agent.learn(2)
    agent.save(tmp_path / "a")
    with np.load(tmp_path / "a") as archive:
        arrays = dict(archive)
    for name, value in {
        "learned_columns": np.full(10, 10**6),
        "learned_kept_columns": np.full(10, -1),
        "learned_column_weights": np.full(10, -1.0),
        "learned_kept_design": np.zeros((1, 2, 2)),
    }.items():
        np.savez(tmp_path / "odd.npz", **{**arrays, name: value})
        with pytest.raises(CheckpointError, match="cannot be restored"):
            MatrixRL.load(tmp_path / "odd.npz")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phi": 3}, "phi must be a function"),
        ({"phi": lambda s: np.zeros((len(s), 3, 2))}, r"phi must return shape \(3, 2, d\)"),
        ({"psi": lambda s: np.full((len(s), 2), np.nan)}, "psi must be finite"),
        ({"sampler": lambda rng, m: (rng.random((m, 1)), np.zeros(m))}, "sampler must return"),
        ({"reward": lambda s: np.full((len(s), 2), 3.0)}, r"reward must lie in \[0, 1\]"),
        ({"start": [0.0, 1.0]}, r"start must be finite numbers of shape \(1,\)"),
        ({"horizon": 0}, "horizon"),
        ({"end_state": [2.0], "reward_range": (0.5, 1.0), "reward": None}, "reward_range must contain 0"),
    ],
)
def test_bad_functions_are_named(changes, message):
    with pytest.raises(InvalidInput, match=message):
        line(**changes)


def test_what_is_missing_is_said():
    with pytest.raises(InvalidInput, match="columns must be given"):
        MatrixRL(line())
    with pytest.raises(InvalidInput, match="reward must be given"):
        MatrixRL(line(reward=None), columns=50)
    with pytest.raises(InvalidInput, match="columns must be enough"):
        MatrixRL(line(), columns=2)
    with pytest.raises(InvalidInput, match="columns need features"):
        MatrixRL(make("river-swim"), columns=3)
    with pytest.raises(InvalidInput, match="start must be known"):
        MatrixRL(line(start=None), columns=50).certificate()
    agent = MatrixRL(line(), columns=50)
    agent.begin_episode()
    with pytest.raises(InvalidInput, match="obs must be finite numbers"):
        agent.act([np.nan])
    MatrixRL(line(), columns=2, psi_pinv=True).learn(2)


def test_an_episode_that_ends_early_stops_earning():
    """The end state has a feature of its own; the agent learns that the left end ends the episode."""

    class Cliff(Line):
        def step(self, action):
            place, reward, *_ = super().step(action)
            fell = action == 0
            return (np.full(1, 2.0) if fell else place), reward, fell, False, {}

    def psi(states):
        ended = states[:, 0] > 1.0
        return np.column_stack([hats(states[:, 0]) * ~ended[:, None], ended])

    def phi(states):
        right = np.column_stack([hats(np.clip(states[:, 0] + 0.2, 0, 1)), np.zeros(len(states))])
        left = np.eye(6)[np.full(len(states), 5)]
        ended = (states[:, 0] > 1.0)[:, None]
        return np.stack([left, np.where(ended, left, right)], axis=1)

    task = line(phi=phi, psi=psi, end_state=[2.0], env=Cliff(), reward=lambda s: phi(s)[:, :, 4])
    history = MatrixRL(task, seed=0, preset="practical", columns=200).learn(40)
    assert history.lengths[-10:].min() == 8
    assert history.lengths.min() < 8


def test_regret_can_be_left_out():
    history = MatrixRL(make("soft-grid", side=20), columns=60, measure_regret=False, seed=0).learn(3)
    assert history.regret is None
    np.testing.assert_allclose(
        history.returns, MatrixRL(make("soft-grid", side=20), columns=60, seed=0).learn(3).returns, atol=ALGEBRA
    )
