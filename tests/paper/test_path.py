"""Planning on the path (docs/proofs.md, 9.8): optimism in any order, what values can fall, charges, compiled loops."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from matrixrl import Agent, FiniteMDP, InvalidInput, KernelMatrixRL, MatrixRL, Task, make
from matrixrl.algorithms import UCMatrixRL
from matrixrl.core import Clock, Frame, greedy_plan
from matrixrl.core.greedy import lowest_first
from matrixrl.core.path import BestRewards, PathConfidence, PathRadii, PathTable
from matrixrl.core.sets import LikelihoodSet, ValueTargetedSet
from matrixrl.play.simulation import Simulation
from matrixrl.problems import Problem, evaluate, solve

CLOSE = 1e-9  # the search for the dual variable stops at this accuracy, or better


def world(seed=0, n=5, n_actions=3, horizon=6, *, end=False, masked=False, staged=False, start=None, **options):
    """Return a random MDP with two or three successors of each pair."""
    rng = np.random.default_rng(seed)
    shape = (horizon, n, n_actions) if staged else (n, n_actions)
    law = rng.dirichlet(np.ones(n), size=shape) * (rng.random((*shape, n)) < 0.5) + 1e-3 * np.eye(n)[0]
    law, reward = law / law.sum(axis=-1, keepdims=True), rng.random(shape)
    if end:
        law[..., n - 1, :, :], reward[..., n - 1, :] = np.eye(n)[n - 1], 0.0
        options["end_state"] = n - 1
    if masked:
        options["allowed"] = rng.random((n, n_actions)) < 0.6
        options["allowed"][:, 1] = True
    return FiniteMDP(law, reward, horizon, start=0 if start is None else start, **options)


KINDS = {
    "plain": {},
    "random start": {"start": [0.5, 0.0, 0.5, 0.0, 0.0]},
    "end state": {"end": True},
    "masks and end state": {"masked": True, "end": True},
    "stages": {"staged": True},
    "discount": {"discount": 0.8},
    "noisy rewards": {"noisy_rewards": True},
    "costs": {"reward_range": (-1.0, 2.0), "end": True},
}


def started(mdp, n_seeds=1, **settings):
    return UCMatrixRL(**{"preset": "optimistic", "planner": "path"} | settings).start(Problem.of(mdp), range(n_seeds))


def random_episode(mdp, rng):
    """Return states, actions and next states of an episode with random allowed actions."""
    choices = mdp.task.choices

    def act(h, states):
        first, stop = choices[h]
        fits = np.arange(first, stop)
        if mdp.allowed is not None:
            fits = fits[mdp.allowed[states[0], fits]]
        return rng.choice(fits, size=1)

    steps = mdp.rollout(rng.random((1, mdp.draws_per_episode)), act)
    taken = steps.taken[0]
    return steps.states[0, taken], steps.actions[0, taken], steps.next_states[0, taken]


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_optimistic_after_backups_in_any_order_and_never_rise(kind):
    # With δ = 1e-9 the event fails in none of these runs.
    mdp = world(**KINDS[kind])
    optimal = (solve(mdp).values - 0.0) if mdp.task.unit == 1.0 else None
    table, rng = started(mdp, delta=1e-9).tables[0], np.random.default_rng(1)
    before = np.tile(table.ceilings[:, None], (1, mdp.n_states))
    for _ in range(40):
        table.learn(*random_episode(mdp, rng))
        n = len(table.slots)
        for _ in range(rng.integers(3)):
            table.back_up(rng.permutation(n)[: rng.integers(1, n + 1)], table.values)
        now = np.stack([table.at(np.arange(mdp.n_states), h) for h in range(mdp.horizon)])
        assert (now <= before[:-1] + 1e-12).all()
        before[:-1] = now
        if optimal is not None:
            assert (now >= optimal[:-1] - CLOSE).all()
            assert (table.tops[0][:-1] >= optimal[:-1].max(axis=1) - CLOSE).all()


@pytest.mark.parametrize("kind", ["plain", "masks and end state", "stages", "discount"])
@pytest.mark.parametrize("name", ["value-targeted", "likelihood"])
def test_one_backup_of_all_states_is_the_plan_of_a_sweep(kind, name):
    mdp, rng = world(**KINDS[kind]), np.random.default_rng(2)
    path, sweep = started(mdp, set=name), started(mdp, set=name, planner="sweep")
    table = path.tables[0]
    for _ in range(60):
        steps = random_episode(mdp, rng)
        table.learn(*steps)
        pairs = sweep.features.phi.pairs(*steps[:2])[None]
        sweep.model.update(pairs, steps[2][None], np.zeros(pairs.shape), np.ones(pairs.shape))
    assert len(table.slots) == mdp.n_states
    fresh = PathTable(table.frame, PathRadii(path.confidence), path._rewards_at, path.best)
    fresh.load_state_dict(table.state_dict() | {"values": np.tile(table.ceilings[:, None], (1, mdp.n_states))})
    if mdp.task.end_state is not None:
        fresh.values[:-1, 0] = table.frame.end_values()
    fresh.back_up(np.arange(mdp.n_states), fresh.values)
    bounds = sweep.model.bounds(Clock(1, None), "agent")[0]
    plan = greedy_plan(bounds, sweep.frame, lowest_first(mdp.n_actions, 1))
    np.testing.assert_allclose(fresh.values[:, fresh.numbers(np.arange(mdp.n_states))], plan.values[0], atol=CLOSE)
    ours, theirs = path.confidence, sweep.model.confidence
    for every in (False, True) if ours.targeted else ():
        assert ours.log_targets(every_action=every) == pytest.approx(theirs.log_targets(every_action=every), rel=1e-14)
    assert ours.n_groups == theirs.n_groups
    np.testing.assert_array_equal(path.policy_table(path.advice())[0].shape, plan.policy[0].shape)


@pytest.mark.parametrize("preset", ["optimistic", "budget"])
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_episodes_are_those_of_numpy(kind, preset):
    alpha = {"optimism_budget": 0.3} if preset == "budget" else {}  # so small that some episodes are optimistic
    settings = {"preset": preset, "planner": "path", **alpha}
    given = {"n_episodes": 60, "seeds": [0, 1], "agent": "matrix-rl", "settings": settings}
    loops, arrays = (Simulation(world(3, **KINDS[kind]), compiled=compiled, **given) for compiled in (True, False))
    ours, theirs = loops.run(), arrays.run()
    assert loops.is_compiled
    for name in ("regret", "returns", "upper"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=CLOSE)
    for one, other in zip(ours.certificate, theirs.certificate, strict=True):
        assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper), abs=CLOSE)
    same_tables(loops, arrays)


def same_tables(one, other):
    for ours, theirs in zip(one.algorithm.tables, other.algorithm.tables, strict=True):
        state = theirs.state_dict()
        for name, array in ours.state_dict().items():
            np.testing.assert_allclose(array, state[name], atol=1e-7, err_msg=name)


def test_compiled_arrays_grow_with_the_states_seen():
    # A ring that is walked along: more states than there is room for at the start.
    n = 700
    law = np.zeros((n, 2, n))
    law[np.arange(n), 0, (np.arange(n) + 1) % n] = 1.0
    law[np.arange(n), 1, (np.arange(n) + 37) % n] = 1.0
    mdp = FiniteMDP(law, np.random.default_rng(0).random((n, 2)), 30)
    settings = {"preset": "budget", "planner": "path"}
    given = {"n_episodes": 60, "seeds": [0], "agent": "matrix-rl", "settings": settings, "measure_regret": False}
    loops, arrays = (Simulation(mdp, compiled=compiled, **given) for compiled in (True, False))
    ours, theirs = loops.run(), arrays.run()
    np.testing.assert_allclose(ours.upper, theirs.upper, atol=CLOSE)
    assert len(loops.algorithm.tables[0].slots) > 256
    same_tables(loops, arrays)


@pytest.mark.parametrize("preset", ["optimistic", "budget"])
def test_what_played_values_fall_and_what_is_charged(preset):
    # The surplus of what was played is what is left of V_h − r − P V_{h+1} after drops and gaps, so that regret is the
    # sum of three parts; the drops of all episodes are parts of what the values of the visited states fall in all.
    alpha = {"optimism_budget": 0.05} if preset == "budget" else {}
    mdp = world(4, n=40, horizon=5)  # so large that many states were not backed up for some time
    algorithm, rng = started(mdp, preset=preset, **alpha), np.random.default_rng(5)
    table, frame = algorithm.tables[0], algorithm.frame
    law, reward, all_states = mdp.transitions.law(), mdp.task.reward, np.arange(mdp.n_states)
    drops = charged = earned = surplus = expected = 0.0
    visited, first_values, kinds = {}, {}, set()
    for _ in range(200):
        plan, before = (
            algorithm.plan(),
            np.stack([table.at(all_states, h) for h in range(mdp.horizon)] + [0 * all_states]),
        )
        steps = mdp.rollout(rng.random((1, mdp.draws_per_episode)), lambda h, s, plan=plan: algorithm.act(plan, h, s))
        states, actions = steps.states[0], steps.actions[0]
        fell, before_it = {}, charged
        for h, (s, a) in enumerate(zip(states, actions, strict=True)):
            q = table.q(np.array([s]), np.array([h]))[0]
            lowered = min(before[h, s], q.max())
            fell[h, s] = before[h, s] - lowered
            gap = max(lowered - q[a], 0.0) if plan.is_tuned[0] else 0.0
            charged += gap
            surplus += q[a] - reward[s, a] - law[s, a] @ before[h + 1]
            left = before[h, s] - reward[s, a] - law[s, a] @ before[h + 1]
            expected += left
            assert left <= fell[h, s] + gap + (q[a] - reward[s, a] - law[s, a] @ before[h + 1]) + CLOSE
            first_values.setdefault((h, s), before[h, s])
            visited[h, s] = True
        widths = table.widths(states, actions).sum()
        most = (charged - before_it) / 0.05
        earned += min(widths, most) if plan.is_tuned[0] else widths
        kinds.add((bool(plan.is_tuned[0]), bool(widths < most)))
        algorithm.update(steps, plan)
        for (h, s), drop in fell.items():
            assert before[h, s] - table.at(np.array([s]), h)[0] >= drop - CLOSE
        drops += sum(fell.values())
    total = sum(first_values[h, s] - table.at(np.array([s]), h)[0] for h, s in visited)
    assert drops <= total + CLOSE
    assert drops > 0.1
    assert total <= len(table.slots) * frame.horizon * (frame.horizon + 1) / 2
    assert expected <= drops + charged + surplus + CLOSE
    assert table.charged == pytest.approx(charged, abs=1e-7)
    assert (charged > 0.1) == (preset == "budget")
    assert table.earned == pytest.approx(earned if preset == "budget" else 0.0, abs=1e-7)
    assert preset != "budget" or {(True, True), (True, False), (False, False)} == kinds


def test_widths_of_the_budget_are_those_of_a_sweep():
    mdp, rng = world(6), np.random.default_rng(7)
    path, sweep = started(mdp, preset="budget"), started(mdp, planner="sweep")
    table = path.tables[0]
    for _ in range(30):
        steps = random_episode(mdp, rng)
        table.learn(*steps)
        pairs = sweep.features.phi.pairs(*steps[:2])[None]
        sweep.model.update(pairs, steps[2][None], np.zeros(pairs.shape), np.ones(pairs.shape))
    states, actions, _ = random_episode(mdp, rng)
    bounds = sweep.model.bounds(Clock(1, None), "proven")[0]
    values = np.stack([table.at(np.arange(mdp.n_states), h) for h in range(mdp.horizon)])
    for h, (s, a) in enumerate(zip(states, actions, strict=True)):
        following = values[None, h + 1] if h + 1 < mdp.horizon else np.zeros((1, mdp.n_states))
        ends = [bounds.bound(following, sign=sign)[0, a, s] for sign in (1.0, -1.0)]
        assert table.widths(states, actions)[h] == pytest.approx(ends[0] - ends[1], abs=CLOSE)


def test_the_budget_is_not_overdrawn_by_more_than_an_episode():
    mdp = world(8, horizon=8)
    algorithm, rng = started(mdp, preset="budget", optimism_budget=0.2), np.random.default_rng(9)
    table, frame, kinds = algorithm.tables[0], algorithm.frame, set()
    for _ in range(150):
        before, plan = table.charged, algorithm.plan()
        assert plan.is_tuned[0] == (before <= 0.2 * (table.earned + frame.horizon))
        kinds.add(bool(plan.is_tuned[0]))
        algorithm.update(
            mdp.rollout(rng.random((1, mdp.draws_per_episode)), lambda h, s, plan=plan: algorithm.act(plan, h, s)), plan
        )
        assert plan.is_tuned[0] or table.charged == before
        assert table.charged <= 0.2 * (table.earned + frame.horizon) + algorithm.claims._fall
    assert kinds == {True, False}


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_the_bound_has_what_values_can_fall(alpha):
    mdp, n = world(horizon=4), 1000
    path, sweep = started(mdp, optimism_budget=alpha), started(mdp, planner="sweep")
    fall = mdp.horizon * (mdp.horizon + 1) / 2
    plain = sweep.claims.bound(n)
    assert path.claims.bound(n) == pytest.approx(plain + mdp.n_states * fall)
    assert path.claims.bound(3) == pytest.approx(sweep.claims.bound(3) + 3 * fall)
    of_path = mdp.horizon * np.sqrt(0.5 * n * mdp.horizon * np.log(1.0 / 0.05))
    more = 0.0 if alpha == 0.0 else alpha * (plain - of_path + mdp.horizon) + fall
    assert path.claims.regret_bound(n) == pytest.approx(path.claims.bound(n) + more)


def test_gaps_of_other_actions_are_added_to_the_bound():
    agent = MatrixRL("river-swim", env_settings={"n_states": 3}, preset="optimistic", planner="path", seed=0)
    agent.learn(n_episodes=100)
    assert agent.bound().gaps == 0.0
    episode = agent.begin_episode()
    algorithm, expected = agent.algorithm, 0.0
    for h in range(agent.problem.task.horizon):
        episode.act(0)
        planned = int(algorithm.act(episode.data.plan, h, np.array([0]))[0])
        q = algorithm.tables[0].q(np.array([0]), np.array([h]))[0]
        best = min(q.max(), algorithm.tables[0].at(np.array([0]), h)[0])
        expected += max(best - q[0], 0.0) if planned != 0 else 0.0
        episode.observe(0, 0, 0.005, 0)
    episode.end()
    assert expected > 0.0
    assert agent.bound().gaps == pytest.approx(expected)
    assert agent.guarantee


@pytest.mark.parametrize("preset", ["optimistic", "budget"])
def test_certificates_hold_the_value_of_the_policy_and_the_optimum(preset):
    mdp = world(10, horizon=4, end=True)
    agent = MatrixRL(mdp, preset=preset, planner="path", seed=3)
    agent.learn(n_episodes=400)
    certificate = agent.certificate()
    table = agent.algorithm.policy_table(agent.algorithm.advice())[0]
    value = float(evaluate(mdp, table)[0, 0])
    optimum = float(solve(mdp).values[0, 0])
    assert certificate.guarantee
    assert 0.0 < certificate.lower <= value <= optimum <= certificate.upper < agent.history.upper[0]


@pytest.mark.parametrize("preset", ["optimistic", "budget"])
def test_an_agent_goes_on_bit_for_bit_after_it_was_saved(tmp_path, preset):
    given = {"env_settings": {"n_states": 4}, "preset": preset, "planner": "path", "seed": 5}
    whole, part = MatrixRL("river-swim", **given), MatrixRL("river-swim", **given)
    whole.learn(n_episodes=40)
    part.learn(n_episodes=17)
    part.save(tmp_path / "agent.mrl")
    loaded = MatrixRL.load(tmp_path / "agent.mrl", make("river-swim", n_states=4))
    loaded.learn(n_episodes=23)
    state, again = whole.algorithm.state(), loaded.algorithm.state()
    assert state.keys() == again.keys()
    for name in state:
        np.testing.assert_array_equal(state[name], again[name])


@pytest.mark.parametrize("preset", ["optimistic", "budget"])
def test_compiled_episodes_go_on_bit_for_bit(preset):
    mdp = world(11)
    settings = {"preset": preset, "planner": "path"}
    given = {"n_episodes": 80, "seeds": [0, 1], "agent": "matrix-rl", "settings": settings, "compiled": True}
    whole, first, second = (Simulation(mdp, **given) for _ in range(3))
    whole.advance(80)
    first.advance(33)
    second.algorithm.restore(first.algorithm.state())
    second.world.from_array(first.world.to_array())
    second.done = 33
    second.advance(47)
    for name, array in whole.algorithm.state().items():
        np.testing.assert_array_equal(array, second.algorithm.state()[name])


def test_memory_follows_the_states_seen():
    frame = Frame(20, 4, 10**7)
    tracemalloc.start()
    confidence = PathConfidence(ValueTargetedSet(), frame, delta=0.05, exploration=1.0)
    table = PathTable(
        frame, PathRadii(confidence), lambda states: np.full((len(states), 4), 0.5), BestRewards(np.array([0.5]))
    )
    states = np.arange(0, 10**7, 10**6)
    table.learn(states, np.zeros(10, dtype=np.int64), states + 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(table.slots) == 20
    assert peak < 2e7


REFUSED = {
    "tuned": {"preset": "tuned"},
    "exploration": {"exploration": 0.5},
    "tuned set": {"set": LikelihoodSet(tuned=True)},
    "balls": {"set": "normalised"},
    "columns": {"columns": 3},
    "rare switching": {"switch_growth": 0.5},
    "ties": {"ties": "estimate"},
    "certificates": {"explore_for": "certificate"},
    "learned rewards": {"known_reward": False},
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_path_does_not_serve_is_refused(what):
    with pytest.raises(InvalidInput, match=r"planner must be 'sweep' here; got 'path' with"):
        started(world(), **{"preset": "optimistic"} | REFUSED[what])


def test_auto_plans_on_the_path_where_it_is_large_and_served():
    large = Task(np.zeros((2000, 4)), horizon=20)
    for task, settings, chosen in (
        (large, {}, "path"),
        (large, {"preset": "tuned"}, "sweep"),
        (large, {"switch_growth": 0.5}, "sweep"),
        (Task(n_states=2000, n_actions=4, horizon=20), {}, "sweep"),
        (Task(np.zeros((20, 4)), horizon=20), {}, "sweep"),
    ):
        assert MatrixRL(task, planner="auto", **settings).settings.planner == chosen


def test_an_agent_has_no_compiled_steps_on_the_path():
    with pytest.raises(InvalidInput, match="compiled must be left out for an agent with planner='path'"):
        MatrixRL("river-swim", planner="path", compiled=True)


def test_other_features_and_names_are_refused():
    with pytest.raises(InvalidInput, match="planner must be 'sweep' with doubling"):
        Agent("river-swim", "doubling-matrix-rl", planner="path")
    with pytest.raises(InvalidInput, match="planner must be 'sweep' here; got 'path' with kernels"):
        KernelMatrixRL("river-swim", planner="path")
    with pytest.raises(InvalidInput, match="planner must be 'sweep' here; got 'path' with features"):
        MatrixRL("linear-mdp", planner="path", preset="optimistic")
    with pytest.raises(InvalidInput, match="planner must be one of"):
        MatrixRL("river-swim", planner="way")
    with pytest.raises(InvalidInput, match="planner must be 'sweep' here; got 'path' with learned rewards"):
        MatrixRL(Task(n_states=4, n_actions=2, horizon=3), planner="path")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("states", lambda a: a[::-1] * 0),
        ("next", lambda a: a + 100),
        ("pairs", lambda a: a[::-1].copy()),
        ("times", lambda a: 0.0 * a),
        ("values", lambda a: a + 100.0),
        ("values", lambda a: a[:-1]),
        ("budget", lambda a: a - 1e9),
        ("tuned", lambda a: a[:, :1]),
    ],
)
def test_damaged_tables_are_refused(name, damage):
    mdp, algorithm = world(), started(world(), preset="budget")
    algorithm.tables[0].learn(*random_episode(mdp, np.random.default_rng(0)))
    state = algorithm.tables[0].state_dict()
    with pytest.raises(InvalidInput):
        algorithm.tables[0].load_state_dict(state | {name: damage(state[name])})
