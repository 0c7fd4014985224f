"""docs/proofs.md, 11.7: what a log proves about its own policies and others, and which pairs the bounds hang on."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from tests.tolerances import ALGEBRA

from matrixrl import FiniteMDP, InvalidInput, KnownDynamics, MatrixRL, Task, evaluate
from matrixrl.agents import audit_log
from matrixrl.agents.audit import ANY, CHOICES, FIXED, SAFEST, _choices, _mean_value, _returns
from matrixrl.core.returns import Returns
from matrixrl.play.given_policies import GivenPolicy
from matrixrl.problems import tabular

MDP = tabular(n_states=4, n_actions=2, horizon=4, seed=1).mdp
COLUMNS = ("episode", "state", "action", "reward", "next_state")


def log_of(mdp, play, n, seed=0, lengths=None):
    """Return a log of n episodes; `play` (rng, stage, state) returns an action."""
    rng, rows = np.random.default_rng(seed), []
    law = mdp.transitions.law()
    for episode in range(n):
        state = int(rng.choice(mdp.n_states, p=mdp.task.start))
        for stage in range(mdp.horizon if lengths is None else lengths[episode]):
            action = play(rng, stage, state)
            following = int(rng.choice(mdp.n_states, p=law[state, action]))
            rows.append((episode, state, action, mdp.task.reward[state, action], following))
            state = following
    return dict(zip(COLUMNS, np.array(rows).T, strict=True))


def at_random(rng, stage, state):
    return int(rng.integers(2))


def always_zero(rng, stage, state):
    return 0


def learned(problem, log, **settings):
    agent = MatrixRL(problem, seed=0, **settings)
    agent.learn_from(log, verbose=False)
    return agent, agent._seen.all()[0]


def plain_task(**more):
    return Task(n_states=4, n_actions=2, horizon=4, start=0, **more)


class TestWidths:
    @pytest.mark.parametrize("settings", [{}, {"discount": 0.9}], ids=str)
    def test_pairs_add_up_to_the_width(self, settings):
        agent, seen = learned(plain_task(**settings), log_of(MDP, at_random, 300))
        table = np.random.default_rng(0).integers(0, 2, (4, 4))
        own = agent.algorithm.certifier
        widths = own.widths_by_pair(table, seen)
        found = own.bound_policies(table[None], table[None])
        assert widths.sum() == pytest.approx(found.upper[0, 0] - found.lower[0, 0], abs=ALGEBRA)
        assert (widths >= -ALGEBRA).all()
        assert (widths[:, [0]] > 0.0).sum() >= 1

    def test_known_dynamics(self):
        problem = KnownDynamics(
            lambda s, a, w: (min(max(s + a - w, 0), 3), float(s == 3)), n_states=4, n_actions=2, outcomes=2, horizon=4,
            start=0, law=[0.6, 0.4],
        )  # fmt: skip
        agent = MatrixRL(problem, seed=0)
        agent.learn(50)
        table, own = np.ones((4, 4), dtype=int), agent.algorithm.certifier
        found = own.bound_policies(table[None], table[None])
        widths = own.widths_by_pair(table, agent._seen.all()[0])
        assert widths.sum() == pytest.approx(found.upper[0, 0] - found.lower[0, 0], abs=ALGEBRA)

    def test_what_was_never_tried_has_all_of_it_and_what_is_not_played_nothing(self):
        log = log_of(MDP, always_zero, 200)
        agent, seen = learned(plain_task(), log)
        own = agent.algorithm.certifier
        tried, never = (own.widths_by_pair(np.full((4, 4), a), seen) for a in (0, 1))
        assert (tried[1] == 0.0).all()
        assert never[1, 0] == pytest.approx(4.0, abs=ALGEBRA)  # everything from the start on
        assert np.delete(never.ravel(), 4).sum() == pytest.approx(0.0, abs=ALGEBRA)


class TestReturns:
    @pytest.mark.parametrize("knows", [False, True])
    def test_they_are_those_of_a_policy_that_may_do_anything(self, knows):
        """A policy with all actions leaves no episode: `GivenPolicy` bounds the same returns."""
        task = Task(MDP.task.reward, 4, start=0) if knows else plain_task()
        log = log_of(MDP, at_random, 30, lengths=[1 + k % 4 for k in range(30)])
        agent, seen = learned(task, log)
        policy = GivenPolicy(agent.problem.finite_task, np.full((4, 2, 4), 0.5), knows_reward=knows)
        low, high = np.array([policy.played(one.steps()) for one in seen.parts(1)]).T
        found = _returns(agent, seen)
        expected = Returns.of(low, high, found.least, found.least + found.range)
        np.testing.assert_array_equal(found.low, expected.low)
        np.testing.assert_array_equal(found.high, expected.high)
        assert (found.low < found.high).mean() > 0.6  # those that stop early

    def test_episodes_that_begin_elsewhere_do_not_count(self):
        log = log_of(MDP, at_random, 40)
        log["state"] = log["state"].copy()
        log["state"][:4] = [1, *log["state"][1:4]]
        assert audit_log(log, plain_task()).n_counted == 39


class TestMean:
    def test_both_sides_are_the_bound_of_the_proof(self):
        shares, delta = np.random.default_rng(3).integers(0, 9, 60) / 8.0, 0.2
        low, high = _mean_value(Returns.of(shares, shares, 0.0, 1.0), delta, fixed=False)
        for side, values in ((low, shares), (1.0 - high, 1.0 - shares)):
            guesses = [(0.5 + values[:t].sum()) / (t + 1.0) for t in range(60)]
            spread = sum((x - guess) ** 2 for x, guess in zip(values, guesses, strict=True))
            bounds = [
                (math.log(20.0 / (delta / 2.0)) + (-math.log(1.0 - 0.5**k) - 0.5**k) * spread) / 0.5**k
                for k in range(1, 21)
            ]
            assert side == pytest.approx(values.mean() - min(bounds) / 60.0, abs=1e-9)

    def test_incomplete_returns_only_widen_it(self):
        low, high = np.array([0.2, 0.5] * 30), np.array([0.4, 0.5] * 30)
        own = _mean_value(Returns.of(low, high, 0.0, 1.0), 0.5, fixed=False)
        sides = [_mean_value(Returns.of(one, one, 0.0, 1.0), 0.5, fixed=False) for one in (low, high)]
        assert own == (sides[0][0], sides[1][1])

    def test_one_fixed_policy_has_the_interval_of_its_mean(self):
        counted = Returns.of(*[np.linspace(0.2, 0.7, 50)] * 2, 0.0, 1.0)
        assert _mean_value(counted, 0.3, fixed=True) == counted.interval(0.3)


def test_the_model_has_half_of_delta_and_returns_the_other_half():
    log, delta = log_of(MDP, at_random, 300), 0.2
    found = audit_log(log, plain_task(), delta=delta, policies={"ones": np.ones(4, dtype=int)}, fixed_policy=True)
    agent, seen = learned(plain_task(), log, delta=delta / 2.0)
    best = agent.recommend().certificate
    by_name = {one.name: one for one in found.policies}
    assert (by_name[SAFEST].lower, found.optimum) == (best.lower, best.upper)
    assert found.logged == pytest.approx(_returns(agent, seen).interval(delta / 2.0))
    compared = agent.compare(np.ones(4, dtype=int), _choices(agent, seen, agent.recommend()))
    assert by_name["ones"].gain_of_choices == (compared.lower, compared.upper)
    for one in found.policies:
        assert one.gain == pytest.approx((one.lower - found.logged[1], one.upper - found.logged[0]))
    assert by_name[CHOICES].gain_of_choices == (0.0, 0.0)


def test_choices_are_those_of_the_log():
    log = log_of(MDP, at_random, 300)
    agent, seen = learned(plain_task(), log)
    found = _choices(agent, seen, agent.recommend())
    stage = np.arange(len(log["state"])) % 4
    at = (stage == 2) & (log["state"] == 1)
    assert found[2, 1, 1] == pytest.approx(log["action"][at].mean())
    pooled = log["action"][log["state"] == 3].mean()
    assert found[0, 3, 1] == pytest.approx(pooled)  # no episode begins there
    np.testing.assert_allclose(found.sum(axis=2), 1.0)


LAW = np.array([[[0.5, 0.5], [0.9, 0.1]], [[0.2, 0.8], [0.7, 0.3]]])
HARD = FiniteMDP(LAW, [[0.0, 0.6], [1.0, 0.3]], 3, start=0)


def adapting_log(rng, most):
    """Return a log whose policy follows its luck and which stops at a high mean return, and its policies' values."""
    rows, values, returns = [], [], []
    tables = [np.array(table) for table in ([0, 0], [1, 1], [1, 0])]
    known = [float(evaluate(HARD, np.tile(table, (3, 1)))[0, 0]) for table in tables]
    for episode in range(most):
        lucky = bool(returns) and returns[-1] > np.mean(returns)
        k = int(rng.integers(3)) if episode < 3 else (0 if lucky else 1 + episode % 2)
        state, total = 0, 0.0
        for _ in range(3):
            action = int(tables[k][state])
            following = int(rng.random() < LAW[state, action, 1])
            reward = HARD.task.reward[state, action]
            rows.append((episode, state, action, reward, following))
            state, total = following, total + reward
        returns.append(total)
        values.append(known[k])
        if episode > 10 and np.mean(returns) > np.mean(values) + 0.25:
            break
    return dict(zip(COLUMNS, np.array(rows).T, strict=True)), float(np.mean(values))


