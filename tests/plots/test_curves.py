"""Curves show the numbers of the runs: cumulative sums, means over seeds, certified bounds."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from drawn import labels, results, river_agent

import matrixrl
from matrixrl import plots
from matrixrl.colours import LOOKS, REFERENCE
from matrixrl.errors import InvalidInput, MissingExtra
from matrixrl.plots.style import shown_episodes


def band_of(collection):
    """Return the lowest and the highest edge of a band at each episode."""
    points = collection.get_paths()[0].vertices
    episodes = np.unique(points[:, 0])
    edges = np.array([[points[points[:, 0] == n, 1].min(), points[points[:, 0] == n, 1].max()] for n in episodes])
    return episodes, edges


def test_the_regret_of_an_agent_is_the_sum_of_v_star_less_the_value_of_each_policy():
    agent = river_agent()
    axes = plots.regret(agent)
    line = axes.lines[0]
    expected = np.cumsum(agent.history.regret)
    assert np.array_equal(line.get_xdata(), np.arange(1, 61))
    assert np.allclose(line.get_ydata(), expected, rtol=1e-12)
    assert np.array_equal(plots.regret(agent.history).lines[0].get_ydata(), line.get_ydata())
    v_star = matrixrl.solve(agent.problem.mdp).start_value
    assert np.allclose(axes.lines[1].get_ydata(), v_star * np.arange(1, 61))


def test_curves_of_several_runs_are_means_with_the_range_of_all_seeds():
    axes = plots.regret(results())
    for i, result in enumerate(results().values()):
        total = np.cumsum(result.regret, axis=1)
        assert np.allclose(axes.lines[i].get_ydata(), total.mean(axis=0), rtol=1e-12)
        _, edges = band_of(axes.collections[i])
        assert np.allclose(edges, np.stack([total.min(axis=0), total.max(axis=0)], axis=1))
    assert labels(axes)[0].startswith("matrix-rl: ")
    assert labels(axes)[1].startswith("psrl (no proof): ")
    assert axes.get_title() == "mean and range of 3 seeds"


def test_regret_on_logarithmic_axes_has_the_same_points():
    linear, log = plots.regret(results()), plots.regret(results(), log=True)
    assert log.get_xscale() == log.get_yscale() == "log"
    for one, other in zip(linear.lines, log.lines, strict=True):
        assert np.array_equal(one.get_ydata(), other.get_ydata())


def test_long_runs_are_thinned_and_keep_first_and_last_episode():
    shown = shown_episodes(100_000)
    assert (shown[0], shown[-1]) == (1, 100_000)
    assert len(shown) < 1000
    assert (np.diff(shown) > 0).all()
    assert set(range(1, 30)) <= set(shown.tolist()), "a logarithmic axis needs the first ones"


def test_a_measurement_of_every_kth_episode_is_held():
    river = {"n_states": 3, "horizon": 6}
    agent = matrixrl.MatrixRL("river-swim", env_settings=river, seed=0, measure_regret=4)
    agent.learn(n_episodes=10)
    measured = agent.history.regret[[0, 4, 8]]
    line = plots.regret(agent).lines[0]
    assert np.allclose(line.get_ydata(), np.cumsum(np.repeat(measured, 4)[:10]))


def test_returns_show_each_seed_and_their_trailing_mean():
    result = results()["psrl"]
    axes = plots.returns(result, smooth=5)
    for row, line in zip(result.returns, axes.lines, strict=False):
        assert np.array_equal(line.get_ydata(), row)
    mean = result.returns.mean(axis=0)
    expected = [mean[max(0, n - 4) : n + 1].mean() for n in range(40)]
    assert np.allclose(axes.lines[-1].get_ydata(), expected)
    assert len(plots.returns(results()).lines) == 2, "of several runs the means alone"


def test_the_certificate_band_has_the_certified_bounds_v_star_and_the_played_value():
    agent = river_agent()
    axes = plots.certificate_band(agent)
    certified = agent.history.certified
    episodes, edges = band_of(axes.collections[0])
    assert np.array_equal(episodes, np.arange(1, 61))
    assert np.allclose(edges, certified)
    optimum = matrixrl.solve(agent.problem.mdp).start_value
    played = next(line for line in axes.lines if line.get_label() == "played")
    assert np.allclose(played.get_ydata(), optimum - agent.history.regret)
    assert (played.get_ydata() >= certified[:, 0]).all()
    dotted = next(line for line in axes.lines if line.get_label() == "V*(s0)")
    assert np.allclose(dotted.get_ydata(), optimum)


def test_the_band_of_several_seeds_is_the_mean_inside_the_range():
    result = results()["matrix-rl"]
    axes = plots.certificate_band(result)
    (_, widest), (_, mean) = (band_of(one) for one in axes.collections[:2])
    low, high = result.certified[:, :, 0], result.certified[:, :, 1]
    assert np.allclose(widest, np.stack([low.min(axis=0), high.max(axis=0)], axis=1))
    assert np.allclose(mean, np.stack([low.mean(axis=0), high.mean(axis=0)], axis=1))


def test_episodes_without_a_certificate_are_left_out():
    agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3, "horizon": 6}, seed=0)
    agent.learn(n_episodes=4)
    agent.learn(n_episodes=3, certify=True)
    episodes, edges = band_of(plots.certificate_band(agent.history).collections[0])
    assert episodes.tolist() == [5, 6, 7]
    assert np.allclose(edges, agent.history.certified[4:])


def test_it_draws_on_given_axes_and_returns_them():
    from matplotlib import pyplot

    _, axes = pyplot.subplots()
    assert plots.regret(river_agent(), ax=axes) is axes
    assert len(pyplot.get_fignums()) == 1


def never_played():
    return matrixrl.MatrixRL("river-swim", seed=0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plots.regret(3), "runs must be what was played; got 3"),
        (lambda: plots.regret({}), "runs must not be empty"),
        (lambda: plots.regret({"a": [1, 2]}), r"runs must be what was played; got \[1, 2\]"),
        (lambda: plots.regret(never_played()), "runs must have episodes"),
        (lambda: plots.regret(replace(river_agent().history, regret=None)), "must have measured the regret"),
        (lambda: plots.regret(river_agent(), ax=3), "ax must be axes of matplotlib"),
        (lambda: plots.regret(river_agent(), log="yes"), "log must be true or false"),
        (lambda: plots.returns(river_agent(), smooth=0), "smooth must be at least 1"),
        (lambda: plots.certificate_band(results()["psrl"]), "must have certificates"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(call, words):
    with pytest.raises(InvalidInput, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)


def test_without_matplotlib_the_way_out_is_said(monkeypatch):
    agent = river_agent()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'matrixrl\[viz\]'"):
        plots.regret(agent)


def test_importing_plots_does_not_import_matplotlib():
    import subprocess

    code = "import sys, matrixrl.plots; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_colours_of_agents_are_defined_once():
    names = {colour.lower() for look in LOOKS for colour in (look.colour, look.on_dark)} | {REFERENCE}
    package = Path(matrixrl.__file__).parent
    found = {
        path.name
        for folder in (package, *(package.with_name(f"matrixrl_{name}") for name in ("lab", "serve")))
        for path in folder.rglob("*")
        if path.suffix in (".py", ".js", ".css", ".j2") and any(name in path.read_text().lower() for name in names)
    }
    assert found == {"colours.py"}
