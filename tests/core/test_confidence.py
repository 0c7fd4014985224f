"""Where set, radius, shares of δ and exploration meet: every number against its formula."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from matrixrl import InvalidInput
from matrixrl.algorithms.matrix_rl.doubling import doubling_clock
from matrixrl.core import SETS, Clock, Confidence, Radius
from matrixrl.core.confidence import TIE_EXPLORATION
from matrixrl.core.radius import RADII, ConstantRadius
from matrixrl.core.sets import Intersection, NormalisedBall, NormalisedColumnBall
from matrixrl.features import Features, OneHotPsi, TablePhi, one_hot
from matrixrl.records import Guarantee
from printed_ball import PrintedColumnBall
from tolerances import EXACT

DELTA, RIDGE, HORIZON = 0.08, 0.5, 5
N_STATES, N_ACTIONS = 4, 2
N_PAIRS = N_STATES * N_ACTIONS
VISITS = np.array([0, 0, 0, 1, 1, 4, 6, 6, 6, 6])
CLOCK = Clock(episode=3, n_episodes=None)


def confidence(features=None, *, kind="normalised", radius="block", exploration=1.0, known_reward=True):
    return Confidence.of(
        one_hot(N_STATES, N_ACTIONS) if features is None else features,
        SETS[kind](radius=radius),
        ridge=RIDGE,
        exploration=exploration,
        delta=DELTA,
        known_reward=known_reward,
        horizon=HORIZON,
    )


def design_of(features=None):
    phi = (one_hot(N_STATES, N_ACTIONS) if features is None else features).phi
    design = phi.design(1, RIDGE)
    design.update(VISITS[None], np.ones((1, len(VISITS))))
    return design


def by_visits(delta, *, bias, noise):
    """√β of every one-hot pair: λ·bias/√(λ + n) + noise·√(2 ln(K/δ) + ln(1 + n/λ)), without noise at n = 0."""
    found = []
    for pair in range(N_PAIRS):
        n = int((pair == VISITS).sum())
        spread = noise * math.sqrt(2.0 * math.log(N_PAIRS / delta) + math.log(1.0 + n / RIDGE)) if n else 0.0
        found.append(RIDGE * bias / math.sqrt(RIDGE + n) + spread)
    return np.array([found])


MODELS = {"bias": 1.0, "noise": math.sqrt(1.0 - 1.0 / N_STATES)}  # C_ψ' = 1 and L of one-hot ψ
REWARDS = {"bias": 1.0, "noise": 0.5}  # |φᵀθ*| <= 1, and rewards in [0, 1] are ½-sub-Gaussian


@pytest.mark.parametrize(
    ("kind", "known_reward", "parts"),
    [("normalised", True, 1), ("normalised", False, 2), ("intersection", True, 1), ("intersection", False, 2)],
)
def test_every_radius_has_its_share_of_delta(kind, known_reward, parts):
    """One share for each event that the set relies on; as many again for rewards that are learned."""
    ours = confidence(kind=kind, known_reward=known_reward)
    design = design_of()
    assert ours.shares == parts
    assert ours.inputs(design, CLOCK).delta == pytest.approx(DELTA / parts, rel=EXACT)
    radii = ours.radii(design, CLOCK)
    np.testing.assert_allclose(radii.models, by_visits(DELTA / parts, **MODELS), rtol=EXACT)
    np.testing.assert_allclose(radii.alarm, radii.models, rtol=EXACT)
    if known_reward:
        assert radii.rewards is None
    else:
        np.testing.assert_allclose(radii.rewards, by_visits(DELTA / parts, **REWARDS), rtol=EXACT)


class OwnEvent(NormalisedBall):
    """A bound with a proof, and an event, of its own."""

    guarantee = Guarantee(True)

    def split(self, v):
        return super().split(v)


class ThreeMembers(Intersection):
    """Names its members without a word about shares."""

    guarantee = Guarantee(True)

    def __init__(self):
        super().__init__(NormalisedBall(), NormalisedColumnBall(), OwnEvent())


@pytest.mark.parametrize(
    ("made", "parts"),
    [
        (Intersection(), 1),
        (Intersection(NormalisedBall()), 1),
        (Intersection(NormalisedBall(), OwnEvent()), 2),
        (ThreeMembers(), 2),
        (OwnEvent(), 1),
    ],
    ids=["default", "one member", "own event", "subclass", "own set"],
)
def test_delta_is_divided_between_the_events_of_the_members(made, parts):
    ours = replace(confidence(), set=made)
    assert made.shares == ours.shares == parts
    assert ours.guarantee
    assert ours.inputs(design_of(), CLOCK).delta == pytest.approx(DELTA / parts, rel=EXACT)


def test_an_intersection_is_proven_only_if_its_members_are():
    class Unproven(NormalisedBall):
        def split(self, v):
            return super().split(v)

    ours = replace(confidence(), set=Intersection(NormalisedBall(), Unproven()))
    assert ours.guarantee == ours.certificate_guarantee == Guarantee(False, "the confidence set declares no proof")
    with pytest.raises(InvalidInput, match="members must be normalised; got frobenius"):
        Intersection(NormalisedBall(), SETS["frobenius"]())


def test_all_runs_of_a_doubling_agent_share_delta():
    """Run j has δ/(j(j + 1)) if data are forgotten, and the parts add up to δ; data that are kept are one run."""
    ours, design = confidence(known_reward=False), design_of()

    def share(episode, keep_data):
        return ours.inputs(design, doubling_clock(episode, keep_data=keep_data)).delta / (DELTA / 2)

    firsts = [2**j - 2 for j in range(1, 40)]  # epochs of 2, 4, 8, … episodes
    shares = [share(episode, False) for episode in firsts]
    np.testing.assert_allclose(shares, [1.0 / (j * (j + 1)) for j in range(1, 40)], rtol=EXACT)
    assert sum(shares) == pytest.approx(1.0 - 1.0 / 40, rel=EXACT)
    assert share(5, False) == share(2, False) == pytest.approx(1 / 6)
    assert [share(episode, True) for episode in (0, 5, 100)] == [1.0, 1.0, 1.0]
    assert ours.inputs(design, Clock(6, None)).delta == DELTA / 2  # without doubling


class BadRadius(Radius):
    def __init__(self, answer):
        self.answer = answer

    def __call__(self, inputs):
        return self.answer


@pytest.mark.parametrize("known_reward", [True, False])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.array([[np.nan]]), "must be finite and >= 0; got nan"),
        (np.array([[np.inf]]), "must be finite and >= 0; got inf"),
        (np.array([[-1.0]]), "must be finite and >= 0; got -1"),
        (np.where(np.arange(N_PAIRS) == 3, -0.5, 1.0)[None], r"must be finite and >= 0; got -0.5 at \[0, 3\]"),
        (np.ones(N_PAIRS), r"must be real numbers of shape \(1, 1\), or \(1, 8\).*got shape \(8,\)"),
        (np.ones((2, 1)), r"got shape \(2, 1\)"),
        (1.5, r"got shape \(\)"),
        (None, "got None"),
        ("big", "got 'big'"),
        (np.array([[1.0 + 1.0j]]), "must be real numbers"),
    ],
    ids=["nan", "inf", "negative", "one pair", "no replicas", "replicas", "number", "None", "word", "complex"],
)
def test_a_radius_that_returns_anything_else_is_one_clear_error(answer, words, known_reward):
    ours = replace(confidence(known_reward=known_reward), radius=BadRadius(answer))
    with pytest.raises(InvalidInput, match=f"the radius 'own radius' .*{words}"):
        ours.radii(design_of(), CLOCK)


def test_a_radius_that_is_wrong_for_rewards_only_is_found_too():
    class ForModels(Radius):
        def __call__(self, inputs):
            return np.full((1, 1), 1.0 if inputs.regularity.noise_scale != 0.5 else np.nan)

    known, learned = (replace(confidence(known_reward=k), radius=ForModels()) for k in (True, False))
    assert known.radii(design_of(), CLOCK).models == 1.0
    with pytest.raises(InvalidInput, match="must be finite and >= 0"):
        learned.radii(design_of(), CLOCK)


def test_a_radius_may_return_integers_and_zeros():
    for answer in (np.zeros((1, 1), dtype=int), np.ones((1, N_PAIRS), dtype=np.float32), [[2]]):
        radii = replace(confidence(), radius=BadRadius(answer)).radii(design_of(), CLOCK)
        assert radii.models.dtype == np.float64


@pytest.mark.parametrize("known_reward", [True, False])
@pytest.mark.parametrize("exploration", [0.2, 1.0, 3.0])
def test_exploration_scales_the_agents_radii_and_nothing_else(exploration, known_reward):
    ours, design = confidence(exploration=exploration, known_reward=known_reward), design_of()
    delta = DELTA / (1 if known_reward else 2)
    full, paid = by_visits(delta, **MODELS), by_visits(delta, **REWARDS)
    agent, ties, proven = (ours.radii(design, CLOCK, level=level) for level in ("agent", "ties", "proven"))
    assert TIE_EXPLORATION == 0.05
    np.testing.assert_allclose(agent.models, exploration * full, rtol=EXACT)
    np.testing.assert_allclose(ties.models, 0.05 * exploration * full, rtol=EXACT)
    np.testing.assert_allclose(proven.models, full, rtol=EXACT)
    for radii in (agent, ties):  # an alarm needs a proof, whatever the agent explores with
        np.testing.assert_allclose(radii.alarm, max(exploration, 1.0) * full, rtol=EXACT)
    np.testing.assert_allclose(proven.alarm, full, rtol=EXACT)
    for radii in (agent, ties, proven):
        assert (radii.alarm >= proven.models - EXACT).all()
        assert (radii.alarm >= radii.models - EXACT).all()
    if not known_reward:
        np.testing.assert_allclose(agent.rewards, exploration * paid, rtol=EXACT)
        np.testing.assert_allclose(ties.rewards, 0.05 * exploration * paid, rtol=EXACT)
        np.testing.assert_allclose(proven.rewards, paid, rtol=EXACT)


def test_the_proven_radius_does_not_depend_on_the_agents():
    design = design_of()
    for radius in RADII:
        ours = confidence(radius=radius, exploration=0.3)
        np.testing.assert_allclose(
            ours.radii(design, CLOCK, level="proven").models, by_visits(DELTA, **MODELS), rtol=EXACT
        )
        agent = ours.radii(design, CLOCK)
        full = np.broadcast_to(0.3 * RADII[radius]()(ours.inputs(design, CLOCK)), (1, N_PAIRS))
        np.testing.assert_allclose(np.broadcast_to(agent.models, (1, N_PAIRS)), full, rtol=EXACT)
        np.testing.assert_allclose(agent.alarm, np.maximum(full, by_visits(DELTA, **MODELS)), rtol=EXACT)


def test_dense_features_have_the_self_normalised_radius():
    """One block: √λ‖M*‖ + L√(2 ln(1/δ) + ln det(A/λ)), with ‖M*‖ bounded by C_ψ'/√λ_min of the features."""
    rng = np.random.default_rng(0)
    features = Features(TablePhi(rng.random((N_STATES, N_ACTIONS, 3)) + 0.1), OneHotPsi(N_STATES))
    ours, design = confidence(features, known_reward=False), design_of(features)
    rows = features.phi.table.transpose(1, 0, 2).reshape(N_PAIRS, 3)
    matrix = RIDGE * np.eye(3) + rows[VISITS].T @ rows[VISITS]
    spread = math.sqrt(2.0 * math.log(2.0 / DELTA) + np.linalg.slogdet(matrix / RIDGE)[1])
    length = math.sqrt(RIDGE / features.phi.smallest_design_eigenvalue())
    radii = ours.radii(design, CLOCK)
    np.testing.assert_allclose(radii.models, [[length + MODELS["noise"] * spread]], rtol=1e-10)
    np.testing.assert_allclose(radii.rewards, [[length + REWARDS["noise"] * spread]], rtol=1e-10)


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("level", ["agent", "ties", "proven"])
def test_the_table_by_visits_is_what_every_pair_has(kind, level):
    ours, design = confidence(kind=kind, exploration=0.4, known_reward=False), design_of()
    table, reward = ours.half_widths(9, CLOCK, level)
    visits = np.bincount(VISITS, minlength=N_PAIRS)
    radii = ours.radii(design, CLOCK, level=level)
    slack = RIDGE / (RIDGE + visits)[None]
    for row, member in zip(table, ours.set.members, strict=True):
        reach = member.reach(design, radii.models, radii.alarm, slack)
        np.testing.assert_allclose(row[visits], reach.half_width[0], rtol=EXACT, atol=EXACT)
    by_hand = radii.rewards[0] / np.sqrt(RIDGE + visits)
    np.testing.assert_allclose(reward[visits], by_hand, rtol=EXACT)
    assert table.shape[1] == len(reward) == 9


def test_what_is_proven_and_what_is_not():
    assert confidence().guarantee
    assert confidence(exploration=0.5).guarantee.reason == "exploration 0.5 is below 1: the confidence set was shrunk"
    assert confidence(exploration=0.5).certificate_guarantee  # certificates ignore exploration
    assert confidence(radius="constant").guarantee == ConstantRadius().guarantee
    assert confidence(radius="constant").certificate_guarantee
    printed = replace(confidence(), set=PrintedColumnBall())
    assert printed.guarantee == printed.certificate_guarantee == PrintedColumnBall.guarantee
    given = Confidence.of(
        one_hot(N_STATES, N_ACTIONS),
        SETS["normalised"](c_core=2.0),
        ridge=RIDGE,
        exploration=1.0,
        delta=DELTA,
        known_reward=True,
        horizon=HORIZON,
    )
    words = "proven only if ‖M*‖_F² <= c_core·d, as given (c_core = 2)"
    assert given.guarantee == given.certificate_guarantee == Guarantee(False, words)
