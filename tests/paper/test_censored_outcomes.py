"""docs/proofs.md, 19, censored outcomes: counts of cells, of all steps whose pair tells at least as much apart.

Partitions and counts are compared with sets that are built by hand, and coverage is simulated for a shop in which most
demand is lost unseen, where leaving out the steps that were censored gives wrong bounds.
"""

from __future__ import annotations

import numpy as np
import pytest

import matrixrl
from matrixrl import InvalidInput, KnownDynamics, MatrixRL
from matrixrl.algorithms import UCMatrixRL
from matrixrl.problems import Problem, solve
from tolerances import ALGEBRA

W, SHELF, H = 6, 7, 6
LAW = np.array([0.1, 0.2, 0.3, 0.2, 0.15, 0.05])


def step(stock, order, demand):
    have = min(stock + 2 * order, SHELF)
    return max(have - demand, 0), 2.0 * min(have, demand) - 1.5 * order - 0.1 * stock


def shop(*, censored: bool = True, **options) -> KnownDynamics:
    """Return a shop that does not see the demand that it cannot meet."""
    given = {"outcomes": W, "n_states": SHELF + 1, "n_actions": 3, "horizon": H, "start": 0, "law": LAW} | options
    return KnownDynamics(step, censored=censored, **given)


def random_world(seed: int, **options) -> KnownDynamics:
    """Return dynamics with two laws in which pairs tell different outcomes apart."""
    rng = np.random.default_rng(seed)
    following, rewards = rng.integers(2, size=(4, 2, W)), rng.integers(2, size=(4, 2, W)) / 2.0
    following[1], rewards[1] = np.arange(W) % 4, np.arange(W)
    following[3, 0], rewards[3, 0] = 2, 0.5
    return KnownDynamics(
        lambda s, a, w: (int(following[s, a, w]), rewards[s, a, w]),
        outcomes=W,
        n_states=4,
        n_actions=2,
        horizon=4,
        start=0,
        laws=np.array([[0, 1], [0, 1], [0, 0], [1, 1]]),
        censored=True,
        **options,
    )


def cells_of(problem: KnownDynamics, action: int, state: int) -> set[frozenset[int]]:
    """Return the cells of a pair as sets."""
    tables = problem.dynamics
    seen = list(zip(tables.next_states[action, state], tables.rewards[action, state], strict=True))
    return {frozenset(w for w in range(W) if seen[w] == one) for one in seen}


