"""Masks that an environment reports when a state is first visited: what was certified before must not outlive them."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from matrixrl import MatrixRL
from named_agents import AGENTS

TABULAR = [name for name in AGENTS if name not in ("lin-ucb", "kernel-ucb", "kernel-control")]
WITHDRAWN = "may have been learned from that the environment reported as not allowed"


class Reporter(gym.Env):
    """A random problem that reports the mask of the current state; what is not allowed would pay most.

    Args:
        seed: Seed of the problem.
        silent_reset: Whether `reset` reports no mask.
        staged: Whether the laws of the last stage differ; masks do not.
    """

    n_states, n_actions, horizon = 5, 3, 3
    observation_space, action_space = gym.spaces.Discrete(5), gym.spaces.Discrete(3)

    def __init__(self, seed, *, silent_reset=False, staged=False):
        rng = np.random.default_rng(seed)
        shape = self.n_states, self.n_actions
        self.silent_reset, self.known = silent_reset, np.zeros(self.n_states, dtype=bool)
        self.masks = rng.random(shape) < 0.5
        self.masks[np.arange(self.n_states), rng.integers(self.n_actions, size=self.n_states)] = True
        self.laws = rng.dirichlet(np.full(self.n_states, 0.3), size=(self.horizon, *shape))
        if not staged:
            self.laws[:] = self.laws[0]
        self.rewards = np.where(self.masks, 0.5 * rng.random(shape), 1.0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.stage = 0, 0
        return 0, {} if self.silent_reset else self.info()

    def info(self):
        return {"action_mask": self.masks[self.state].astype(np.int8)}

    def step(self, action):
        is_silent = self.silent_reset and self.stage == 0
        assert is_silent or self.masks[self.state, action]
        self.known[self.state] |= not is_silent
        reward = float(self.rewards[self.state, action])
        law = self.laws[self.stage, self.state, action]
        self.state, self.stage = int(self.np_random.choice(self.n_states, p=law)), self.stage + 1
        return self.state, reward, False, False, self.info()

    def forbidden(self, policy):
        """Return how many actions of a policy the masks of known states forbid."""
        table = np.asarray(policy.table)[:, : self.n_states]
        return int((~self.masks[np.arange(self.n_states), table] & self.known).sum())

    def value(self, policy=None):
        """Return V of a policy, or V*, from state 0."""
        values, states = np.zeros(self.n_states), np.arange(self.n_states)
        for h in reversed(range(self.horizon)):
            q = np.where(self.masks, self.rewards + self.laws[h] @ values, -np.inf)
            values = q.max(axis=1) if policy is None else q[states, np.asarray(policy.table)[h, : self.n_states]]
        return float(values[0])


def agent_on(env, **settings):
    return MatrixRL(env, reward=env.rewards, reward_range=(0, 1), **{"seed": 0, "delta": 0.01, **settings})


@pytest.mark.parametrize(
    "settings",
    [{}, {"set": "normalised"}, {"set": "sandwich"}, {"switch_growth": 0.5}, {"stage_dependent": [0, 0, 1]}],
    ids=str,
)
def test_what_is_proven_is_true_and_no_policy_has_an_action_that_is_known_to_be_forbidden(settings, tmp_path):
    """Seeds are fixed; with other ones each of 8 agents may fail with probability δ = 0.01."""
    proven = 0
    for seed in range(8):
        env = Reporter(seed, staged="stage_dependent" in settings)
        agent, best = agent_on(env, seed=seed, **settings), env.value()
        for count in (1, 1, 2, 4, 8, 16, 32):
            agent.learn(count, certify=count == 1)
            if count == 4:
                agent.save(tmp_path / "agent")
                agent = MatrixRL.load(tmp_path / "agent", env=env)
            chosen = agent.recommend()
            policies = (chosen, agent.policy, agent.greedy())
            assert [env.forbidden(policy) for policy in policies] == [0, 0, 0]
            agent.compare(chosen, agent.policy)  # its own recommendation is a policy of the problem
            assert agent.alarm is None
            if chosen.certificate.guarantee:
                proven += 1
                assert chosen.certificate.lower <= env.value(chosen) + 1e-9
                assert best <= chosen.certificate.upper + 1e-9
                shown = agent.certificate()
                assert shown.lower <= best <= shown.upper + 1e-9
    assert proven >= 8


def test_upper_bounds_of_shared_features_do_not_outlive_pairs_that_do_not_exist():
    """Seeds are fixed; with other ones each of 6 agents may fail with probability δ = 0.01."""
    proven = 0
    for seed in range(6):
        env = Reporter(seed)
        phi = env.laws[0].reshape(-1, env.n_states)  # P = φᵀ Mψ with M the identity, for allowed pairs alone
        phi = np.where(env.masks.reshape(-1, 1), phi, 3.0 * np.eye(env.n_states)[0])
        agent = agent_on(env, set="normalised", phi=phi.reshape(5, 3, 5), seed=seed)
        for _ in range(12):
            agent.learn(4, certify=True)
            found = agent.recommend()
            assert env.forbidden(found) == 0
            if found.certificate.guarantee:
                proven += 1
                assert found.certificate.lower <= env.value(found) + 1e-9
                assert env.value() <= found.certificate.upper + 1e-9
    assert proven > 0


class Fork(gym.Env):
    """State 4 leads to 0 or 3 by chance, 3 to 1, which pays 1, and 0 to 2, which pays nothing; V* = 0.6."""

    observation_space, action_space, horizon = gym.spaces.Discrete(5), gym.spaces.Discrete(2), 3
    following = (2, 1, 2, 1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 4
        return 4, self.info()

    def info(self):
        return {"action_mask": np.array([1, int(self.state != 4)], dtype=np.int8)}

    def step(self, action):
        state = self.state
        self.state = 3 * int(self.np_random.integers(2)) if state == 4 else self.following[state]
        return self.state, {1: 1.0, 4: 0.1}.get(state, 0.0), False, False, self.info()


@pytest.mark.parametrize("kind", ["normalised", "sandwich"])
def test_lower_bounds_of_shared_features_do_not_outlive_pairs_that_do_not_exist(kind):
    """φ of the pair (4, 1) is (φ of state 0 - φ of state 3) / 0.001, where φᵀM* has a norm of 1,400.

    As long as that pair counts as allowed, the bound on the norm of M* is far too small, and the data of state 3 are
    taken to tell of state 0. The remembered policy takes no action that is not allowed.
    """
    n, env, unit = 5000, Fork(), np.eye(5)
    phi = np.zeros((5, 2, 5))
    phi[3], phi[0], phi[4], phi[1], phi[2] = unit[0], unit[0] + 1e-3 * unit[1], unit[[2, 1]], unit[3], unit[4]
    rewards = np.zeros((5, 2))
    rewards[1], rewards[4, 0] = 1.0, 0.1
    agent = MatrixRL(env, reward=rewards, reward_range=(0, 1), phi=phi, set=kind, seed=0, delta=0.05)
    log = {
        "episode": np.arange(3 * n),
        "step": np.tile([0, 1, 2], n),
        "state": np.tile([4, 3, 1], n),
        "action": np.zeros(3 * n, dtype=int),
        "reward": np.tile([0.1, 0.0, 1.0], n),
        "next_state": np.tile([0, 1, 1, 3, 1, 1], n // 2),
    }
    agent.learn_from(log, verbose=False)
    before = agent.recommend()
    assert before.certificate.lower > 0.6
    assert not before.certificate.guarantee
    agent.learn(20)
    after = agent.recommend().certificate
    assert after.guarantee
    assert after.lower <= 0.6 <= after.upper


class Rare(gym.Env):
    """State 1 is rare, and allows action 1 only; elsewhere action 2 pays."""

    observation_space, action_space, horizon = gym.spaces.Discrete(3), gym.spaces.Discrete(3), 4
    seen = False

    def __init__(self, first=0):
        self.begun, self.first = 0, first  # episode in which state 1 is visited for the first time

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.begun = 0, self.begun + 1
        return 0, self.info()

    def info(self):
        return {"action_mask": np.array([0, 1, 0] if self.state == 1 else [1, 1, 1])}

    def step(self, action):
        assert self.info()["action_mask"][action]
        self.seen |= self.state == 1
        reward = 0.9 * (action == 2)
        rare = self.np_random.random() < 0.004 if self.begun > self.first else self.begun == self.first
        self.state = 1 if rare else 2 * int(self.np_random.integers(2))
        return self.state, reward, False, False, self.info()


def test_policies_that_were_frozen_before_a_mask_take_allowed_actions_after_it(tmp_path):
    value = 0.9 + 3 * 0.9 * 0.996  # of action 2 wherever it is allowed
    by_returns = 0
    for seed in range(4):
        agent = MatrixRL(Rare(), known_reward=False, reward_range=(0, 1), seed=seed)
        for count in (127, 100, 100):
            agent.learn(count)
            agent.save(tmp_path / "agent")
            chosen = MatrixRL.load(tmp_path / "agent").recommend()
            assert chosen.certificate.lower <= value
            if agent.problem.env.seen:
                by_returns += chosen.basis == "returns"
                np.testing.assert_array_equal(np.asarray(chosen.table)[:, 1], 1)
    assert by_returns > 0


def test_a_policy_that_is_frozen_in_the_episode_that_reports_a_mask_takes_allowed_actions():
    by_returns = 0
    for seed in range(3):
        agent = MatrixRL(Rare(first=64), known_reward=False, reward_range=(0, 1), seed=seed)
        agent.learn(64)
        for _ in range(3):
            agent.learn(40)
            chosen = agent.recommend()
            by_returns += chosen.basis == "returns"
            np.testing.assert_array_equal(np.asarray(chosen.table)[:, 1], 1)
    assert by_returns > 0


@pytest.mark.parametrize("name", TABULAR)
def test_the_policy_and_predictions_of_every_agent_heed_masks_at_once(name):
    env = Reporter(3)
    agent = AGENTS[name](env, reward=env.rewards, reward_range=(0, 1), seed=0)
    episode = agent.begin_episode()
    agent.policy  # noqa: B018 a plan is kept that knows no mask
    ahead = agent.plan_ahead()
    episode.abandon()
    for count in (1, 1, 3, 5):
        agent.learn(count)
        assert env.forbidden(agent.policy) == 0
        for state in np.flatnonzero(env.known):
            assert all(env.masks[state, agent.predict(state, stage)] for stage in range(3))
    if name == "matrix-rl":
        table = agent.action_tables(ahead).policy[:, :5]
        assert env.masks[np.arange(5), table][:, env.known].all()


def test_the_certificate_of_an_open_episode_is_about_the_actions_that_it_takes():
    """The plan is older than the masks that are reported while it is played."""
    env = Reporter(13)
    agent = agent_on(env)
    agent.learn(60)
    assert env.known.all()
    fresh = agent_on(env)
    episode = fresh.begin_episode()
    for state in range(5):
        fresh.algorithm.masks.tell(state, env.masks[state])
    assert fresh.certificate().lower <= env.value()
    assert all(env.masks[state, episode.act(state)] for state in range(5))


def test_a_mask_that_is_reported_between_two_questions_is_heeded():
    """An episode in another sub-environment may report it; what was remembered before must not be used."""
    env = Reporter(13)
    phi = np.concatenate([env.laws[0]] * 2, axis=2) / 2.0
    for features, stays in ((None, True), (phi, False)):
        agent = agent_on(env, phi=features, set="normalised")
        agent.certificate()
        agent._ledger.least_upper[:] = 2.0  # as if it had been certified before the mask
        agent._ledger.contradict(upper=0.0, lower=1.0)
        assert agent.alarm is not None
        kept = np.asarray(agent.policy.table)[0, 1]
        agent.algorithm.masks.tell(1, np.arange(3) != kept)
        assert kept not in np.asarray(agent.policy.table)[:, 1]
        assert agent.predict(1, 0) != kept
        assert agent.alarm is None  # a bound may have been about an action that does not exist
        assert (agent.certificate().upper == 2.0) == stays


def test_nothing_is_proven_after_steps_that_a_later_mask_forbids(tmp_path):
    """`reset` reports no mask, so the agent may take a forbidden action in state 0 before it knows the mask."""
    withdrawn = 0
    for seed in range(6):
        env = Reporter(seed, silent_reset=True)
        agent, tried = agent_on(env, seed=seed), False
        for _ in range(40):
            agent.learn(1)
            state, action = agent._seen.all()[0].states, agent._seen.all()[0].actions
            tried = bool((~env.masks[state, action] & env.known[state]).any())
            if tried:
                words = agent.certificate().guarantee
                assert not words
                withdrawn += WITHDRAWN in words.reason
        agent.save(tmp_path / "agent")
        assert MatrixRL.load(tmp_path / "agent").certificate().guarantee == agent.certificate().guarantee
    assert withdrawn > 0


def test_nothing_is_proven_before_the_first_episode_of_an_environment_that_may_report_masks():
    env = Reporter(13)
    agent = agent_on(env)
    assert "the environment was not played yet" in agent.certificate().guarantee.reason
    assert "reports no mask" in agent.assumptions
    declared = agent_on(env, allowed=env.masks)
    assert declared.certificate().guarantee
    assert "reports no mask" not in declared.assumptions


class _MaskAtTheEnd(gym.Env):
    """One step from state 0 to state 1, whose mask is in the info of that step alone."""

    observation_space = gym.spaces.Discrete(2)
    action_space = gym.spaces.Discrete(2)
    horizon = 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {"action_mask": np.array([1, 1], dtype=np.int8)}

    def step(self, action):
        return 1, 0.0, False, True, {"action_mask": np.array([0, 1], dtype=np.int8)}


@pytest.mark.parametrize("mode", [None, gym.vector.AutoresetMode.NEXT_STEP, gym.vector.AutoresetMode.DISABLED])
def test_a_mask_that_comes_with_the_last_step_is_heeded(mode):
    agent = MatrixRL(_MaskAtTheEnd(), known_reward=False, seed=0, compiled=False)
    if mode is None:
        agent.learn(3)
    else:
        agent.learn(3, env=gym.vector.SyncVectorEnv([_MaskAtTheEnd] * 2, autoreset_mode=mode))
    for policy in (agent.policy, agent.greedy(), agent.recommend()):
        assert policy.act(1, stage=0) == 1
