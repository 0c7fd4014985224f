"""Tasks whose states are never enumerated: functions and a sampler."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from agents.helpers import assert_same_arrays, interrupted_at
from continuum import Line, Shifted, aims, hats, line
from matrixrl import FiniteMDP, FunctionalTask, InvalidInput, MatrixRL, Task, make, run_seeds
from matrixrl.play import inspect_problem
from matrixrl.problems import low_rank
from tolerances import ALGEBRA


def test_a_continuum_of_states_is_learned():
    """From 0.14 a step when playing at random to a return near the best: always right."""
    agent = MatrixRL(line(), seed=0, preset="tuned", columns=300)
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
    assert "estimates" in certificate.guarantee.reason


def test_a_finite_task_given_as_functions_is_the_table():
    """The sampler takes every state once: the same plans as MatrixRL with all columns."""
    world = low_rank(n_states=25, n_actions=3, d=4, horizon=4, seed=1)
    phi, psi, reward = world.features.phi.table, world.features.psi.table, world.mdp.task.reward
    task = FunctionalTask(
        phi=lambda s: phi[s],
        psi=lambda s: psi[s],
        sampler=lambda _, m: (np.arange(m) % 25, np.ones(m)),
        n_actions=3,
        horizon=4,
        reward=lambda s: reward[s],
        start=0,
    )
    chosen = {"preset": "optimistic", "set": "normalised", "seed": 0}
    usual, other = MatrixRL(world.mdp, **chosen), MatrixRL(task, columns=25, **chosen)
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
    agent = MatrixRL(line(reward=None), seed=0, preset="tuned", columns=300, known_reward=False)
    assert agent.learn(80).returns[-20:].mean() > 2.0


@pytest.mark.parametrize("growth", [0.0, 0.5])
@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("draw", ["resampled", "fixed"])
def test_saved_in_the_middle_and_loaded_it_goes_on_bit_for_bit(tmp_path, growth, steps, draw):
    def play(agent, first, last):
        for i in range(first, last):
            place = np.array([i / 10.0])
            agent.observe(place, agent.act(place), 0.0, place + 0.1)

    tuned = {"preset": "tuned", "columns": 100, "switch_growth": growth, "column_draw": draw}
    agents = [MatrixRL(line(env=None), seed=4, **tuned) for _ in range(2)]
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
        for _ in range(3):
            agent.begin_episode()
            play(agent, 0, 8)
            agent.end_episode()
    np.testing.assert_array_equal(loaded.history.upper, agents[1].history.upper)
    assert len(set(loaded.history.upper)) > 2  # the bounds do move
    assert_same_arrays(loaded.algorithm.state(), agents[1].algorithm.state())
    assert "columns_0" in loaded.algorithm.state()


def test_learning_goes_on_bit_for_bit_in_an_environment_of_functions(tmp_path):
    whole = MatrixRL(make("soft-grid", side=20), seed=2, columns=80, preset="tuned").learn(12)
    agent = MatrixRL(make("soft-grid", side=20), seed=2, columns=80, preset="tuned")
    agent.learn(7)
    agent.save(tmp_path / "a")
    with pytest.raises(InvalidInput, match="phi must be the feature map"):
        MatrixRL.load(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a", env=make("soft-grid", side=20))
    np.testing.assert_array_equal(loaded.learn(5).returns, whole.returns)
    np.testing.assert_array_equal(loaded.history.regret, whole.regret)


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
    history = MatrixRL(task, seed=0, preset="tuned", columns=200).learn(40)
    assert history.lengths[-10:].min() == 8
    assert history.lengths.min() < 8


def test_regret_can_be_left_out():
    history = MatrixRL(make("soft-grid", side=20), columns=60, measure_regret=False, seed=0).learn(3)
    assert history.regret is None
    np.testing.assert_allclose(
        history.returns, MatrixRL(make("soft-grid", side=20), columns=60, seed=0).learn(3).returns, atol=ALGEBRA
    )


def test_an_observation_that_changes_in_place_is_copied():
    class InPlace(Line):
        def step(self, action):
            place, *rest = super().step(action)
            self.kept[:] = place
            return self.kept, *rest

        def reset(self, *, seed=None, options=None):
            place, info = super().reset(seed=seed)
            self.kept = place.copy()
            return self.kept, info

    agents = [MatrixRL(line(env=env), seed=1, columns=60) for env in (Line(), InPlace())]
    for agent in agents:
        agent.learn(4)
    first, second = (agent.algorithm.model.replicas[0] for agent in agents)
    np.testing.assert_array_equal(first.cross_moment, second.cross_moment)


@pytest.mark.slow
def test_every_replica_has_the_constants_of_its_own_columns():
    settings = {"env_settings": {"side": 30}, "columns": 60, "preset": "tuned", "n_episodes": 15}
    together = run_seeds("soft-grid", seeds=[0, 1, 2], **settings)
    for i, seed in enumerate([0, 1, 2]):
        alone = run_seeds("soft-grid", seeds=[seed], **settings)
        np.testing.assert_allclose(alone.upper[0], together.upper[i], atol=ALGEBRA)


@pytest.mark.parametrize("known", [True, False])
def test_rewards_of_another_range_are_the_same_problem(known):
    """Rewards 5r − 3 in [-3, 2]: every bound is mapped, every decision the same."""
    plain = line(reward=line().reward_at if known else None)
    moved_reward = (lambda s: 5.0 * aims(s)[:, :, -1] - 3.0) if known else None
    moved = line(reward=moved_reward, reward_range=(-3.0, 2.0), env=Shifted())
    settings = {"seed": 2, "preset": "tuned", "columns": 120, "known_reward": known}
    first, second = MatrixRL(plain, **settings), MatrixRL(moved, **settings)
    one, other = first.learn(15), second.learn(15)
    np.testing.assert_allclose(other.returns, 5.0 * one.returns - 3.0 * 8, atol=ALGEBRA)
    np.testing.assert_allclose(other.upper, 5.0 * one.upper - 3.0 * 8, atol=1e-8)
    assert other.upper.std() > 0.1
    assert second.certificate().lower == pytest.approx(5.0 * first.certificate().lower - 24.0, abs=1e-8)


def test_an_end_state_with_negative_rewards_is_planned_as_with_all_columns():
    """FrozenLake on the range [-3, 2]: the end earns 0, which is 0.6 of a unit."""
    base = make("gym:FrozenLake-v1", horizon=10).unwrapped.mdp
    reward = np.where(np.arange(17)[:, None] == 16, 0.0, base.task.reward - 0.1)
    rng = np.random.default_rng(0)
    phi = np.linalg.qr(rng.standard_normal((68, 68)))[0].reshape(17, 4, -1)
    mdp = FiniteMDP(base.transitions, reward, 10, reward_range=(-3.0, 2.0), start=base.task.start, end_state=16)
    full, lazy = (MatrixRL(mdp, phi=phi, seed=1, preset="tuned", columns=c) for c in (None, 17))
    np.testing.assert_allclose(lazy.learn(20).upper, full.learn(20).upper, atol=1e-8)
    assert lazy.certificate().lower == pytest.approx(full.certificate().lower, abs=1e-8)


def test_blocks_of_unequal_radius_are_told_apart():
    """Two actions, one visited a hundred times more: their radii differ, also when queried."""
    world = low_rank(n_states=20, n_actions=2, d=3, horizon=3, seed=2)
    blocked = np.zeros((20, 2, 6))
    blocked[:, 0, :3], blocked[:, 1, 3:] = world.features.phi.table[:, 0], world.features.phi.table[:, 1]
    anywhere = Task(world.mdp.task.reward, 3, features=world.features)
    full, lazy = (MatrixRL(anywhere, phi=blocked, seed=0, set="normalised", columns=c) for c in (None, 20))
    rng = np.random.default_rng(0)
    steps = [(rng.integers(0, 20, 3), int(n % 100 == 0), rng.integers(0, 20, 3)) for n in range(400)]
    for agent in (full, lazy):
        for states, action, following in steps:
            agent.begin_episode()
            for s, then in zip(states, following, strict=True):
                agent.observe(s, action, world.mdp.task.reward[s, action], then)
            agent.end_episode()
    algorithm = full.algorithm
    radii = algorithm.model.confidence.radii(algorithm.model.design, algorithm.clock).models[0].reshape(2, 20)
    assert radii[0, 0] > 1.1 * radii[1, 0]
    queried = lazy.algorithm.advice().plans[0].bounds(np.arange(20))
    np.testing.assert_allclose(
        queried.reaches[0].half_width,
        algorithm.model.bounds(algorithm.clock, "agent")[0].reaches[0].half_width,
        atol=1e-7,
        rtol=1e-7,
    )


def test_an_interrupt_leaves_no_trace_with_sampled_columns():
    whole = MatrixRL(make("soft-grid", side=20), seed=3, columns=80, preset="tuned").learn(6)
    agent = MatrixRL(make("soft-grid", side=20), seed=3, columns=80, preset="tuned")
    agent.learn(3)
    with interrupted_at(agent, step=4):
        agent.learn(1)
    np.testing.assert_array_equal(agent.learn(3).upper, whole.upper)


def test_next_states_of_a_mixture_follow_its_law():
    """A chi-square test of 20,000 draws against the row of P (it fails by chance once in 10,000)."""
    transitions = make("soft-grid", side=6, regions=(3, 2)).unwrapped.mdp.transitions
    rng = np.random.default_rng(0)
    n = 20_000
    drawn = transitions.sample(np.full(n, 8), np.full(n, 1), rng.random(n))
    law = transitions.rows(np.array([8]), np.array([1]))[0]
    seen = np.bincount(drawn, minlength=36)
    assert (seen[law == 0] == 0).all()
    assert stats.chisquare(seen[law > 0], n * law[law > 0]).pvalue > 1e-4


@pytest.mark.slow
def test_columns_too_few_for_psi_are_drawn_again():
    """About one draw in thirty of 40 columns misses a region of SoftGrid; 60 episodes go through."""
    found = run_seeds("soft-grid", n_episodes=60, seeds=2, env_settings={"side": 30}, preset="tuned", columns=40)
    assert found.n_episodes == 60


def test_certificates_before_the_first_step_know_where_the_episode_starts():
    shown = []
    agent = MatrixRL(line(start=None), columns=50, seed=0)
    history = agent.learn(2, certify=True, callback=lambda episode: shown.append(episode.certificate.start))
    assert np.isfinite(history.certified).all()
    assert shown == ["state [0.0]"] * 2


def test_an_alarm_of_sampled_columns_says_that_sampling_may_have_caused_it():
    agent = MatrixRL(make("linear-mdp", n_states=30), seed=0, columns=10)
    agent.learn(1)
    agent._log.alarms[0] = True
    assert "sampled columns" in agent.guarantee.reason
    assert "sampling may have caused" in agent.guarantee.reason


def test_inspect_calls_sampled_constants_estimates():
    found = inspect_problem("soft-grid", env_settings={"side": 20}, settings={"columns": 100})
    assert {entry["known"] for entry in found.constants.values()} == {"estimated from 100 columns"}
    assert any("estimates" in words for words in found.warnings)


def test_open_episodes_with_whole_numbers_as_states_are_saved(tmp_path):
    phi = np.random.default_rng(0).dirichlet(np.ones(3), size=(6, 2))
    psi = np.repeat(np.eye(3), 2, axis=0)

    def task():
        return FunctionalTask(
            phi=lambda s: phi[s],
            psi=lambda s: psi[s],
            sampler=lambda rng, m: (np.arange(m) % 6 if m % 6 == 0 else rng.integers(6, size=m), np.full(m, 6.0 / m)),
            n_actions=2,
            horizon=3,
            reward=lambda s: np.tile(s[:, None] / 5.0, (1, 2)),
            start=0,
        )

    agent = MatrixRL(task(), columns=6, seed=0)
    episode = agent.begin_episode()
    episode.observe(0, episode.act(0), 0.0, 4)
    action = episode.act(4)
    agent.save(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a", task())
    assert loaded.act(4) == action
    for one in (agent, loaded):
        one.observe(4, action, 0.8, 5)
        one.end_episode()
    assert_same_arrays(loaded.algorithm.state(), agent.algorithm.state())
