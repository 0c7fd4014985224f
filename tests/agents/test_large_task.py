"""Tasks whose states are never enumerated: functions and a sampler."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from scipy import stats

from matrixrl import CheckpointError, FiniteMDP, InvalidInput, LargeTask, MatrixRL, make, run_seeds
from matrixrl.features import FunctionPhi
from matrixrl.mdp import low_rank
from matrixrl.run import inspect_problem
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
@pytest.mark.parametrize("draw", ["resampled", "fixed"])
def test_saved_in_the_middle_and_loaded_it_goes_on_bit_for_bit(tmp_path, growth, steps, draw):
    def play(agent, first, last):
        for i in range(first, last):
            place = np.array([i / 10.0])
            agent.observe(place, agent.act(place), 0.0, place + 0.1)

    tuned = {"preset": "practical", "columns": 100, "switch_growth": growth, "column_draw": draw}
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
    np.testing.assert_array_equal(loaded.engine.arrays()["columns"], agents[1].engine.arrays()["columns"])
    assert loaded.engine.plans == agents[1].engine.plans
    np.testing.assert_array_equal(loaded.engine.cross_moment, agents[1].engine.cross_moment)


def test_learning_goes_on_bit_for_bit_in_an_environment_of_functions(tmp_path):
    whole = MatrixRL(make("soft-grid", side=20), seed=2, columns=80, preset="practical").learn(12)
    agent = MatrixRL(make("soft-grid", side=20), seed=2, columns=80, preset="practical")
    agent.learn(7)
    agent.save(tmp_path / "a")
    with pytest.raises(InvalidInput, match="phi must be the FunctionPhi"):
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
    np.testing.assert_array_equal(agents[0].engine.cross_moment, agents[1].engine.cross_moment)


def test_every_replica_has_the_constants_of_its_own_columns():
    settings = {"env_settings": {"side": 30}, "columns": 60, "preset": "practical", "n_episodes": 15}
    together = run_seeds("soft-grid", seeds=[0, 1, 2], **settings)
    for i, seed in enumerate([0, 1, 2]):
        alone = run_seeds("soft-grid", seeds=[seed], **settings)
        np.testing.assert_allclose(alone.upper[0], together.upper[i], atol=ALGEBRA)


class Shifted(Line):
    """`Line` with the rewards 5r − 3."""

    def step(self, action):
        place, reward, *rest = super().step(action)
        return place, 5.0 * reward - 3.0, *rest


@pytest.mark.parametrize("known", [True, False])
def test_rewards_of_another_range_are_the_same_problem(known):
    """Rewards 5r − 3 in [-3, 2]: every bound is mapped, every decision the same."""
    plain = line(reward=line().reward_at if known else None)
    moved_reward = (lambda s: 5.0 * aims(s)[:, :, -1] - 3.0) if known else None
    moved = line(reward=moved_reward, reward_range=(-3.0, 2.0), env=Shifted())
    settings = {"seed": 2, "preset": "practical", "columns": 120, "known_reward": known}
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
    full, lazy = (MatrixRL(mdp, phi=phi, seed=1, preset="practical", columns=c) for c in (None, 17))
    np.testing.assert_allclose(lazy.learn(20).upper, full.learn(20).upper, atol=1e-8)
    assert lazy.certificate().lower == pytest.approx(full.certificate().lower, abs=1e-8)


def test_blocks_of_unequal_radius_are_told_apart():
    """Two actions, one visited a hundred times more: their radii differ, also when queried."""
    world = low_rank(n_states=20, n_actions=2, d=3, horizon=3, seed=2)
    blocked = np.zeros((20, 2, 6))
    blocked[:, 0, :3], blocked[:, 1, 3:] = world.features.phi.table[:, 0], world.features.phi.table[:, 1]
    full, lazy = (MatrixRL(world.mdp, phi=blocked, seed=0, columns=c) for c in (None, 20))
    rng = np.random.default_rng(0)
    steps = [(rng.integers(0, 20, 3), int(n % 100 == 0), rng.integers(0, 20, 3)) for n in range(400)]
    for agent in (full, lazy):
        for states, action, following in steps:
            agent.begin_episode()
            for s, then in zip(states, following, strict=True):
                agent.observe(s, action, world.mdp.task.reward[s, action], then)
            agent.end_episode()
    radii = full.engine.radii()[0].reshape(2, 20)
    assert radii[0, 0] > 1.1 * radii[1, 0]
    queried = lazy.engine.plan(break_ties_at_random=False).plans[0]._query(np.arange(20)).belief
    np.testing.assert_allclose(
        queried.reaches[0].half_width, full.engine.belief().reaches[0].half_width, atol=1e-7, rtol=1e-7
    )


def test_an_interrupt_leaves_no_trace_with_sampled_columns():
    whole = MatrixRL(make("soft-grid", side=20), seed=3, columns=80, preset="practical").learn(6)
    agent = MatrixRL(make("soft-grid", side=20), seed=3, columns=80, preset="practical")
    agent.learn(3)
    act, calls = agent.act, []

    def interrupted(obs):
        calls.append(obs)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return act(obs)

    agent.act = interrupted
    with pytest.raises(KeyboardInterrupt):
        agent.learn(1)
    agent.act = act
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


def test_a_function_phi_is_asked_for_and_compared(tmp_path):
    world = low_rank(n_states=20, n_actions=2, d=3, horizon=3, seed=2)
    table = world.features.phi.table
    phi = FunctionPhi(lambda s: 2.0 * table[s], 20, 2)
    agent = MatrixRL(world.mdp, phi=phi, seed=0, columns=10)
    agent.learn(3)
    agent.save(tmp_path / "a")
    with pytest.raises(InvalidInput, match="phi must be the FunctionPhi"):
        MatrixRL.load(tmp_path / "a", env=world.mdp)
    with pytest.raises(InvalidInput, match="phi must be the FunctionPhi"):
        MatrixRL.load(tmp_path / "a", env=world.mdp, phi=FunctionPhi(lambda s: table[s], 20, 2))
    loaded = MatrixRL.load(tmp_path / "a", env=world.mdp, phi=phi)
    np.testing.assert_array_equal(loaded.learn(2).upper, agent.learn(2).upper)
    MatrixRL.load(tmp_path / "a", phi=phi).begin_episode()


@pytest.mark.parametrize(
    "changes",
    [{"reward": lambda s: 1.0 - aims(s)[:, :, -1]}, {"start": [1.0]}, {"end_state": [2.0]}, {"horizon": 7}],
    ids=["reward", "start", "end", "horizon"],
)
def test_a_checkpoint_of_functions_wants_the_same_problem(tmp_path, changes):
    MatrixRL(line(), seed=0, columns=50).save(tmp_path / "a")
    with pytest.raises(InvalidInput, match="env must be the LargeTask"):
        MatrixRL.load(tmp_path / "a", env=line(**changes))


def test_columns_too_few_for_psi_are_drawn_again():
    """About one draw in thirty of 40 columns misses a region of SoftGrid; 60 episodes go through."""
    found = run_seeds("soft-grid", n_episodes=60, seeds=2, env_settings={"side": 30}, preset="practical", columns=40)
    assert found.n_episodes == 60


def test_certificates_before_the_first_step_know_where_the_episode_starts():
    history = MatrixRL(line(start=None), columns=50, seed=0).learn(2, certify=True)
    assert np.isfinite(history.certified).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": np.zeros(3)}, "reward must be a function"),
        ({"sampler": lambda rng, m: rng.random((m, 1))}, "sampler must return"),
        ({"sampler": lambda *_: None}, "sampler must return"),
        ({"sampler": lambda rng, m: (rng.random((m, 1)), ["a"] * m)}, "sampler must return"),
        ({"phi": lambda _: [[1.0], [1.0, 2.0]]}, "phi must return shape"),
        ({"phi": lambda s: np.zeros((len(s), 2, len(s)))}, "phi must return shape"),
        ({"psi": lambda s: 1e200 * hats(s[:, 0])}, "psi must be finite"),
        ({"phi": lambda s: aims(s) * 1j}, "phi must return shape"),
        ({"env": 3}, "env must be a Gymnasium environment"),
        ({"n_actions": 3}, "env must have 3 discrete actions"),
    ],
)
def test_more_bad_functions_are_named(changes, message):
    with pytest.raises(InvalidInput, match=message):
        line(**changes)


def test_bad_function_features_and_tables_are_named():
    with pytest.raises(InvalidInput, match="phi must be a function"):
        FunctionPhi(3, 4, 2)
    with pytest.raises(InvalidInput, match="phi must map k states"):
        FunctionPhi(lambda _: np.zeros((1, 2, 3)), 4, 2)
    with pytest.raises(InvalidInput, match="phi must map k states"):
        FunctionPhi(lambda s: np.zeros((len(s), 2, 0)), 4, 2)
    with pytest.raises(InvalidInput, match="policy is a table only"):
        _ = MatrixRL(line(), columns=50).policy
    with pytest.raises(InvalidInput, match="measure_regret must be true or false"):
        MatrixRL(make("river-swim"), measure_regret="x")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"regions": 3}, "regions must be two numbers"),
        ({"regions": (3, 3, 3)}, "regions must be two numbers"),
        ({"side": 3}, "side must be at least 5"),
        ({"step": "x"}, "step"),
        ({"step": -1.0}, "step"),
    ],
)
def test_bad_soft_grids_are_named(settings, message):
    with pytest.raises(InvalidInput, match=message):
        make("soft-grid", **settings)


def test_an_alarm_of_sampled_columns_says_that_sampling_may_have_caused_it():
    agent = MatrixRL(make("linear-mdp", n_states=30), seed=0, columns=10)
    agent.learn(1)
    agent.log.alarms[0] = True
    assert "sampled columns" in agent.guarantee
    assert "sampling may have caused" in agent.guarantee


def test_inspect_calls_sampled_constants_estimates():
    found = inspect_problem("soft-grid", env_settings={"side": 20}, settings={"columns": 100})
    assert {entry["known"] for entry in found.constants.values()} == {"estimated from 100 columns"}
    assert any("estimates" in words for words in found.warnings)
