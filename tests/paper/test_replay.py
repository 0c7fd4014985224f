"""docs/proofs.md, 11.8: returns of any policy on recorded outcomes, where no action changes their laws.

Against plain loops over the user's own step function, sums over all sequences of outcomes and actions, and the wealth.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from matrixrl import FiniteMDP, InvalidInput, KnownDynamics, MatrixRL, ProtocolError
from matrixrl.agents import replay as module
from matrixrl.agents.replay import Replay, Seen, counted, seen_outcomes, stage_laws
from matrixrl.core.returns import Returns
from tolerances import ALGEBRA, EXACT

PLACES, DAYS, A, W, H = 4, 2, 3, 3, 4
S = PLACES * DAYS
RNG = np.random.default_rng(0)
NEXT = RNG.integers(PLACES, size=(PLACES, DAYS, A, W))
PAID = np.round(RNG.uniform(-2.0, 3.0, size=NEXT.shape), 2)
LAW = RNG.dirichlet(np.ones(W), size=DAYS)
ONE, OTHER = RNG.integers(A, size=(2, H, S))
RANDOM = RNG.dirichlet(np.ones(A), size=(H, S))
SEQUENCES = np.array(list(itertools.product(range(W), repeat=H)))


def step(state, action, outcome):
    place, day = state
    return (int(NEXT[place, day, action, outcome]), (day + 1) % DAYS), PAID[place, day, action, outcome]


def world(**options):
    given = {"horizon": H, "start": (0, 0), "law": LAW, "laws": lambda state, _: state[1]} | options
    return KnownDynamics(step, outcomes=W, states=(PLACES, DAYS), n_actions=A, **given)


def simulated(table, outcomes, state=(0, 0), discount=1.0):
    """Return what actions (H, S) earn on some outcomes, by the user's own function."""
    total = 0.0
    for h, outcome in enumerate(outcomes):
        state, paid = step(state, int(table[h, state[0] * DAYS + state[1]]), int(outcome))
        total += discount**h * paid
    return total


def every_sequence(first=0):
    n = len(SEQUENCES)
    return Seen(np.full(n, first), SEQUENCES, np.ones(n, dtype=bool), np.zeros(n, dtype=bool))


def chances(first=0):
    days = (first % DAYS + np.arange(H)) % DAYS
    return LAW[days, SEQUENCES].prod(axis=1)


def told(agent, outcomes, table=None, *, stop=H, start=(0, 0)):
    """Tell the agent an episode with some outcomes, of its own or given actions; return what was received."""
    episode, state, total = agent.begin_episode(), start, 0.0
    for h in range(stop):
        action = episode.act(state) if table is None else int(table[h, state[0] * DAYS + state[1]])
        after, paid = step(state, action, int(outcomes[h]))
        episode.observe(state, action, paid, after, outcome=int(outcomes[h]))
        state, total = after, total + paid
    episode.end()
    return total


def value(table, first, h=0):
    """Return the value of actions (H, S) or probabilities (H, S, A), by recursion over actions and outcomes."""
    if h == H:
        return 0.0
    state, total = divmod(first, DAYS), 0.0
    for action in range(A):
        chance = float(table[h, first] == action) if table.ndim == 2 else table[h, first, action]
        for outcome in range(W) if chance else ():
            (place, day), paid = step(state, action, outcome)
            total += chance * LAW[state[1], outcome] * (paid + value(table, place * DAYS + day, h + 1))
    return total


