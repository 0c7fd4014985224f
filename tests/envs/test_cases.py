"""The cases: their tables against formulas, published numbers and plain simulation; the usual policies; ICU-Sepsis."""

from __future__ import annotations

import itertools
import math
from importlib.metadata import PackageNotFoundError, files

import numpy as np
import pytest
from scipy.stats import poisson

from matrixrl import FiniteMDP, InvalidInput, MatrixRL, evaluate, make, solve
from matrixrl.core.embedding import embedding
from matrixrl.envs import ENVIRONMENTS, icu_sepsis, policy_value
from matrixrl.envs.cases import table_of
from matrixrl.envs.icu_sepsis import clinicians_policy
from matrixrl.errors import MissingExtra
from small_worlds import calendar
from tolerances import ALGEBRA
from usual_policies import (
    best_base_stock,
    best_base_stock_with_waste,
    best_fixed_price,
    best_of,
    best_thresholds,
    clinicians_log,
    fluid_prices,
    policy_log,
)

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


def plain_costs_of_a_day(lead_time, penalty, capacity):
    """Return the long-run costs of a day with lost sales: the optimal one, and that of the best base stock."""
    stock, demand = np.arange(capacity + 1), np.arange(60)
    chance = poisson.pmf(demand, 5.0)
    left = np.maximum(stock[:, None] - demand, 0)
    day = (left + penalty * np.maximum(demand - stock[:, None], 0)) @ chance
    leaves = np.einsum("d,xdl->xl", chance, left[:, :, None] == stock)
    sums = np.minimum(stock[:, None] + stock, capacity)
    position = (stock if lead_time == 1 else stock[:, None] + stock)[..., None]
    fits = (position + stock <= capacity) | (stock == 0)
    day = day.reshape(-1, *[1] * lead_time)

    def gain(choose):
        values = np.zeros(position.shape[:-1])
        for _ in range(LONGER):
            costs = np.where(fits, day + np.tensordot(leaves, values[sums], axes=1), np.inf)
            before, values = values, choose(costs)
        return (values - before).flat[0]

    def order_up_to(level):
        orders = np.clip(level - position, 0, capacity)
        return lambda costs: np.take_along_axis(costs, orders, axis=-1)[..., 0]

    return gain(lambda costs: costs.min(axis=-1)), min(gain(order_up_to(level)) for level in stock)


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

    def test_probabilities_may_differ_by_stage(self):
        mdp = make("lost-sales", capacity=3, horizon=4).unwrapped.mdp
        rng = np.random.default_rng(0)
        table = np.array([[rng.choice(np.flatnonzero(row)) for row in mdp.allowed] for _ in range(mdp.horizon)])
        sure = np.eye(mdp.n_actions)[table]
        assert policy_value(mdp, sure) == pytest.approx(policy_value(mdp, table), abs=ALGEBRA)
        with pytest.raises(InvalidInput, match="must have 4 stages"):
            policy_value(mdp, sure[:3])

    def test_probabilities_of_forbidden_actions_are_refused(self):
        mdp = make("lost-sales", capacity=3).unwrapped.mdp
        with pytest.raises(InvalidInput, match="must take allowed actions only"):
            policy_value(mdp, np.full((4, 4), 0.25))


class TestLostSales:
    @pytest.mark.parametrize(("lead_time", "penalty"), [(1, 4.0), (1, 9.0), (2, 4.0), (2, 19.0)])
    def test_average_costs_are_those_of_value_iteration_on_plain_arrays(self, lead_time, penalty):
        settings = {"lead_time": lead_time, "penalty": penalty, "capacity": 25}
        found = -per_step("lost-sales", best_base_stock, **settings)
        np.testing.assert_allclose(found, plain_costs_of_a_day(lead_time, penalty, capacity=25), atol=1e-5)

    def test_without_a_lead_time_every_day_is_a_newsvendor(self):
        """From an empty store, the best level is the smallest y with P(D ≤ y) ≥ p/(p + h), on every day."""
        env = make("lost-sales", lead_time=0, holding=2.0, penalty=5.0, mean_demand=3.0)
        level = int(poisson.ppf(5.0 / 7.0, 3.0))
        demands = np.arange(100)
        chance = poisson.pmf(demands, 3.0)
        cost = chance @ (2.0 * np.maximum(level - demands, 0) + 5.0 * np.maximum(demands - level, 0))
        best = best_base_stock(env)
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
        plain, aware = best_base_stock(env), best_base_stock_with_waste(env)
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
        agent = MatrixRL("icu-sepsis", preset="tuned", seed=0)
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


