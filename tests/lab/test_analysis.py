from __future__ import annotations

import csv
import math

import numpy as np
import pyarrow.parquet as parquet
import pytest
from experiments import SMALL, experiment, finished
from scipy import stats

from matrixrl.errors import MatrixRLError, UnknownName
from matrixrl_lab.analysis import RegretBounds, summarise
from matrixrl_lab.analysis.statistics import curve_of, grid_of, growth_exponent, mean_interval, median_interval
from matrixrl_lab.analysis.summary import contents
from matrixrl_lab.export import export
from matrixrl_lab.store import COLUMNS, Store


def test_bands_of_the_mean_are_close_to_the_t_interval(rng):
    """A second route for normal data: the 95 % t interval, which the bootstrap approaches for many seeds."""
    values = rng.normal(10.0, 2.0, 400)
    found = mean_interval(values)
    low, high = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
    assert found.value == values.mean()
    assert abs(found.low - low) < 0.1 * (high - low)
    assert abs(found.high - high) < 0.1 * (high - low)


@pytest.mark.parametrize("seeds", [5, 8, 32])
def test_the_interval_covers_as_often_as_it_says(rng, seeds):
    """Of 400 samples about 95 % must cover; fewer than 90 % of them happens by chance once in 10⁵ if 95 % is true."""
    covered = 0
    for _ in range(400):
        found = mean_interval(rng.normal(1.0, 1.0, seeds))
        covered += found.low <= 1.0 <= found.high
    assert 0.90 <= covered / 400 <= 0.99


def test_equal_seeds_have_no_spread_and_one_seed_says_nothing_of_it():
    same = mean_interval(np.full(5, 3.0))
    assert (same.low, same.high) == (3.0, 3.0)
    alone = median_interval(np.array([3.0, 3.0]))
    assert alone.value == 3.0
    assert math.isnan(alone.low)
    assert alone.as_dict() == {"value": 3.0, "low": None, "high": None}


@pytest.mark.parametrize("power", [0.25, 0.5, 1.0])
def test_the_growth_exponent_is_the_power_of_a_power_law(rng, power):
    n = np.arange(1.0, 5001.0)
    scales = rng.uniform(1.0, 3.0, 6)
    found = growth_exponent(scales[:, None] * n**power, n)
    assert abs(found.value - power) < 1e-9
    assert abs(found.low - power) < 1e-9
    assert abs(found.high - power) < 1e-9


def test_the_growth_exponent_of_a_mixture_has_an_interval_around_it(rng):
    n = np.arange(1.0, 2001.0)
    curves = np.stack([n ** rng.uniform(0.4, 0.6) for _ in range(12)])
    found = growth_exponent(curves, n)
    assert 0.4 < found.low < found.value < found.high < 0.62


def test_the_growth_exponent_says_nothing_where_there_is_nothing_to_say():
    n = np.arange(1.0, 101.0)
    assert growth_exponent(np.zeros((3, 100)), n) is None
    assert growth_exponent(np.ones((3, 5)), np.arange(1.0, 6.0)) is None
    assert math.isnan(growth_exponent(n[None, :], n).low)


def test_grids_hold_both_ends_and_are_not_too_long():
    for n in (1, 7, 160, 161, 5000, 10**6):
        grid = grid_of(n)
        assert grid[0] == 1
        assert grid[-1] == n
        assert len(grid) <= 160
        assert (np.diff(grid) > 0).all()


def test_a_curve_is_mean_median_and_band(rng):
    values = np.cumsum(rng.random((9, 20)), axis=1)
    curve = curve_of(values, np.arange(1.0, 21.0))
    assert np.array_equal(curve.mean, values.mean(axis=0))
    assert np.array_equal(curve.median, np.median(values, axis=0))
    assert (curve.low <= curve.mean).all()
    assert (curve.mean <= curve.high).all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("analysis") / "s"
    finished(where, SMALL, certify=True)
    return where


def test_a_summary_is_what_the_rows_say(folder):
    with Store.open_to_read(folder) as store:
        (env,) = summarise(store)
        regret = [store.read(i, "regret") for i in range(3)]
        totals = [r.sum(axis=1) for r in regret]
        seconds = store.read(1, "seconds")
    ours, psrl, random = env.agents
    assert env.measure == "regret"
    assert [a.final.value for a in env.agents] == pytest.approx([t.mean() for t in totals], rel=1e-12)
    assert env.best == env.agents[int(np.argmin([t.mean() for t in totals]))].id
    best = int(np.argmin([t.mean() for t in totals]))
    assert random.difference.value == pytest.approx((totals[2] - totals[best]).mean(), rel=1e-12)
    assert env.agents[best].difference is None
    assert psrl.seconds_per_1000 == pytest.approx(1000 * seconds.mean(), rel=1e-12)
    assert random.exponent.value > 0.95, "random play has linear regret"
    assert ours.certified is not None
    assert psrl.certified is None
    assert (ours.certified[0].mean <= env.facts["optimal_value"]).all()
    assert psrl.at_end == pytest.approx(regret[1][:, -6:].mean(), rel=1e-12)


