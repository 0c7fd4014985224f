"""The compiled loops play what numpy plays: the same draws, the same episodes, values to the last digits."""

from __future__ import annotations

import copy
import json
import os
import signal
import sys
import threading
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from covering import covering
from matrixrl import FiniteMDP, InvalidInput, make, run_seeds
from matrixrl.compilation import _usable, compiled, pays_off, why_not_usable
from matrixrl.core import SETS
from matrixrl.core.models import RidgeModel
from matrixrl.errors import MatrixRLError, ProtocolError
from matrixrl.play import Simulation
from matrixrl.play.player import CompiledPlayer, why_not_compiled
from matrixrl.play.resume import restore_simulation, save_simulation
from matrixrl.problems import from_gymnasium, low_rank, tabular
from matrixrl.records import Steps

KINDS = ["normalised", "tightest"]
SAME = {"rtol": 1e-13, "atol": 1e-11}  # sums of some hundred terms, in another order


def simulation(world, n_episodes=40, seeds=(3, 4), *, compiled=True, certify=False, window=None, **chosen):
    return Simulation(
        world, n_episodes=n_episodes, seeds=seeds, settings=chosen, compiled=compiled, certify=certify, window=window
    )


def noisy_world(n_states, n_actions, horizon, n_successors, seed, *, end=False):
    """Return an MDP with noisy rewards in [-1, 3], a random start and, if asked for, an end."""
    rng = np.random.default_rng(seed)
    plain = tabular(n_states=n_states, n_actions=n_actions, n_successors=n_successors, seed=seed).mdp
    states, actions = np.divmod(np.arange(n_states * n_actions), n_actions)
    table = plain.transitions.rows(states, actions).reshape(n_states, n_actions, n_states)
    reward = rng.uniform(-1.0, 3.0, (n_states, n_actions))
    if end:
        table[-1], reward[-1] = np.eye(n_states)[-1], 0.0
    return FiniteMDP(
        table,
        reward,
        horizon=horizon,
        start=rng.dirichlet(np.ones(n_states)),
        reward_range=(-1.0, 3.0),
        end_state=n_states - 1 if end else None,
        noisy_rewards=True,
    )


def factored_world():
    world = low_rank(n_states=70, n_actions=2, d=3, horizon=5, seed=0)
    return FiniteMDP(world.mdp.transitions, world.mdp.task.reward, horizon=5)


def assert_same_run(world, **chosen):
    loops, numpy_ = simulation(world, **chosen), simulation(world, **{**chosen, "compiled": False})
    found, wanted = loops.run(), numpy_.run()
    assert loops.is_compiled
    assert not numpy_.is_compiled
    for name in ("regret", "returns", "upper", "certified"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), **SAME, err_msg=name)
    np.testing.assert_array_equal(found.lengths, wanted.lengths)
    for one, other in zip(found.certificate, wanted.certificate, strict=True):
        assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper), rel=SAME["rtol"], abs=SAME["atol"])
        assert one.guarantee == other.guarantee
    assert found.n_plans == wanted.n_plans
    ours, state = loops.algorithm.state(), numpy_.algorithm.state()
    assert ours.keys() == state.keys()
    for name, learned in state.items():
        np.testing.assert_allclose(ours[name], learned, **SAME, err_msg=name)
    if isinstance(loops.algorithm.model, RidgeModel):
        np.testing.assert_array_equal(loops.algorithm.model.design.width_sq, numpy_.algorithm.model.design.width_sq)
    np.testing.assert_array_equal(ours["streams"], state["streams"])
    np.testing.assert_array_equal(loops.world.to_array(), numpy_.world.to_array())


REWARDS = [(True, "random"), (False, "random"), (False, "estimate")]


@pytest.mark.parametrize(
    ("name", "radius", "rewards"), covering(product(SETS, ["block", "constant", "theorem"], REWARDS))
)
def test_every_set_and_radius_is_the_same_run(name, radius, rewards):
    known_reward, ties = rewards
    chosen = {"preset": "optimistic", "set": name, "radius": radius, "known_reward": known_reward, "ties": ties}
    if radius == "constant":
        chosen["beta"] = 0.3
    assert_same_run("river-swim", certify=True, **chosen)


