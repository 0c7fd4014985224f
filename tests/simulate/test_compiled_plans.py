"""Plans of the compiled loops are those of numpy, for any features, sets and rewards."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import InvalidInput, MatrixRL, make
from matrixrl.algorithms import UCMatrixRL
from matrixrl.core import SETS
from matrixrl.core.sets import SetContext
from matrixrl.features import Features, OneHotPhi, OneHotPsi, SparsePsi, TablePhi, TablePsi
from matrixrl.play import Simulation
from matrixrl.problems import Problem, from_gymnasium, low_rank, tabular
from matrixrl.records import Steps
from worlds import random_steps

N_STATES, N_ACTIONS, HORIZON = 12, 3, 6


def features_of(kind, rng):
    phi = {
        "table": lambda: TablePhi(rng.dirichlet(np.ones(4), (N_STATES, N_ACTIONS))),
        "one-hot": lambda: OneHotPhi(N_STATES, N_ACTIONS),
        "many": lambda: TablePhi(rng.dirichlet(np.ones(65), (N_STATES, N_ACTIONS))),
    }[kind[0]]()
    psi = {
        "table": lambda: TablePsi(rng.random((N_STATES, 3))),
        "signed": lambda: TablePsi(rng.normal(size=(N_STATES, 3)) + 0.4),
        "one-hot": lambda: OneHotPsi(N_STATES),
        "sparse": lambda: SparsePsi(TablePsi(np.eye(N_STATES)[:, :4] + 0.1).table),
    }[kind[1]]()
    return Features(phi, psi)


def learner_with_data(features, rng, compiled, *, mdp=None, **chosen):
    """Return UC-MatrixRL with two replicas that have learned from five random episodes."""
    world = mdp or tabular(n_states=N_STATES, n_actions=N_ACTIONS, horizon=HORIZON, seed=1).mdp
    algorithm = UCMatrixRL(**chosen).start(Problem.of(world, features), [0, 1])
    algorithm.use_compiled(compiled)
    for _ in range(5):
        algorithm.update(random_steps(world, rng, 2))
    return algorithm


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kind", [("table", "table"), ("table", "signed"), ("table", "one-hot"), ("one-hot", "table")])
@pytest.mark.parametrize("known_reward", [True, False])
def test_a_compiled_plan_is_the_plan(name, kind, known_reward):
    chosen = {"set": name, "known_reward": known_reward, "exploration": 0.3, "radius": "block"}
    plans = []
    for compiled in (True, False):
        rng = np.random.default_rng(7)
        plans.append(learner_with_data(features_of(kind, rng), rng, compiled, **chosen).plan())
    found, wanted = plans
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(found.policy, wanted.policy)
    assert found.policy.dtype == wanted.policy.dtype
    np.testing.assert_array_equal(found.empty, wanted.empty)


@pytest.mark.parametrize("name", [name for name in SETS if name != "intersection"])
def test_every_set_splits_as_it_says(name):
    rng = np.random.default_rng(0)
    total, v = np.full(5, 0.7), rng.random((1, 5))
    [member] = SETS[name]().bind(SetContext(total, 5, 10, c_psi=2.0, c_psi_max_norm=1.5)).members
    split, form = member.split(v), member.compiled_form
    shift = {0: 0.0, 1: v[0] @ total / (total @ total), 2: (v.min() + v.max()) / 2 / 0.7}[form.centre]
    rest = v[0] - shift * total
    scale = {0: np.linalg.norm(rest), 1: np.abs(rest).max(), 2: member.split(np.zeros((1, 5))).scale[0]}[form.norm]
    assert split.shift[0] == pytest.approx(shift)
    np.testing.assert_allclose(split.direction[0], rest)
    assert split.scale[0] == pytest.approx(scale)
    assert scale > 0.0


def forms(kind, **chosen):
    rng = np.random.default_rng(3)
    learner = learner_with_data(features_of(kind, rng), rng, compiled=False, **chosen)
    return learner.model.bounds(learner.clock, "agent")[0].compiled_backup() is not None


def test_which_beliefs_have_a_compiled_form():
    assert forms(("table", "table"))
    assert forms(("one-hot", "one-hot"), set="intersection")  # u is constant
    assert not forms(("table", "table"), set="intersection")  # the centre must be searched for
    assert not forms(("many", "table"))  # one matrix product is faster
    assert not forms(("table", "sparse"))


def test_with_an_alarm_the_plan_is_left_to_numpy_and_is_the_same():
    phi = np.ones((N_STATES, N_ACTIONS, 2)) * [1.0, 0.0]
    phi[:, 1] = [2.0, 0.0]  # probabilities that sum to one at action 0 sum to two at action 1
    plans = []
    for compiled in (True, False):
        hopeless = Features(TablePhi(phi), OneHotPsi(N_STATES))
        algorithm = learner_with_data(hopeless, np.random.default_rng(1), compiled, c_core=1.0)
        still = np.zeros((2, HORIZON), dtype=int)
        for _ in range(300):
            algorithm.update(Steps.of(still, still, np.zeros((2, HORIZON)), still))
        plans.append(algorithm.plan())
    assert (plans[0].empty > 0).all()
    np.testing.assert_array_equal(plans[0].values, plans[1].values)


@pytest.mark.parametrize("kind", ["normalised", "tightest"])
def test_ends_are_known_to_it(kind):
    mdp = from_gymnasium(make("gym:FrozenLake-v1"))
    assert mdp.task.end_state is not None
    chosen = {"mdp": mdp, "preset": "tuned", "set": kind}
    plans = [
        learner_with_data(mdp.features, np.random.default_rng(2), compiled, **chosen).plan()
        for compiled in (True, False)
    ]
    np.testing.assert_allclose(plans[0].values, plans[1].values, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(plans[0].policy, plans[1].policy)


@pytest.mark.parametrize(
    ("world", "kind"), [("river-swim", "normalised"), ("river-swim", "tightest"), ("linear-mdp", "tightest")]
)
def test_an_agent_learns_the_same_with_it(world, kind):
    chosen = {"seed": 3, "preset": "tuned", "set": kind}
    agents = [MatrixRL(make(world), compiled=compiled, **chosen) for compiled in (True, False)]
    found, wanted = (agent.learn(30) for agent in agents)
    np.testing.assert_allclose(found.regret, wanted.regret, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(found.returns, wanted.returns)
    one, other = (agent.certificate() for agent in agents)
    assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper))


def test_it_begins_at_an_episode_that_loading_does_not_change(tmp_path):
    """The agent switches to the loops in the middle; one that is saved before and loaded switches there as well."""
    world = low_rank(n_states=100, n_actions=10, d=3, horizon=20, seed=0)
    lives = []
    for breaks in (False, True):
        agent = MatrixRL(world.mdp, phi=world.features.phi, psi=world.features.psi, seed=1)
        agent.learn(90)
        if breaks:
            agent.save(tmp_path / "agent")
            agent = MatrixRL.load(tmp_path / "agent", world.mdp)
        agent.learn(30)  # pays_off(100, 20, 1000)
        lives.append(agent.history)
    for name in ("regret", "returns", "upper"):
        np.testing.assert_array_equal(getattr(lives[0], name), getattr(lives[1], name))


@pytest.mark.parametrize("compiled", [True, False])
def test_what_was_said_of_compiled_loops_is_saved(tmp_path, compiled):
    agent = MatrixRL(make("river-swim"), seed=1, compiled=compiled, n_episodes=10**6)
    agent.learn(5)
    agent.save(tmp_path / "agent")
    loaded = MatrixRL.load(tmp_path / "agent", make("river-swim"))
    assert loaded.algorithm.compiled is compiled
    np.testing.assert_array_equal(loaded.learn(20).upper, agent.learn(20).upper)
    assert MatrixRL.load(tmp_path / "agent", compiled=not compiled).algorithm.compiled is not compiled


def test_compiled_is_refused_at_once_where_it_cannot_be():
    with pytest.raises(InvalidInput, match="compiled must be left out"):
        MatrixRL(make("linear-mdp"), columns=30, compiled=True)
    with pytest.raises(InvalidInput, match="compiled must be true, false or None"):
        MatrixRL(make("river-swim"), compiled="maybe")


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("preset", ["optimistic", "tuned"])
def test_pruned_plans_are_those_of_all_pairs(preset, known):
    """Values and actions with bounds of some pairs left out, against Q of every pair."""
    mdp = tabular(n_states=30, n_actions=4, horizon=8, n_successors=4, seed=1).mdp
    settings = {"preset": preset, "known_reward": known}
    run = Simulation(mdp, n_episodes=400, seeds=[3], settings=settings, compiled=True)
    for n_episodes in (1, 5, 30, 100, 264):
        run.advance(n_episodes)
        algorithm = run.algorithm
        plan, q = algorithm.advice(), algorithm.q_table()
        np.testing.assert_allclose(plan.values[:, :-1], q.max(axis=2), rtol=1e-11)
        chosen = np.take_along_axis(q, plan.policy[:, :, None, :].astype(np.int64), axis=2)[:, :, 0]
        np.testing.assert_allclose(chosen, q.max(axis=2), atol=1e-7)
    assert np.count_nonzero(algorithm.model.counts.totals()) > 50
