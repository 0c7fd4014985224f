"""Where problems begin and end: first states, time limits, end states, scales, interrupts."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from agents.helpers import RaiseOnce, assert_same_arrays
from matrixrl import FiniteMDP, InvalidInput, MatrixRL, Task, make, run_seeds, solve
from matrixrl.errors import ProtocolError
from matrixrl.features import Features, OneHotPsi, TablePhi
from matrixrl.problems import tabular


def test_the_bound_is_that_of_the_state_the_episode_started_in(tmp_path):
    agent = MatrixRL(Task(np.array([[0.0], [1.0], [0.2]]), 5), seed=0)
    agent.begin_episode()
    for _ in range(5):
        agent.observe(1, 0, 1.0, 1)
    episode = agent.end_episode()
    assert episode.episode_return == 5.0 <= episode.upper
    assert agent.certificate().upper == pytest.approx(5.0)
    agent.save(tmp_path / "a")
    assert MatrixRL.load(tmp_path / "a").certificate() == agent.certificate()


def test_a_distribution_of_first_states_enters_values_regret_and_bounds():
    base = tabular(n_states=4, n_actions=2, horizon=3, seed=1).mdp
    start = np.array([0.1, 0.2, 0.3, 0.4])
    mdp = FiniteMDP(base.transitions, base.task.reward, 3, start=start)
    values = solve(mdp).values[0]
    assert solve(mdp).start_value == pytest.approx(start @ values)
    result = run_seeds(mdp, n_episodes=400, seeds=8)
    assert result.optimal_value == pytest.approx(start @ values)
    assert (result.upper >= result.optimal_value - 1e-9).all()
    assert result.upper[0, 0] == pytest.approx(start @ MatrixRL(mdp, seed=0).algorithm.plan().values[0, 0])
    shortfall = (result.optimal_value - result.returns - result.regret).mean()
    assert abs(shortfall) < 5 * result.returns.std() / np.sqrt(result.returns.size)


@pytest.mark.parametrize("radius", ["block", "self-normalised", "theorem"])
def test_negative_rewards_and_an_end_state_keep_optimism(radius):
    """CliffWalking: ending early is worth something when every step costs; the end state earns 0, not low."""
    env = make("gym:CliffWalking-v1", horizon=12)
    result = run_seeds(env, n_episodes=60, seeds=2, radius=radius)
    assert result.optimistic_share == 1.0
    agent = MatrixRL(gym.make("CliffWalking-v1"), horizon=12, seed=0, radius=radius)
    plan, task = agent.algorithm.plan(), agent.problem.task
    own_unit = plan.values[0, :, task.end_state] * task.unit + np.arange(12, -1, -1) * task.reward_range[0]
    np.testing.assert_allclose(own_unit, 0.0, atol=1e-9)


@pytest.mark.parametrize("kind", ["normalised", "tightest"])
def test_steps_after_the_end_teach_nothing(kind):
    lake = {"n_episodes": 1, "seeds": [0], "env_settings": {"horizon": 50}}
    simulated = run_seeds("gym:FrozenLake-v1", **lake, set=kind)
    from matrixrl.play import Simulation

    simulation = Simulation("gym:FrozenLake-v1", **lake, settings={"set": kind})
    simulation.run()
    agent = MatrixRL(make("gym:FrozenLake-v1", horizon=50), seed=0, n_episodes=1, set=kind)
    history = agent.learn(1)
    assert history.lengths[0] < 50
    assert_same_arrays(simulation.algorithm.learned(), agent.algorithm.learned())
    assert simulated.n_episodes == 1


def test_a_time_limit_below_the_horizon_is_refused():
    with pytest.raises(InvalidInput, match="horizon must not exceed the time limit"):
        MatrixRL(gym.make("FrozenLake-v1", max_episode_steps=10), horizon=30)
    with pytest.raises(InvalidInput, match="time limit of the environment, 5 steps"):
        MatrixRL(gym.make("matrixrl/RiverSwim-v0", max_episode_steps=5))


def test_an_unannounced_truncation_is_not_taken_for_the_end():
    class Short(gym.Wrapper):
        def step(self, action):
            obs, reward, terminated, _, info = self.env.step(action)
            return obs, reward, terminated, True, info

        keeps_table = True

    agent = MatrixRL(Short(make("river-swim")), seed=0)
    with pytest.raises(ProtocolError, match="truncated an episode after 1 steps"):
        agent.learn(1)
    assert agent.n_episodes == 0


@pytest.mark.parametrize("scale", [1e-3, 0.3, 7.0])
def test_practical_does_not_depend_on_the_scale_of_phi(scale):
    env = make("linear-mdp", n_states=30, d=4, horizon=5)
    phi = env.unwrapped.mdp.features.phi.table
    plain = MatrixRL(env, seed=0, preset="tuned").learn(30)
    scaled = MatrixRL(env, phi=scale * phi, seed=0, preset="tuned").learn(30)
    np.testing.assert_allclose(plain.upper, scaled.upper, rtol=1e-8)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (lambda: {"phi": np.zeros((4, 2, 3))}, "phi must have a largest entry"),
        (lambda: {"phi": np.full((4, 2, 3), 1e160)}, "phi must have a largest entry"),
        (lambda: {"phi": np.random.default_rng(0).random((4, 2, 3)) * 1e9}, "A_n would lose its digits"),
        (lambda: {"psi": np.array([[1.0], [-1.0], [1.0], [-1.0]])}, "psi must not sum to zero"),
        (lambda: {"phi": np.full((4, 2, 3), "a")}, "phi must be an array of numbers"),
        (lambda: {"phi": np.full((4, 2, 3), 1j)}, "phi must be an array of numbers"),
    ],
)
def test_degenerate_features_are_refused(features, words):
    with pytest.raises(InvalidInput, match=words):
        MatrixRL(make("river-swim", n_states=4), **features())


@pytest.mark.parametrize("settings", [{}, {"switch_growth": 0.3}], ids=str)
@pytest.mark.parametrize("at", [1, 9, 60, 130])
def test_an_interrupted_run_that_goes_on_is_the_uninterrupted_one(at, settings):
    whole = MatrixRL(make("river-swim", n_states=4, horizon=8), seed=3, preset="tuned", **settings)
    expected = whole.learn(20)
    agent = MatrixRL(make("river-swim", n_states=4, horizon=8), seed=3, preset="tuned", **settings)
    RaiseOnce(agent.problem.env.unwrapped, "step", at)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(20)
    assert agent.open_episodes == ()
    done = agent.n_episodes
    assert done == (at - 1) // 8
    resumed = agent.learn(20 - done)
    np.testing.assert_array_equal(resumed.returns, expected.returns)
    np.testing.assert_array_equal(resumed.upper, expected.upper)
    assert_same_arrays(agent.algorithm.state(), whole.algorithm.state())


@pytest.mark.parametrize("settings", [{}, {"switch_growth": 0.3}], ids=str)
def test_an_interrupted_simulation_goes_on_too(settings):
    from matrixrl.play import Simulation

    expected = run_seeds("river-swim", n_episodes=15, seeds=2, **settings)
    simulation = Simulation("river-swim", n_episodes=15, seeds=[0, 1], settings=settings)
    RaiseOnce(simulation.engine.evaluator, "regret", 6)
    with pytest.raises(KeyboardInterrupt):
        simulation.run()
    assert simulation.result().n_episodes == 5
    np.testing.assert_array_equal(simulation.run().regret, expected.regret)


def test_ctrl_c_waits_for_the_end_of_a_change():
    import signal

    from matrixrl.interrupts import uninterrupted

    steps = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # as at a terminal
    try:
        with pytest.raises(KeyboardInterrupt), uninterrupted():
            signal.raise_signal(signal.SIGINT)
            steps.append("finished")
    finally:
        signal.signal(signal.SIGINT, before)
    assert steps == ["finished"]


def test_numpy_scalars_are_welcome_and_can_be_saved(tmp_path):
    agent = MatrixRL(
        make("river-swim", n_states=4), seed=np.int64(3), n_episodes=np.int64(4), exploration=np.float32(0.5)
    )
    agent.learn(np.int64(2))
    agent.save(tmp_path / "a")
    assert MatrixRL.load(tmp_path / "a").settings.n_episodes == 4


def test_one_override_does_not_erase_the_history_of_regret():
    agent = MatrixRL(make("river-swim", n_states=4, horizon=3), seed=0)
    agent.learn(2)
    agent.begin_episode()
    agent.observe(0, 1 - agent.act(0), 0.0, 0)
    agent.end_episode()
    regret = agent.history.regret
    assert np.isfinite(regret[:2]).all()
    assert np.isnan(regret[2])


def test_c_core_as_given_is_an_assumption_and_said_to_be():
    assert "as given" in MatrixRL(make("river-swim"), c_core=1e-9).guarantee.reason


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make("deep-sea", seed=-1), "seed must be at least 0"),
        (lambda: make("linear-mdp", seed=1.5), "seed must be a whole number"),
        (lambda: make("gym:FrozenLake-v1", map_name="7x7"), "cannot be made"),
        (lambda: make("four-rooms", size=6), "size must be odd"),
        (lambda: make(3), "environment must be a name"),
        (lambda: make("river-swim", horizon=10**12), "horizon times the number of states"),
        (lambda: run_seeds(make("river-swim"), n_episodes=1, env_settings={"n_states": 9}), "env_settings"),
        (lambda: run_seeds("river-swim", n_episodes=1, seeds=2.0), "seeds must be a whole number"),
        (lambda: Task(np.array([[0.0], [0.9]]), 3, end_state=1), "end_state must earn 0"),
        (lambda: Task(np.zeros((2, 1)), 3, start=[[1], [1, 2]]), "start must be an array"),
        (lambda: Task(np.zeros((2, 1)), 3, features=np.eye(2)), "features must be"),
        (lambda: Task(np.zeros((2, 1)), 3, reward_range=(-1e308, 1e308)), "reward_range"),
    ],
)
def test_mistakes_get_a_clear_word(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()


def test_foreign_tables_are_checked():
    class Odd(gym.Env):
        observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(1)

    for table, words in [
        (np.zeros((2, 1, 2)), "must hold lists"),
        ({0: {0: [(1.0, 0, 0.0, False)]}}, "must hold lists"),
        ({s: {0: [(1.0, 7, 0.0, False)]} for s in range(2)}, "must lead to states"),
    ]:
        env = Odd()
        env.P = table
        with pytest.raises(InvalidInput, match=words):
            MatrixRL(env, horizon=3)
    shifted = Odd()
    shifted.observation_space = gym.spaces.Discrete(2, start=1)
    shifted.P = {s: {0: [(1.0, 0, 0.0, False)]} for s in range(2)}
    with pytest.raises(InvalidInput, match="must be dictionaries"):
        MatrixRL(shifted, horizon=3)
    with pytest.raises(InvalidInput, match="reward must lie in"):
        MatrixRL(gym.make("FrozenLake-v1"), horizon=3, reward_range=(0.0, 0.5))


def test_loading_into_another_world_is_refused(tmp_path):
    agent = MatrixRL(make("combination-lock", seed=0), seed=0)
    agent.learn(1)
    agent.save(tmp_path / "a")
    MatrixRL.load(tmp_path / "a", env=make("combination-lock", seed=0))
    with pytest.raises(InvalidInput, match="transitions"):
        MatrixRL.load(tmp_path / "a", env=make("combination-lock", seed=5))


def test_generators_take_any_dimension():
    from matrixrl.problems import low_rank

    for orthonormal in (False, True):
        world = low_rank(n_states=4, n_actions=2, d=7, d_psi=9, horizon=3, orthonormal=orthonormal)
        table = np.einsum("sai,ij,tj->sat", world.features.phi.table, world.core, world.features.psi.table)
        states, actions = np.divmod(np.arange(8), 2)
        rows = world.mdp.transitions.rows(states, actions)
        np.testing.assert_allclose(table.reshape(8, 4), rows, atol=1e-10)
        assert run_seeds(world.mdp, n_episodes=5, seeds=2).optimistic_share == 1.0


def test_wrong_features_of_a_known_world_are_not_called_proven_after_the_alarm():
    world = tabular(n_states=4, n_actions=2, horizon=6, seed=0).mdp
    phi = np.ones((4, 2, 2)) * [1.0, 0.0]
    phi[:, 1] = [2.0, 0.0]
    wrong = FiniteMDP(world.transitions, world.task.reward, 6, features=Features(TablePhi(phi), OneHotPsi(4)))
    assert "alarm" in run_seeds(wrong, n_episodes=300, seeds=1).guarantee.reason


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_episode_of_learn_does_not_count_as_begun(error):
    agent = MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    agent.learn(2)
    act, calls = agent.algorithm.act, []

    def interrupted(*given, **named):
        calls.append(given)
        if len(calls) == 5:
            raise error
        return act(*given, **named)

    agent.algorithm.act = interrupted
    with pytest.raises(error):
        agent.learn(1)
    agent.algorithm.act = act
    assert agent.n_episodes == 2
    episode = agent.begin_episode()
    assert episode.number == 2
    episode.abandon()
    agent.learn(1)
    assert agent.begin_episode().number == 4  # numbers of episodes that were abandoned are not used again