def test_a_store_without_rows_has_a_summary_too(tmp_path):
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        (env,) = summarise(store)
        assert env.best is None
        assert all(agent.final is None and agent.seeds == 0 for agent in env.agents)
        store.fail(1, (0, 1), "it broke")
        (env,) = summarise(store)
        assert env.agents[1].failed == [(0, "it broke"), (1, "it broke")]
        held = contents(store)
        assert held["cells"][1]["seeds"] == {"failed": 2, "pending": 1}
        assert held["cells"][1]["reasons"] == ["it broke"]


def test_a_seed_that_failed_does_not_cut_the_others_short(tmp_path, rng):
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        facts = {"optimal_value": 1.0}
        for first in (0, 20, 40):
            for seeds in ((0,), (1,), (2,)):
                if first == 0 or seeds != (1,):
                    numbers = {name: rng.random((1, 20)) for name in ("regret", "return", "optimistic", "seconds")}
                    store.write_block(0, seeds, first, numbers, state=None, facts=facts)
        store.fail(0, (1,), "it broke")
        agent = summarise(store)[0].agents[0]
    assert (agent.seeds, agent.episodes, agent.failed) == (2, 60, [(1, "it broke")])


def test_exports_hold_every_number_exactly(folder, tmp_path):
    with Store.open_to_read(folder) as store:
        counts = [export(store, tmp_path / f"all.{form}", form) for form in ("csv", "parquet")]
        columns = {name: store.read(0, name) for name in COLUMNS}
        agent = store.experiment.cells[0].agent_id
    assert counts == [3 * 3 * 60] * 2
    with (tmp_path / "all.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["agent"] == agent]
    table = parquet.read_table(tmp_path / "all.parquet").to_pylist()
    same = [row for row in table if row["agent"] == agent]
    for name in COLUMNS:
        expected = columns[name].ravel()
        assert np.array_equal([float(row[name]) for row in rows], expected)
        assert np.array_equal([row[name] for row in same], expected)
    assert [int(row["episode"]) for row in rows[:3]] == [1, 2, 3]
    none = next(row for row in table if row["agent"] == "random")
    assert none["lower"] is None


def test_names_in_csv_are_no_formulas(tmp_path):
    text = SMALL.replace('name = "psrl"', 'name = "psrl"\nid = "=1+1"')
    finished(tmp_path / "run", text, episodes=2)
    with Store.open_to_read(tmp_path / "run") as store:
        for form in ("csv", "parquet"):
            export(store, tmp_path / f"all.{form}", form)
    with (tmp_path / "all.csv").open() as file:
        assert {row["agent"] for row in csv.DictReader(file)} >= {"'=1+1", "random"}
    assert "=1+1" in parquet.read_table(tmp_path / "all.parquet")["agent"].to_pylist()


def test_exports_are_refused_or_whole(folder, tmp_path):
    with Store.open_to_read(folder) as store:
        with pytest.raises(UnknownName, match="--format must be one of csv, parquet"):
            export(store, tmp_path / "x", "xlsx")
        (tmp_path / "file").write_text("")
        with pytest.raises(MatrixRLError, match="cannot write"):
            export(store, tmp_path / "file" / "x.csv", "csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_regret_bounds_say_where_they_are_trivial():
    stored = {"episode": [1.0, 10.0], "theorem_2": [5.0, 9.0], "explicit": [4.0, 30.0], "largest": [4.0, 40.0]}
    some = RegretBounds.of({"bounds": {**stored, "informative_from": 7}})
    assert not some.is_trivial
    assert some.extent == "trivial until N = 7"
    nothing = RegretBounds.of({"bounds": {**stored, "explicit": [4.0, 40.0], "informative_from": 2_400_000_000}})
    assert nothing.is_trivial
    assert nothing.extent == "trivial until N = 2.4·10⁹"
    unproven = RegretBounds.of({"bounds": {**stored, "explicit": None, "informative_from": None}})
    assert unproven.explicit is None
    assert unproven.extent == "nothing is proven"
    older = RegretBounds.of({"bounds": {name: stored[name] for name in ("episode", "theorem_2", "explicit")}})
    assert older.explicit is None  # it left out learned rewards, rare switching and chance
    assert RegretBounds.of({}) is None
