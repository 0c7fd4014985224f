"""Simulations of problems without a known P: resuming bit for bit, the same run as an agent's, interrupts."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from matrixrl import InvalidInput, KernelMatrixRL, make, run_seeds
from matrixrl.algorithms import BASELINES
from matrixrl.envs import PointObservations
from matrixrl.errors import MatrixRLError
from matrixrl.play import Simulation
from matrixrl.play.resume import restore_simulation, save_simulation
from named_agents import AGENTS

CAR = {"sparse": True, "horizon": 160}
NOISY = {**CAR, "noise": 0.2}
SERIES = ("returns", "lengths", "upper", "regret")
NAMES = ["kernel-matrix-rl", "random"]


def car(agent="kernel-matrix-rl", *, window=None, seed=3, n_episodes=6, env_settings=CAR):
    return Simulation(
        "mountain-car", n_episodes=n_episodes, seeds=[seed], agent=agent, env_settings=env_settings, window=window
    )


def assert_same_state(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], name)


@pytest.mark.parametrize("agent", NAMES)
@pytest.mark.parametrize("env_settings", [CAR, NOISY], ids=["plain", "noisy"])
@pytest.mark.parametrize("cut", [0, 3, 5])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(agent, env_settings, cut):
    whole = car(agent, env_settings=env_settings)
    wanted = whole.run()
    first = car(agent, env_settings=env_settings, window=range(cut))
    head = first.run()
    second = car(agent, env_settings=env_settings, window=range(cut, 6))
    restore_simulation(second, save_simulation(first))
    tail = second.run()
    for name in SERIES:
        joined = np.concatenate([getattr(head, name), getattr(tail, name)], axis=1)
        np.testing.assert_array_equal(joined, getattr(wanted, name), name)
    assert_same_state(second.algorithm.state(), whole.algorithm.state())
    np.testing.assert_array_equal(second.world.to_array(), whole.world.to_array())
    assert tail.n_plans == wanted.n_plans == [6]
    if agent == "kernel-matrix-rl":
        assert wanted.returns.max() == 1.0  # episodes that end early, too


def test_a_state_of_something_else_is_refused():
    first = car(window=range(2))
    first.run()
    saved = save_simulation(first)
    strangers = {
        "differs in": [
            car("random", window=range(2, 6)),
            car(seed=4, window=range(2, 6)),
        ],
        "range of rewards": [car(window=range(2, 6), env_settings={"horizon": 160})],
        "differs in done": [car(window=range(3, 6))],
    }
    for words, others in strangers.items():
        for other in others:
            with pytest.raises(MatrixRLError, match=words):
                restore_simulation(other, saved)


@pytest.mark.parametrize(("agent", "kind"), [("kernel-matrix-rl", KernelMatrixRL), ("random", AGENTS["random"])])
def test_seeds_are_the_runs_of_agents(agent, kind):
    env_settings = {"horizon": 40}
    together = run_seeds("cart-pole", n_episodes=4, seeds=2, agent=agent, env_settings=env_settings)
    assert together.returns.shape == (2, 4)
    for k, seed in enumerate(together.seeds):
        alone = kind("cart-pole", env_settings=env_settings, seed=seed).learn(4)
        np.testing.assert_array_equal(together.returns[k], alone.returns)
        np.testing.assert_array_equal(together.lengths[k], alone.lengths)
        np.testing.assert_array_equal(together.upper[k], alone.upper)
    assert (together.returns[0] != together.returns[1]).any()
    assert not together.measures_regret
    assert together.optimal_value is None
    assert together.n_plans == [4, 4]
    assert not together.interrupted


def test_regret_is_measured_where_the_points_of_a_known_mdp_are_seen():
    def env():
        return PointObservations(make("double-integrator", positions=7, speeds=5, horizon=6))

    found = run_seeds(env(), n_episodes=3, seeds=[2], agent="kernel-matrix-rl")
    alone = KernelMatrixRL(env(), seed=2).learn(3)
    np.testing.assert_array_equal(found.regret[0], alone.regret)
    np.testing.assert_array_equal(found.returns[0], alone.returns)


class InterruptedPlay(BASELINES["random"]):
    """Random play that is interrupted once, in the middle of an episode."""

    name = "interrupted"
    calls_left = 0

    def act(self, plan, stage, states, *, explore=True):
        type(self).calls_left -= 1
        if type(self).calls_left == 0:
            raise KeyboardInterrupt
        return super().act(plan, stage, states, explore=explore)


@pytest.mark.parametrize("played", [0, 1, 3])
def test_an_interrupt_in_the_second_seed_keeps_the_first(played):
    """Four episodes of 20 steps a seed; the second one is interrupted after some episodes and seven steps."""
    options = {"n_episodes": 4, "env_settings": {"horizon": 20}}
    wanted = run_seeds("mountain-car", seeds=[5, 6, 7], agent="random", **options)
    InterruptedPlay.calls_left = (4 + played) * 20 + 8
    runs = Simulation("mountain-car", seeds=[5, 6, 7], agent=InterruptedPlay(), **options)
    with pytest.raises(KeyboardInterrupt):
        runs.run()
    found = runs.result()
    assert found.interrupted
    rest = copy.deepcopy(runs).run()
    np.testing.assert_array_equal(rest.returns, wanted.returns)
    assert found.seeds == [5, 6]  # the third one was not begun
    assert found.n_plans == [4, played]
    for name in ("returns", "lengths"):
        series = getattr(found, name)
        assert series.shape == (2, 4)
        np.testing.assert_array_equal(series[0], getattr(wanted, name)[0])
        np.testing.assert_array_equal(series[1, :played], getattr(wanted, name)[1, :played])
        assert np.isnan(series[1, played:]).all()
    for name in ("upper", "regret", "seconds", "certified"):
        assert np.isnan(getattr(found, name)[1, played:]).all()
    assert np.isfinite(found.seconds[0]).all()
    assert not found.alarms.any()
    assert found.second_half(1) is None if played == 0 else np.isfinite(found.second_half(1))
    assert found.as_dict()["returns"][1][played:] == [None] * (4 - played)


@pytest.mark.parametrize("call", [7, 2 * 20 + 11])
def test_an_interrupted_episode_leaves_no_trace(call):
    """In the first episode, before which the environment was not even seeded, and in a later one."""
    options = {"n_episodes": 4, "seeds": [1], "env_settings": {"horizon": 20}}
    whole = Simulation("mountain-car", agent="random", **options)
    wanted = whole.run()
    InterruptedPlay.calls_left = call
    simulation = Simulation("mountain-car", agent=InterruptedPlay(), **options)
    with pytest.raises(KeyboardInterrupt):
        simulation.run()
    assert simulation.done == (call - 1) // 20
    np.testing.assert_array_equal(simulation.run().returns, wanted.returns)
    np.testing.assert_array_equal(simulation.last.states, whole.last.states)
    np.testing.assert_array_equal(simulation.world.to_array(), whole.world.to_array())
    assert_same_state(simulation.algorithm.state(), whole.algorithm.state())


def test_one_seed_at_a_time():
    with pytest.raises(InvalidInput, match="seeds must be one"):
        Simulation("mountain-car", n_episodes=4, seeds=[0, 1], agent="random", window=range(2))
