"""Every algorithm on MDPs with actions that are not allowed: batched, one by one, compiled and with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from rich.console import Console

from algorithms.playing import Player, started
from matrixrl import FiniteMDP, Task, run_seeds
from matrixrl.algorithms import ALGORITHMS, UCMatrixRL, make_algorithm
from matrixrl.algorithms.matrix_rl import SampledMatrixRL
from matrixrl.cli.tables import print_inspection, print_results
from matrixrl.core import greedy_plan
from matrixrl.core.greedy import best_among, random_actions
from matrixrl.errors import InvalidInput
from matrixrl.features import Features, TablePhi
from matrixrl.play import Simulation, inspect_problem
from matrixrl.problems import Problem, low_rank
from small_worlds import masked_mdp, random_mask

BANDITS = ("lin-ucb", "kernel-ucb")
SETS = ["normalised", "frobenius", "column", "sandwich", "likelihood", "value-targeted"]
SAME = {"rtol": 1e-12, "atol": 1e-11}  # sums of some hundred terms, in another order

FINITE = [name for name in ALGORITHMS if name != "kernel-control"]


def world_for(name, **changes):
    horizon = 1 if name in BANDITS else 4
    return masked_mdp(**{"n_states": 5, "n_actions": 4, "horizon": horizon, "seed": 6, "noisy": True, **changes})


@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("known_reward", [True, False])
@pytest.mark.parametrize("name", FINITE)
def test_no_algorithm_plays_or_plans_an_action_that_is_not_allowed(name, known_reward, end):
    mdp = world_for(name, end=end, start=np.full(5, 0.2))
    settings = {} if name in BANDITS else {"known_reward": known_reward}
    one = Simulation(mdp, n_episodes=25, seeds=[0, 1], agent=name, settings=settings)
    while one.done < 25:
        one.advance()
        states, actions = one.last.states, one.last.actions
        assert mdp.allowed[states, actions].all()
    advice = one.algorithm.policy_table(one.algorithm.advice())
    assert mdp.allowed[np.arange(5), advice].all()
    assert one.result().regret.max() < np.inf


@pytest.mark.parametrize("name", FINITE)
def test_replicas_side_by_side_are_replicas_one_by_one(name):
    mdp = world_for(name)
    together = run_seeds(mdp, agent=name, n_episodes=15, seeds=[3, 4, 5])
    for k, seed in enumerate([3, 4, 5]):
        alone = run_seeds(mdp, agent=name, n_episodes=15, seeds=[seed])
        np.testing.assert_allclose(together.regret[k], alone.regret[0], **SAME)
        np.testing.assert_array_equal(together.returns[k], alone.returns[0])


@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("known_reward", [True, False])
@pytest.mark.parametrize("settings", [*({"set": name} for name in SETS), {"ties": "estimate"}], ids=str)
def test_compiled_episodes_are_those_of_numpy(settings, known_reward, end):
    mdp = world_for("", end=end, start=np.full(5, 0.2))
    chosen = {"n_episodes": 30, "seeds": 2, "certify": True, "known_reward": known_reward, **settings}
    one, other = (run_seeds(mdp, compiled=compiled, **chosen) for compiled in (True, False))
    for name in ("regret", "returns", "upper", "certified"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), **SAME, err_msg=name)
    assert one.n_plans == other.n_plans


@pytest.mark.parametrize("settings", [{"set": "normalised"}, {}, {"switch_growth": 0.5}], ids=str)
def test_compiled_plans_are_those_of_numpy(settings):
    """Plans of all kinds, Q included: optimistic, pessimistic, and those that explore for a certificate."""
    mdp = world_for("", noisy=False)
    slow = UCMatrixRL(known_reward=False, **settings).start(Problem.of(mdp), [0, 1])
    player = Player(slow)
    for _ in range(8):
        slow.certifier.purpose = "certificate"
        plan, _ = player.episode()
        assert mdp.allowed[np.arange(5), plan.policy].all()
    slow.certifier.purpose = "regret"
    q, plans = [], []
    for compiled in (False, True):
        slow.use_compiled(compiled)
        q.append(slow.q_table())
        plans.append((slow.advice(), slow.certifier.safest_plan(), slow.certifier.certifying_plan(np.zeros((2, 4)))))
    np.testing.assert_array_equal(np.isneginf(q[0]), np.broadcast_to(~mdp.allowed.T, q[0].shape))
    np.testing.assert_allclose(*q, **SAME)
    for one, other in zip(*plans, strict=True):
        np.testing.assert_array_equal(one.policy, other.policy)
        np.testing.assert_allclose(one.values, other.values, **SAME)
        assert np.isfinite(one.values).all()


def test_exploring_for_a_certificate_tries_the_allowed_action_that_is_known_least():
    """Every second plan plays, at one stage, the action with the widest bounds of those that may be the best."""
    mdp = world_for("", noisy=False)
    algorithm = UCMatrixRL(explore_for="certificate").start(Problem.of(mdp), [0])
    player, shape = Player(algorithm), (1, 4, 4, 5)
    for i in range(12):
        high, low = np.empty(shape), np.empty(shape)
        belief, rankings = algorithm.model.bounds(algorithm.clock, "proven")[0], np.zeros((1, 4))
        greedy_plan(belief, algorithm.frame, rankings, q_out=high)
        safe = greedy_plan(belief, algorithm.frame, rankings, sign=-1.0, q_out=low).values[0]
        plan, steps = player.episode()
        assert mdp.allowed[steps.states, steps.actions].all()
        stage = (i // 2) % 4
        for s in range(5 * (i % 2)):
            possible = [a for a in range(4) if mdp.allowed[s, a] and high[0, stage, a, s] >= safe[stage, s]]
            widest = max(high[0, stage, a, s] - low[0, stage, a, s] for a in possible)
            chosen = int(plan.policy[0, stage, s])
            assert chosen in possible
            assert high[0, stage, chosen, s] - low[0, stage, chosen, s] == pytest.approx(widest)


@pytest.mark.parametrize("columns", [8, 5])
def test_sampled_columns_choose_and_value_allowed_actions_only(columns, rng):
    made = low_rank(n_states=8, n_actions=3, d=3, horizon=4, seed=1)
    allowed = random_mask(rng, 8, 3)
    phi = np.where(allowed[:, :, None], made.features.phi.table, 40.0 * rng.standard_normal((8, 3, 3)))
    mdp = FiniteMDP(
        made.mdp.transitions,
        made.mdp.task.reward,
        4,
        features=Features(TablePhi(phi), made.features.psi),
        allowed=allowed,
    )
    settings = {"set": "normalised", "radius": "constant", "beta": 0.01, "ties": "random", "known_reward": False}
    sampled = UCMatrixRL(columns=columns, **settings).start(Problem.of(mdp), [0])
    assert isinstance(sampled, SampledMatrixRL)
    whole = UCMatrixRL(**settings).start(Problem.of(mdp), [0])
    player = Player(sampled, mdp)
    for _ in range(6):
        plan, steps = player.episode()
        whole.update(steps)
        assert allowed[np.arange(8), plan.policy].all()
        assert allowed[steps.states, steps.actions].all()
    if columns == 8:  # every state once: exact
        bounds, wanted = (one.certifier.certify(one.advice()) for one in (sampled, whole))
        assert bounds.upper == pytest.approx(wanted.upper)
        assert bounds.lower == pytest.approx(wanted.lower)
        assert bounds.empty == wanted.empty == 0
        np.testing.assert_allclose(sampled.advice().plans[0].values, whole.advice().values[0], **SAME)
    q = np.stack([sampled.action_values(plan, 1, np.array([s]))[0] for s in range(8)])
    np.testing.assert_array_equal(np.isneginf(q), ~allowed)


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize(
    "settings", [{"set": "normalised"}, {"set": "normalised", "switch_growth": 0.5}, {"switch_growth": 0.5}], ids=str
)
def test_a_plan_is_made_again_when_a_mask_is_told(settings, times):
    """Also if no data came in since the last plan, of which several may have been made."""
    algorithm = UCMatrixRL(**settings).start(Problem.of(Task(np.full((3, 3), 0.5), 4)), [0])
    plan = [algorithm.plan() for _ in range(times)][-1]
    for s in range(3):
        mask = np.arange(3) != plan.policy[0, 0, s]
        algorithm.masks.tell(s, mask)
        assert mask[algorithm.plan().policy[0, :, s]].all()
        assert mask[algorithm.make_plan().policy[0, :, s]].all()
    assert algorithm.model.confidence.blocks.count == algorithm._n_pairs == 6
    assert (algorithm.masks.at(0, 1) == algorithm.frame.allowed[:, 0]).all()


def test_the_plan_that_ucrl2_keeps_is_made_again_when_a_mask_is_told():
    kept = started("ucrl2", Task(np.full((3, 3), 0.5), 4))
    first = kept.plan()
    assert kept.plan().policy is first.policy
    mask = np.arange(3) != first.policy[0, 0, 1]
    kept.masks.tell(1, mask)
    assert mask[kept.plan().policy[0, :, 1]].all()


def test_random_play_is_uniform_over_allowed_actions(rng):
    """10,000 draws of 3 actions: each share is within 0.03 of a third with probability above 1 − 1e-8."""
    allowed = np.array([[True, False, True], [True, True, False], [False, True, False], [True, True, False]])
    drawn = random_actions(rng, (10_000, 3), 4, allowed)
    for s in range(3):
        shares = np.bincount(drawn[:, s], minlength=4) / 10_000
        assert (shares[~allowed[:, s]] == 0).all()
        assert shares[allowed[:, s]] == pytest.approx(1.0 / allowed[:, s].sum(), abs=0.03)
    plain, same = np.random.default_rng(0), np.random.default_rng(0)
    np.testing.assert_array_equal(random_actions(plain, (7, 3), 4, None), same.integers(4, size=(7, 3)))


def test_targets_of_q_learning_are_the_best_of_allowed_actions(rng):
    mdp = world_for("")
    algorithm = started("q-learning", mdp, seeds=[0, 1])
    algorithm.q = rng.random(algorithm.q.shape)
    following = rng.integers(5, size=(2, 4))
    found = algorithm._next_values(following)
    for b in range(2):
        for h in range(3):
            s = following[b, h]
            assert found[b, h] == max(algorithm.q[b, h + 1, a, s] for a in np.flatnonzero(mdp.allowed[s]))
    assert (found[:, 3] == 0.0).all()


@pytest.mark.parametrize("name", ["random", "epsilon-greedy"])
def test_random_actions_reach_every_allowed_action(name):
    mdp = masked_mdp(n_states=4, n_actions=3, horizon=3, seed=1)
    settings = {"epsilon": 1.0} if name == "epsilon-greedy" else {}
    algorithm = started(name, mdp, seeds=[0], **settings)
    seen = np.zeros(mdp.allowed.shape, dtype=bool)
    for _ in range(40):
        policy = algorithm.plan().policy[0]
        seen[np.tile(np.arange(4), (3, 1)), policy] = True
    np.testing.assert_array_equal(seen, mdp.allowed)


def test_the_best_among_some_is_the_first_of_the_largest(rng):
    q = rng.integers(0, 3, (200, 5)).astype(float)
    for row in q:
        among = rng.random(5) < 0.5
        among[rng.integers(5)] = True
        wanted = min((a for a in range(5) if among[a]), key=lambda a, row=row: (-row[a], a))
        assert best_among(row[None], among, 4)[0] == wanted


@pytest.mark.parametrize("name", FINITE)
def test_action_values_are_those_that_the_plan_is_greedy_in(name):
    """Where Q has no ties, its best allowed action is the plan's; asking moves no random stream and changes nothing."""
    mdp = world_for(name, noisy=False)
    algorithm = make_algorithm(name).start(Problem.of(mdp), [0])
    player = Player(algorithm, mdp)
    player.episodes(6)
    before = algorithm.state()
    plan = algorithm.advice()
    for h in range(mdp.horizon):
        for s in range(5):
            q = algorithm.action_values(plan, h, np.array([s]), explore=False)[0]
            assert q.shape == (4,)
            if name not in ("random", "psrl", "rlsvi"):  # which draw a new model
                best = np.where(mdp.allowed[s], q, -np.inf)
                assert best[plan.policy[0, h, s]] >= best.max() - 1e-7
    after = algorithm.state()
    for key, array in before.items():
        np.testing.assert_array_equal(after[key], array, err_msg=key)