class TestDynamicPricing:
    def test_revenue_is_that_of_gallego_and_van_ryzin_1994(self):
        """Short periods, one willingness to pay w, prices in steps of 1: w ln Σ_{i≤n} (λT/e)^i/i!, their formula."""
        units, customers, mean = 5, 10.0, 50.0
        for n_periods, apart in ((50, 2e-3), (200, 5e-4)):
            per_period = {"customers": customers / n_periods, "early": mean, "late": mean}
            env = make(
                "dynamic-pricing", capacity=units, horizon=n_periods, prices=np.arange(20.0, 400.0), **per_period
            )
            terms = [(customers / math.e) ** i / math.factorial(i) for i in range(units + 1)]
            assert solve(env.unwrapped.mdp).start_value == pytest.approx(mean * math.log(sum(terms)), rel=apart)

    def test_a_period_is_what_a_plain_count_of_customers_gives(self):
        env = make("dynamic-pricing", capacity=4, horizon=3).unwrapped
        assert env.willingness.tolist() == [50.0, 85.0, 120.0]
        for stage, (action, price) in itertools.product(range(3), enumerate(env.prices)):
            mean = 2.0 * np.exp(-price / env.willingness[stage])
            buyers = np.arange(60)
            chance = poisson.pmf(buyers, mean)
            for units in range(1, 5):
                inner = env.mdp.stages.inner(action, stage)
                expected = np.bincount(units - np.minimum(buyers, units), weights=chance, minlength=5)
                row = env.mdp.transitions.rows(np.array([units]), np.array([inner]))[0]
                np.testing.assert_allclose(row, expected, atol=ALGEBRA)
                revenue = price * (chance @ np.minimum(buyers, units))
                assert env.mdp.task.reward[units, inner] == pytest.approx(revenue, abs=1e-9)

    def test_the_optimal_price_falls_with_the_units_left_and_rises_with_the_willingness(self):
        mdp = make("dynamic-pricing").unwrapped.mdp
        best = solve(mdp).policy[:, 1:]
        assert (np.diff(best, axis=1) <= 0).all()
        same = solve(make("dynamic-pricing", early=80.0, late=80.0).unwrapped.mdp).policy[:, 1:]
        assert (np.diff(same, axis=0) <= 0).all()  # with one willingness, less time is worth less
        assert (np.diff(best[:, -1]) >= 0).any() or best[0, -1] >= best[-1, -1]
        rich = solve(make("dynamic-pricing", early=100.0, late=240.0).unwrapped.mdp).policy[:, 1:]
        assert (rich >= best).all()

    def test_the_fluid_value_is_an_upper_bound_that_is_sharp_for_many_units(self):
        """min over v of n·v + Σ_h max_p (p − v) d_h(p) is at least V*; both per unit approach each other."""

        def ratio(scale):
            env = make("dynamic-pricing", capacity=10 * scale, customers=2.0 * scale).unwrapped
            values = np.linspace(0.0, 200.0, 2001)
            earned = [10 * scale * v + ((env.prices - v) * env.demand).max(axis=1).sum() for v in values]
            bound, optimum = min(earned), solve(env.mdp).start_value
            fluid = policy_value(env.mdp, fluid_prices(env))
            assert fluid <= optimum <= bound
            return optimum / bound, fluid / optimum

        small, large = ratio(1), ratio(8)
        assert small[0] < large[0] < 1.0
        assert large[0] > 0.96
        assert large[1] > 0.99

    def test_the_best_price_is_the_best_of_all(self):
        env = make("dynamic-pricing")
        mdp = env.unwrapped.mdp
        values = [policy_value(mdp, np.full((20, 11), a)) for a in range(6)]
        best = best_fixed_price(env)
        assert policy_value(mdp, best) == max(values)
        assert best.description == f"price {env.unwrapped.prices[int(np.argmax(values))]:g}"
        assert max(values) < 0.95 * solve(mdp).start_value

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"prices": (40.0, 40.0)}, "prices must increase"),
            ({"prices": (60.0, 40.0)}, "prices must increase"),
            ({"prices": (0.0, 40.0)}, "prices must lie in"),
            ({"prices": ()}, "prices must have shape"),
            ({"capacity": 0}, "capacity must be at least 1"),
            ({"customers": 0.0}, "customers must be finite and in"),
            ({"early": -1.0}, "early must be finite and in"),
            ({"late": np.inf}, "late must be finite and in"),
        ],
    )
    def test_bad_settings(self, settings, words):
        with pytest.raises(InvalidInput, match=words):
            make("dynamic-pricing", **settings)

    def test_one_period_and_one_willingness_are_ordinary_problems(self):
        assert make("dynamic-pricing", horizon=1).unwrapped.mdp.stages.n_classes == 1
        assert make("dynamic-pricing", early=80.0, late=80.0).unwrapped.mdp.stages.n_classes == 20


