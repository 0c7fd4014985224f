"""The benchmark on public MDPs: loader, share of uniform play's regret, episodes to 5 %, resumption, tables."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

import colosseum
import colosseum_report
from matrixrl import FiniteMDP, solve
from matrixrl.algorithms.baselines import PSRL
from matrixrl.problems import Problem, tabular
from scorecards.tables import read_table, uniform_value
from sparse_psrl import LEAST, SparsePSRL, unseen_entries
from tolerances import EXACT


@pytest.fixture
def table(tmp_path):
    """A table of three states as the benchmark stores it: thirds in single precision do not sum to one."""
    rng = np.random.default_rng(0)
    law = rng.random((6, 3)).astype(np.float32)
    law[0], law[1] = [1 / 3] * 3, [0, 1, 0]
    law[2:] *= 1.0001 / law[2:].sum(axis=1, keepdims=True)
    rows, cols = np.nonzero(law)
    file = tmp_path / "ergodic-TinyEpisodic-prms_0.npz"
    np.savez(
        file,
        shape=np.array([3, 2, 3]),
        rows=rows.astype(np.int32),
        cols=cols.astype(np.int32),
        p=law[rows, cols],
        R=rng.random((3, 2)).astype(np.float32),
        start=np.array([0.5, 0.5, 0.0]),
        H=np.int64(4),
    )
    return file


def test_the_loader_is_the_recipe_of_the_data(table):
    """Read the table by the dense recipe that comes with the data."""
    mdp, z = read_table(table), np.load(table)
    dense = np.zeros((6, 3))
    dense[z["rows"], z["cols"]] = z["p"]
    dense = (dense / dense.sum(axis=1, keepdims=True)).reshape(3, 2, 3)
    states, actions = np.repeat(np.arange(3), 2), np.tile(np.arange(2), 3)
    read = mdp.transitions.rows(states, actions)
    np.testing.assert_allclose(read, dense.reshape(6, 3), atol=EXACT)
    np.testing.assert_allclose(read.sum(axis=1), 1.0, atol=EXACT)
    assert np.array_equal(mdp.task.reward, z["R"].astype(float))
    assert mdp.horizon == 4
    assert mdp.task.start.tolist() == [0.5, 0.5, 0.0]


def test_uniform_play_is_the_only_policy_of_the_averaged_mdp(table):
    mdp = read_table(table)
    law = mdp.transitions.rows(np.repeat(np.arange(3), 2), np.tile(np.arange(2), 3)).reshape(3, 2, 3)
    averaged = FiniteMDP(
        law.mean(axis=1, keepdims=True), mdp.task.reward.mean(axis=1, keepdims=True), 4, start=mdp.task.start
    )
    assert uniform_value(mdp) == pytest.approx(solve(averaged).start_value)


def test_uniform_play_has_share_one_and_only_the_first_episodes_count():
    regret = np.concatenate([np.full((2, 10), 1.5), np.full((2, 10), 0.75)], axis=1)
    regret[1] /= 3.0
    assert colosseum.share(regret, 10, 2.0, 0.5) == pytest.approx([1.0, 1 / 3])
    assert colosseum.share(regret, 20, 2.0, 0.5) == pytest.approx([0.75, 0.25])
    with pytest.raises(ValueError, match="21 episodes were asked for"):
        colosseum.share(regret, 21, 2.0, 0.5)


@pytest.mark.parametrize("seed", range(5))
def test_the_first_window_near_the_optimum_by_its_definition(seed):
    rng = np.random.default_rng(seed)
    regret = np.linspace(2.0, 0.0, 400) * rng.random(400) + 0.05
    optimum = 4.0
    windows = [n for n in range(301) if np.mean(optimum - regret[n : n + 100]) >= 0.95 * optimum]
    assert windows
    assert colosseum.first_within(regret, optimum) == windows[0] + 1


def test_the_first_window_at_both_ends():
    assert colosseum.first_within(np.zeros(100), 1.0) == 1
    assert colosseum.first_within(np.concatenate([np.ones(50), np.zeros(100)]), 1.0) == 46  # 5 of 100 lose everything
    assert colosseum.first_within(np.zeros(99), 1.0) is None
    assert colosseum.first_within(np.full(500, 0.051), 1.0) is None


def test_seeds_are_added_and_not_played_again(table, tmp_path, monkeypatch):
    """Two seeds and later a third give the file of all three at once; other settings are played from the start."""
    monkeypatch.setattr(colosseum, "MARKS", (20, 120))
    monkeypatch.setattr(colosseum, "N_EPISODES", 120)
    mdp, question = read_table(table), colosseum.asked(table, "q-learning")
    grown, at_once = tmp_path / "a" / "grown.json", tmp_path / "b" / "at-once.json"
    assert colosseum.complete(grown, mdp, question, [3, 4])[1] == 2
    assert colosseum.complete(grown, mdp, question, [3, 4])[1] == 0
    result, n_played = colosseum.complete(grown, mdp, question, [3, 4, 5])
    assert n_played == 1
    assert colosseum.complete(at_once, mdp, question, [3, 4, 5])[1] == 3
    written, together = (json.loads(file.read_text())["runs"] for file in (grown, at_once))
    for runs in (written, together, result["runs"]):
        for run in runs.values():
            del run["ms"]
    assert written == together == result["runs"]
    assert set(written["5"]["share"]) == {"20", "120"}
    other = {**question, "settings": {**question["settings"], "scale": 0.002}}
    assert colosseum.complete(grown, mdp, other, [3])[1] == 1


def test_a_folder_without_tables_is_refused(table, tmp_path):
    assert colosseum.tables(table.parent, ["Tiny"]) == [table]
    with pytest.raises(SystemExit, match=r"no table .*Taxi .*--data"):
        colosseum.tables(table.parent, ["Taxi"])
    with pytest.raises(SystemExit, match="give the folder"):
        colosseum.tables(tmp_path / "nowhere", [])


def entry(mdp, agent, shares, within):
    runs = {
        str(k): {
            "share": {"1000": 2 * x, "10000": x},
            "within": n,
            "optimistic_share": 1.0,
            "guarantee": {"holds": True, "reason": ""},
        }
        for k, (x, n) in enumerate(zip(shares, within, strict=True))
    }
    return {
        "asked": {"mdp": mdp, "agent": agent},
        "sizes": [9, 4, 5],
        "optimal_value": 1.0,
        "uniform_value": 0.5,
        "runs": runs,
    }


def test_the_tables_name_the_best_and_those_that_never_come_close(tmp_path):
    taxi, lake = "ergodic-TaxiEpisodic-prms_0", "communicating-FrozenLakeEpisodic-prms_2"
    results = [
        entry(taxi, "tuned", [0.02, 0.04], [10, 20]),
        entry(taxi, "psrl", [0.2, 0.4], [2000, None]),
        entry(taxi, "tuned (R known)", [0.001, 0.001], [1, 1]),
        entry(lake, "tuned", [0.2, 0.2], [5, 5]),
        entry(lake, "psrl", [0.1, 0.1], [7, 7]),
    ]
    text = colosseum_report.summary(results)
    assert "| Taxi 0, ergodic | 9, 4, 5 | 2 | **0.030** | 0.30 | 0.0010 |" in text
    assert "| Taxi 0, ergodic | 1 | 0.5 | 15 | > 10,000 | 1 |" in text
    assert "FrozenLake 2, communicating, 10,000 episodes: tuned 0.2000 ± 0.0000, psrl 0.1000 ± 0.0000" in text
    assert "Taxi 0, ergodic, 10,000 episodes" not in text
    colosseum_report.draw(results, tmp_path / "a" / "picture.png")
    assert (tmp_path / "a" / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_entries_that_were_never_seen_have_the_tail_of_their_gamma_law():
    """Kolmogorov–Smirnov on 30,000 values and their number: each fails by chance once in 10,000 seeds."""
    size, alpha = 500_000, 0.5 / 400
    places, values = unseen_entries(size, alpha, np.random.default_rng(0))
    tail = stats.gamma.sf(LEAST, alpha)
    assert stats.binomtest(places.size, size, tail).pvalue > 1e-4
    assert stats.kstest(stats.gamma.sf(values, alpha) / tail, "uniform").pvalue > 1e-4
    assert (np.diff(places) > 0).all()


def test_every_entry_has_the_same_chance():
    """Chi-squared over 8 positions in 4,000 draws; fails by chance once in 10,000 seeds."""
    alpha, rng = 0.01, np.random.default_rng(1)
    places = np.concatenate([unseen_entries(8, alpha, rng)[0] for _ in range(4000)])
    found = np.bincount(places, minlength=8)
    assert stats.chisquare(found, np.full(8, found.mean())).pvalue > 1e-4
    assert found.sum() == pytest.approx(32_000 * stats.gamma.sf(LEAST, alpha), abs=4.0 * math.sqrt(32_000 / 4))


def sampler_of(kind, mdp, counts):
    agent = kind(preset="tuned").start(Problem.of(mdp), seeds=[0, 1])
    agent.model.transitions[:, : len(counts)] = counts
    return agent


def test_sparse_draws_have_the_law_of_the_posterior():
    """Sums of entries of a Dirichlet law are Beta variables, and Σp² has the law of the library (Kolmogorov–Smirnov).

    One of the seven comparisons fails by chance once in 1,400 seeds.
    """
    n_states, n_draws = 60, 1500
    counts = np.zeros((2, n_states))
    counts[0, :3] = 1.0, 2.0, 7.0
    mdp = tabular(n_states=n_states, n_actions=1, horizon=3).mdp
    agents = [sampler_of(kind, mdp, counts) for kind in (SparsePSRL, PSRL)]
    drawn, reference = (
        np.concatenate([agent.draw_transitions()[:, :2] for _ in range(n_draws)]).transpose(1, 0, 2) for agent in agents
    )
    np.testing.assert_allclose(drawn.sum(axis=2), 1.0, atol=EXACT)
    weights = counts + 0.5 / n_states
    parts = [(0, [0]), (0, [1]), (0, [2]), (0, range(3, n_states)), (1, range(30))]
    for row, part in parts:
        inside, total = weights[row, list(part)].sum(), weights[row].sum()
        law = stats.beta(inside, total - inside)
        assert stats.kstest(drawn[row][:, list(part)].sum(axis=1), law.cdf).pvalue > 1e-4, part
    for row in range(2):
        squares = [np.sum(draws[row] ** 2, axis=1) for draws in (drawn, reference)]
        assert stats.ks_2samp(*squares).pvalue > 1e-4


def test_few_states_are_drawn_by_the_library():
    mdp, counts = tabular(n_states=6, n_actions=2, horizon=3).mdp, np.eye(6)
    ours, theirs = (sampler_of(kind, mdp, counts).draw_transitions() for kind in (SparsePSRL, PSRL))
    assert np.array_equal(ours, theirs)