@pytest.mark.parametrize(
    ("env", "horizon"), [("four-rooms", 36), ("deep-sea", 10), ("gym:FrozenLake-v1", 100), ("gym:Taxi-v4", 40)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_environment_is_the_same_run(env, horizon, kind):
    world = from_gymnasium(make(env) if env == "deep-sea" else make(env, horizon=horizon))
    assert world.horizon == horizon
    assert_same_run(world, n_episodes=15, preset="tuned", set=kind, known_reward=False)


@pytest.mark.slow
@given(
    n_states=st.integers(1, 12),
    n_actions=st.integers(1, 4),
    horizon=st.integers(1, 9),
    width=st.integers(1, 5),
    seed=st.integers(0, 1000),
    end=st.booleans(),
    known_reward=st.booleans(),
    preset=st.sampled_from(["budget", "optimistic", "tuned"]),
    ties=st.sampled_from(["random", "estimate"]),
)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12, deadline=None)
def test_any_mdp_is_the_same_run(n_states, n_actions, horizon, width, seed, end, known_reward, preset, ties, kind):
    world = noisy_world(n_states, n_actions, horizon, min(width, n_states), seed, end=end)
    chosen = {"preset": preset, "set": kind, "known_reward": known_reward, "ties": ties}
    assume(preset != "budget" or kind == "tightest")  # not compiled with balls
    assert_same_run(world, n_episodes=20, certify=True, **chosen)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_interrupted_and_resumed_is_bit_for_bit_what_was_not(kind):
    chosen = {"preset": "tuned", "set": kind, "known_reward": False}
    whole = simulation("river-swim", 60, **chosen).run()
    first = simulation("river-swim", 60, window=range(23), **chosen)
    head = first.run()
    second = simulation("river-swim", 60, window=range(23, 60), **chosen)
    restore_simulation(second, save_simulation(first))
    for name in ("regret", "returns", "upper"):
        joined = np.concatenate(
            [getattr(head, name), getattr(second.result() if second.played else second.run(), name)], 1
        )
        np.testing.assert_array_equal(joined, getattr(whole, name))


@pytest.mark.parametrize(("kind", "preset"), [*((kind, "tuned") for kind in KINDS), ("tightest", "budget")])
def test_neither_company_nor_the_length_of_a_stretch_changes_a_bit(kind, preset):
    mdp = tabular(n_states=70, n_actions=3, horizon=7, n_successors=4, seed=5).mdp
    together = simulation(mdp, seeds=[7, 8, 9], preset=preset, set=kind).run()
    alone = simulation(mdp, seeds=[8], preset=preset, set=kind)
    for count in (1, 2, 30, 100):
        alone.advance(count)
    np.testing.assert_array_equal(together.regret[1], alone.result().regret[0])
    np.testing.assert_array_equal(together.upper[1], alone.result().upper[0])
    assert alone.last.states.shape == alone.last.actions.shape == (1, 40 - 33, 7)


@pytest.mark.parametrize(
    ("kind", "preset"), [("normalised", "optimistic"), ("tightest", "optimistic"), ("tightest", "budget")]
)
def test_it_goes_on_from_what_was_learned_without_it(kind, preset):
    """One player over one algorithm: 20 compiled episodes, 20 of NumPy, 20 compiled ones."""
    mixed = simulation("river-swim", 60, preset=preset, set=kind, known_reward=False, compiled=False)
    algorithm, world = mixed.algorithm, mixed.world
    player = CompiledPlayer(mixed.problem.mdp, algorithm, (mixed.optimal_value, 1), certify=False)
    regret = [player.play(world.streams, 20).regret]
    for _ in range(20):
        plan = algorithm.plan()
        regret.append(mixed.engine.evaluator.regret(algorithm.policy_table(plan))[:, None])
        algorithm.update(world.play(algorithm, plan).steps)
    regret.append(player.play(world.streams, 20).regret)
    plain = simulation("river-swim", 60, preset=preset, set=kind, known_reward=False, compiled=False)
    np.testing.assert_allclose(np.concatenate(regret, axis=1), plain.run().regret, **SAME)
    for name, learned in plain.algorithm.state().items():
        np.testing.assert_allclose(algorithm.state()[name], learned, **SAME, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_waits_for_the_stretch_and_loses_nothing(kind):
    mdp = tabular(n_states=300, n_actions=2, horizon=20, n_successors=5, seed=0).mdp
    run = simulation(mdp, 20_000, seeds=[0], preset="tuned", set=kind)
    run.advance(1)  # compiled now
    threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run.run()
    played = run.played
    assert 1 < played < 20_000
    assert run.algorithm.episode == played
    again = simulation(mdp, 20_000, seeds=[0], preset="tuned", set=kind)
    again.advance(played + 5)
    run.advance(5)
    np.testing.assert_array_equal(run.result().regret, again.result().regret)


def test_leaving_regret_out_changes_nothing_else():
    both = [
        Simulation("river-swim", n_episodes=20, seeds=[1], compiled=compiled, measure_regret=False)
        for compiled in (True, False)
    ]
    whole = run_seeds("river-swim", n_episodes=20, seeds=[1])
    for one in both:
        result = one.run()
        assert np.isnan(result.regret).all()
        np.testing.assert_allclose(result.returns, whole.returns, **SAME)


@pytest.mark.parametrize(
    ("world", "chosen", "words"),
    [
        ("linear-mdp", {"preset": "optimistic"}, "not one-hot"),
        ("linear-mdp", {"columns": 30}, "all its columns"),
        ("river-swim", {"set": "normalised"}, "optimism budget"),
        ("river-swim", {"preset": "optimistic", "set": "normalised", "switch_growth": 1.0}, "rare switching"),
        ("river-swim", {"preset": "optimistic", "radius": "log-det"}, "depends on more than the visits"),
        (tabular(n_states=80, n_actions=2, seed=0).mdp, {"preset": "optimistic", "set": "normalised"}, "dense"),
        (factored_world(), {}, "not given as a table"),
    ],
)
def test_whole_episodes_are_left_to_numpy_where_they_do_not_fit(world, chosen, words):
    run = Simulation(world, n_episodes=5000, seeds=[0], settings=chosen)
    assert not run.is_compiled
    assert words in (why_not_compiled(run.problem.mdp, run.algorithm, 5000) or "")


@pytest.mark.parametrize("chosen", [{}, {"set": "normalised"}, {"keep_data": True}], ids=str)
def test_epochs_that_double_are_left_to_numpy(chosen):
    run = Simulation("river-swim", n_episodes=5000, seeds=[0], agent="doubling-matrix-rl", settings=chosen)
    assert not run.is_compiled
    assert "DoublingMatrixRL" in (why_not_compiled(run.problem.mdp, run.algorithm, 5000) or "")


def test_an_agent_without_compiled_loops_refuses_them():
    with pytest.raises(InvalidInput, match="compiled must be left out"):
        Simulation("river-swim", n_episodes=5, seeds=[0], agent="ucbvi", compiled=True)
    assert not Simulation("river-swim", n_episodes=5000, seeds=[0], agent="ucbvi").is_compiled


@pytest.fixture
def asked_anew():
    """Forget what is known of numba, before and after."""
    for answer in (why_not_usable, _usable):
        answer.cache_clear()
    yield
    for answer in (why_not_usable, _usable):
        answer.cache_clear()


def test_without_numba_it_is_left_out_or_refused_by_name(monkeypatch, asked_anew):
    monkeypatch.setitem(sys.modules, "numba", None)
    assert not simulation("river-swim", 5000, compiled=None).is_compiled
    with pytest.raises(InvalidInput, match="compiled needs numba; got numba is not installed"):
        simulation("river-swim", 5000)


def test_a_numba_that_is_broken_is_left_out_with_a_warning_or_refused(tmp_path, monkeypatch, asked_anew):
    (tmp_path / "numba.py").write_text("raise ImportError('Numba needs NumPy 2.0 or less')")
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(RuntimeWarning, match="NumPy 2.0 or less.*left out"):
        assert not simulation("river-swim", 5000, compiled=None).is_compiled
    assert not simulation("river-swim", 5000, compiled=None).is_compiled  # and the warning comes once
    with pytest.raises(InvalidInput, match="cannot be imported"):
        simulation("river-swim", 5000)


def test_without_compiled_loops_a_broken_numba_is_not_imported(tmp_path, monkeypatch, asked_anew):
    (tmp_path / "numba.py").write_text("raise ImportError('broken')")
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    run = simulation("river-swim", 5000, compiled=False)  # a warning would be an error
    run.advance(2)
    assert not run.is_compiled
    assert "numba" not in sys.modules


def test_where_nothing_can_be_kept_it_is_compiled_all_the_same():
    space: dict[str, Any] = {}
    exec("def double(x):\n    return 2.0 * x", space)  # without a file numba has no place for its cache
    assert compiled(space["double"])(3.0) == 6.0


@pytest.mark.parametrize(("kind", "cost"), [("normalised", 1), ("tightest", 8)])
def test_blocks_of_a_run_decide_as_the_whole_of_it(kind, cost):
    chosen = {"preset": "tuned", "set": kind, "compiled": None}
    n = next(n for n in range(100, 5000) if pays_off(cost * n, horizon=24, n_pairs=12))
    for total, expected in ((n, True), (n - 1, False)):
        blocks = [simulation("river-swim", total, window=w, **chosen) for w in (range(10), range(10, total))]
        assert [block.is_compiled for block in blocks] == [expected, expected]
        assert [block.algorithm.compiled for block in blocks] == [expected, expected]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stretch_that_fails_leaves_no_trace(kind, monkeypatch):
    run = simulation("river-swim", 30, preset="tuned", set=kind)
    run.advance(5)

    def out_of_memory(*arguments):
        raise MemoryError  # after the random numbers of the stretch were drawn

    with monkeypatch.context() as failing, pytest.raises(MemoryError):
        failing.setattr("matrixrl.play.compiled.episodes.play_episodes", out_of_memory)
        run.advance(5)
    assert run.done == 5
    whole = simulation("river-swim", 30, preset="tuned", set=kind).run()
    np.testing.assert_array_equal(run.run().regret, whole.regret)


@pytest.mark.parametrize("kind", KINDS)
def test_data_of_another_mdp_are_refused_before_the_loops_see_them(kind):
    one, other = (tabular(n_states=40, n_actions=2, horizon=20, n_successors=3, seed=seed).mdp for seed in (0, 1))
    first = simulation(one, 60, window=range(30), preset="tuned", set=kind)
    first.run()
    with pytest.raises(MatrixRLError, match="differs in rewards, transitions"):
        restore_simulation(
            simulation(other, 60, window=range(30, 60), preset="tuned", set=kind), save_simulation(first)
        )
    stranger = simulation(other, 60, preset="tuned", set=kind)
    step = np.zeros((2, 1), dtype=int)
    lists = other.transitions.successors()
    impossible = next(s for s in range(40) if s not in lists.states[lists.firsts[0] : lists.firsts[1]])
    stranger.algorithm.update(Steps.of(step, step, np.zeros((2, 1)), step + impossible))
    stranger.done = 1
    with pytest.raises(InvalidInput, match="must come from this MDP"):
        stranger.advance(1)


@pytest.mark.slow
def test_tables_grow_with_the_visits():
    """75,000 visits are more than one block of the tables."""
    mdp = FiniteMDP(np.ones((1, 1, 1)), np.full((1, 1), 0.5), horizon=50)
    assert_same_run(mdp, n_episodes=1500, seeds=[0], preset="optimistic", set="normalised", known_reward=False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_simulation_can_be_copied(kind):
    run = simulation("river-swim", 40, preset="tuned", set=kind)
    run.advance(15)
    twin = copy.deepcopy(run)
    np.testing.assert_array_equal(twin.run().regret, run.run().regret)


@pytest.mark.parametrize(("count", "words"), [(0, "at least 1"), (-1, "at least 1"), (2.5, "whole number")])
@pytest.mark.parametrize("compiled", [True, False])
def test_advance_refuses_what_is_no_number_of_episodes(count, words, compiled):
    run = simulation("river-swim", 5, compiled=compiled)
    with pytest.raises(InvalidInput, match=f"count must be .*{words}"):
        run.advance(count)
    run.advance(99)
    with pytest.raises(ProtocolError, match="all 5 episodes were played"):
        run.advance(1)


def test_what_compiled_may_be():
    with pytest.raises(InvalidInput, match="compiled must be true, false or None"):
        simulation("river-swim", 5, compiled="maybe")
    with pytest.raises(InvalidInput, match="compiled must be left out"):
        simulation("linear-mdp", 5, columns=30)


def test_unmeasured_regret_is_never_a_number():
    result = Simulation("river-swim", n_episodes=20, seeds=[1], measure_regret=False).run()
    summary = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert summary["regret"] is None
    assert summary["regret_curve"] is None
    with pytest.raises(MatrixRLError, match="final_regret needs a known P and measure_regret=True"):
        _ = result.final_regret
    with pytest.raises(InvalidInput, match="measure_regret must be true, false"):
        Simulation("river-swim", n_episodes=20, seeds=[1], measure_regret="no")


def test_short_runs_do_not_load_it():
    assert not simulation("river-swim", 50, compiled=None).is_compiled
    assert simulation("river-swim", 5000, compiled=None).is_compiled
    assert pays_off(50, horizon=20, n_pairs=2000)
    assert not pays_off(49, horizon=20, n_pairs=2000)


def test_tables_that_would_not_fit_are_refused():
    world = from_gymnasium(make("river-swim"))
    algorithm = simulation(world, preset="optimistic", set="normalised").algorithm
    assert why_not_compiled(world, algorithm, 10**6) is None
    assert "by visits could become larger than 1 GB" in (why_not_compiled(world, algorithm, 10**8) or "")
    algorithm.n_replicas = 10**8
    assert "of successors would be larger than 1 GB" in (why_not_compiled(world, algorithm, 10) or "")
