"""Agents of problems whose laws depend on the stage: every call has the user's actions and the right stage."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

from agents.contract import BANDITS, WORLDS
from agents.helpers import assert_same_agent, assert_same_arrays
from matrixrl import InvalidInput, MatrixRL, Policy, ProtocolError, Task, evaluate, run_seeds, solve
from matrixrl.algorithms.baselines import BASELINES
from matrixrl.problems import MDPEnv
from named_agents import AGENTS, predicted
from small_worlds import calendar, code_lock, random_mask
from worlds import Hidden

H, S, A = 4, 3, 3
MASK = np.stack([random_mask(np.random.default_rng(5 + h), S, A) for h in range(H)])
FINITE = [name for name in BASELINES if name not in BANDITS]


def masked(**options):
    return calendar(allowed=MASK, **options)


def counts(agent):
    """Return what a learner counted, without plans."""
    return {n: a for n, a in agent.algorithm.learned().items() if not n.startswith(("kept_", "q", "played", "budget_"))}


class Clock(gym.Env):
    """Rooms 10 … 12 and buttons 5 … 7; button 5 + (room + stage) mod 3 pays 1. The table is not shown."""

    observation_space = gym.spaces.Discrete(3, start=10)
    action_space = gym.spaces.Discrete(3, start=5)
    horizon = 4

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stage, self.room = 0, 10 + int(self.np_random.integers(3))
        return self.room, {}

    def step(self, action):
        paid = float((action - 5) == (self.room - 10 + self.stage) % 3)
        self.stage += 1
        self.room = 10 + int(self.np_random.integers(3))
        return self.room, paid, False, False, {}


# Ask and tell


@pytest.mark.parametrize("name", ["matrix-rl", *FINITE])
def test_answers_and_policies_have_the_actions_that_their_stage_allows(name):
    agent = AGENTS[name](masked(), seed=0)
    agent.learn(12)
    stages, states = np.meshgrid(np.arange(H), np.arange(S), indexing="ij")
    assert MASK[stages, states, agent.policy.table].all()
    for h in range(H):
        for s in range(S):
            assert agent.policy.table[h, s] == agent.policy.act(s, h)
            assert agent.predict(s, h) == predicted(agent).act(s, h)
    episode = agent.begin_episode()
    for h in range(H):
        action = episode.act(h % S)
        assert MASK[h, h % S, action]
        episode.observe(h % S, action, 0.5, (h + 1) % S)
    episode.end()
    seen = agent._seen.all()[0]
    assert seen.actions.max() < A
    np.testing.assert_array_equal(seen.stages, np.tile(np.arange(H), 13))


def test_what_is_told_is_counted_at_its_stage():
    """The same pair at two stages, against the counts of the two groups by hand."""
    agent = MatrixRL(Task(n_states=S, n_actions=A, horizon=H, stage_dependent=[0, 1, 0, 1]), seed=0)
    for _ in range(3):
        episode = agent.begin_episode()
        for _ in range(H):
            episode.observe(1, 2, 0.25, 1)
        episode.end()
    seen = agent.algorithm.model.counts.seen
    found = dict(zip(seen.ids[seen.places].tolist(), seen.times.tolist(), strict=True))
    assert found == {(0 * A + 2) * S + 1: 6, (1 * A + 2) * S + 1: 6}


def test_requests_are_about_the_actions_of_their_stage():
    agent = MatrixRL(masked(start=1), seed=0)
    agent.learn(5)
    episode = agent.begin_episode()
    for h in range(H):
        s = (h + 1) % S
        for action in np.flatnonzero(MASK[h, s]).tolist():
            assert episode.act(s, allowed=[action]) == action
        forbidden = np.flatnonzero(~MASK[h, s]).tolist()
        if forbidden:
            listed = str(np.flatnonzero(MASK[h, s]).tolist()).replace("[", r"\[").replace("]", r"\]")
            with pytest.raises(
                InvalidInput, match=rf"allowed must be among the actions {listed} that state {s} at stage"
            ):
                episode.act(s, allowed=forbidden)
            with pytest.raises(
                InvalidInput, match=rf"action must be one of {listed}, which state {s} at stage {h} allows"
            ):
                episode.observe(s, forbidden[0], 0.5, 0)
        assert episode.stage == h
        episode.observe(s, episode.act(s), 0.5, 0)
    assert any((~MASK[h, (h + 1) % S]).any() for h in range(H))
    episode.end()


def test_the_answer_to_a_request_is_the_best_by_q_of_its_stage():
    """With much data Q is close to that of the true model, whose order is that of the stage."""
    mdp = calendar(seed=2, start=np.full(S, 1 / S))
    agent = MatrixRL(mdp, preset="tuned", seed=0)
    agent.learn(3000)
    values = solve(mdp).values
    for h in range(H):
        law = mdp.transitions.law().reshape(S, H, A, S)[:, h]
        q = mdp.task.reward.reshape(S, H, A)[:, h] + law @ values[h + 1]
        for s in range(S):
            episode = agent.begin_episode()
            for k in range(h):
                episode.observe(0, int(agent.predict(0, k)), 1.0, 0)
            best = int(q[s].argmax())
            rest = [a for a in range(A) if a != best]
            assert episode.act(s) == best
            gap = abs(q[s, rest[0]] - q[s, rest[1]])
            if gap > 0.1:
                assert episode.act(s, allowed=rest) == max(rest, key=lambda a, s=s, q=q: q[s, a])
            episode.abandon()


@pytest.mark.parametrize("step", [1, 3])
def test_a_step_that_is_told_twice_is_compared_at_its_stage(step):
    agent = MatrixRL(calendar(), seed=0)
    episode, told = agent.begin_episode(), []
    for h in range(step + 1):
        action = episode.act(0)
        told.append((0, action, float(agent.problem.finite_task.reward[0, h * A + action]), 0))
        episode.observe(*told[-1], step=h)
    episode.observe(*told[step - 1], step=step - 1)
    assert episode.stage == step + 1
    other = (told[step - 1][1] + 1) % A
    with pytest.raises((InvalidInput, ProtocolError)):
        episode.observe(0, other, 0.5, 0, step=step - 1)
    with pytest.raises(InvalidInput, match="step must be below the horizon, 4"):
        episode.observe(0, 0, 0.5, 0, step=4)


def test_a_time_out_is_a_step_of_its_stage():
    rewards = np.random.default_rng(1).random((H, S + 1, A))
    rewards[:, S] = 0.0
    timed, told, known = (
        MatrixRL(Task(rewards, H, end_state=S), known_reward=known, seed=0) for known in (False, False, True)
    )
    for agent in (timed, told):
        episode = agent.begin_episode()
        for _ in range(2):
            episode.observe(0, episode.act(0), 0.5, 0)
    action = timed.act(1)
    timed.open_episodes[0].time_out(0.0)
    assert told.act(1) == action
    told.observe(1, action, 0.0, 2, terminated=True)
    told.end_episode()
    assert_same_agent(timed, told)
    last = timed._seen.all()[0]
    assert (last.stages[-1], last.actions[-1]) == (2, action)
    episode, earned = known.begin_episode(), 0.0
    for h in range(2):
        action = episode.act(0)
        earned += rewards[h, 0, action]
        episode.observe(0, action, float(rewards[h, 0, action]), 0)
    action = episode.act(1)  # its known reward is paid
    assert episode.time_out().episode_return == pytest.approx(earned + rewards[2, 1, action])


@pytest.mark.parametrize("form", ["table", "by state", "function", "probabilities", "Policy"])
def test_policies_are_compared_in_the_actions_of_the_user(form):
    mdp = calendar(seed=4)
    agent = MatrixRL(mdp, seed=0)
    agent.learn(1500)
    good, fixed = solve(mdp).policy, np.array([0, 1, 2])
    forms = {
        "table": np.tile(fixed, (H, 1)),
        "by state": fixed,
        "function": lambda state, stage: fixed[state],  # noqa: ARG005
        "probabilities": np.tile(np.eye(A)[fixed], (H, 1, 1)),
        "Policy": Policy(np.tile(fixed, (H, 1)), n_actions=A),
    }
    found = agent.compare(good, forms[form])
    truth = float((evaluate(mdp, good) - evaluate(mdp, np.tile(fixed, (H, 1))))[0, 0])
    assert found.lower <= truth <= found.upper
    assert found.lower > 0.0
    wrong = masked()
    bad = np.array(solve(wrong).policy)
    place = np.argwhere(~MASK)[0]
    bad[place[0], place[1]] = place[2]
    words = rf"incumbent must be one of \[.*\], allowed in state {place[1]} at stage {place[0]}; got {place[2]}"
    with pytest.raises(InvalidInput, match=words):
        MatrixRL(wrong, seed=0).compare(solve(wrong).policy, bad)


def test_what_is_recommended_and_certified_is_a_policy_of_the_user(tmp_path):
    mdp = masked(seed=3)
    agent = MatrixRL(mdp, seed=0)
    agent.learn(400)
    chosen = agent.recommend()
    value = float(evaluate(mdp, chosen.table)[0, 0])
    assert chosen.certificate.lower <= value <= solve(mdp).start_value <= chosen.certificate.upper
    chosen.save(tmp_path / "policy.json")
    np.testing.assert_array_equal(Policy.load(tmp_path / "policy.json").table, chosen.table)
    assert (chosen.n_actions, chosen.horizon, chosen.n_states) == (A, H, S)


# Logs


@pytest.mark.parametrize("target", ["log.csv", "log.parquet", "minari:worlds/stages-v0", "pandas"])
@pytest.mark.parametrize("name", ["matrix-rl", "psrl", "q-learning"])
@pytest.mark.parametrize("world", ["stages", "endless"])
def test_what_is_exported_is_learned_again(target, name, world, tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    agent, other = (AGENTS[name](WORLDS[world](), seed=0, known_reward=False) for _ in range(2))
    agent.learn(8)
    if target == "pandas":
        agent.export(tmp_path / "log.csv")
        other.learn_from(pd.read_csv(tmp_path / "log.csv"), verbose=False)
    else:
        path = target if target.startswith("minari:") else str(tmp_path / target)
        agent.export(path)
        other.learn_from(path, verbose=False)
    assert_same_arrays(
        {k: v for k, v in counts(other).items() if k != "logged"},
        {k: v for k, v in counts(agent).items() if k != "logged"},
    )
    np.testing.assert_allclose(other.history.logged_returns, agent.history.returns, rtol=1e-12)
    if target == "log.csv":
        rows = pd.read_csv(tmp_path / "log.csv")
        assert rows["action"].max() < A
        earned = (rows["reward"] * agent.problem.task.discount ** rows["step"]).groupby(rows["episode"]).sum()
        np.testing.assert_allclose(agent.history.returns, earned)


def test_logged_steps_are_those_of_their_stage():
    """An episode that begins late, with the same pair at stages 2 and 3."""
    agent = MatrixRL(calendar(), seed=0)
    log = {
        "episode": [0, 0],
        "step": [2, 3],
        "state": [1, 1],
        "action": [2, 2],
        "reward": [0.3, 0.4],
        "next_state": [1, 0],
    }
    log["reward"] = [float(agent.problem.finite_task.reward[1, h * A + 2]) for h in (2, 3)]
    agent.learn_from(log, first_step=0, verbose=False)
    seen = agent._seen.all()[0]
    assert (seen.stages.tolist(), seen.actions.tolist()) == ([2, 3], [2, 2])


def test_logged_actions_that_their_stage_does_not_allow_are_refused():
    agent = MatrixRL(masked(), seed=0, known_reward=False)
    h, s, a = next(tuple(place) for place in np.argwhere(~MASK).tolist() if MASK[:, place[1], place[2]].any())
    rows = {"episode": [], "step": [], "state": [], "action": [], "reward": [], "next_state": []}
    for step in range(H):
        state = s if step == h else 0
        action = a if step == h else int(np.flatnonzero(MASK[step, state])[0])
        following = s if step + 1 == h else 0
        for name, cell in zip(rows, (0, step, state, action, 0.5, following), strict=True):
            rows[name].append(cell)
    before = agent.algorithm.state()
    with pytest.raises(InvalidInput, match=rf"action.* must be one of \[.*\], allowed in state {s} at stage {h}"):
        agent.learn_from(rows, verbose=False)
    assert_same_arrays(agent.algorithm.state(), before)
    assert agent.n_logged_episodes == 0


# Environments


@pytest.mark.parametrize("name", ["matrix-rl", "psrl", "q-learning", "epsilon-greedy"])
def test_an_environment_without_a_table_is_learned_by_stage(name):
    """Its own numbers of rooms and buttons; the best button depends on the stage."""
    preset = {"preset": "tuned"}
    agent = AGENTS[name](Clock(), known_reward=False, stage_dependent=True, seed=0, **preset)
    history = agent.learn(600)
    assert history.returns[-100:].mean() > 3.7
    wanted = [[5 + (room + h) % 3 for room in range(3)] for h in range(4)]
    assert [[agent.predict(10 + room, h) for room in range(3)] for h in range(4)] == wanted
    if name != "q-learning":  # which keeps a Q of every stage anyway
        pooled = AGENTS[name](Clock(), known_reward=False, seed=0, **preset)
        assert pooled.learn(600).returns[-100:].mean() < 3.0  # one law for all stages cannot represent it


def test_masks_that_are_told_hold_at_all_stages():
    class Narrow(Clock):
        def mask(self):
            return np.array([1, self.room != 11, 1], dtype=np.int8)

        def reset(self, **options):
            return super().reset(**options)[0], {"action_mask": self.mask()}

        def step(self, action):
            assert self.mask()[action - 5]
            return (*super().step(action)[:4], {"action_mask": self.mask()})

    agent = MatrixRL(Narrow(), known_reward=False, stage_dependent=True, seed=0)
    agent.learn(30)
    assert agent.algorithm.masks.reported.known[:3].all()
    for h in range(4):
        actions = [3 * h, 3 * h + 1, 3 * h + 2]
        assert np.flatnonzero(agent.algorithm.masks.at(1, h)).tolist() == [actions[0], actions[2]]
        assert np.flatnonzero(agent.algorithm.masks.at(0, h)).tolist() == actions


@pytest.mark.parametrize("endless", [False, True])
def test_returns_of_an_environment_without_a_table_are_discounted(endless):
    class Paying(Hidden):
        def step(self, action):
            state, _, done, cut, info = super().step(action)
            return state, 0.5, done, cut, info

    timing = {"discount": 0.5, **({"accuracy": 0.1} if endless else {"horizon": 6})}
    agent = MatrixRL(Paying(), known_reward=False, seed=0, **timing)
    history = agent.learn(20)
    assert agent.problem.task.horizon == (4 if endless else 6)
    np.testing.assert_allclose(history.returns, 0.5 * (1.0 - 0.5**history.lengths) / 0.5)
    found = agent.certificate()
    assert found.upper <= 2.0 + 1e-12
    result = run_seeds(Paying(), known_reward=False, seeds=[0], n_episodes=20, **timing)
    assert result.discount == 0.5
    np.testing.assert_allclose(result.returns[0], 0.5 * (1.0 - 0.5 ** result.lengths[0]) / 0.5)


def test_frozen_lake_without_a_horizon():
    """The time limit of 100 steps is longer than the 90 steps that the discount needs."""
    agent = MatrixRL(gym.make("FrozenLake-v1"), discount=0.95, preset="tuned", seed=0)
    assert (agent.problem.task.horizon, agent.problem.finite_task.is_endless) == (90, True)
    history = agent.learn(60)
    optimum = solve(agent.problem.mdp).start_value
    assert optimum == pytest.approx(0.1805, abs=1e-4)  # of infinitely many steps
    assert (history.regret >= 0.0).all()
    assert (history.regret <= optimum + 1e-12).all()
    assert history.returns.max() <= 0.95**5
    assert (history.lengths <= 90).all()


@pytest.mark.parametrize("mode", list(gym.vector.AutoresetMode))
def test_vector_environments(mode):
    lake = lambda: gym.make("FrozenLake-v1", max_episode_steps=8)  # noqa: E731
    vector = lambda make: gym.vector.SyncVectorEnv([make] * 3, autoreset_mode=mode)  # noqa: E731
    worlds = [
        (masked(), {}, lambda: MDPEnv(masked())),
        (calendar(discount=0.7), {}, lambda: MDPEnv(calendar(discount=0.7))),
        (lake(), {"horizon": 8, "stage_dependent": [0, 0, 0, 0, 1, 1, 1, 1]}, lake),
        (lake(), {"horizon": 8, "discount": 0.9}, lake),
    ]
    for given, options, make in worlds:
        agent = MatrixRL(given, seed=0, **options)
        history = agent.learn(9, env=vector(make))
        steps, weights = agent._seen.all()[0], agent.problem.task.discount ** np.arange(agent.problem.task.horizon)
        offsets = np.concatenate([[0], np.cumsum(history.lengths).astype(int)])
        for i in range(9):
            rewards = steps.rewards[offsets[i] : offsets[i + 1]]
            assert history.returns[i] == pytest.approx(rewards @ weights[: len(rewards)])
            np.testing.assert_array_equal(steps.stages[offsets[i] : offsets[i + 1]], np.arange(len(rewards)))
        if agent.problem.task.stages.n_classes > 1:
            assert steps.actions.max() < agent.problem.actions.size
    agent = MatrixRL(calendar(discount=0.7), seed=0)
    for other, words in (
        (calendar(discount=0.8), "discount"),
        (calendar(classes=[0, 0, 1, 1], discount=0.7), "classes"),
    ):
        with pytest.raises(
            InvalidInput, match=f"env must be made of the agent's problem; got sub-environment 0 with.*{words}"
        ):
            agent.learn(3, env=vector(lambda other=other: MDPEnv(other)))
    assert agent.n_episodes == 0


# Every baseline


@pytest.mark.parametrize("name", FINITE)
def test_every_baseline_plays_a_staged_problem(name):
    mdp = masked(seed=1, noisy_rewards=True)
    result = run_seeds(mdp, n_episodes=40, seeds=2, agent=name, measure_regret=True)
    assert (result.regret >= 0.0).all()
    assert np.isfinite(result.regret).all()  # policies with other actions would be refused
    agent = AGENTS[name](mdp, seed=0)
    agent.learn(10)
    assert agent.algorithm.frame.permits(agent.algorithm.policy_table(agent.algorithm.plan()))


@pytest.mark.parametrize(
    ("name", "settings", "count"),
    [
        ("psrl", {}, 400),
        ("ucbvi", {"preset": "tuned"}, 800),
        ("q-learning", {"preset": "tuned"}, 4000),
        ("epsilon-greedy", {"preset": "tuned"}, 800),
        ("ucrl2", {"preset": "tuned"}, 800),
    ],
)
@pytest.mark.parametrize("world", [lambda: calendar(seed=1), code_lock], ids=["rewards at once", "reward in the end"])
def test_baselines_learn_that_the_best_action_depends_on_the_stage(world, name, settings, count):
    """Two seeds; every policy that ignores the stage loses at least a fifth of V*."""
    mdp = world()
    n_states, n_own, start = mdp.n_states, mdp.task.n_own_actions, mdp.task.start
    best = solve(mdp).start_value
    rows = (np.array(row) for row in np.ndindex(*[n_own] * n_states))
    fixed = max(float(evaluate(mdp, np.tile(row, (H, 1)))[0] @ start) for row in rows)
    assert best - fixed > 0.2 * best
    result = run_seeds(mdp, n_episodes=count, seeds=2, agent=name, **settings)
    assert result.regret[:, -count // 10 :].mean() < 0.03 * best
    assert run_seeds(mdp, n_episodes=count, seeds=2, agent="random").regret.mean() > 0.3 * best
