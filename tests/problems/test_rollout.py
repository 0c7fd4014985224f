"""Episodes of many replicas at once are the episodes of the environment with the same streams."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import FiniteMDP, MDPEnv
from matrixrl.problems import tabular

N_STATES, N_ACTIONS, HORIZON, B = 5, 3, 6, 4


def world(*, noisy, end, horizon=HORIZON):
    """Return an MDP with rewards in [-1, 3], a random start and, if wanted, an end state that is reached often."""
    rng = np.random.default_rng(7)
    plain = tabular(n_states=N_STATES, n_actions=N_ACTIONS, seed=2).mdp
    states, actions = np.divmod(np.arange(N_STATES * N_ACTIONS), N_ACTIONS)
    table = plain.transitions.rows(states, actions).reshape(N_STATES, N_ACTIONS, N_STATES)
    reward, start = rng.uniform(-1.0, 3.0, (N_STATES, N_ACTIONS)), rng.dirichlet(np.ones(N_STATES))
    if end:
        table[-1], reward[-1], start[-1] = np.eye(N_STATES)[-1], 0.0, 0.0
    return FiniteMDP(
        table,
        reward,
        horizon,
        reward_range=(-1.0, 3.0),
        start=start / start.sum(),
        end_state=N_STATES - 1 if end else None,
        noisy_rewards=noisy,
    )


def stepped(env, policy, seed):
    """Play one episode step by step; return what was seen of it."""
    state, _ = env.reset(seed=seed)
    seen = []
    for h in range(env.horizon):
        action = int(policy[h, state])
        following, reward, terminated, truncated, _ = env.step(action)
        seen.append((int(state), action, reward, int(following), terminated))
        state = following
        if terminated or truncated:
            break
    return seen


@pytest.mark.parametrize("noisy", [False, True], ids=["mean rewards", "noisy rewards"])
@pytest.mark.parametrize("end", [False, True], ids=["no end", "end state"])
@pytest.mark.parametrize("horizon", [1, HORIZON])
def test_a_rollout_is_stepping_the_environment(noisy, end, horizon):
    mdp, rng = world(noisy=noisy, end=end, horizon=horizon), np.random.default_rng(0)
    envs = [MDPEnv(mdp) for _ in range(B)]
    streams = [np.random.default_rng(seed) for seed in range(B)]  # the stream that Gymnasium makes of a seed
    lengths, earned = set(), set()
    for episode in range(25):
        policies = rng.integers(0, N_ACTIONS, (B, horizon, N_STATES))
        uniforms = np.stack([stream.random(mdp.draws_per_episode) for stream in streams])
        steps = mdp.rollout(uniforms, lambda h, states, p=policies: p[np.arange(B), h, states])
        for b, env in enumerate(envs):
            seen = stepped(env, policies[b], seed=b if episode == 0 else None)
            k = len(seen)
            states, actions, rewards, following, ended = (list(column) for column in zip(*seen, strict=True))
            assert steps.states[b, :k].tolist() == states
            assert steps.actions[b, :k].tolist() == actions
            assert steps.rewards[b, :k].tolist() == rewards
            assert steps.next_states[b, :k].tolist() == following
            assert steps.ended[b, :k].tolist() == ended
            assert steps.taken[b].tolist() == [True] * k + [False] * (horizon - k)
            assert not steps.rewards[b, k:].any()
            assert not steps.ended[b, k:].any()
            assert env.np_random.bit_generator.state == streams[b].bit_generator.state
            lengths.add(k)
            earned.update(rewards)
    assert (len(lengths) > 1) == (end and horizon > 1)  # some episodes end early, some do not
    assert (earned == {-1.0, 3.0}) == noisy


def test_every_uniform_number_of_an_episode_is_used_once():
    """Noise of rewards must not depend on where the step leads."""
    mdp = world(noisy=True, end=False)
    uniforms = np.random.default_rng(0).random((B, mdp.draws_per_episode))
    first, following, coins = mdp.episode_draws(uniforms)
    np.testing.assert_array_equal(np.concatenate([first[:, None], following, coins], axis=1), uniforms)
    assert world(noisy=False, end=False).draws_per_episode == 1 + HORIZON