class TestReturns:
    def test_the_policy_that_was_played_earned_what_was_received(self):
        agent = MatrixRL(world(), seed=0)
        first = agent.learn(20, policy=ONE).returns
        second = agent.learn(20, policy=OTHER).returns[20:]
        assert agent.replay(ONE)[:20] == pytest.approx(first, rel=EXACT)
        assert agent.replay(OTHER, since=20) == pytest.approx(second, rel=EXACT)
        assert np.abs(agent.replay(ONE, since=20) - second).max() > 0.1

    @pytest.mark.parametrize("discount", [1.0, 0.8])
    def test_another_policy_earns_what_a_plain_simulation_on_the_same_outcomes_earns(self, discount):
        agent = MatrixRL(world(discount=discount), seed=0)
        for outcomes in SEQUENCES:
            told(agent, outcomes)
        for table in (ONE, OTHER):
            expected = [simulated(table, outcomes, discount=discount) for outcomes in SEQUENCES]
            assert agent.replay(table) == pytest.approx(expected, abs=ALGEBRA)
            assert agent.replay(table, since=7) == pytest.approx(expected[7:], abs=ALGEBRA)

    def test_random_actions_earn_their_mean_over_all_sequences_of_actions(self):
        agent = MatrixRL(world(), seed=0)
        for outcomes in SEQUENCES[::9]:
            told(agent, outcomes)
        expected = np.zeros(len(SEQUENCES[::9]))
        for k, outcomes in enumerate(SEQUENCES[::9]):
            for actions in itertools.product(range(A), repeat=H):
                state, chance, total = (0, 0), 1.0, 0.0
                for h in range(H):
                    chance *= RANDOM[h, state[0] * DAYS + state[1], actions[h]]
                    state, paid = step(state, actions[h], int(outcomes[h]))
                    total += paid
                expected[k] += chance * total
        assert agent.replay(RANDOM) == pytest.approx(expected, abs=ALGEBRA)

    def test_the_mean_is_the_value_whatever_was_played(self):
        """The sum over all sequences of outcomes, with their probabilities."""
        problem = world()
        for table in (ONE, OTHER, RANDOM):
            inner = table if table.ndim == 2 else table.transpose(0, 2, 1)
            for first in (0, 3):
                found, same = Replay(problem, inner).returns(every_sequence(first))
                assert (found == same).all()
                assert chances(first) @ found == pytest.approx(value(table, first), abs=ALGEBRA)

    def test_a_loaded_agent_says_the_same(self, tmp_path):
        agent = MatrixRL(world(), seed=0)
        agent.learn(12)
        table = agent.greedy()
        agent.learn(20)
        agent.save(tmp_path / "a.npz")
        loaded = MatrixRL.load(tmp_path / "a.npz")
        assert np.array_equal(loaded.replay(ONE), agent.replay(ONE))
        assert loaded.compare(table, ONE, since=12) == agent.compare(table, ONE, since=12)
        assert loaded.certify(table, since=12) == agent.certify(table, since=12)
        assert loaded.earnings(ONE).as_dict() == agent.earnings(ONE).as_dict()

    def test_logged_episodes_are_replayed_in_their_order(self):
        source, agent = MatrixRL(world(), seed=1), MatrixRL(world(), seed=0)
        source.learn(5)
        log = source._seen.all()[0]
        agent.learn(3)
        days = np.divmod(log.states, DAYS), np.divmod(log.next_states, DAYS)
        columns = {
            "episode": log.episodes, "step": log.stages, "action": log.actions, "reward": log.rewards,
            "state_0": days[0][0], "state_1": days[0][1], "next_state_0": days[1][0], "next_state_1": days[1][1],
            "outcome": log.outcomes,
        }  # fmt: skip
        agent.learn_from(columns, verbose=False)
        assert np.array_equal(agent.replay(ONE)[3:], source.replay(ONE))
        assert agent.earnings(ONE).replayed == pytest.approx(agent.replay(ONE)[:3])


