"""Tests of interquartile means, stratified intervals and performance profiles, against SciPy and the definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from experiments import SMALL, finished
from scipy import stats

from matrixrl_lab.analysis import aggregate, summarise
from matrixrl_lab.analysis.statistics import (
    curve_of,
    expanded_level,
    interquartile_mean,
    iqm_interval,
    mean_interval,
    profile_of,
    stratified_interval,
    thresholds_of,
)
from matrixrl_lab.store import Store


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 16, 33])
def test_the_interquartile_mean_is_the_mean_trimmed_by_a_quarter(rng, n):
    values = rng.normal(size=(n, 6))
    np.testing.assert_allclose(interquartile_mean(values, axis=0), stats.trim_mean(values, 0.25, axis=0), rtol=1e-13)
    np.testing.assert_allclose(interquartile_mean(values.T), stats.trim_mean(values, 0.25, axis=0), rtol=1e-13)


def test_the_interquartile_mean_ignores_outliers_that_move_the_mean(rng):
    values = rng.normal(size=16)
    hurt = np.where(np.arange(16) == values.argmax(), 1e6, values)
    assert iqm_interval(hurt) != mean_interval(hurt)
    assert interquartile_mean(hurt) == interquartile_mean(values)


def test_a_curve_has_the_interquartile_mean_of_each_episode(rng):
    values = rng.random((9, 20))
    found = curve_of(values, np.arange(1.0, 21.0))
    np.testing.assert_allclose(found.iqm, stats.trim_mean(values, 0.25, axis=0), rtol=1e-13)


@pytest.mark.parametrize("statistic", [np.mean, interquartile_mean], ids=["mean", "iqm"])
def test_stratified_intervals_leave_out_the_spread_between_environments(rng, statistic):
    """Environments far apart: resampling all runs together would give intervals as wide as their distance."""
    samples = [rng.normal(level, 1.0, 12) for level in (0.0, 100.0, 200.0)]
    found = stratified_interval(samples, statistic)
    pooled = stratified_interval([np.concatenate(samples)], statistic)
    assert found.value == pooled.value
    assert found.low <= found.value <= found.high
    assert found.high - found.low < 3.0
    assert pooled.high - pooled.low > 50.0


def test_the_interval_of_a_stratified_mean_is_that_of_normal_theory(rng):
    """A second route: the variance of the mean of three means, with 3·(n − 1) degrees of freedom."""
    samples = [rng.normal(level, 1.0, 40) for level in (0.0, 5.0, 9.0)]
    found = stratified_interval(samples, np.mean)
    error = np.sqrt(sum(s.var(ddof=1) / len(s) for s in samples)) / 3
    half = stats.t.ppf(0.975, 3 * 39) * error
    assert found.low == pytest.approx(found.value - half, abs=0.1 * half)
    assert found.high == pytest.approx(found.value + half, abs=0.1 * half)
    assert expanded_level(5, 3) < expanded_level(5)


@pytest.mark.parametrize(("seeds", "environments"), [(8, 1), (32, 1), (5, 4)])
def test_the_interval_of_the_interquartile_mean_covers_as_often_as_it_says(rng, seeds, environments):
    """Of 300 samples about 95 % must cover; fewer than 90 % happens by chance once in 10⁴ if 95 % is true."""
    covered = 0
    for _ in range(300):
        found = stratified_interval(list(rng.normal(1.0, 1.0, (environments, seeds))), interquartile_mean)
        covered += found.low <= 1.0 <= found.high
    assert 0.90 <= covered / 300 <= 1.0


def test_a_profile_is_the_share_of_runs_above_the_threshold(rng):
    samples = [rng.random(7), rng.random(5)]
    threshold = np.array([-1.0, 0.2, 0.5, samples[0][0], 0.9, 2.0])
    found = profile_of(samples, threshold)
    for tau, share in zip(threshold, found.share, strict=True):
        by_hand = [sum(score > tau for score in scores) / len(scores) for scores in samples]
        assert share == pytest.approx(sum(by_hand) / 2, abs=1e-15)
    assert (found.share[0], found.share[-1]) == (1.0, 0.0)
    assert (found.low <= found.share).all()
    assert (found.share <= found.high).all()
    assert (found.low < found.high).any()


def test_a_profile_of_two_seeds_has_no_band_and_the_area_below_it_is_the_mean(rng):
    """∫ share(τ) dτ from 0 is the mean score, for scores that are not negative."""
    scores = rng.random(2)
    threshold = np.linspace(0.0, 1.0, 100_001)
    found = profile_of([scores], threshold)
    assert np.trapezoid(found.share, threshold) == pytest.approx(scores.mean(), abs=2e-5)
    assert np.array_equal(found.low, found.share)


def test_thresholds_span_all_scores(rng):
    scores = [rng.random(9), rng.random(4) + 3.0]
    found = thresholds_of(scores, 40)
    assert found[0] < min(map(min, scores))
    assert found[-1] == max(map(max, scores))
    assert len(found) <= 40
    assert (np.diff(found) > 0.0).all()
    assert len(thresholds_of([np.zeros(3)])) >= 2, "equal scores have a profile too"


@pytest.fixture(scope="module")
def summaries(tmp_path_factory):
    where = tmp_path_factory.mktemp("robust") / "s"
    finished(where, SMALL)
    with Store.open_to_read(where) as store:
        return summarise(store), [store.read(i, "regret") for i in range(3)]


def test_scores_are_the_share_of_the_optimal_value(summaries):
    (env,), regret = summaries
    for agent, rows in zip(env.agents, regret, strict=True):
        earned = env.facts["optimal_value"] - rows
        np.testing.assert_allclose(agent.scores, earned.mean(axis=1) / env.facts["optimal_value"], rtol=1e-9)
        assert agent.iqm.value == pytest.approx(stats.trim_mean(rows.sum(axis=1), 0.25), rel=1e-12)


def test_the_aggregate_of_two_environments_has_the_runs_of_both(summaries):
    (env,), _ = summaries
    both = aggregate([env, replace(env, id="again")])
    assert both.env_ids == (env.id, "again")
    for agent, found in zip(env.agents, both.agents, strict=True):
        scores = np.concatenate([agent.scores, agent.scores])
        assert found.runs == len(scores)
        assert found.iqm.value == pytest.approx(stats.trim_mean(scores, 0.25), rel=1e-12)
        assert found.mean.value == pytest.approx(scores.mean(), rel=1e-12)
        assert found.profile.share == pytest.approx([(scores > tau).mean() for tau in found.profile.threshold])


def test_only_what_can_be_compared_is_aggregated(summaries):
    (env,), _ = summaries
    first, *rest = env.agents
    fewer = replace(env, agents=[replace(first, episodes=first.episodes - 1), *rest])
    assert [agent.id for agent in aggregate([fewer]).agents] == [agent.id for agent in rest]
    unknown = replace(env, id="?", agents=[replace(agent, scores=None) for agent in env.agents])
    assert aggregate([env, unknown]).left_out == ("?",)
    assert aggregate([unknown]) is None
    returns = aggregate([replace(unknown, measure="return")])
    assert returns.score.startswith("return")
    assert returns.agents[0].mean.value == pytest.approx(first.final.value, rel=1e-12)
