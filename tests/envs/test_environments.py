from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import matrixrl
from matrixrl import InvalidInput, make, solve
from matrixrl.envs import ENVIRONMENTS, policy_value
from matrixrl.errors import ProtocolError, UnknownName
from worlds import myopic_loss


def allowed_or_first(env, action):
    """Return the action, or the first allowed one if it is not allowed in the current state."""
    masks = env.unwrapped.action_masks()
    return action if masks[action] else int(np.argmax(masks))


@pytest.mark.parametrize("name", ENVIRONMENTS)
class TestEveryEnvironment:
    """The same contract for every registered environment."""

    def test_the_gymnasium_checker_passes(self, name):
        entry = ENVIRONMENTS[name]
        env = gym.make(entry.id).unwrapped
        step = env.step
        env.step = lambda action: step(allowed_or_first(env, action))  # the checker does not know masks
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(env)

    def test_seeds_repeat_and_differ(self, name):
        def rollout(seed):
            env = make(name)
            obs, _ = env.reset(seed=seed)
            path = [int(obs)]
            actions = np.random.default_rng(0)
            for _ in range(env.unwrapped.horizon):
                action = allowed_or_first(env, int(actions.integers(env.action_space.n)))
                obs, reward, terminated, truncated, _ = env.step(action)
                path.append((int(obs), reward))
                if terminated or truncated:
                    break
            return path, env.unwrapped.np_random.bit_generator.state

        assert rollout(1) == rollout(1)
        stochastic = any(
            (0 < row.max() < 1)
            for row in make(name).unwrapped.mdp.transitions.rows(np.arange(3), np.zeros(3, dtype=int))
        )
        if stochastic:
            assert any(rollout(1)[0] != rollout(s)[0] for s in range(2, 6))

    def test_the_episode_ends_at_the_horizon_or_in_the_end_state(self, name):
        env = make(name)
        env.reset(seed=0)
        for step in range(env.unwrapped.horizon):
            state, _, terminated, truncated, _ = env.step(allowed_or_first(env, 0))
            assert terminated == (state == env.unwrapped.mdp.task.end_state)
            assert truncated == (not terminated and step == env.unwrapped.horizon - 1)
            if terminated:
                break
        with pytest.raises(ProtocolError, match="call reset"):
            env.unwrapped.step(0)

    def test_bad_settings_and_actions(self, name):
        with pytest.raises(UnknownName, match=f"{name} setting must be one of"):
            make(name, hight=3)
        with pytest.raises(InvalidInput, match="horizon must be at least 1"):
            make(name, horizon=0)
        env = make(name)
        env.reset(seed=0)
        with pytest.raises(InvalidInput, match="action must be in"):
            env.unwrapped.step(99)

    def test_the_optimum_is_known_and_above_random_play(self, name):
        mdp = make(name).unwrapped.mdp
        allowed = np.ones((mdp.n_states, mdp.task.n_own_actions)) if mdp.allowed is None else mdp.allowed
        random = policy_value(mdp, allowed / allowed.sum(axis=1, keepdims=True))
        assert solve(mdp).start_value > random + 1e-3


def test_gym_make_works_after_importing_the_library():
    assert matrixrl.__version__
    env = gym.make("matrixrl/RiverSwim-v0", n_states=4, horizon=20)
    assert env.unwrapped.mdp.n_states == 4


def test_names():
    assert make("matrixrl/DeepSea-v0", size=4).unwrapped.mdp.n_states == 16
    with pytest.raises(UnknownName, match="Did you mean 'river-swim'"):
        make("river-swmi")
    with pytest.raises(UnknownName, match="Did you mean 'gym:FrozenLake-v1'"):
        make("FrozenLake-v1")
    with pytest.raises(UnknownName, match="Did you mean 'FrozenLake-v1'"):
        make("gym:FrozenLak-v1")
    with pytest.raises(InvalidInput, match="cannot be made"):
        make("gym:FrozenLake-v1", colour="blue")


def test_deep_sea_rewards_one_path():
    """Only always-right finds the treasure: value 1 − (size − 1)·0.01/size."""
    mdp = make("deep-sea", size=6, seed=3).unwrapped.mdp
    assert solve(mdp).start_value == pytest.approx(1 - 5 * 0.01 / 6)