class TestWhatIsNotKnown:
    @pytest.mark.parametrize("table", [ONE, RANDOM.transpose(0, 2, 1)], ids=["actions", "probabilities"])
    def test_bounds_hold_for_every_completion_and_are_reached(self, table):
        """Outcomes are unknown from some stage on: the least and the most over all of them, at least for actions."""
        task = Replay(world(), table)
        exact = task.returns(every_sequence())[0]
        for stop in range(H):
            seen = every_sequence()
            cut = seen._replace(outcomes=np.where(np.arange(H) < stop, SEQUENCES, -1))
            low, high = task.returns(cut)
            for prefix in {tuple(row[:stop]) for row in SEQUENCES.tolist()}:
                same = (SEQUENCES[:, :stop] == prefix).all(axis=1)
                sides = exact[same].min(), exact[same].max()
                found = low[same][0], high[same][0]
                if table.ndim == 2:
                    assert found == pytest.approx(sides, abs=ALGEBRA)
                assert found[0] <= sides[0] + ALGEBRA
                assert found[1] >= sides[1] - ALGEBRA

    def test_so_do_bounds_on_the_difference_of_two(self):
        one, other = Replay(world(), ONE), Replay(world(), OTHER)
        exact = one.difference(other, every_sequence())
        for stop in range(H):
            outcomes = np.where(np.arange(H) < stop, SEQUENCES, -1)
            found = one.difference(other, every_sequence()._replace(outcomes=outcomes))
            assert (found.low <= exact.low).all()
            assert (found.high >= exact.high).all()
            assert (found.least, found.range) == (exact.least, exact.range)

    def test_an_episode_that_was_ended_early_or_jumped_counts_with_all_it_may_have_earned(self):
        agent = MatrixRL(world(), seed=0)
        told(agent, SEQUENCES[5])
        told(agent, SEQUENCES[5], stop=2)
        episode = agent.begin_episode()
        for h, state in enumerate([(0, 0), (1, 0), (2, 0), (1, 1)]):  # step 1 has an outcome of the other day
            after, paid = step(state, 0, int(SEQUENCES[5, h]))
            episode.observe(state, 0, paid, after, outcome=int(SEQUENCES[5, h]))
        episode.end()
        assert np.isnan(agent.replay(ONE)).tolist() == [False, True, True]
        low, high = Replay(agent.problem.finite_task, ONE).returns(seen_outcomes(agent))
        assert low[0] == high[0]
        assert (low[1:] < high[1:]).all()
        assert low[1:].max() - ALGEBRA <= low[0] <= high[1:].min() + ALGEBRA
        assert low[2] == pytest.approx(
            min(simulated(ONE, [SEQUENCES[5, 0], *rest]) for rest in SEQUENCES[: W ** (H - 1), 1:]), abs=ALGEBRA
        )
        found = agent.earnings(ONE, every=1)
        assert np.isnan(found.realised_gain).tolist() == [False, True, True]
        assert found.as_dict()["realised_gain"] is None
        assert "gain on the same outcomes: not known" in str(found)

    def test_abandoned_steps_withdraw_what_is_proven(self):
        agent = MatrixRL(world(), seed=0)
        agent.learn(10)
        assert agent.compare(ONE, OTHER, since=0).guarantee
        episode = agent.begin_episode()
        after, paid = step((0, 0), 0, 1)
        episode.observe((0, 0), 0, paid, after, outcome=1)
        episode.abandon()
        assert not agent.compare(ONE, OTHER, since=0).guarantee
        assert not agent.certify(ONE, since=0).guarantee

    def test_logged_episodes_do_not_count_for_a_declared_distribution_of_first_states(self):
        start = np.full(S, 1.0 / S)
        for given, counts in ((start, False), ((0, 0), True)):
            agent = MatrixRL(world(start=given), seed=0)
            first = np.array([0, 0, 1])
            whole, logged = np.array([True, True, True]), np.array([True, False, False])
            found = counted(agent, Seen(first, SEQUENCES[:3], whole, logged))
            assert found.tolist() == [counts, True, not counts]


class TestRanges:
    def test_of_one_policy_and_of_two_on_the_same_outcomes(self):
        problem = world()
        one, other = Replay(problem, ONE), Replay(problem, OTHER)
        earned = [np.array([simulated(table, outcomes) for outcomes in SEQUENCES]) for table in (ONE, OTHER)]
        assert one.ranges[0, :, 0] == pytest.approx([earned[0].min(), earned[0].max()], abs=ALGEBRA)
        apart = earned[0] - earned[1]
        assert one._apart(other, np.array([0])) == pytest.approx((apart.min(), apart.max()), abs=ALGEBRA)
        wide = (earned[0].min() - earned[1].max(), earned[0].max() - earned[1].min())
        assert apart.max() - apart.min() < wide[1] - wide[0]
        assert (one.difference(other, every_sequence()).low <= 1 << 16).all()

    def test_it_is_that_of_any_outcomes_if_too_many_pairs_of_states_are_reached(self, monkeypatch):
        problem = world()
        one, other = Replay(problem, ONE), Replay(problem, OTHER)
        monkeypatch.setattr(module, "_AT_ONCE", 2)
        low, high = one._apart(other, np.array([0]))
        (least, _), (_, most) = one.ranges[0, :, 0], other.ranges[0, :, 0]
        assert low == pytest.approx(least - most)
        assert high == pytest.approx(one.ranges[0, 1, 0] - other.ranges[0, 0, 0])