class TestPoliciesOfStages:
    """Values and logs of given policies where laws depend on the stage and rewards are discounted."""

    def test_a_random_policy_is_worth_the_mean_of_its_tables(self):
        """All deterministic policies of one state with two stages, weighted with their probabilities."""
        mdp = calendar(n_states=1, n_actions=3, horizon=2, discount=0.7)
        chances = np.array([[0.2, 0.5, 0.3]])
        tables = itertools.product(range(3), repeat=2)
        wanted = sum(
            chances[0, one] * chances[0, two] * policy_value(mdp, np.array([[one], [two]])) for one, two in tables
        )
        assert policy_value(mdp, chances) == pytest.approx(wanted, abs=ALGEBRA)

    def test_a_log_has_the_actions_of_the_user_and_the_mean_return_of_its_policy(self):
        """4,000 episodes: a mean outside five standard errors would happen once in a million seeds."""
        mdp = calendar(horizon=4, discount=0.8)
        policy = solve(mdp).policy
        log = policy_log(mdp, policy, 4000, seed=1)
        np.testing.assert_array_equal(log["action"], policy[log["step"], log["state"]])
        returns = np.bincount(log["episode"], weights=log["reward"] * 0.8 ** log["step"])
        assert abs(returns.mean() - policy_value(mdp, policy)) < 5.0 * returns.std() / np.sqrt(4000) + 1e-9
        agent = MatrixRL(mdp, seed=0)
        agent.learn_from(log, verbose=False)
        np.testing.assert_allclose(agent.history.logged_returns, returns)
        fixed = best_of(mdp, [(str(a), np.full(3, a)) for a in range(3)])
        assert policy_value(mdp, fixed) == max(policy_value(mdp, np.full((4, 3), a)) for a in range(3))
        assert fixed.n_actions == 3


def test_outcomes_that_lead_to_the_same_state_are_added():
    table, reward = table_of([(0.5, np.array([[1], [0]]), 2.0), (0.5, np.array([[1], [1]]), np.array([[4.0], [0.0]]))])
    assert table.toarray().tolist() == [[0.0, 1.0], [0.5, 0.5]]
    assert reward.tolist() == [[3.0], [1.0]]


def test_a_random_policy_is_compared_with_the_actions_of_its_stage():
    stay = np.tile(np.eye(2)[:, None], (1, 2, 1))
    allowed = np.array([[[1, 0], [1, 0]], [[0, 1], [0, 1]]], dtype=bool)
    mdp = FiniteMDP([stay, stay], [[[1.0, 0.0]] * 2, [[0.0, 0.5]] * 2], 2, allowed=allowed)
    chances = allowed.astype(float)
    assert policy_value(mdp, chances) == pytest.approx(1.5)
    with pytest.raises(InvalidInput, match="must take allowed actions only"):
        policy_value(mdp, chances[::-1])
