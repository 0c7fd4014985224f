"""docs/proofs.md, 7: the explicit regret bound, each of its parts by a second route, and where it says nothing."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from matrixrl import Agent, MatrixRL, evaluate, make, tensor_product
from matrixrl.core import SETS, Clock, Confidence, SetContext, regularity
from matrixrl.core.regularity import explicit_bound, first_informative
from matrixrl.core.sets import NormalisedBall, Split
from matrixrl.features import Features, OneHotPsi, one_hot
from matrixrl.play import Simulation
from matrixrl.problems import tabular
from matrixrl.records import Guarantee
from printed_ball import PrintedColumnBall
from tolerances import ALGEBRA, EXACT
from worlds import WORLDS, algorithm_with_data, model_radii, set_bounds

STATES, ACTIONS, HORIZON, DELTA = 6, 2, 24, 0.05
MANY = 10**13  # episodes after which none of the bounds below is N·H


def by_hand(*, blocks: bool, learned: bool = False, growth: float = 0.0, factor: float = 1.0) -> float:
    """Return the bound for one-hot features, λ = 1, from the numbers of the claim alone."""
    steps, pairs = MANY * HORIZON, STATES * ACTIONS
    part = DELTA / 2 if learned else DELTA
    whole = pairs * math.log(1 + steps / pairs)  # ln det of 12 pairs with T/12 visits each

    def radius(bias, noise):
        if blocks:
            return bias + noise * math.sqrt(2 * math.log(pairs / part) + math.log(1 + steps))
        return math.sqrt(pairs) * bias + noise * math.sqrt(2 * math.log(1 / part) + whole)

    models = radius(1.0, math.sqrt(1 - 1 / STATES))
    rewards = radius(1.0, 0.5) if learned else 0.0
    surplus = factor * 2 * math.sqrt(STATES) * HORIZON * models + 2 * rewards
    chance = HORIZON * math.sqrt(steps * math.log(1 / DELTA) / 2)
    return surplus * math.sqrt((1 + growth) * steps * 2 * HORIZON * whole) + chance + 2e-9 * HORIZON * steps


def named(settings):
    return "doubling-matrix-rl" if "keep_data" in settings else "matrix-rl"


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, by_hand(blocks=True)),
        ({"radius": "self-normalised"}, by_hand(blocks=False)),
        ({"set": "frobenius"}, by_hand(blocks=True)),
        ({"set": "frobenius-closed"}, by_hand(blocks=True, factor=1.5)),
        ({"set": "column"}, by_hand(blocks=True)),  # √d'·C_ψ of Assumption 2 is √6·1, C_ψ of Assumption 2' is √6
        ({"set": "column-closed"}, by_hand(blocks=True, factor=1.5 * math.sqrt(12 / 6))),  # √max(d, d') = √12
        ({"known_reward": False}, by_hand(blocks=True, learned=True)),
        ({"known_reward": False, "radius": "self-normalised"}, by_hand(blocks=False, learned=True)),
        ({"switch_growth": 0.5}, by_hand(blocks=True, growth=0.5)),
        ({"keep_data": True}, by_hand(blocks=True)),
    ],
    ids=str,
)
def test_the_bound_number_by_number(settings, wanted):
    env, options = (
        make("river-swim", n_states=STATES, horizon=HORIZON),
        {"preset": "optimistic", "set": "normalised", **settings},
    )
    agent = Agent(env, named(settings), seed=0, delta=DELTA, **options)
    assert agent.algorithm.claims.regret_bound(MANY) == pytest.approx(wanted, rel=ALGEBRA)
    assert wanted < MANY * HORIZON


@pytest.mark.parametrize(
    "settings",
    [
        {"preset": "tuned"},
        {"radius": "theorem"},
        {"keep_data": False},
        {"set": PrintedColumnBall()},
        {"columns": 4},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_where_nothing_is_proven_there_is_no_bound(settings):
    agent = Agent(make("linear-mdp", n_states=STATES, d=3), named(settings), seed=0, **settings)
    assert agent.algorithm.claims.regret_bound(1000) is None


def test_a_bound_that_someone_changed_has_no_regret_bound_until_it_declares_one():
    class Wider(NormalisedBall):
        guarantee = Guarantee(True)

        def split(self, v):
            part = super().split(v)
            return Split(part.shift, part.direction, 1.1 * part.scale)

    class Declared(Wider):
        guarantee = Guarantee(True)
        surplus = property(lambda self: 2.2 * self.context.c_psi * self.context.horizon)

    bounds = [
        MatrixRL("river-swim", seed=0, set=kind()).algorithm.claims.regret_bound(MANY)
        for kind in (NormalisedBall, Wider, Declared)
    ]
    assert bounds[1] is None
    assert bounds[0] < bounds[2] < 1.1 * bounds[0]


@pytest.mark.parametrize("radius", ["self-normalised", "block"])
def test_no_data_give_a_larger_radius_than_the_one_before_any_data(radius):
    """Blocks of 3 features: all data on one block, in the directions that make its determinant as large as can be."""
    rng = np.random.default_rng(2)
    basis = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    phi = tensor_product(2.0 * basis, np.eye(4))  # 12 features, 4 blocks, ‖φ‖² = 4
    world = Features(phi, OneHotPsi(3))
    ridge, delta, visits, n_episodes = 0.5, 0.1, 40, 24
    confidence = Confidence.of(
        world,
        NormalisedBall(radius=radius),
        ridge=ridge,
        exploration=1.5,
        delta=delta,
        known_reward=False,
        horizon=5,
    )
    design = phi.design(1, ridge=ridge)
    one_block = np.flatnonzero(confidence.blocks.pair_block == 0)
    design.update(np.tile(one_block, visits)[None], np.ones((1, 3 * visits)))  # T = 120 steps, 40 in each direction
    seen = confidence.radii(design, Clock(n_episodes + 1, None))
    largest = confidence.largest_radii(n_episodes)
    for now, bound, norm, noise in zip(
        (seen.models, seen.rewards), largest, (1.0, 1.0), (math.sqrt(2 / 3), 0.5), strict=True
    ):
        assert now.max() <= bound * (1 + EXACT)
        if radius == "block":  # K = 4 blocks, δ/2 for each of models and rewards; a block of M* has ‖M*_k‖² <= 3/4
            by_hand = norm * math.sqrt(ridge * 3 / 4) + noise * math.sqrt(
                2 * math.log(4 / (delta / 2)) + 3 * math.log(1 + visits * 4 / ridge)
            )
            assert now.max() == pytest.approx(1.5 * by_hand, rel=ALGEBRA)
            assert bound == pytest.approx(1.5 * by_hand, rel=ALGEBRA)
        else:  # the determinant would be larger with the same data spread over all 12 directions
            by_hand = norm * math.sqrt(ridge * 12 / 4) + noise * math.sqrt(
                2 * math.log(1 / (delta / 2)) + 12 * math.log(1 + visits * 3 / 12 * 4 / ridge)
            )
            assert bound == pytest.approx(1.5 * by_hand, rel=ALGEBRA)
            assert now.max() < bound


def test_it_is_never_more_than_everything():
    k = regularity(one_hot(6, 2))
    assert explicit_bound(k, horizon=24, n_episodes=10, radius=50.0, delta=0.05) == 240.0


def test_a_small_surplus_still_counts_as_much_as_an_episode_may_cost():
    """g <= min(H, kw√β) <= max(k√β, H) min(1, w): a radius near 0 does not make the bound smaller than k√β = H does."""
    k = regularity(one_hot(6, 2))
    given = {"horizon": 24, "n_episodes": 10**12, "delta": 0.05, "path_delta": 0.05}
    least = explicit_bound(k, radius=1e-9, **given)
    assert least == explicit_bound(k, radius=1 / (2 * k.c_psi), **given)
    assert least < explicit_bound(k, radius=1 / k.c_psi, **given)


@pytest.mark.parametrize(("kind", "attained"), [("frobenius", 1.0), ("normalised", 0.5), ("column", 1.0)])
def test_the_surplus_of_a_set_is_at_most_its_factor_and_as_large_as_that_for_some_values(kind, attained):
    """The two ends of the bound differ by at most k√βw, over all V in {0, H}^S, where the maximum over [0, H]^S is."""
    world = tabular(n_states=4, n_actions=2, horizon=3, seed=1)
    algorithm, _ = algorithm_with_data(world, np.random.default_rng(0), episodes=4)
    psi, radius = world.features.psi, 3.0  # wide enough for no set to be empty
    context = SetContext(psi.total, world.features.phi.d, 3, psi.constants.c_psi, psi.constants.c_psi_max_norm)
    limit = SETS[kind]().bind(context).surplus * radius * np.sqrt(algorithm.model.design.width_sq[0])
    shares = []
    for corner in itertools.product((0.0, 3.0), repeat=4):
        v = psi.project(np.array([corner]))
        ends = [set_bounds(world, algorithm, v, radius, kind=SETS[kind], sign=sign)[0] for sign in (1.0, -1.0)]
        shares.append((ends[0] - ends[1]) / limit)
    assert np.max(shares) <= attained * (1 + EXACT)
    assert np.max(shares) >= 0.98 * attained


@pytest.mark.parametrize("kind", [name for name in SETS if SETS[name].guarantee])
@pytest.mark.parametrize("name", WORLDS)
def test_the_surplus_over_the_truth_is_at_most_the_factor(kind, name):
    """For the smallest radius that holds M*, with the values that the set is built for."""
    rng = np.random.default_rng(5)
    world = WORLDS[name](3)
    algorithm, _ = algorithm_with_data(world, rng, episodes=5, set=kind, radius="self-normalised")
    rows = world.features.phi.table.transpose(1, 0, 2).reshape(-1, world.features.phi.d)
    made = algorithm.model.confidence.set
    radius = float(model_radii(algorithm).max())
    for _ in range(20):
        v = world.features.psi.project(rng.random((1, world.mdp.n_states)) * world.mdp.horizon)
        upper, _ = set_bounds(world, algorithm, v, radius, kind=SETS[kind])
        surplus = upper - rows @ world.core @ v[0]
        assert (surplus <= made.surplus * radius * np.sqrt(algorithm.model.design.width_sq[0]) + ALGEBRA).all()


def trajectories(mdp, policy):
    """Return every (probability, states, actions) of an episode of a small MDP."""
    found = [(1.0, [0], [])]
    for h in range(mdp.horizon):
        longer = []
        for p, states, actions in found:
            a = int(policy[h, states[-1]])
            law = mdp.transitions.rows(np.array([states[-1]]), np.array([a]))[0]
            longer += [(p * q, [*states, s], [*actions, a]) for s, q in enumerate(law) if q > 0]
        found = longer
    return found


@pytest.mark.parametrize("kind", ["normalised", "tightest"])
def test_regret_is_the_surplus_of_the_played_steps_plus_a_martingale(kind):
    """All 27 episodes of a small MDP: the identity on each, the mean of the martingale, and its exponential moment."""
    mdp = tabular(n_states=3, n_actions=2, horizon=3, seed=4).mdp
    simulation = Simulation(mdp, n_episodes=5, seeds=[0], settings={"preset": "optimistic", "set": kind})
    simulation.run()
    plan = simulation.algorithm.advice()
    policy, planned = plan.policy[0].astype(int), plan.values[0]
    truth = evaluate(mdp, policy)
    gap = planned - truth  # Δ_h, all >= 0 as the plan is optimistic
    assert gap.min() >= -EXACT
    everything = trajectories(mdp, policy)
    assert sum(p for p, *_ in everything) == pytest.approx(1.0)
    mean_surplus = mean_chance = 0.0
    moments = dict.fromkeys((-1.0, 0.1, 1.0), 0.0)
    for p, states, actions in everything:
        surplus = chance = 0.0
        for h, (s, a) in enumerate(zip(states, actions, strict=False)):
            law = mdp.transitions.rows(np.array([s]), np.array([a]))[0]
            surplus += planned[h, s] - mdp.task.reward[s, a] - law @ planned[h + 1]
            chance += law @ gap[h + 1] - gap[h + 1, states[h + 1]]
        assert gap[0, 0] == pytest.approx(surplus + chance, abs=EXACT)
        mean_surplus, mean_chance = mean_surplus + p * surplus, mean_chance + p * chance
        for scale in moments:
            moments[scale] += p * math.exp(scale * chance)
    assert gap[0, 0] == pytest.approx(mean_surplus, abs=EXACT)
    assert mean_chance == pytest.approx(0.0, abs=EXACT)
    for scale, moment in moments.items():
        assert moment <= math.exp(scale**2 * mdp.horizon * mdp.horizon**2 / 8)


@pytest.mark.parametrize("path_delta", [0.05, 1e-4])
def test_what_chance_adds_is_enough_and_half_of_it_is_not(path_delta):
    """Fair steps of ±H/2, the widest that are allowed: exact tails of the binomial law against the last term."""
    horizon, n = 4, 10**10
    k = regularity(one_hot(3, 2))
    given = {"horizon": horizon, "n_episodes": n, "radius": 1.0, "delta": 0.0}
    term = explicit_bound(k, path_delta=path_delta, **given) - explicit_bound(k, **given)
    steps = 10_000  # the term is proportional to √T
    reach = term * math.sqrt(steps / (n * horizon))

    def tail(distance):  # P(Σ ±H/2 > distance) for `steps` fair signs
        return binom.sf(math.floor(steps / 2 + distance / horizon), steps, 0.5)

    assert tail(reach) <= path_delta
    assert tail(0.5 * reach) > path_delta


def test_expected_regret_has_the_probability_of_failure_in_place_of_chance():
    k = regularity(one_hot(3, 2))
    given = {"horizon": 4, "n_episodes": 10**10, "radius": 1.0}
    assert explicit_bound(k, delta=0.01, **given) - explicit_bound(k, delta=0.0, **given) == pytest.approx(4e8)


@pytest.mark.parametrize("kind", ["normalised", "tightest"])
def test_the_episode_from_which_it_says_something_is_the_first_one(kind):
    algorithm = MatrixRL(make("river-swim", n_states=2, horizon=2), seed=0, preset="optimistic", set=kind).algorithm
    first = first_informative(algorithm.claims.regret_bound, 2)
    assert first == 45_545 or kind == "tightest"
    assert algorithm.claims.regret_bound(first) < 2 * first
    assert min(algorithm.claims.regret_bound(first - 1), 2 * (first - 1)) == 2 * (first - 1)
    assert first_informative(lambda _: None, 2) is None
    assert first_informative(lambda n: 2.0 * n, 2) is None