class TestLaws:
    @pytest.mark.parametrize("seed", range(12))
    def test_the_law_of_a_stage_is_that_of_all_paths(self, seed):
        """Against all sequences of actions and outcomes; laws and allowed actions are random."""
        rng, n = np.random.default_rng(seed), 6
        following, laws = rng.integers(n, size=(n, 2, 2)), rng.choice(2, p=[0.85, 0.15], size=(n, 2))
        allowed = rng.random((n, 2)) < 0.7
        allowed[np.arange(n), rng.integers(2, size=n)] = True
        problem = KnownDynamics(
            lambda s, a, w: (int(following[s, a, w]), float(w)),
            outcomes=2, n_states=n, n_actions=2, horizon=3, start=0, laws=laws, allowed=allowed,
        )  # fmt: skip
        expected = np.zeros((n, 3), dtype=int)
        for first in range(n):
            states = {first}
            for h in range(3):
                met = {int(laws[s, a]) for s in states for a in range(2) if allowed[s, a]}
                expected[first, h] = met.pop() if len(met) == 1 else -1
                states = {int(t) for s in states for a in range(2) if allowed[s, a] for t in following[s, a]}
        found = stage_laws(problem, np.arange(n))
        assert np.array_equal(found, expected)

    def test_problems_in_which_actions_change_the_outcomes_are_refused_in_words(self):
        by_action = world(laws=lambda _, action: int(action == 2))
        agent = MatrixRL(by_action, seed=0)
        agent.learn(2)
        with pytest.raises(ProtocolError, match=r"laws that no action changes; from first state .* step 0"):
            agent.replay(ONE)
        for call in (agent.certify, lambda p, since: agent.compare(p, OTHER, since=since)):
            with pytest.raises(ProtocolError, match="no action changes"):
                call(ONE, since=0)
        assert agent.earnings(ONE).replayed is None
        with pytest.raises(ProtocolError, match="realised_gain needs"):
            _ = agent.earnings(ONE).realised_gain

    def test_an_action_that_leads_where_another_law_holds_is_seen(self):
        """The law follows from the state alone, and the action chooses the state."""
        problem = KnownDynamics(
            lambda _, a, w: (a, float(w)), outcomes=2, n_states=2, n_actions=2, horizon=2, start=0, laws=[0, 1]
        )
        assert stage_laws(problem, np.array([0])).tolist() == [[0, -1]]
        assert stage_laws(problem, np.array([1])).tolist() == [[1, -1]]

    def test_episodes_that_can_end_early_are_refused(self):
        problem = KnownDynamics(
            lambda _, a, w: (0, float(w), w == 1 and a == 0), outcomes=2, n_states=1, n_actions=2, horizon=3, start=0
        )
        with pytest.raises(ProtocolError, match="last all 3 steps"):
            MatrixRL(problem, seed=0).replay([0])

    def test_other_refusals(self):
        with pytest.raises(ProtocolError, match="known dynamics"):
            MatrixRL("river-swim", seed=0).replay([0] * 6)
        with pytest.raises(ProtocolError, match="keep_log=True"):
            MatrixRL(world(), seed=0, keep_log=False).replay(ONE)
        agent = MatrixRL(world(), seed=0)
        assert agent.replay(ONE).shape == (0,)
        agent.learn(2)
        for wrong in (-1, 3, 1.5, None, "a", math.nan):
            with pytest.raises(InvalidInput, match="since"):
                agent.replay(ONE, since=wrong)
        with pytest.raises(InvalidInput, match="since must be left out with start"):
            agent.certify(ONE, start=(0, 0), since=0)
        with pytest.raises(InvalidInput, match="since must be left out with start"):
            agent.compare(ONE, OTHER, start=(0, 0), since=0)