def test_an_algorithm_of_a_user_that_ignores_the_mask_is_told():
    from matrixrl.algorithms import FiniteAlgorithm
    from matrixrl.records import Plan

    class Stubborn(FiniteAlgorithm):
        name = "stubborn"

        def make_plan(self):
            return Plan(np.full((1, 4, 5), 3), np.zeros((1, 5, 5)), np.zeros(1, dtype=np.int64))

        def learn(self, steps):
            pass

    with pytest.raises(InvalidInput, match=r"action must be .*\[0\], allowed in state 0"):
        run_seeds(world_for(""), agent=Stubborn(), n_episodes=2, seeds=1)


def test_constants_of_baselines_count_allowed_pairs():
    """K pairs of 20 are allowed. UCBVI keeps S·A, as not all events of its proof are events of pairs."""
    mdp = world_for("")
    k, log, root = int(mdp.allowed.sum()), np.log, np.sqrt
    assert k < 20
    one = {name: started(name, mdp, n_episodes=10) for name in ("q-learning", "ucbvi", "ucrl2", "rlsvi", "lsvi-ucb")}
    assert one["q-learning"].log == pytest.approx(log(k * 40 / 0.1))
    assert one["ucbvi"].log == pytest.approx(log(5 * 20 * 40 / 0.1))
    counts = one["ucrl2"].model.counts
    counts[:] = 3.0
    t = counts.sum() + 1.0
    assert one["ucrl2"].radii()[0][0, 0] == pytest.approx(root(14 * 5 * log(2 * k / 5 * t / 0.05) / 3))
    one["ucrl2"].settings = type(one["ucrl2"].settings)(known_reward=False)
    paid = one["ucrl2"].reward_bound(one["ucrl2"].radii()[1])[0, 0, 0]
    assert paid == pytest.approx(min(1.0, root(7 * log(2 * k * t / 0.05) / 6)))
    assert one["rlsvi"].sigma() == pytest.approx(root(0.5 * 5 * 4**3 * log(2 * 4 * k)))
    assert one["lsvi-ucb"].beta() == pytest.approx(k * 4 * root(log(2 * k * 40 / 0.1)))
    assert started("ucrl-vtr", mdp).core_norm == pytest.approx(root(k))
    assert started("ucrl-vtr", mdp).reward_norm == pytest.approx(root(k))
    bandit = world_for("lin-ucb")
    assert started("lin-ucb", bandit).norm == pytest.approx(root(k))
    most = int(mdp.allowed.sum(axis=1).max())
    assert most < 4
    assert started("kernel-ucb", bandit, n_episodes=10).radius() == pytest.approx(root(2 * log(2 * 10 * most / 0.1)))


def test_listings_show_how_many_pairs_are_allowed(capsys):
    mdp = world_for("", noisy=False)
    k = mdp.task.n_pairs
    found = inspect_problem(mdp, n_episodes=[10])
    assert found.sizes["allowed_pairs"] == found.sizes["blocks"] == k
    print_inspection(Console(width=200), found)
    assert f"allowed_pairs={k}" in capsys.readouterr().out
    result = run_seeds(mdp, n_episodes=2, seeds=1)
    assert result.sizes["allowed_pairs"] == result.as_dict()["allowed_pairs"] == k
    print_results(Console(width=200), {"one": result})
    assert f"allowed pairs={k}" in capsys.readouterr().out
    assert "allowed_pairs" not in inspect_problem("river-swim", n_episodes=[10]).sizes
