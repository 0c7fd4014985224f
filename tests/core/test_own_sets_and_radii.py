"""A user's own set or radius: one bound in NumPy, compiled plans and compiled episodes, and no borrowed proof."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import InvalidInput, MatrixRL, make, run_seeds
from matrixrl.algorithms import UCMatrixRL
from matrixrl.core import SETS
from matrixrl.core.radius import BlockRadius, ConstantRadius
from matrixrl.core.sets import CompiledForm, FrobeniusBall, Intersection, NormalisedBall, Reach, Split, ValueTargetedSet
from matrixrl.core.sets.balls import ColumnBall
from matrixrl.play import Simulation
from matrixrl.problems import Problem
from matrixrl.records import Guarantee
from tolerances import ALGEBRA, EXACT
from worlds import WORLDS, random_steps

SMALL = {"radius": "constant", "beta": 1e-3}  # values stay below their cap, so that a wrong bound shows

SHORT_RIVER = make("river-swim", n_states=3, horizon=6).unwrapped.mdp  # every pair is visited soon


class ThreeNorms(FrobeniusBall):
    """The ball of three times the radius, written as another `split`."""

    name = "three-norms"

    def split(self, v):
        return Split(np.zeros(len(v)), v, 3.0 * np.sqrt(np.vecdot(v, v)))


class MeanReach(FrobeniusBall):
    """Gives every pair the mean reach of all of them: not a function of its own visits."""

    name = "mean"

    def reach(self, design, radius, alarm_radius, slack):
        own = super().reach(design, radius, alarm_radius, slack).half_width
        return Reach(np.broadcast_to(own.mean(axis=1, keepdims=True), own.shape).copy())


class GrowingRadius(BlockRadius):
    """Grows with all data: not a function of a pair's own visits."""

    name = "growing"

    def __call__(self, inputs):
        return 1e-3 * (super().__call__(inputs) + np.sqrt(inputs.episode) + inputs.design.logdet[:, None])


def plan_of(world, *, compiled, **settings):
    algorithm = UCMatrixRL(**settings).start(Problem.of(world.mdp, world.features), [0, 1])
    algorithm.use_compiled(compiled)
    rng = np.random.default_rng(3)
    for _ in range(6):
        algorithm.update(random_steps(world.mdp, rng, 2))
    return algorithm.plan()


@pytest.mark.parametrize("world", ["tabular", "low rank"])
@pytest.mark.parametrize("own", [ThreeNorms, MeanReach])
def test_an_own_set_has_the_same_values_compiled_and_in_numpy(world, own):
    found, wanted = (plan_of(WORLDS[world](4), compiled=c, set=own(), **SMALL) for c in (True, False))
    np.testing.assert_allclose(found.values, wanted.values, rtol=0, atol=EXACT)
    np.testing.assert_array_equal(found.policy, wanted.policy)


@pytest.mark.parametrize("world", ["tabular", "low rank"])
def test_three_norms_are_three_times_the_radius(world):
    """The identity behind the test above: what is compared is the user's bound, not the ball's."""
    ours = plan_of(WORLDS[world](4), compiled=True, set=ThreeNorms(), **SMALL)
    wider = plan_of(WORLDS[world](4), compiled=True, set="frobenius", exploration=3.0, **SMALL)
    plain = plan_of(WORLDS[world](4), compiled=True, set="frobenius", **SMALL)
    np.testing.assert_allclose(ours.values, wider.values, rtol=0, atol=EXACT)
    assert (ours.values - plain.values).max() > 0.05


@pytest.mark.parametrize(
    "settings",
    [
        {"set": ThreeNorms(), **SMALL},
        {"set": MeanReach(), "radius": "constant", "beta": 0.03},
        {"set": "frobenius", "radius": GrowingRadius()},
    ],
    ids=["split", "reach", "radius"],
)
def test_whole_episodes_are_the_same_compiled_and_in_numpy(settings):
    runs = [
        Simulation(SHORT_RIVER, n_episodes=25, seeds=[0, 1], settings=settings, compiled=compiled, certify=True)
        for compiled in (True, False)
    ]
    assert not any(run.is_compiled for run in runs)  # the loops know neither
    found, wanted = (run.run() for run in runs)
    for name in ("upper", "regret", "returns", "certified"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=0, atol=1e-11, err_msg=name)
    assert np.ptp(wanted.upper) > 0.01


def test_a_form_that_is_declared_is_used():
    class Declared(FrobeniusBall):
        compiled_form = CompiledForm()
        reach_is_local = True

        def split(self, v):
            return Split(np.zeros(len(v)), v, np.linalg.norm(v, axis=1))

    assert ThreeNorms.compiled_form is None
    assert Declared.compiled_form == FrobeniusBall.compiled_form
    run = Simulation(
        "river-swim",
        n_episodes=5,
        seeds=[0],
        settings={"preset": "optimistic", "set": Declared(), **SMALL},
        compiled=True,
    )
    assert run.is_compiled
    plain = Simulation(
        "river-swim",
        n_episodes=5,
        seeds=[0],
        settings={"preset": "optimistic", "set": "frobenius", **SMALL},
        compiled=False,
    )
    np.testing.assert_allclose(run.run().upper, plain.run().upper, rtol=0, atol=1e-11)


