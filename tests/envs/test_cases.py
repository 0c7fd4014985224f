"""The cases: their tables against formulas, published numbers and plain simulation; the usual policies; ICU-Sepsis."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files

import numpy as np
import pytest
from scipy.stats import poisson

from matrixrl import InvalidInput, MatrixRL, evaluate, make, solve
from matrixrl.core.embedding import embedding
from matrixrl.envs import ENVIRONMENTS, best_of, icu_sepsis, lost_sales, perishable_stock, policy_value
from matrixrl.envs.icu_sepsis import clinicians_log, clinicians_policy
from matrixrl.envs.outcomes import table_of
from matrixrl.envs.queue_admission import best_thresholds
from matrixrl.errors import MissingExtra
from tolerances import ALGEBRA

LONG, LONGER = 200, 300
# Orders by fresh (rows) and old pieces (columns): Figure 3 of De Moor et al. 2022.
LIFO_ORDERS = [[max(0, min(3, 5 - fresh))] * 9 for fresh in range(9)]
FIFO_ORDERS = [
    [4, 4, 4, 4, 4, 4, 4, 4, 4],
    [4, 4, 3, 3, 3, 3, 3, 3, 3],
    [4, 3, 3, 3, 2, 2, 2, 2, 2],
    [3, 3, 2, 2, 1, 1, 1, 1, 1],
    [3, 2, 2, 1, 1, 1, 1, 0, 0],
    [2, 2, 1, 1, 0, 0, 0, 0, 0],
    [2, 1, 1, 0, 0, 0, 0, 0, 0],
    [1, 1, 0, 0, 0, 0, 0, 0, 0],
    [1, 0, 0, 0, 0, 0, 0, 0, 0],
]


def per_step(name, find, **settings):
    """Return the long-run reward of a step under the optimum and under the usual policy that `find` returns."""
    values = []
    for horizon in (LONG, LONGER):
        env = make(name, horizon=horizon, **settings)
        values.append((solve(env.unwrapped.mdp).start_value, policy_value(env.unwrapped.mdp, find(env))))
    return (np.array(values[1]) - values[0]) / (LONGER - LONG)


def uniform(mdp):
    return mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True)


class TestUsualPolicies:
    def test_best_of_has_the_largest_value_of_its_family(self, rng):
        mdp = make("river-swim", n_states=4).unwrapped.mdp
        family = [(str(i), rng.integers(2, size=4)) for i in range(30)]
        values = [mdp.task.start @ evaluate(mdp, np.tile(row, (mdp.horizon, 1)))[0] for _, row in family]
        chosen = best_of(mdp, family)
        assert chosen.description == str(int(np.argmax(values)))
        assert policy_value(mdp, chosen) == pytest.approx(max(values), abs=ALGEBRA)

    def test_the_value_of_a_random_policy_that_never_hesitates_is_that_of_its_table(self, rng):
        mdp = make("lost-sales", capacity=6).unwrapped.mdp
        row = np.array([rng.choice(np.flatnonzero(allowed)) for allowed in mdp.allowed])
        table = np.tile(row, (mdp.horizon, 1))
        assert policy_value(mdp, np.eye(mdp.n_actions)[row]) == pytest.approx(policy_value(mdp, table), abs=ALGEBRA)

    def test_probabilities_of_forbidden_actions_are_refused(self):
        mdp = make("lost-sales", capacity=3).unwrapped.mdp
        with pytest.raises(InvalidInput, match="must take allowed actions only"):
            policy_value(mdp, np.full((4, 4), 0.25))


class TestLostSales:
    @pytest.mark.parametrize(
        ("lead_time", "penalty", "optimal", "base_stock"),
        [(1, 4.0, 4.04, 4.16), (1, 9.0, 5.44, 5.55), (2, 4.0, 4.40, 4.64), (2, 9.0, 6.09, 6.32)],
    )
    def test_average_costs_are_those_of_zipkin_2008(self, lead_time, penalty, optimal, base_stock):
        """Poisson demand with mean 5 and holding cost 1: his tables of the optimal and the base-stock policy."""
        settings = {"lead_time": lead_time, "penalty": penalty, "capacity": 25}
        found = -per_step("lost-sales", lost_sales.best_base_stock, **settings)
        np.testing.assert_allclose(found, [optimal, base_stock], atol=0.005)

    def test_without_a_lead_time_every_day_is_a_newsvendor(self):
        """From an empty store, the best level is the smallest y with P(D ≤ y) ≥ p/(p + h), on every day."""
        env = make("lost-sales", lead_time=0, holding=2.0, penalty=5.0, mean_demand=3.0)
        level = int(poisson.ppf(5.0 / 7.0, 3.0))
        demands = np.arange(100)
        chance = poisson.pmf(demands, 3.0)
        cost = chance @ (2.0 * np.maximum(level - demands, 0) + 5.0 * np.maximum(demands - level, 0))
        best = lost_sales.best_base_stock(env)
        assert best.description == f"base stock {level}"
        assert policy_value(env.unwrapped.mdp, best) == pytest.approx(-30 * cost, abs=1e-6)
        assert solve(env.unwrapped.mdp).start_value == pytest.approx(-30 * cost, abs=1e-6)

    @pytest.mark.parametrize("lead_time", [0, 1, 2])
    def test_orders_fit_into_the_store(self, lead_time):
        env = make("lost-sales", capacity=7, lead_time=lead_time).unwrapped
        for state, allowed in enumerate(env.mdp.allowed):
            room = 7 - env.stock[state] - env.on_order[state]
            assert np.flatnonzero(allowed).tolist() == list(range(room + 1))

    @pytest.mark.parametrize("lead_time", [0, 1, 2])
    def test_a_day_is_what_a_plain_simulation_does(self, lead_time, rng):
        env = make("lost-sales", capacity=6, lead_time=lead_time, mean_demand=2.0).unwrapped
        states, orders = np.nonzero(env.mdp.allowed)
        for state, order in rng.permutation(np.stack([states, orders], axis=1))[:20]:
            pipeline = [int(env.stock[state]), int(env.on_order[state]), 0, 0]  # what arrives now, tomorrow, …
            pipeline[lead_time] += order
            expected, cost = np.zeros(env.mdp.n_states), 0.0
            for demand, chance in enumerate(env.demand):
                left = max(pipeline[0] - demand, 0)
                cost += chance * (left + 4.0 * max(demand - pipeline[0], 0))
                after = (env.stock == left + pipeline[1]) & (env.on_order == pipeline[2])
                expected[np.flatnonzero(after)[0]] += chance
            row = env.mdp.transitions.rows(np.array([state]), np.array([order]))[0]
            np.testing.assert_allclose(row, expected, atol=ALGEBRA)
            assert env.mdp.task.reward[state, order] == pytest.approx(-cost, abs=ALGEBRA)


class TestQueueAdmission:
    def test_a_loss_system_earns_what_erlang_says(self):
        """One class, no waiting places: of all arrivals the share B(c, λ/μ) is lost."""
        c, rate, service, revenue = 4, 3.0, 1.5, 7.0
        load = rate / service
        terms = np.cumprod(np.append(1.0, load / np.arange(1, c + 1)))
        lost = terms[-1] / terms.sum()
        settings = {"servers": c, "capacity": c, "arrival_rates": (rate,), "revenues": (revenue,)}
        found = per_step("queue-admission", best_thresholds, service_rate=service, waiting_cost=0.0, **settings)
        np.testing.assert_allclose(found, revenue * rate * (1 - lost) / (rate + c * service), atol=1e-6)

    def test_thresholds_are_optimal_in_the_long_run_of_a_loss_system(self):
        """Miller 1969, with two classes; admitting everybody earns less."""
        settings = {"servers": 5, "capacity": 5, "waiting_cost": 0.0}
        optimal, thresholds = per_step("queue-admission", best_thresholds, **settings)
        assert thresholds == pytest.approx(optimal, abs=1e-6)
        env = make("queue-admission", horizon=LONGER, **settings)
        mdp = env.unwrapped.mdp
        everybody = np.tile(mdp.allowed[:, 1].astype(int), (LONGER, 1))
        assert policy_value(mdp, everybody) < 0.95 * policy_value(mdp, best_thresholds(env))

    def test_waiting_is_paid_and_full_systems_admit_nobody(self):
        env = make("queue-admission", servers=2, capacity=4, waiting_cost=9.0).unwrapped
        rates = 2.0 + 6.0 + 2 * 1.0
        four_and_class_two = 4 * 3 + 2
        assert env.mdp.task.reward[four_and_class_two, 0] == pytest.approx(-2 * 9.0 / rates)
        assert env.mdp.allowed[four_and_class_two].tolist() == [True, False]
        assert env.mdp.allowed[3 * 3].tolist() == [True, False]  # nobody arrives
        assert env.mdp.task.reward[3 * 3 + 1, 1] == pytest.approx(10.0 - 2 * 9.0 / rates)

    def test_pairs_with_the_same_number_of_customers_share_their_law(self):
        mdp = make("queue-admission", post_decision=True).unwrapped.mdp
        assert mdp.features.phi.d == 11
        assert embedding(mdp.transitions, mdp.features, mdp.allowed).residual < ALGEBRA

    def test_a_class_that_pays_more_has_the_larger_threshold_wherever_it_is_listed(self):
        swapped = make("queue-admission", arrival_rates=(6.0, 2.0), revenues=(3.0, 10.0))
        assert best_thresholds(swapped).description == "thresholds 6, 10"
        assert best_thresholds(make("queue-admission")).description == "thresholds 10, 6"

    def test_too_many_thresholds_are_refused(self):
        crowd = make("queue-admission", capacity=60, arrival_rates=(1.0,) * 5, revenues=(1.0, 2.0, 3.0, 4.0, 5.0))
        with pytest.raises(InvalidInput, match="at most 200,000 policies"):
            best_thresholds(crowd)


class TestPerishableStock:
    @pytest.mark.parametrize(("issuing", "published"), [("lifo", LIFO_ORDERS), ("fifo", FIFO_ORDERS)])
    def test_optimal_orders_are_those_of_de_moor_et_al_2022(self, issuing, published):
        """Their discount factor is 0.99."""
        mdp = make("perishable-stock", issuing=issuing).unwrapped.mdp
        values = np.zeros(mdp.n_states)
        for _ in range(2500):
            q = mdp.task.reward + 0.99 * mdp.transitions.expect(values[None])[0].T
            values = q.max(axis=1)
        assert q.argmax(axis=1).reshape(11, 11)[:9, :9].tolist() == published

    @pytest.mark.parametrize("issuing", ["lifo", "fifo"])
    @pytest.mark.parametrize(("shelf_life", "lead_time"), [(1, 1), (2, 1), (3, 1), (2, 2), (1, 3)])
    def test_a_day_is_what_a_plain_simulation_does(self, shelf_life, lead_time, issuing, rng):
        """One list of pieces, each with the days that it has left, sold one by one."""
        settings = {"shelf_life": shelf_life, "lead_time": lead_time, "issuing": issuing, "max_order": 3}
        env = make("perishable-stock", mean_demand=2.0, **settings).unwrapped
        numbers = {tuple(row): i for i, row in enumerate(env.pieces.tolist())}
        for _ in range(20):
            state, order = int(rng.integers(env.mdp.n_states)), int(rng.integers(4))
            row = env.pieces[state].tolist()
            coming, stock = row[: lead_time - 1], row[lead_time - 1 :]
            expected, cost = np.zeros(env.mdp.n_states), 0.0
            for demand, chance in enumerate(env.demand):
                shelf = sorted(left for age, n in enumerate(stock) for left in [shelf_life - age] * n)
                sold = min(demand, len(shelf))
                shelf = shelf[sold:] if issuing == "fifo" else shelf[: len(shelf) - sold]
                wasted, kept = shelf.count(1), [left - 1 for left in shelf if left > 1]
                cost += chance * (3.0 * order + 5.0 * (demand - sold) + 7.0 * wasted + 1.0 * len(kept))
                pipeline = [order, *coming]
                ages = [kept.count(shelf_life - age) for age in range(1, shelf_life)]
                expected[numbers[(*pipeline[:-1], pipeline[-1], *ages)]] += chance
            found = env.mdp.transitions.rows(np.array([state]), np.array([order]))[0]
            np.testing.assert_allclose(found, expected, atol=ALGEBRA)
            assert env.mdp.task.reward[state, order] == pytest.approx(-cost, abs=1e-9)

    def test_expected_waste_is_added_to_the_order(self):
        """Eight old pieces and a mean demand of four: four of them expire tonight, whoever takes the oldest first."""
        env = make("perishable-stock", issuing="fifo").unwrapped
        plain, aware = perishable_stock.best_base_stock(env), perishable_stock.best_base_stock_with_waste(env)
        assert (plain.description, aware.description) == ("base stock 6", "base stock 6, expected waste added")
        state = 0 * 11 + 8
        assert (plain.act(state), aware.act(state)) == (0, 2)
        assert policy_value(env.mdp, aware) > policy_value(env.mdp, plain)


class TestICUSepsis:
    @pytest.fixture
    def shipped(self):
        """The tables of the package, as it stores them."""
        (path,) = (file.locate() for file in files("icu-sepsis") if file.name == "dynamics.npz")
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in ("tx_mat", "r_mat", "d_0", "expert_policy")}

    def survival(self, shipped, choose):
        """Return the expected reward of 30 treatments as the package pays it: on the step to the next state."""
        law, paid = shipped["tx_mat"], shipped["r_mat"]
        values = np.zeros(716)
        for _ in range(30):
            q = np.einsum("sat,sat->sa", law, paid) + law @ values
            values = choose(q)
            values[713:] = 0.0
        return float(shipped["d_0"] @ values)

    def test_values_are_those_of_the_package(self, shipped):
        mdp = make("icu-sepsis").unwrapped.mdp
        clinicians, anything = clinicians_policy(), uniform(mdp)
        assert np.all(shipped["r_mat"][:713, :, 714] == 1.0)
        assert np.count_nonzero(shipped["r_mat"][:713]) == 713 * 25
        optimum = self.survival(shipped, lambda q: np.where(mdp.allowed, q, -np.inf).max(axis=1))
        assert solve(mdp).start_value == pytest.approx(optimum, abs=1e-9)
        for policy in (clinicians, anything):
            value = self.survival(shipped, lambda q, policy=policy: (policy * q).sum(axis=1))
            assert policy_value(mdp, policy) == pytest.approx(value, abs=1e-9)
        assert solve(mdp).start_value == pytest.approx(0.842, abs=1e-3)
        assert policy_value(mdp, clinicians) == pytest.approx(0.750, abs=1e-3)
        assert policy_value(mdp, anything) == pytest.approx(0.745, abs=1e-3)
        unrestricted = self.survival(shipped, lambda q: (shipped["expert_policy"] * q).sum(axis=1))
        assert unrestricted == pytest.approx(0.750, abs=1e-3)

    def test_its_sizes(self):
        mdp = make("icu-sepsis").unwrapped.mdp
        assert (mdp.n_states, mdp.n_actions, mdp.horizon) == (716, 25, 31)
        assert np.count_nonzero(mdp.allowed[:713]) == 2238

    def test_the_clinicians_take_admissible_actions_in_their_own_proportions(self, shipped):
        mdp, policy = make("icu-sepsis").unwrapped.mdp, clinicians_policy()
        assert (policy[~mdp.allowed] == 0.0).all()
        np.testing.assert_allclose(policy.sum(axis=1), 1.0, atol=ALGEBRA)
        ratio = policy[:713] / np.where(mdp.allowed, shipped["expert_policy"], np.nan)[:713]
        spread = np.nanmax(ratio, axis=1) - np.nanmin(ratio, axis=1)
        np.testing.assert_allclose(spread, 0.0, atol=1e-9)

    def test_the_log_is_that_of_the_clinicians(self):
        """20,000 episodes: a mean outside four standard errors would happen once in 16,000 seeds."""
        log = clinicians_log(20_000, seed=3)
        value = policy_value(make("icu-sepsis").unwrapped.mdp, clinicians_policy())
        error = np.sqrt(value * (1.0 - value) / 20_000)
        assert abs(log["reward"].sum() / 20_000 - value) < 4.0 * error
        taken = np.zeros((716, 25))
        np.add.at(taken, (log["state"], log["action"]), 1.0)
        visits = taken.sum(axis=1, keepdims=True)
        often = visits[:713, 0] > 400
        assert often.sum() > 50
        apart = np.abs(taken / np.maximum(visits, 1.0) - clinicians_policy())[:713][often]
        assert apart.max() < 5.0 * np.sqrt(0.25 / 400)

    def test_an_agent_learns_from_the_log(self):
        agent = MatrixRL("icu-sepsis", preset="practical", seed=0)
        agent.learn_from(clinicians_log(300, seed=1), verbose=False)
        assert agent.n_logged_episodes == 300
        assert policy_value(agent.problem.mdp, agent.greedy()) > 0.5

    def test_a_missing_package_is_named_with_what_to_install(self, monkeypatch):
        def missing(name):
            raise PackageNotFoundError(name)

        icu_sepsis._read_tables.cache_clear()
        monkeypatch.setattr(icu_sepsis, "distribution", missing)
        with pytest.raises(MissingExtra, match=r"pip install 'matrixrl\[cases\]'"):
            make("icu-sepsis")
        assert ENVIRONMENTS["icu-sepsis"].defaults()["horizon"] == 31


def test_outcomes_that_lead_to_the_same_state_are_added():
    table, reward = table_of([(0.5, np.array([[1], [0]]), 2.0), (0.5, np.array([[1], [1]]), np.array([[4.0], [0.0]]))])
    assert table.toarray().tolist() == [[0.0, 1.0], [0.5, 0.5]]
    assert reward.tolist() == [[3.0], [1.0]]
