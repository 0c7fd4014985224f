"""Baselines on large problems: lists of next states against tables, and sparse draws against the Dirichlet law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import matrixrl
from matrixrl.algorithms.baselines import PSRL, UCRL2, tabular_model
from matrixrl.algorithms.baselines.psrl import draw_distributions, draw_expectation
from matrixrl.algorithms.baselines.tabular_model import PairCounts
from matrixrl.linalg import OutcomeCounts
from matrixrl.play import Simulation
from matrixrl.problems import FiniteMDP, Problem, tabular
from small_worlds import WORLDS, random_batch
from tolerances import EXACT

S, A, H, B = 5, 3, 4, 2


@pytest.fixture
def lists_everywhere(monkeypatch):
    """Let every baseline keep lists, however small its problem."""
    monkeypatch.setattr(tabular_model, "LARGEST_TABLE", 0)


@pytest.fixture
def both(rng):
    """A table and lists after the same three episodes, with some steps not taken."""
    models = [PairCounts(B, A, S, horizon=H, as_lists=as_lists) for as_lists in (False, True)]
    world = WORLDS["tabular"](3)
    for _ in range(3):
        batch, taken = random_batch(world, rng, B, H), rng.random((B, H)) < 0.7
        steps = batch.steps(rng.random((B, H)) * taken, taken)
        for model in models:
            model.update(steps)
    return models


def test_lists_hold_what_a_table_holds(both, rng):
    table, lists = both
    assert (table.counts == 0.0).any()
    assert (table.counts > 1.0).any()
    for name in ("counts", "reward_sums", "stage_visits"):
        np.testing.assert_array_equal(getattr(lists, name), getattr(table, name))
    values = rng.random((B, S, 3))
    np.testing.assert_allclose(lists.next_values(values), table.next_values(values), atol=EXACT)
    np.testing.assert_allclose(lists.next_value(values[:, :, 0]), table.next_value(values[:, :, 0]), atol=EXACT)


def test_restored_lists_are_the_same_to_the_bit_and_on_their_own(both, rng):
    _, lists = both
    other, values = PairCounts(B, A, S, horizon=H, as_lists=True), rng.random((B, S))
    other.load_state_dict(lists.state_dict())
    np.testing.assert_array_equal(other.next_value(values), lists.next_value(values))
    other.update(random_batch(WORLDS["tabular"](3), rng, B, H).steps(np.zeros((B, H))))
    assert other.counts.sum() == lists.counts.sum() + B * H
    assert other.lists.totals().sum() == lists.lists.totals().sum() + B * H


def masked_mdp() -> FiniteMDP:
    """A random MDP in which a third of the pairs is not allowed."""
    mdp = tabular(n_states=12, n_actions=3, horizon=5, n_successors=3, seed=2).mdp
    allowed = np.random.default_rng(0).random((12, 3)) < 0.67
    allowed[:, 0] = True
    return mdp.restricted(allowed)


@pytest.mark.parametrize("bonus", [{"bonus": "hoeffding"}, {"bonus": "bernstein"}, None])
def test_agents_play_the_same_on_lists(bonus, monkeypatch):
    agent = "epsilon-greedy" if bonus is None else "ucbvi"
    runs = []
    for largest in (1 << 20, 0):
        monkeypatch.setattr(tabular_model, "LARGEST_TABLE", largest)
        settings = {"preset": "tuned", "known_reward": False, **(bonus or {})}
        runs.append(Simulation(masked_mdp(), n_episodes=60, seeds=[0, 1], agent=agent, settings=settings))
        runs[-1].run()
    assert runs[0].algorithm.model.lists is None
    assert runs[1].algorithm.model.lists is not None
    np.testing.assert_array_equal(runs[1].series.returns, runs[0].series.returns)
    np.testing.assert_allclose(runs[1].series.upper, runs[0].series.upper, atol=1e-11)
    plans = [run.algorithm.estimated_plan() for run in runs]
    np.testing.assert_array_equal(plans[1].policy, plans[0].policy)


def test_large_problems_have_lists_and_small_ones_tables(monkeypatch):
    small, large = (tabular(n_states=n, n_actions=2, horizon=3).mdp for n in (30, 800))
    assert PSRL().start(Problem.of(small), seeds=[0]).model.lists is None
    assert PSRL().start(Problem.of(large), seeds=[0]).model.lists is not None
    monkeypatch.setattr(tabular_model, "LARGEST_TABLE", 0)  # UCRL2 needs the whole ball around P̂ all the same
    middle = tabular(n_states=20, n_actions=2, horizon=3).mdp
    assert UCRL2().start(Problem.of(middle), seeds=[0]).model.lists is None


@pytest.mark.usefixtures("lists_everywhere")
@pytest.mark.parametrize("agent", ["psrl", "ucbvi"])
def test_an_agent_with_lists_goes_on_after_loading(agent, tmp_path):
    made = matrixrl.Agent(masked_mdp(), agent, seed=1, known_reward=False)
    made.learn(10)
    made.save(tmp_path / "agent.mrl")
    loaded = matrixrl.Agent.load(tmp_path / "agent.mrl", masked_mdp())
    np.testing.assert_array_equal(loaded.learn(10).returns, made.learn(10).returns)


class TestSparseDraws:
    """Products with draws of P whose negligible entries are left out."""

    n_states, alpha = 60, 0.5 / 60

    def counts(self) -> np.ndarray:
        """Counts of a visited pair, of one that is not asked for, and of one that was never visited."""
        counts = np.zeros((3, self.n_states))
        counts[0, :3] = 1.0, 2.0, 7.0
        counts[1, 5] = 4.0
        return counts

    def draws(self, values: np.ndarray, n_draws: int = 1500) -> tuple[np.ndarray, np.ndarray]:
        """Return pV of the pairs 0 and 2, by sparse draws and by draws of all entries: each (n, 2)."""
        counted, counts = OutcomeCounts(2, 3, self.n_states), self.counts()
        rows, outcomes = np.nonzero(counts)
        counted.add(*(np.tile(part, (2, 1)) for part in (rows, outcomes, counts[rows, outcomes])))
        rngs = [np.random.default_rng(seed) for seed in (3, 4)]
        both, pairs = np.stack([values, values]), np.array([0, 2])
        sparse = [draw_expectation(counted, self.alpha, pairs, rngs)(both) for _ in range(n_draws)]
        weights = np.broadcast_to(counts[pairs] + self.alpha, (n_draws, 2, self.n_states))
        dense = draw_distributions(weights, [np.random.default_rng(k) for k in range(5, 5 + n_draws)])
        return np.concatenate(sparse), dense @ values

    def test_each_row_is_a_distribution(self):
        sparse, _ = self.draws(np.ones(self.n_states), n_draws=50)
        np.testing.assert_allclose(sparse, 1.0, atol=EXACT)

    @pytest.mark.parametrize(("row", "part"), [(0, [0]), (0, [2]), (0, range(3, 60)), (1, range(30))])
    def test_entries_have_the_law_of_the_posterior(self, row, part):
        """Sums of entries of a Dirichlet law are Beta variables; a comparison fails by chance once in 10,000 seeds."""
        inside = np.zeros(self.n_states)
        inside[list(part)] = 1.0
        sparse, _ = self.draws(inside)
        weights = self.counts()[2 * row] + self.alpha
        law = stats.beta(weights @ inside, weights @ (1.0 - inside))
        assert stats.kstest(sparse[:, row], law.cdf).pvalue > 1e-4

    def test_values_have_the_law_of_draws_of_all_entries(self, rng):
        """A comparison fails by chance once in 10,000 seeds."""
        sparse, dense = self.draws(rng.random(self.n_states))
        for row in range(2):
            assert stats.ks_2samp(sparse[:, row], dense[:, row]).pvalue > 1e-4, row

    def test_large_parameters_are_drawn_for_all_entries(self, rng):
        counts = OutcomeCounts(1, 1, 4)
        draws = [draw_expectation(counts, 2.0, np.array([0]), [rng])(np.eye(4)[:1])[0, 0] for _ in range(2000)]
        assert stats.kstest(draws, stats.beta(2.0, 6.0).cdf).pvalue > 1e-4