def test_what_is_overridden_has_no_proof_until_it_declares_one():
    class Proven(FrobeniusBall):
        guarantee = Guarantee(True)

        def split(self, v):
            return super().split(v)

    class Smaller(ColumnBall):
        factor = 0.1

    class Uncounted(Intersection):
        shares = 1

    class Clipped(FrobeniusBall):
        is_normalised = True

    class Renamed(NormalisedBall):
        name = "mine"

    words = "the confidence set declares no proof"
    for kind in (ThreeNorms, MeanReach, Smaller, Uncounted, Clipped, Renamed):
        assert kind().guarantee.reason == words
    assert Proven().guarantee
    agent = MatrixRL(make("river-swim", n_states=3, horizon=4), seed=0, set=ThreeNorms())
    assert agent.guarantee.reason == words
    assert agent.certificate().guarantee.reason == words


def test_a_radius_that_is_overridden_has_no_proof_and_is_not_local():
    class Renamed(BlockRadius):
        name = "mine"

    class Local(BlockRadius):
        guarantee = Guarantee(True)

        def __call__(self, inputs):
            return 2.0 * super().__call__(inputs)

        def is_local(self, n_episodes):
            return True

    words = "the radius declares no proof"
    assert GrowingRadius().guarantee.reason == words
    assert not GrowingRadius().is_local(100)
    assert Renamed().guarantee.reason == words
    assert not Renamed().is_local(None)
    assert Local().guarantee
    assert Local().is_local(None)
    assert ConstantRadius().is_local(None)
    agent = MatrixRL(make("river-swim", n_states=3, horizon=4), seed=0, radius=GrowingRadius())
    assert agent.guarantee.reason == words
    assert agent.certificate().guarantee  # a certificate uses the proven radius, whatever the agent's


@pytest.mark.parametrize("name", SETS)
def test_every_set_of_ours_keeps_its_compiled_form(name):
    """The rules above must not disarm the library's own sets."""
    run = Simulation(
        "river-swim", n_episodes=5, seeds=[0], settings={"preset": "optimistic", "set": name}, compiled=True
    )
    assert run.is_compiled
    assert run.algorithm.model.confidence.set.guarantee


class Threefold:
    """A mixin whose bound is three times as wide."""

    def split(self, v):
        split = super().split(v)
        return type(split)(split.shift, split.direction, 3.0 * split.scale)


class MixedBall(Threefold, FrobeniusBall):
    pass


class Shrunk:
    def __call__(self, inputs):
        return 0.01 * super().__call__(inputs)


class MixedRadius(Shrunk, BlockRadius):
    pass


def test_a_mixin_loses_the_proof_and_the_compiled_form_too():
    assert MixedBall.compiled_form is None
    assert MixedBall.guarantee.reason == "the confidence set declares no proof"
    assert MixedRadius().guarantee.reason == "the radius declares no proof"
    assert not MixedRadius().is_local(10)
    results = [run_seeds("river-swim", n_episodes=4, seeds=2, set=MixedBall(), compiled=c) for c in (False, True)]
    np.testing.assert_allclose(results[0].upper, results[1].upper, rtol=1e-12)


class FirstAction(UCMatrixRL):
    """Plays the first action whatever was learned."""

    def act(self, plan, stage, states, *, explore=True):
        return np.zeros_like(super().act(plan, stage, states, explore=explore))


def test_a_subclass_of_the_algorithm_has_no_proof_and_no_compiled_episodes():
    plain, compiled = (
        run_seeds("river-swim", n_episodes=6, seeds=2, agent=FirstAction(), compiled=c) for c in (False, True)
    )
    assert "not about its methods" in plain.guarantee.reason
    assert all("not about its methods" in shown.guarantee.reason for shown in plain.certificate)
    np.testing.assert_array_equal(plain.returns, compiled.returns)
    with pytest.raises(InvalidInput, match="columns must be left out for FirstAction"):
        run_seeds("linear-mdp", n_episodes=2, seeds=1, agent=FirstAction(columns=20))


class AnySupport(ValueTargetedSet):
    """The radius (S − 1) ln(e(1 + n/(S − 1))), which does not adapt to the number of next states seen."""

    name = "any-support"

    def excess(self, seen, n_outcomes):
        k = n_outcomes - 1
        return k * np.log(np.e * (1.0 + seen.totals / k))


class DeclaredSupport(AnySupport):
    name = "declared-support"
    guarantee = Guarantee(True)


def test_a_subclass_of_a_likelihood_set_has_its_own_radius_and_no_borrowed_proof():
    found = {}
    for chosen in (ValueTargetedSet(), AnySupport(), DeclaredSupport()):
        agent = MatrixRL(SHORT_RIVER, set=chosen, seed=0, compiled=False)
        agent.learn(60)
        found[chosen.name] = agent
    own, declared = found["any-support"], found["declared-support"]
    for claim in (own.guarantee, own.certificate().guarantee):
        assert not claim
        assert "declares no proof" in claim.reason
    assert own.bound().total is None
    assert declared.guarantee
    assert declared.certificate().guarantee
    assert declared.certificate().gap > 1.01 * found["value-targeted"].certificate().gap


def test_compiled_episodes_are_not_those_of_a_likelihood_set_of_a_users_class():
    settings = {"n_episodes": 40, "seeds": [0, 1]}
    simulated = Simulation(SHORT_RIVER, settings={"set": AnySupport()}, compiled=True, **settings)
    assert not simulated.is_compiled
    slow = Simulation(SHORT_RIVER, settings={"set": AnySupport()}, compiled=False, **settings)
    np.testing.assert_allclose(simulated.run().upper, slow.run().upper, rtol=ALGEBRA)


def test_a_radius_of_ones_own_has_no_regret_bound_of_another():
    agents = [MatrixRL(SHORT_RIVER, set=chosen, seed=0) for chosen in (ValueTargetedSet(), DeclaredSupport())]
    assert agents[0].algorithm.claims.regret_bound(100) > 0.0
    assert agents[1].algorithm.claims.regret_bound(100) is None