def test_all_claims_hold_at_once_for_a_log_that_adapts_and_stops_at_will():
    """δ = 0.5, 40 logs: all bounds of a log hold in at least half of them; so few by chance have less than 1e-3."""
    held, task = 0, Task(n_states=2, n_actions=2, horizon=3, start=0)
    for seed in range(40):
        log, mean = adapting_log(np.random.default_rng([9, seed]), 80)
        found = audit_log(log, task, delta=0.5, policies={"one": np.ones(2, dtype=int)})
        truth = {"one": evaluate(HARD, np.ones((3, 2), dtype=int)), SAFEST: evaluate(HARD, found.safest.table)}
        ok = found.logged[0] <= mean <= found.logged[1]
        for one in found.policies:
            if one.name in truth:
                value = float(truth[one.name][0, 0])
                ok &= one.lower <= value <= one.upper <= found.optimum + ALGEBRA
                ok &= one.gain[0] <= value - mean <= one.gain[1]
        held += ok
    assert held >= 20


class TestWords:
    log = log_of(MDP, at_random, 100)

    def test_the_assumption_about_the_log_is_said(self):
        for fixed, words, other in ((True, FIXED, ANY), (False, ANY, FIXED)):
            found = audit_log(self.log, plain_task(), fixed_policy=fixed)
            assert words in found.assumptions
            assert other not in found.assumptions
            assert "with probability" not in found.assumptions

    def test_returns_of_a_log_that_may_adapt_are_not_those_of_one_policy(self):
        wide, narrow = (audit_log(self.log, plain_task(), fixed_policy=fixed).logged for fixed in (False, True))
        assert wide[0] < narrow[0]
        assert narrow[1] < wide[1]

    def test_plain_data(self):
        found = audit_log(self.log, plain_task())
        entries = json.loads(found.to_json())
        assert sum(one["share"] for one in entries["pairs"]) == pytest.approx(1.0)
        assert [one["share"] for one in entries["pairs"]] == sorted((p.share for p in found.pairs), reverse=True)
        assert entries["safest"] == found.safest.digest
        assert list(found.to_frame().columns) == ["state", "action", "visits", "share"]
        assert "not shown" in found._repr_html_()
        assert "not shown" in repr(found)

    def test_an_improvement_that_is_large_is_shown(self):
        """One action pays 1 and the other one 0, and the log takes each half of the time."""
        rng = np.random.default_rng(0)
        actions = rng.integers(0, 2, 8000)
        log = {
            "episode": np.arange(8000) // 4,
            "state": np.zeros(8000, dtype=int),
            "action": actions,
            "reward": actions.astype(float),
            "next_state": np.zeros(8000, dtype=int),
        }
        found = audit_log(log, Task(n_states=1, n_actions=2, horizon=4, start=0))
        assert 1.0 < found.improvement < 2.0
        assert "at least" in found.verdict
        none = audit_log(log, Task(n_states=1, n_actions=2, horizon=4, start=0), delta=1e-300)
        assert none.improvement is None or none.improvement < found.improvement

    def test_a_selection_withdraws_it(self):
        log = self.log | {"reward": self.log["reward"].copy()}
        log["reward"][5] = np.nan
        found = audit_log(log, plain_task(), missing="drop_episode")
        assert not found.guarantee
        assert found.improvement is None
        assert found.verdict.startswith("nothing is proven")

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({"policies": [1]}, "policies must be a dictionary"),
            ({"policies": {"safest": [0] * 4}}, "other names"),
            ({"policies": {"mine": [0] * 3}}, "mine must be"),
            ({"delta": 0.0}, "delta"),
            ({"fixed_policy": "yes"}, "fixed_policy"),
        ],
    )
    def test_what_is_refused(self, more, words):
        with pytest.raises(InvalidInput, match=words):
            audit_log(self.log, plain_task(), **more)