class TestIntervals:
    def test_shares_of_delta_and_ranges_known_before_the_data(self):
        """Where replays are tighter than the model on both sides: δ/2 of one policy, δ/8, δ/8 and δ/4 of two."""
        problem, delta = world(), 0.05
        agent = MatrixRL(problem, seed=0, delta=delta)
        agent.learn(400)
        earned = [agent.replay(table, since=100) for table in (ONE, OTHER)]
        exact = [np.array([simulated(table, outcomes) for outcomes in SEQUENCES]) for table in (ONE, OTHER)]
        own = [
            Returns.of(one, one, all_.min(), all_.max()).interval
            for one, all_ in zip([*earned, earned[0] - earned[1]], [*exact, exact[0] - exact[1]], strict=True)
        ]
        found = agent.certify(ONE, since=100)
        assert found.basis == "replay"
        assert found.n_episodes == 300
        assert (found.lower, found.upper) == pytest.approx(own[0](delta / 2), abs=1e-3)
        assert found.estimate == pytest.approx(earned[0].mean(), abs=1e-3)
        compared = agent.compare(ONE, OTHER, since=100)
        assert compared.policy == pytest.approx(own[0](delta / 8), abs=1e-3)
        assert compared.incumbent == pytest.approx(own[1](delta / 8), abs=1e-3)
        assert (compared.lower, compared.upper) == pytest.approx(own[2](delta / 4), abs=1e-3)
        assert compared.estimate == pytest.approx((earned[0] - earned[1]).mean(), abs=1e-3)
        assert "fixed before the 300 episodes that are replayed" in compared.about
        assert compared.lower > agent.compare(ONE, OTHER).lower

    def test_without_episodes_it_is_the_model(self):
        agent = MatrixRL(world(), seed=0)
        agent.learn(5)
        found = agent.compare(ONE, OTHER, since=5)
        assert found.estimate == pytest.approx(agent.compare(ONE, OTHER).estimate, abs=ALGEBRA)
        assert found.guarantee
        assert agent.certify(ONE, since=5).n_episodes == 0

    def test_intervals_ever_miss_the_truth_in_at_most_a_share_delta_of_the_runs(self):
        """δ = 0.5 and a rare loss: 24 runs, six looks each; a policy that is chosen with five episodes is fixed then.

        Two comparisons, and each may be wrong in half of the runs: more than 18 of 24 by chance in 1 % of all seeds.
        """

        def pay(s, a, w):
            return (0, (1.0, -19.0)[w] if a else 0.0)

        problem = KnownDynamics(pay, outcomes=2, n_states=1, n_actions=2, horizon=1, start=0, law=[[0.95, 0.05]])
        missed = np.zeros(2, dtype=int)
        for seed in range(24):
            agent, wrong = MatrixRL(problem, seed=seed, delta=0.5), [False, False]
            agent.learn(5)
            learned = [int(agent.replay([1]).mean() > 0.0)]  # chosen with the first episodes
            for _ in range(6):
                agent.learn(16)
                for k, (table, since) in enumerate((([1], 0), (learned, 5))):
                    found = agent.compare(table, [0], since=since)
                    wrong[k] |= not found.lower - ALGEBRA <= 0.0 <= found.upper + ALGEBRA
            missed += wrong
        assert missed.max() <= 18


class TestRealisedGain:
    def test_it_is_what_was_received_less_a_simulation(self):
        agent, rng = MatrixRL(world(), seed=0), np.random.default_rng(2)
        outcomes = SEQUENCES[rng.integers(len(SEQUENCES), size=7)]
        received = [told(agent, one) for one in outcomes]
        found = agent.earnings(ONE, every=3, since=1)
        for k, block in enumerate(([1, 2, 3], [4, 5, 6])):
            gain = math.fsum(received[t] - simulated(ONE, outcomes[t]) for t in block)
            assert found.realised_gain[k] == pytest.approx(gain, abs=ALGEBRA)
        assert found.as_dict()["realised_gain"] == pytest.approx(found.realised_gain.sum())
        assert "gain on the same outcomes: " in str(found)
        assert "realised_gain" in found.to_frame()

    def test_an_incumbent_gains_nothing_over_itself(self):
        agent = MatrixRL(world(), seed=0)
        agent.learn(9, policy=ONE)
        assert agent.earnings(ONE, every=2).realised_gain.tolist() == [0.0] * 5

    def test_it_is_left_out_without_incumbent_or_known_dynamics(self):
        agent = MatrixRL(world(), seed=0)
        agent.learn(2)
        assert agent.earnings().replayed is None
        mdp = FiniteMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), horizon=2, start=0)
        other = MatrixRL(mdp, seed=0)
        other.learn(2)
        assert other.earnings([0, 0]).replayed is None