def test_combination_lock_value_by_hand():
    """No slip: n − 1 turns, then one a step."""
    mdp = make("combination-lock", n_states=5, horizon=9, slip=0.0).unwrapped.mdp
    assert solve(mdp).start_value == pytest.approx(9 - 4)


def test_four_rooms_value_by_hand():
    """No slip on a 5×5 grid: eight steps to the far corner through the doors, then one a step."""
    env = make("four-rooms", size=5, horizon=12, slip=0.0)
    assert solve(env.unwrapped.mdp).start_value == pytest.approx(12 - 8)


def test_linear_mdp_carries_its_core():
    env = make("linear-mdp", n_states=20, d=3, d_psi=2).unwrapped
    assert env.core.shape == (3, 2)
    assert env.mdp.features.phi.d == 3


@pytest.mark.parametrize(
    "settings",
    [
        {},  # the presets
        {"n_states": 100, "d": 20, "horizon": 20, "concentration": 0.1},  # the presets
        {"n_states": 1000, "n_actions": 10, "d": 10, "horizon": 10},  # the race against other libraries
    ],
    ids=["default", "presets d=20", "race"],
)
def test_linear_mdp_rewards_myopic_play_as_the_documents_say(settings):
    """Its rows say nothing about exploring, and the documents that have any say so."""
    assert myopic_loss(make("linear-mdp", **settings).unwrapped.mdp) == pytest.approx(0.0, abs=1e-12)


def test_river_swim_does_not_reward_myopic_play():
    assert myopic_loss(make("river-swim").unwrapped.mdp) > 0.9


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("emission-river", {}),
        ("emission-river", {"overlap": 0.2}),
        ("linear-lock", {}),
        ("hypercube", {}),
        ("factors", {}),
    ],
)
class TestProblemsThatNeedFeaturesAndExploration:
    def test_transitions_are_those_of_the_core_and_rewards_are_linear(self, name, settings, seed):
        env = make(name, seed=seed, **settings).unwrapped
        mdp, features = env.mdp, env.mdp.features
        states = np.arange(mdp.n_states)
        rows = features.phi.at(states)
        for a in range(mdp.n_actions):
            law = rows[a] @ env.core @ features.psi.table.T
            np.testing.assert_allclose(mdp.transitions.rows(states, np.full_like(states, a)), law, atol=1e-12)
        flat = rows.reshape(-1, features.phi.d)
        reward = mdp.task.reward.T.ravel()
        np.testing.assert_allclose(flat @ np.linalg.lstsq(flat, reward, rcond=None)[0], reward, atol=1e-12)

    def test_neither_the_largest_reward_of_the_step_nor_random_play_earns_much(self, name, settings, seed):
        mdp = make(name, seed=seed, **settings).unwrapped.mdp
        assert myopic_loss(mdp) > 0.3
        random = np.full(mdp.task.reward.shape, 1.0 / mdp.n_actions)
        assert policy_value(mdp, random) < 0.7 * solve(mdp).start_value


def test_the_river_behind_observations_is_river_swim():
    """V* does not depend on how the latent states are seen, and without overlap φ are indicators."""
    mdp = make("emission-river", seed=5).unwrapped.mdp
    assert solve(mdp).start_value == pytest.approx(solve(make("river-swim").unwrapped.mdp).start_value)
    assert (mdp.features.phi.table.sum(axis=-1) == 1.0).all()
    assert (np.count_nonzero(mdp.features.psi.table, axis=1) == 1).all()


def test_linear_lock_value_by_hand():
    """No slip and no mixture: five turns of fifteen steps, then one a step."""
    assert solve(make("linear-lock", slip=0.0, mixing=0.0).unwrapped.mdp).start_value == pytest.approx(15 - 5)


def test_hypercube_value_by_hand():
    """The best corner reaches the goal with δ + (d − 1)Δ = 2/H at each step, and earns 1 in each later one."""
    chance = 2.0 / 6
    by_hand = sum((1.0 - chance) ** t * chance * (5 - t) for t in range(6))
    assert solve(make("hypercube", dimension=3, horizon=6).unwrapped.mdp).start_value == pytest.approx(by_hand)
