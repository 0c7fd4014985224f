"""docs/proofs.md, 12: on the event of the confidence set, V^π − V^μ lies in one interval for all policies at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from matrixrl import FiniteMDP, MatrixRL
from matrixrl.algorithms import UCMatrixRL
from matrixrl.core import greedy_plan, pessimistic_values, policy_bounds
from matrixrl.core.start import Start
from matrixrl.problems import Problem, tabular
from tolerances import ALGEBRA, EXACT
from worlds import model_radii, random_steps

S, A, H = 3, 2, 3
SETTINGS = {
    "value-targeted": {"set": "value-targeted"},
    "likelihood": {"set": "likelihood"},
    "learned rewards": {"set": "value-targeted", "known_reward": False},
    "normalised": {"set": "normalised"},
    "normalised, learned rewards": {"set": "normalised", "known_reward": False},
    "frobenius": {"set": "frobenius"},
    "column": {"set": "column"},
    "frobenius-closed": {"set": "frobenius-closed"},
    "sandwich": {"set": "sandwich"},
}
every_set = pytest.mark.parametrize("name", SETTINGS)


def learned(name, seed, episodes=40, **more):
    """Return MatrixRL after random steps of a random MDP, which visit some pairs often and one never."""
    mdp = tabular(n_states=S, n_actions=A, horizon=H, seed=seed).mdp
    algorithm = UCMatrixRL(**{"delta": 0.2, **SETTINGS[name], **more}).start(Problem.of(mdp), [0])
    rng = np.random.default_rng(seed)
    for _ in range(episodes):
        steps = random_steps(mdp, rng, 1)
        steps.actions[steps.states == 2] = 0
        steps.next_states[...] = np.minimum(steps.next_states, rng.integers(0, S, steps.states.shape))
        steps.rewards[...] = mdp.task.reward[steps.states, steps.actions]
        algorithm.update(steps)
    return algorithm


def policies(rng):
    """Return two random policies (1, H, A, S) that share actions in many states; some rows are deterministic."""
    first = np.eye(A)[rng.integers(0, A, (1, H, S))]
    other = rng.dirichlet(np.ones(A), (1, H, S))
    kind = rng.random((1, H, S, 1))
    second = np.where(kind < 0.5, first, np.where(kind < 0.75, 1.0 - first, other))
    first = np.where(rng.random((1, H, S, 1)) < 0.3, rng.dirichlet(np.ones(A), (1, H, S)), first)
    return first.swapaxes(2, 3), second.swapaxes(2, 3)


def is_inside(algorithm, belief, pair, law):
    """Say whether a law of one pair (action, state) is in its confidence set, from the counts themselves."""
    a, s = pair
    if hasattr(belief, "seen"):
        place = np.flatnonzero(belief.seen.ids == belief.groups[a, s])
        if not len(place):
            return True
        entries = belief.seen.places == place[0]
        shares, outcomes = belief.seen.shares[entries], belief.seen.outcomes[entries]
        return float(shares @ np.log(shares / law[outcomes])) <= belief.lower[place[0]]
    radius = model_radii(algorithm, "proven").reshape(A, S)[a, s]
    visits, following = (
        algorithm.model.design.counts.reshape(A, S)[a, s],
        algorithm.model.cross_moment.reshape(A, S, S)[a, s],
    )
    return np.sqrt(1.0 + visits) * np.linalg.norm(law - following / (1.0 + visits)) <= radius


def centre(algorithm, belief, pair):
    """Return the empirical law of a pair, which is in its set; uniform without data."""
    a, s = pair
    if hasattr(belief, "seen"):
        entries = belief.seen.ids[belief.seen.places] == belief.groups[a, s]
        law = np.bincount(belief.seen.outcomes[entries], belief.seen.times[entries], minlength=S)
    else:
        law = algorithm.model.cross_moment.reshape(A, S, S)[a, s]
    return law / law.sum() if law.sum() else np.full(S, 1.0 / S)


def edge_laws(algorithm, rng, count):
    """Return laws (H, A, S, S, count) at the edge of the set of each pair, towards corners and random points."""
    belief = algorithm.model.bounds(algorithm.clock, "proven")[0]
    found = np.empty((A, S, S, count))
    for pair in itertools.product(range(A), range(S)):
        middle = centre(algorithm, belief, pair)
        for k in range(count):
            goal = np.eye(S)[rng.integers(S)] if k % 2 else rng.dirichlet(np.full(S, 0.5))
            low, high = 0.0, 1.0 - 1e-12
            for _ in range(40):
                step = 0.5 * (low + high)
                inside = is_inside(algorithm, belief, pair, (1.0 - step) * middle + step * goal)
                low, high = (step, high) if inside else (low, step)
            found[(*pair, slice(None), k)] = (1.0 - low) * middle + low * goal
    return found


def values_of(laws, reward, policy):
    """Return V^π (H+1, S) of a policy (H, A, S) under laws (H, A, S, S), by the definition."""
    values = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            values[h, s] = sum(policy[h, a, s] * (reward[a, s] + laws[h, a, s] @ values[h + 1]) for a in range(A))
    return values


@every_set
@pytest.mark.parametrize("seed", range(3))
def test_every_model_of_the_set_has_its_differences_inside(name, seed):
    """Laws at the edge of the sets, another one for each stage, and rewards at the ends of their intervals."""
    algorithm, rng = learned(name, seed), np.random.default_rng(seed)
    belief = algorithm.model.bounds(algorithm.clock, "proven")[0]
    edge = edge_laws(algorithm, rng, 8)
    least, most = (np.broadcast_to(side, (1, A, S))[0] for side in (belief.least, belief.most))
    closest = np.inf
    for _ in range(6):
        pair = policies(rng)
        bounds = policy_bounds(belief, *pair, algorithm.frame)
        for _ in range(60):
            chosen = rng.integers(0, edge.shape[-1], (H, A, S))
            laws = np.take_along_axis(edge[None], chosen[..., None, None], axis=-1)[..., 0]
            reward = np.where(rng.random((A, S)) < 0.5, least, most)
            first, second = (values_of(laws, reward, policy[0]) for policy in pair)
            for part, truth in enumerate((first, second, first - second)):
                assert (bounds.lower[part, 0] <= truth + ALGEBRA).all()
                assert (truth <= bounds.upper[part, 0] + ALGEBRA).all()
            closest = min(closest, float((bounds.upper[2, 0] - (first - second))[:H].min()))
    assert closest <= 0.05  # some model comes near the bound, so a tighter one would be found out


@every_set
def test_the_difference_is_never_wider_than_separate_bounds(name):
    algorithm, rng = learned(name, 5), np.random.default_rng(5)
    belief, narrower = algorithm.model.bounds(algorithm.clock, "proven")[0], 0
    for _ in range(10):
        bounds = policy_bounds(belief, *policies(rng), algorithm.frame)
        assert (bounds.lower[2] >= bounds.lower[0] - bounds.upper[1] - EXACT).all()
        assert (bounds.upper[2] <= bounds.upper[0] - bounds.lower[1] + EXACT).all()
        narrower += int((bounds.upper[2] < bounds.upper[0] - bounds.lower[1] - 0.01).sum())
    assert narrower > 20


@every_set
def test_policies_that_are_the_same_differ_by_nothing(name):
    algorithm, rng = learned(name, 6), np.random.default_rng(6)
    first, second = policies(rng)
    belief = algorithm.model.bounds(algorithm.clock, "proven")[0]
    same = policy_bounds(belief, first, first, algorithm.frame)
    assert not same.lower[2].any()
    assert not same.upper[2].any()
    one_way, other_way = (policy_bounds(belief, *pair, algorithm.frame) for pair in ((first, second), (second, first)))
    np.testing.assert_allclose(one_way.upper[2], -other_way.lower[2], atol=EXACT)
    np.testing.assert_array_equal(one_way.upper[0], other_way.upper[1])


@every_set
def test_the_lower_bounds_are_those_of_certificates(name):
    """A table of actions and its probabilities give the same, and both the values of `pessimistic_values`.

    Sets that do not use that probabilities sum to one have larger lower bounds here, where P V is an average of V.
    """
    algorithm, rng = learned(name, 7), np.random.default_rng(7)
    belief, table = algorithm.model.bounds(algorithm.clock, "proven")[0], rng.integers(0, A, (1, H, S))
    by_table = policy_bounds(belief, table, 1 - table, algorithm.frame)
    weights = np.eye(A)[table].swapaxes(2, 3)
    by_weights = policy_bounds(belief, weights, 1.0 - weights, algorithm.frame)
    certified = pessimistic_values(belief, table, algorithm.frame)
    assert (by_table.lower[0] >= certified - EXACT).all()
    if belief.is_normalised and name != "sandwich":
        np.testing.assert_allclose(by_table.lower[0], certified, atol=EXACT)
    np.testing.assert_array_equal(by_table.lower, by_weights.lower)
    np.testing.assert_array_equal(by_table.upper, by_weights.upper)


def test_the_bound_is_the_largest_difference_where_policies_part_in_the_last_step():
    """With known rewards the last difference is exact, so the bound is max{q d : KL(p̂‖q) <= β_D/n}, here on a grid."""
    algorithm = learned("value-targeted", 8)
    belief, frame = algorithm.model.bounds(algorithm.clock, "proven")[0], algorithm.frame
    assert (belief.lower > belief.upper * 1.02).any()  # the radius for V* alone is smaller and would not do
    first = np.zeros((1, H, S), dtype=int)
    second = first.copy()
    second[:, -1] = 1
    bounds = policy_bounds(belief, first, second, frame)
    last = algorithm.unit_reward[0] - algorithm.unit_reward[1]
    np.testing.assert_allclose(bounds.upper[2, 0, H - 1], last, atol=EXACT)
    steps = np.arange(0, 401)
    grid = np.array([(i, j, 400 - i - j) for i in steps for j in steps[: 401 - i]]) / 400.0
    for s in range(S):
        middle, place = centre(algorithm, belief, (0, s)), np.flatnonzero(belief.seen.ids == belief.groups[0, s])[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(middle > 0.0, middle * np.log(middle / grid), 0.0)
        inside = grid[terms.sum(axis=1) <= belief.lower[place]]
        most, least = (inside @ last).max(), (inside @ last).min()
        assert most - ALGEBRA <= bounds.upper[2, 0, H - 2, s] <= most + 0.01
        assert least - 0.01 <= bounds.lower[2, 0, H - 2, s] <= least + ALGEBRA


def test_an_unknown_reward_cancels_where_both_take_it():
    algorithm = learned("learned rewards", 9, episodes=3)
    belief = algorithm.model.bounds(algorithm.clock, "proven")[0]
    first = np.zeros((1, H, S), dtype=int)
    second = first.copy()
    second[0, 0, 0] = 1
    bounds = policy_bounds(belief, first, second, algorithm.frame)
    assert not bounds.upper[2, 0, 1:].any()
    assert not bounds.upper[2, 0, 0, 1:].any()
    assert bounds.upper[2, 0, 0, 0] > 1.0
    assert (bounds.upper[0, 0, 1] - bounds.lower[1, 0, 1] > 1.0).all()


@pytest.mark.parametrize("name", ["likelihood", "normalised"])
def test_what_an_algorithm_returns_holds_for_the_models_of_its_set(name):
    """With the bounds on V* as a ceiling, in the unit of the rewards, averaged over a random start."""
    rng = np.random.default_rng(10)
    world = tabular(n_states=S, n_actions=A, horizon=H, seed=10).mdp
    reward = 5.0 * world.task.reward - 2.0
    mdp = FiniteMDP(
        world.transitions.rows(np.repeat(np.arange(S), A), np.tile(np.arange(A), S)).reshape(S, A, S),
        reward,
        H,
        start=np.array([0.5, 0.0, 0.5]),
        reward_range=(-2.0, 3.0),
    )
    algorithm = UCMatrixRL(set=name, delta=0.2).start(Problem.of(mdp), [0])
    for _ in range(60):
        steps = random_steps(mdp, rng, 1)
        steps.rewards[...] = reward[steps.states, steps.actions]
        algorithm.update(steps)
    edge = edge_laws(algorithm, rng, 6)
    for _ in range(5):
        pair = policies(rng)
        bound = algorithm.certifier.bound_policies
        found, at_first = bound(*pair), bound(*pair, Start.at(2))
        for _ in range(40):
            chosen = rng.integers(0, edge.shape[-1], (H, A, S))
            laws = np.take_along_axis(edge[None], chosen[..., None, None], axis=-1)[..., 0]
            first, second = (values_of(laws, reward.T, policy[0])[0] for policy in pair)
            for part, truth in enumerate((first, second, first - second)):
                for bounds, value in ((found, truth @ mdp.task.start), (at_first, truth[2])):
                    assert bounds.lower[part, 0] - ALGEBRA <= value <= bounds.upper[part, 0] + ALGEBRA


def test_the_ceiling_may_make_separate_bounds_the_tighter_ones():
    """The optimistic value cuts the value of the first policy, and its difference does not follow by itself."""
    narrower = 0
    for seed in range(6):
        algorithm, rng = learned("value-targeted", seed, episodes=200), np.random.default_rng(seed)
        belief, frame = algorithm.model.bounds(algorithm.clock, "proven")[0], algorithm.frame
        ceiling = greedy_plan(belief, frame, np.zeros((1, A))).values
        for _ in range(10):
            bounds = policy_bounds(belief, *policies(rng), frame, ceiling=ceiling)
            separate = bounds.lower[0] - bounds.upper[1], bounds.upper[0] - bounds.lower[1]
            assert (bounds.lower[2] >= separate[0]).all()
            assert (bounds.upper[2] <= separate[1]).all()
            narrower += int((bounds.upper[2, :, :-1] == separate[1][:, :-1]).sum())
    assert narrower > 0


def test_the_bound_on_an_action_that_no_optimal_policy_takes_is_none_on_a_policy_that_takes_it():
    """β₁ holds on one optimal policy: of 148 equal bets, better than what is known, some look worse."""
    n_bets, safe, chance = 148, 0.19, 0.2
    rng, wrong = np.random.default_rng(0), []
    law = np.zeros((3, n_bets + 2, 3))
    law[0, 0, 1] = law[0, 1, 2] = law[1, :, 1] = law[2, :, 2] = 1.0
    law[0, 2:] = [0.0, chance, 1.0 - chance]
    reward = np.zeros((3, n_bets + 2))
    reward[1], reward[0, 1] = 1.0, safe
    lists = [[[1], [2], *[[1, 2]] * n_bets], [[1]] * (n_bets + 2), [[2]] * (n_bets + 2)]
    agent = MatrixRL(FiniteMDP(law, reward, 2, start=0, successors=lists), delta=0.5, seed=0)
    rows = []
    for episode in range(16 * n_bets):
        action, won = 2 + episode // 16, rng.random() < chance
        middle = 1 if won else 2
        rows += [(episode, 0, 0, action, 0.0, middle), (episode, 1, middle, 0, float(won), middle)]
    names = ("episode", "step", "state", "action", "reward", "next_state")
    agent.learn_from(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)), verbose=False)
    known, bet = np.zeros((2, 3), dtype=int), np.zeros((2, 3), dtype=int)
    known[0, 0] = 1
    for bet[0, 0] in range(2, n_bets + 2):
        found = agent.compare(known, bet)
        wrong.append(found.lower > safe - chance + ALGEBRA)
    assert bool(agent.guarantee)
    assert not any(wrong)


def test_the_ceiling_only_makes_bounds_tighter():
    algorithm, rng = learned("value-targeted", 11, episodes=200), np.random.default_rng(11)
    belief, frame = algorithm.model.bounds(algorithm.clock, "proven")[0], algorithm.frame
    pair = policies(rng)
    plain, found = policy_bounds(belief, *pair, frame), algorithm.certifier.bound_policies(*pair)
    start = algorithm.task.start
    assert (found.upper[:, 0] <= plain.upper[:, 0, 0] @ start + EXACT).all()
    assert (found.lower[:2, 0] == plain.lower[:2, 0, 0] @ start).all()
    best = algorithm.upper(algorithm.make_plan(np.zeros((1, A))))[0]
    assert (found.upper[:2, 0] <= best + ALGEBRA).all()


def test_an_end_state_is_worth_the_same_under_all_policies():
    law = np.zeros((3, 2, 3))
    law[0, 0], law[0, 1], law[1], law[2] = [0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]
    reward = np.array([[0.0, -1.0], [0.5, 1.0], [0.0, 0.0]])
    mdp = FiniteMDP(law, reward, 4, end_state=2, reward_range=(-1.0, 1.0))
    agent = MatrixRL(mdp, seed=0, delta=0.1)
    agent.learn(60)
    first, second = np.zeros((1, 4, 3), dtype=int), np.zeros((1, 4, 3), dtype=int)
    first[:, :, 2] = 1
    belief, frame = agent.algorithm.model.bounds(agent.algorithm.clock, "proven")[0], agent.algorithm.frame
    bounds = policy_bounds(belief, first, second, frame)
    assert not bounds.upper[2].any()
    assert not bounds.lower[2].any()
    np.testing.assert_array_equal(bounds.lower[:2, 0, :, 2], bounds.upper[:2, 0, :, 2])
    np.testing.assert_allclose(bounds.lower[0, 0, :, 2], [2.0, 1.5, 1.0, 0.5, 0.0])


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"known_reward": False}, {"set": "normalised"}], ids=str)
def test_the_truth_is_inside_as_often_as_promised(settings):
    """12 runs at δ = 0.5, looked at three times, with policies that the data chose (chance alone fails 1 in 300)."""
    misses = 0
    for seed in range(12):
        mdp = tabular(n_states=S, n_actions=A, horizon=H, seed=seed).mdp
        law = mdp.transitions.rows(np.repeat(np.arange(S), A), np.tile(np.arange(A), S)).reshape(S, A, S)
        laws = np.broadcast_to(law.swapaxes(0, 1), (H, A, S, S))
        agent, missed = MatrixRL(mdp, seed=seed, delta=0.5, **settings), False
        half = np.full((S, A), 0.5)
        for n in (2, 6, 24):
            agent.learn(n)
            chosen = agent.greedy()
            shown = agent.compare(chosen, half)
            assert shown.guarantee
            weights = np.eye(A)[chosen.table].swapaxes(1, 2)
            both = (values_of(laws, mdp.task.reward.T, w) for w in (weights, np.full((H, A, S), 0.5)))
            difference = np.subtract(*both)[0] @ mdp.task.start
            missed |= not shown.lower - ALGEBRA <= difference <= shown.upper + ALGEBRA
        misses += missed
    assert binom.sf(misses - 1, 12, 0.5) > 4e-3