def played(problem: KnownDynamics, n_steps: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Return random states, actions and outcomes."""
    rng = np.random.default_rng(seed)
    return (
        rng.integers(problem.n_states, size=n_steps),
        rng.integers(problem.n_actions, size=n_steps),
        rng.integers(W, size=n_steps),
    )


def learner(problem: KnownDynamics, steps, **settings) -> UCMatrixRL:
    states, actions, outcomes = steps
    made = UCMatrixRL(**settings).start(Problem.of(problem), [0])
    nothing = np.zeros((1, len(states)))
    made.model.update((actions * problem.n_states + states)[None], outcomes[None], nothing, nothing + 1.0)
    return made


@pytest.mark.parametrize("seed", range(4))
def test_cells_are_outcomes_with_the_same_next_state_and_reward(seed):
    problem = random_world(seed)
    tables, parts = problem.dynamics, problem.dynamics.partitions
    pairs = [(a, s) for a in range(2) for s in range(4)]
    for a, s in pairs:
        own = parts.cells[parts.groups[a, s]]
        assert {frozenset(np.flatnonzero(own == c)) for c in set(own)} == cells_of(problem, a, s)
        assert all(own[w] == min(np.flatnonzero(own == own[w])) for w in range(W))
        for b, t in pairs:
            one, other = cells_of(problem, a, s), cells_of(problem, b, t)
            is_finer = all(any(small <= large for large in other) for small in one)
            expected = tables.laws[a, s] == tables.laws[b, t] and is_finer and len(other) > 1
            assert parts.serves[parts.groups[a, s], parts.groups[b, t]] == expected


@pytest.mark.parametrize("seed", range(4))
def test_two_pairs_share_outcomes_in_the_finer_of_their_groups(seed):
    tables = random_world(seed).dynamics
    pairs = np.array([(a, s) for a in range(2) for s in range(4)])
    first, second = (tuple(pairs[numbers].T) for numbers in np.divmod(np.arange(64), 8))
    groups, may_share = tables.shared(first, second)
    for number, (one, other) in enumerate(zip(zip(*first, strict=True), zip(*second, strict=True), strict=True)):
        cells = [cells_of(random_world(seed), *pair) for pair in (one, other)]
        depends = [pair for pair, own in zip((one, other), cells, strict=True) if len(own) > 1]
        same_law = tables.laws[one] == tables.laws[other]
        finer = [
            pair
            for pair, own, others in ((one, *cells), (other, *cells[::-1]))
            if all(any(small <= large for large in others) for small in own)
        ]
        assert may_share[number] == (len(depends) < 2 or bool(same_law and finer))
        if len(depends) == 1:
            assert groups[number] == tables.groups[depends[0]]
        elif depends and may_share[number]:
            assert groups[number] in [tables.groups[pair] for pair in finer]


def test_the_union_is_over_groups_and_the_functions_of_pairs_with_several_cells():
    problem = random_world(1)
    tables, one = problem.dynamics, learner(problem, played(problem, 60), delta=0.1)
    several = {int(tables.groups[a, s]) for a in range(2) for s in range(4) if len(cells_of(problem, a, s)) > 1}
    states = {s for a in range(2) for s in range(4) if len(cells_of(problem, a, s)) > 1}
    assert len(several) > tables.n_laws
    [bounds] = one.model.bounds(one.clock, "proven")
    seen, share = bounds.law.seen, one.model.confidence.parts.all_functions
    log_ratio = seen.totals * bounds.law.lower - one.model.excess.ravel()[seen.ids]
    np.testing.assert_allclose(log_ratio, np.log(len(several) / (share * 0.1)), rtol=1e-9)
    assert one.model.confidence.n_targets[0] == 4 * len(states)


@pytest.mark.parametrize("seed", range(3))
def test_counts_of_a_group_are_those_of_all_steps_that_serve_it(seed):
    problem = random_world(seed)
    tables, steps = problem.dynamics, played(problem, 80, seed)
    model = learner(problem, steps).model
    counts = model.counts.seen
    found = {
        (int(counts.ids[row]), int(w)): n
        for row, w, n in zip(counts.places, counts.outcomes, counts.times, strict=True)
    }
    expected: dict[tuple[int, int], int] = {}
    for j in range(len(tables.partitions.cells)):
        a, s = np.argwhere(tables.groups == j)[0]
        for state, action, w in zip(*steps, strict=True):
            own = cells_of(problem, action, state)
            wanted = cells_of(problem, a, s)
            same_law = tables.laws[action, state] == tables.laws[a, s]
            if same_law and len(wanted) > 1 and all(any(c <= d for d in wanted) for c in own):
                [cell] = [min(c) for c in wanted if w in c]
                expected[j, cell] = expected.get((j, cell), 0) + 1
    assert found == expected


def test_what_nobody_saw_changes_nothing():
    problem = shop()
    states, actions, outcomes = played(problem, 200)
    have = np.minimum(states + 2 * actions, SHELF)
    hidden = np.where(outcomes >= have, np.random.default_rng(5).integers(have.clip(max=W - 1), W), outcomes)
    assert (hidden != outcomes).sum() > 30
    plans = [learner(problem, (states, actions, w)).plan() for w in (outcomes, hidden)]
    np.testing.assert_array_equal(plans[0].values, plans[1].values)


def test_bounds_are_those_of_reported_outcomes_where_all_are_told_apart():
    found = []
    for censored in (False, True):
        problem = shop(censored=censored)
        problem = KnownDynamics(
            lambda s, a, w: (step(s, a, w)[0], step(s, a, w)[1] + 1e-3 * w),
            outcomes=W,
            n_states=SHELF + 1,
            n_actions=3,
            horizon=H,
            start=0,
            censored=censored,
        )
        one = learner(problem, played(problem, 100), set="likelihood")
        found.append([bounds.q(None) for bounds in one.model.bounds(one.clock, "agent", "proven")])
        policy = np.random.default_rng(0).integers(3, size=(2, 1, H, SHELF + 1))
        [proven] = one.model.bounds(one.clock, "proven")
        found[-1] += list(matrixrl.core.policy_bounds(proven, *policy, one.frame))
    for ours, ordinary in zip(*found, strict=True):
        np.testing.assert_allclose(ours, ordinary, atol=ALGEBRA)


def test_compiled_plans_are_those_of_numpy():
    problem = shop()
    one = learner(problem, played(problem, 60))
    for level in ("agent", "tuned", "proven"):
        [bounds] = one.model.bounds(one.clock, level)
        rankings = np.random.default_rng(1).random((1, 3))
        values = [
            matrixrl.core.backup.greedy_plan(bounds, one.frame, rankings, compiled=compiled).values
            for compiled in (False, True)
        ]
        np.testing.assert_allclose(values[0], values[1], atol=ALGEBRA)


class TestCoverage:
    """Small orders are mostly sold out. δ is 0.5, and 40 runs fail 32 times or more by chance once in 8,000."""

    N = 40

    def learned(self, seed: int, *, is_left_out: bool = False, n_days: int = 300) -> UCMatrixRL:
        """Return what was learned from days on which orders depend on what was sold before, and their stock."""
        rng, days, stock = np.random.default_rng(seed), [], 0
        for _ in range(n_days):
            order, demand = int(rng.integers(3 if stock else 2)), int(rng.choice(W, p=LAW))
            if not is_left_out or demand < min(stock + 2 * order, SHELF):
                days.append((stock, order, demand))
            stock = step(stock, order, demand)[0]
        return learner(shop(censored=not is_left_out), np.array(days).T, delta=0.5)

    def fails(self, **options) -> int:
        truth = shop()
        best, count = solve(truth.mdp).start_value, 0
        for seed in range(self.N):
            one = self.learned(seed, **options)
            plan = one.estimated_plan()
            bounds = one.certifier.certify(plan)
            value = matrixrl.evaluate(truth.mdp, plan.policy[0])[0, 0]
            count += bool(bounds.upper[0] < best or bounds.lower[0] > value)
        return count

    def test_of_censored_outcomes(self):
        assert self.fails() < 32

    def test_leaving_out_lost_sales_gives_wrong_bounds(self):
        assert self.fails(is_left_out=True, n_days=1500) > 32

    def test_of_the_difference_of_two_policies(self):
        truth, fails, apart = shop(), 0, 0
        orders = np.tile(np.array([2, 2, 1, 1, 0, 0, 0, 0]), (H, 1))
        other = np.tile(np.array([2, 1, 1, 0, 0, 0, 0, 0]), (H, 1))
        difference = np.subtract(*(matrixrl.evaluate(truth.mdp, one)[0, 0] for one in (orders, other)))
        for seed in range(self.N):
            one = self.learned(seed)
            [bounds] = one.model.bounds(one.clock, "proven")
            found = matrixrl.core.policy_bounds(bounds, orders[None], other[None], one.frame)
            low, high = truth.unit * found.lower[2, 0, 0, 0], truth.unit * found.upper[2, 0, 0, 0]
            fails += not low <= difference <= high
            alone = truth.unit * (found.upper[0, 0, 0, 0] - found.lower[1, 0, 0, 0])
            apart += high < alone - 0.1  # playing both with the same outcomes helps
        assert fails < 32
        assert apart > 32


class TestUse:
    def test_outcomes_need_not_be_reported_and_files_and_logs_keep_what_was_seen(self, tmp_path):
        problem, rng = shop(law=None), np.random.default_rng(0)
        agents = [MatrixRL(problem, seed=0) for _ in range(2)]
        for agent, reports in zip(agents, (False, True), strict=True):
            rng = np.random.default_rng(3)
            for _ in range(4):
                episode, stock = agent.begin_episode(), 0
                for _ in range(H):
                    order, demand = int(rng.integers(3)), int(rng.integers(W))
                    after, reward = step(stock, order, demand)
                    episode.observe(stock, order, reward, after, **({"outcome": demand} if reports else {}))
                    stock = after
                episode.end()
        words = str(agents[0].certificate())
        assert str(agents[1].certificate()) == words  # a report changes nothing
        agents[0].save(tmp_path / "agent")
        assert str(MatrixRL.load(tmp_path / "agent").certificate()) == words
        agents[0].export(tmp_path / "log.csv")
        assert "outcome" not in (tmp_path / "log.csv").read_text().splitlines()[0]
        again = MatrixRL(problem, seed=0)
        again.learn_from(tmp_path / "log.csv", verbose=False)
        for name, array in agents[0].algorithm.model.state_dict().items():
            np.testing.assert_array_equal(again.algorithm.model.state_dict()[name], array)
        assert "seen through next state and reward" in str(problem._facts())

    def test_what_no_outcome_explains_is_refused(self):
        agent = MatrixRL(shop(), seed=0)
        episode = agent.begin_episode()
        with pytest.raises(InvalidInput, match="next state and reward must be those of some outcome"):
            episode.observe(0, 1, 5.0, 1)
        with pytest.raises(InvalidInput, match="outcome must be one that leads"):
            episode.observe(0, 1, step(0, 1, 3)[1], 0, outcome=0)

    def test_without_the_option_the_error_names_it(self):
        episode = MatrixRL(shop(censored=False), seed=0).begin_episode()
        with pytest.raises(InvalidInput, match="if nobody sees it, build KnownDynamics with censored=True"):
            episode.observe(0, 1, step(0, 1, 3)[1], 0)

    def test_too_many_partitions(self):
        rng = np.random.default_rng(0)
        table = rng.integers(2, size=(5000, 20))
        with pytest.raises(InvalidInput, match="censored must be False for more than 4,096"):
            KnownDynamics(
                lambda s, _, w: (table[s, w.astype(int)], 0.0 * s),
                outcomes=20,
                n_states=5000,
                n_actions=1,
                horizon=2,
                vectorized=True,
                censored=True,
            )
