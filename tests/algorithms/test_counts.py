"""MatrixRL on indicator features: optimism, certificates, groups, saving, and the same numbers in every engine."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest

from matrixrl import Agent, FiniteMDP, InvalidInput, MatrixRL, make, run_seeds
from matrixrl.algorithms import DoublingMatrixRL, UCMatrixRL
from matrixrl.core.likelihood.radii import dirichlet_excess, targeted_beta
from matrixrl.core.models import CountModel
from matrixrl.core.sets import NormalisedBall, ValueTargetedSet
from matrixrl.linalg import SeenRows
from matrixrl.problems import Problem, evaluate, solve
from matrixrl.records import Steps

FORMS = {
    "known rewards": {"set": "value-targeted"},
    "learned rewards": {"set": "value-targeted", "known_reward": False},
    "all values": {"set": "likelihood"},
    "all values, learned rewards": {"set": "likelihood", "known_reward": False},
    "ties by the estimate": {"set": "value-targeted", "ties": "estimate"},
    "tuned": {"set": "value-targeted", "exploration": 0.2},
}
SIZE = {"n_states": 4, "horizon": 8}


def river(**options) -> FiniteMDP:
    return make("river-swim", **SIZE, **options).unwrapped.mdp


@pytest.mark.parametrize(
    ("form", "noisy"), [*((form, False) for form in FORMS), ("learned rewards", True), ("known rewards", True)]
)
def test_compiled_episodes_are_those_of_numpy(form, noisy):
    options = {"n_episodes": 25, "seeds": 2, "certify": True, "env_settings": SIZE | {"noisy_rewards": noisy}}
    plain, fast = (run_seeds("river-swim", **options, compiled=c, **FORMS[form]) for c in (False, True))
    np.testing.assert_array_equal(plain.lengths, fast.lengths)
    np.testing.assert_allclose(plain.returns, fast.returns, rtol=1e-15)  # the order of a sum differs
    np.testing.assert_allclose(plain.regret, fast.regret, atol=1e-12)
    np.testing.assert_allclose(plain.upper, fast.upper, rtol=1e-11)
    np.testing.assert_allclose(plain.certified, fast.certified, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("form", ["known rewards", "learned rewards"])
def test_replicas_are_the_runs_of_their_seeds(form):
    together = run_seeds("river-swim", n_episodes=25, seeds=[3, 5], compiled=False, env_settings=SIZE, **FORMS[form])
    for b, seed in enumerate([3, 5]):
        alone = run_seeds("river-swim", n_episodes=25, seeds=[seed], compiled=False, env_settings=SIZE, **FORMS[form])
        np.testing.assert_array_equal(together.returns[b], alone.returns[0])


@pytest.mark.parametrize("form", ["known rewards", "learned rewards", "all values"])
def test_every_episode_is_optimistic_and_every_certificate_holds(form):
    options = FORMS[form] | {"delta": 0.5}
    result = run_seeds("river-swim", n_episodes=200, seeds=8, certify=True, env_settings=SIZE, compiled=True, **options)
    value = result.optimal_value - result.regret
    wrong = (result.upper < result.optimal_value - 1e-9) | (result.certified[..., 0] > value + 1e-9)
    assert wrong.any(axis=1).mean() <= 0.5
    assert result.guarantee


def test_it_learns_where_the_balls_do_not():
    ball, ours = (
        run_seeds("river-swim", n_episodes=300, seeds=4, env_settings=SIZE, preset="optimistic", set=name).regret.sum()
        for name in ("normalised", "value-targeted")
    )
    assert ours < 0.5 * ball


class TestRadii:
    """β₁ is for V* from above alone; every other bound has β_D."""

    @staticmethod
    def learner(**settings) -> UCMatrixRL:
        made = UCMatrixRL(**settings).start(Problem.of(river()), [0])
        rng = np.random.default_rng(0)
        for _ in range(30):
            states, actions = rng.integers(4, size=(1, 8)), rng.integers(2, size=(1, 8))
            steps = Steps.of(states, actions, rng.random((1, 8)), rng.integers(4, size=(1, 8)))
            made.update(steps)
        return made

    @pytest.mark.parametrize("level", ["agent", "proven", "actions", "ties"])
    def test_shares_of_delta_and_scales(self, level):
        learner = self.learner(set="value-targeted", delta=0.1, exploration=0.5)
        [belief] = learner.model.bounds(learner.clock, level)
        seen = learner.model.counts.seen
        scale = {"agent": 0.25, "proven": 1.0, "actions": 1.0, "ties": 0.25 * 0.05**2}[level]
        rows = 8 if level == "actions" else 4  # V*_2 … V*_8 with all pairs, or with those of one optimal policy
        of_all = math.log(8 / (0.7 * 0.1)) + dirichlet_excess(seen, 4)
        of_optimal = targeted_beta(seen.totals, math.log(rows * 7 / (0.25 * 0.1)))
        np.testing.assert_allclose(belief.lower, scale * of_all / seen.totals)
        np.testing.assert_allclose(belief.upper, scale * np.minimum(of_all, of_optimal) / seen.totals)
        np.testing.assert_allclose(belief.top, scale * math.log(rows * 7 / (0.25 * 0.1) * 3) / seen.totals)
        assert (belief.upper < belief.lower).any()

    def test_all_of_delta_but_for_returns_is_for_one_radius(self):
        learner = self.learner(set="likelihood", delta=0.1)
        [belief] = learner.model.bounds(learner.clock, "agent")
        seen = learner.model.counts.seen
        expected = (math.log(8 / (0.95 * 0.1)) + dirichlet_excess(seen, 4)) / seen.totals
        np.testing.assert_allclose(belief.upper, expected)
        np.testing.assert_allclose(belief.lower, expected)

    def test_learned_rewards_have_their_own_parts(self):
        learner = self.learner(set="value-targeted", delta=0.1, known_reward=False)
        [belief] = learner.model.bounds(learner.clock, "agent")
        totals = learner.model.counts.seen.totals
        of_all = math.log(8 / (0.45 * 0.1)) + dirichlet_excess(learner.model.counts.seen, 4)
        np.testing.assert_allclose(belief.upper, of_all / totals)  # beside the joint law, for which β₁ is
        np.testing.assert_allclose(belief.joint.epsilon, targeted_beta(totals, math.log(4 * 8 / (0.25 * 0.1))) / totals)
        np.testing.assert_allclose(belief.joint.top, math.log(4 * 8 / (0.25 * 0.1) * 3) / totals)
        assert belief.top is None
        mean = learner.model.reward_sums.ravel() / learner.model.counts.totals().ravel()
        radius = targeted_beta(totals, math.log(8 / (0.125 * 0.1))) / totals
        for bound, p, epsilon in zip(belief.most.ravel(), mean, radius, strict=True):
            assert p * math.log(p / bound) + (1 - p) * math.log((1 - p) / (1 - bound)) == pytest.approx(
                epsilon, rel=1e-5
            )

    def test_restarts_divide_delta_further(self):
        learner = DoublingMatrixRL(set="likelihood").start(Problem.of(river()), [0])
        learner.episode = 2  # the second run, which has δ/6
        learner.update(Steps.of(*(np.zeros((1, 8), dtype=np.int64),) * 2, np.zeros((1, 8)), np.ones((1, 8), dtype=int)))
        learner.episode = 3
        [belief] = learner.model.bounds(learner.clock, "agent")
        expected = math.log(8 * 6 / (0.95 * 0.05)) + dirichlet_excess(learner.model.counts.seen, 4)
        np.testing.assert_allclose(belief.upper * learner.model.counts.seen.totals, expected)


def grouped(same: bool) -> tuple[FiniteMDP, np.ndarray]:
    """Six states in three cells of two, which share laws or, if not `same`, do not in the first cell."""
    rng = np.random.default_rng(1)
    laws = rng.dirichlet(np.ones(6), size=(3, 2))
    P = np.repeat(laws, 2, axis=0)
    if not same:
        P[0, 0] = np.roll(P[0, 0], 3)
    phi = np.zeros((6, 2, 6))
    for s in range(6):
        phi[s, :, :] = np.eye(6)[[s // 2, 3 + s // 2]]
    reward = np.repeat(rng.random((3, 2)), 2, axis=0)
    return FiniteMDP(P, reward, horizon=6, start=np.full(6, 1 / 6)), phi


class TestGroups:
    def test_pairs_of_a_group_share_what_they_learn(self):
        mdp, phi = grouped(same=True)
        shared = run_seeds(mdp, phi=phi, n_episodes=150, seeds=4, set="value-targeted")
        alone = run_seeds(mdp, n_episodes=150, seeds=4, set="value-targeted")
        assert shared.regret.sum() < alone.regret.sum()
        assert shared.guarantee

    @pytest.mark.parametrize("compiled", [False, True])
    def test_plans_are_the_same_compiled(self, compiled):
        mdp, phi = grouped(same=True)
        result = run_seeds(mdp, phi=phi, n_episodes=30, seeds=2, set="value-targeted", compiled=compiled)
        assert result.regret.sum() == pytest.approx(
            run_seeds(mdp, phi=phi, n_episodes=30, seeds=2, set="value-targeted", compiled=False).regret.sum()
        )

    def test_false_alarms_are_rare(self):
        mdp, phi = grouped(same=True)
        result = run_seeds(mdp, phi=phi, n_episodes=60, seeds=30, set="value-targeted", delta=0.5)
        assert result.alarms.any(axis=1).mean() <= 0.5

    def test_groups_that_do_not_share_a_law_are_found(self):
        mdp, phi = grouped(same=False)
        result = run_seeds(mdp, phi=phi, n_episodes=300, seeds=4, set="value-targeted")
        assert result.alarms.any(axis=1).all()
        assert not result.guarantee

    def test_the_lower_bound_of_a_policy_holds_for_any_policy(self):
        mdp, phi = grouped(same=True)
        agent = MatrixRL(mdp, phi=phi, seed=0, set="value-targeted", exploration=0.1)
        agent.learn(200)
        certificate = agent.certificate()
        advised = agent.algorithm.policy_table(agent.algorithm.advice())[0]
        value = evaluate(mdp, advised)[0] @ mdp.task.start
        assert 0.0 < certificate.lower <= value <= solve(mdp).start_value <= certificate.upper


class TestSaving:
    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"known_reward": False},
            {"switch_growth": 0.5, "known_reward": False},
            {"keep_data": False},
            {"set": "likelihood", "keep_data": True},
        ],
    )
    def test_stop_save_load_go_on_is_an_uninterrupted_run(self, tmp_path, settings):
        options = {"set": "value-targeted", "seed": 4} | settings
        kind = "doubling-matrix-rl" if "keep_data" in settings else "matrix-rl"
        whole, first = (Agent("river-swim", kind, env_settings=SIZE, **options) for _ in range(2))
        whole.learn(20)
        first.learn(9)
        first.save(tmp_path / "agent.npz")
        second = Agent.load(tmp_path / "agent.npz", make("river-swim", **SIZE))
        second.learn(11)
        np.testing.assert_array_equal(whole.history.returns, second.history.returns)
        assert whole.certificate() == second.certificate()

    def test_groups_and_open_episodes(self, tmp_path):
        mdp, phi = grouped(same=True)
        agent = MatrixRL(mdp, phi=phi, seed=0, set="value-targeted")
        agent.learn(5)
        agent.begin_episode()
        agent.save(tmp_path / "agent.npz")
        again = MatrixRL.load(tmp_path / "agent.npz", mdp)
        assert again.algorithm.model.counts.seen.times.sum() == 30.0

    @pytest.mark.parametrize("kind", ["matrix-rl", "doubling-matrix-rl"])
    def test_without_data(self, tmp_path, kind):
        """Before the first episode, and where an epoch has just forgotten its data."""
        agent = Agent("river-swim", kind, env_settings=SIZE, set="value-targeted", seed=0)
        if kind == "doubling-matrix-rl":
            agent.learn(2)
        agent.begin_episode()
        agent.save(tmp_path / "agent.npz")
        again = Agent.load(tmp_path / "agent.npz", make("river-swim", **SIZE))
        assert again.n_episodes == agent.n_episodes
        assert again.algorithm.model.counts.seen.times.sum() == 0.0


class TwoStarts(gym.Env):
    """One step from state 0, which pays 1, or state 1, which pays nothing; the features say that they are alike."""

    observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = int(self.np_random.integers(2))
        return self.state, {}

    def step(self, action):
        return 0, 1.0 - self.state, True, False, {}


@pytest.mark.parametrize("kind", ["value-targeted", "likelihood"])
def test_rewards_that_a_group_does_not_share_raise_the_alarm(kind):
    phi = np.zeros((3, 1, 2))
    phi[:2, :, 0] = phi[2, :, 1] = 1.0
    options = {"phi": phi, "horizon": 1, "reward_range": (0, 1), "known_reward": False, "seed": 0}
    agent = MatrixRL(TwoStarts(), set=kind, **options)
    assert agent.guarantee
    agent.learn(100)
    assert "P or the rewards" in agent.guarantee.reason
    assert not agent.certificate().guarantee


@pytest.mark.parametrize("compiled", [False, True])
def test_no_exploration_plans_on_the_estimate(compiled):
    result = run_seeds("river-swim", n_episodes=20, seeds=1, env_settings=SIZE, set="likelihood", exploration=0.0,
                       compiled=compiled)  # fmt: skip
    assert np.isfinite(result.upper).all()


def test_a_subclass_of_a_user_may_use_a_likelihood_set_and_nothing_is_proven():
    class Own(UCMatrixRL):
        name = "own"

    own = Agent("river-swim", Own(set="value-targeted"), seed=0)
    library = Agent("river-swim", UCMatrixRL(set="value-targeted"), seed=0)
    assert np.array_equal(own.learn(5).returns, library.learn(5).returns)
    assert "the proof is not about its methods" in str(own.guarantee)


@pytest.mark.parametrize("base", [ValueTargetedSet, NormalisedBall])
def test_nothing_is_proven_of_a_model_of_ones_own(base):
    """A model that always has the bounds of the estimate claims nothing, and compiled loops do not replace it."""

    class Sure(base):
        name = "sure"

        def make_model(self, context):
            model = super().make_model(context)

            class Estimate(type(model)):
                def bounds(self, clock, *levels):
                    return super().bounds(clock, *["estimate"] * len(levels))

            model.__class__ = Estimate
            return model

    agent = MatrixRL("river-swim", set=Sure(), seed=0)
    agent.learn(20)
    assert "makes a model of its own" in agent.guarantee.reason
    assert not agent.certificate().guarantee
    loops, numpy_ = (run_seeds("river-swim", n_episodes=20, seeds=2, set=Sure(), compiled=c) for c in (True, False))
    np.testing.assert_allclose(loops.upper, numpy_.upper, rtol=1e-9)


@pytest.mark.parametrize("constants", [{}, {"ridge": 0.3}, {"radius": "log-det"}, {"c_core": 2.0}], ids=str)
def test_a_ball_has_its_own_constants(constants):
    named = MatrixRL("river-swim", set="normalised", seed=0, **constants)
    given = MatrixRL("river-swim", set=NormalisedBall(**constants), seed=0)
    assert np.array_equal(named.learn(20).upper, given.learn(20).upper)
    assert given.guarantee == named.guarantee


def test_a_set_may_be_given_as_an_object():
    named, given = (MatrixRL("river-swim", set=kind, seed=0) for kind in ("value-targeted", ValueTargetedSet()))
    assert np.array_equal(named.learn(20).returns, given.learn(20).returns)
    assert given.guarantee
    assert MatrixRL("river-swim", set=ValueTargetedSet(tuned=True), seed=0).guarantee.holds is False


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"set": "likelihood", "radius": "theorem"}, "radius must be left out"),
        ({"set": "likelihood", "columns": 3}, "columns"),
        ({"set": "likelihood", "c_core": 3.0}, "c_core must be left out"),
        ({"set": "likelihood", "ridge": 3.0}, "ridge must be left out"),
        ({"set": "likelihood", "preset": "tuned", "beta": 1.0}, "beta must be left out"),
    ],
)
def test_what_the_sets_have_of_their_own_is_refused(settings, said):
    with pytest.raises(InvalidInput, match=said):
        MatrixRL("river-swim", **settings)


@pytest.mark.parametrize("kind", ["value-targeted", "likelihood", "tightest"])
def test_practical_scales_them_and_proves_nothing_but_its_certificates(kind):
    tuned = MatrixRL("river-swim", preset="tuned", set=kind, seed=0)
    assert isinstance(tuned.algorithm.model, CountModel)
    assert tuned.algorithm.model.confidence.exploration == 0.3
    assert "tuned" in tuned.guarantee.reason
    assert tuned.algorithm.claims.regret_bound(1000) is None
    assert tuned.certificate().guarantee


def test_other_features_are_refused():
    with pytest.raises(InvalidInput, match=r"set must be a ball.*set='normalised'"):
        MatrixRL("linear-mdp", set="likelihood")


def test_rare_switching_goes_by_visits():
    chosen = {"n_episodes": 200, "seeds": 2, "env_settings": SIZE, "set": "value-targeted"}
    often = run_seeds("river-swim", switch_growth=0.0, compiled=False, **chosen)
    rare = run_seeds("river-swim", switch_growth=1.0, **chosen)
    assert (np.asarray(often.n_plans) == 200).all()
    # at most one plan for each doubling of each of the eight pairs
    plans = np.asarray(rare.n_plans)
    assert (plans <= 8 * (1 + math.log2(200 * 8))).all()
    assert (plans >= 8).all()


def test_the_explicit_bound_by_hand():
    learner = UCMatrixRL(preset="optimistic", set="likelihood", delta=0.1).start(Problem.of(river()), [0])
    n, horizon, k, s = 1000, 8, 8, 4
    steps = n * horizon
    worst = math.lgamma(steps + 2) - math.lgamma(2) - math.lgamma(steps + 0.5) + math.lgamma(0.5)
    beta = math.log(k / (0.95 * 0.1)) + worst + math.log(s * (s + 1) / (1 + 1 / s))
    chance = horizon * math.sqrt(steps * math.log(10.0) / 2)
    expected = 2 * horizon**2 * k + 4 * horizon * math.sqrt(beta * k * steps) + chance + 2e-9 * horizon * steps
    assert learner.claims.regret_bound(n) == pytest.approx(expected)
    seen = SeenRows(np.array([0]), np.array([float(steps)]), s)
    assert dirichlet_excess(seen, s)[0] <= worst + math.log(s * (s + 1) / (1 + 1 / s))
