"""Pictures of control tasks: numbers against the agent's own, marks against the steps, drawings as users get them."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from matrixrl import InvalidInput, KernelControl, KernelMatrixRL, make
from matrixrl.play import Simulation
from matrixrl.play.monitor import coordinate_names, length_scale_names
from matrixrl.plots import returns
from matrixrl.plots.figures import draw_returns
from matrixrl.plots.vectors import (
    checked_coordinates,
    default_coordinates,
    draw_length_scales,
    draw_plane,
    last_path,
    plane_of,
)

AGENTS = {"kernel-control": KernelControl, "kernel-matrix-rl": KernelMatrixRL}


@pytest.fixture(scope="module", params=AGENTS)
def agent(request):
    made = AGENTS[request.param](make("cart-pole", horizon=30), seed=2)
    made.learn(3)
    return made


@pytest.fixture(scope="module")
def runs():
    made = Simulation("cart-pole", n_episodes=3, seeds=[4, 5], env_settings={"horizon": 25})
    made.run()
    return made


def axes():
    return Figure(layout="constrained").subplots()


@pytest.mark.parametrize("coordinates", [(0, 2), (3, 1)])
def test_a_plane_has_the_values_of_the_agent_at_the_medians_of_the_other_coordinates(agent, coordinates):
    plane = plane_of(agent.algorithm, coordinates, grid=7)
    i, j = coordinates
    for row, column in ((0, 0), (2, 5), (6, 3)):
        obs = plane.fixed.copy()
        obs[i], obs[j] = plane.x[column], plane.y[row]
        value, width = agent.value(obs, 0)
        np.testing.assert_allclose(plane.value[row, column], value[0], rtol=1e-9)
        np.testing.assert_allclose(plane.width[row, column], width[0], rtol=1e-6, atol=1e-9)
    data = agent.algorithm.experience()
    np.testing.assert_array_equal(plane.fixed, np.median(np.concatenate([data.obs, data.next_obs[-1:]]), axis=0))
    assert (plane.x[0] <= plane.seen[:, 0]).all()
    assert (plane.seen[:, 0] <= plane.x[-1]).all()
    assert (plane.y[0] < plane.seen[:, 1].min(), plane.y[-1] > plane.seen[:, 1].max()) == (True, True)


def test_the_path_is_the_last_episode(agent):
    length = agent.history.lengths[-1]
    path, data = last_path(agent.algorithm), agent.algorithm.experience()
    assert len(path) == length + 1
    np.testing.assert_array_equal(path[:-1], data.obs[-length:])
    np.testing.assert_array_equal(path[-1], data.next_obs[-1])
    np.testing.assert_array_equal(plane_of(agent.algorithm, (1, 3), grid=3).path, path[:, (1, 3)])


def test_the_plane_stays_within_the_bounds_of_the_observation():
    agent = KernelControl(make("mountain-car", sparse=True, horizon=120), seed=0)
    agent.learn(2)
    plane, space = plane_of(agent.algorithm, grid=5), agent.problem.env.observation_space
    for shown, low, high in zip((plane.x, plane.y), space.low, space.high, strict=True):
        assert low <= shown[0] < shown[-1] <= high


def test_the_coordinates_with_the_shortest_length_scales_are_drawn_unless_others_are_asked_for(agent):
    if isinstance(agent, KernelControl):
        scales = agent.algorithm.length_scales()[0, :4]
        longest = sorted(range(4), key=lambda k: scales[k])[2:]
        assert not set(default_coordinates(agent.algorithm)) & set(longest)
        assert len(set(scales)) == 4
    else:
        assert default_coordinates(agent.algorithm) == (0, 1)


@pytest.mark.parametrize(
    ("given", "size", "message"),
    [
        ((0, 4), 4, "must be in 0 … 3; got 4"),
        ((-1, 0), 4, "must be in 0 … 3; got -1"),
        ((1, 1), 4, "must be two different coordinates"),
        ((0, 1, 2), 4, "must be two different coordinates"),
        ("01", 4, "must be two different coordinates"),
        ((0, 1), 1, "must be left out for an observation of one coordinate"),
    ],
)
def test_coordinates_that_cannot_be_drawn_are_refused(given, size, message):
    with pytest.raises(InvalidInput, match=message):
        checked_coordinates("coordinates", given, size)


def test_an_agent_that_saw_nothing_has_no_plane():
    with pytest.raises(InvalidInput, match="agent must have episodes"):
        plane_of(KernelControl("cart-pole", seed=0).algorithm)


def test_the_drawing_has_the_numbers_of_the_plane_and_names_what_is_fixed(agent):
    plane = plane_of(agent.algorithm, (0, 3), grid=9)
    for of in ("value", "width"):
        drawn = draw_plane(axes(), plane, of, names=coordinate_names(4, "cart-pole"), title=of)
        mesh = drawn.collections[0]
        np.testing.assert_array_equal(mesh.get_array().reshape(9, 9), getattr(plane, of))
        assert (drawn.get_xlabel(), drawn.get_ylabel()) == ("x0, position", "x3, angular speed")
        assert "x1 = " in drawn.get_title()
        assert "x2 = " in drawn.get_title()
        lines = {line.get_label(): line.get_xydata() for line in drawn.lines}
        np.testing.assert_array_equal(lines["last episode"], plane.path)
        np.testing.assert_array_equal(lines["states seen"], plane.seen)
        np.testing.assert_array_equal(lines["its start"], plane.path[:1])
        np.testing.assert_array_equal(lines["its end"], plane.path[-1:])


def test_bars_reach_from_one_to_the_geometric_mean_of_the_seeds():
    scales = np.array([[0.1, 2.0, 8.0], [0.4, 2.0, 2.0], [np.nan, np.nan, np.nan]])
    drawn = draw_length_scales(axes(), scales, length_scale_names(2, 3, is_box=True), n_coordinates=2)
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in drawn.patches]
    np.testing.assert_allclose(ends, [(1.0, 0.2), (1.0, 2.0), (1.0, 4.0)])
    assert [label.get_text() for label in drawn.get_yticklabels()] == ["x0", "x1", "u0"]
    assert drawn.get_xscale() == "log"
    low, high = drawn.get_xlim()
    assert low < 0.1 < 8.0 < high, "every seed is within the axes"
    dots = [line.get_xdata() for line in drawn.lines if line.get_marker() == "o"]
    np.testing.assert_array_equal(dots, scales[:2])
    assert "2 seeds" in drawn.get_title()


def test_a_result_has_the_length_scales_of_all_seeds(runs):
    result = runs.result()
    assert result.length_scales.shape == (2, 5)
    np.testing.assert_array_equal(result.length_scales[0], runs.algorithm.length_scales()[0])
    assert not np.array_equal(*result.length_scales)
    alone = Simulation("cart-pole", n_episodes=3, seeds=[5], env_settings={"horizon": 25}).run()
    np.testing.assert_array_equal(alone.length_scales[0], result.length_scales[1])
    assert result.as_dict()["length_scales"] == result.length_scales.tolist()


@pytest.mark.parametrize(
    "options", [{"agent": "random"}, {"agent": "kernel-control", "settings": {"length_scale": 1.0}}]
)
def test_length_scales_that_were_not_fitted_are_not_reported(options):
    result = Simulation("cart-pole", n_episodes=2, seeds=[0, 1], env_settings={"horizon": 12}, **options).run()
    assert result.length_scales is None
    assert result.as_dict()["length_scales"] is None


def test_curves_show_each_seed_and_their_mean(runs):
    result = runs.result()
    drawn = returns(result, ax=axes())
    lines = [line.get_ydata() for line in drawn.lines]
    np.testing.assert_array_equal(lines, [*result.returns, result.returns.mean(axis=0)])


def panels_of(path, monkeypatch, *args, **options):
    """Return the titles of the panels of the picture that `draw_returns` writes."""
    figures = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **o: (figures.append(self), save(self, *a, **o)))
    draw_returns(*args, path, **options)
    assert path.read_bytes().startswith(b"\x89PNG")
    return [one.get_title() for one in figures[0].axes if one.get_title()]


def test_the_picture_of_kernel_control_has_four_panels(tmp_path, monkeypatch, runs):
    shown = panels_of(tmp_path / "a.png", monkeypatch, runs.result(), runs.algorithm, coordinates=(1, 2))
    assert [words.splitlines()[0] for words in shown] == [
        "mean and range of 2 seeds",
        "planned value at the first step, seed 4",
        "fitted length scales: mean and 2 seeds",
        "novelty, seed 4",
    ]
    assert "x0 = " in shown[1]
    assert "x1" not in shown[1]


@pytest.mark.parametrize(("agent", "n_panels"), [("kernel-matrix-rl", 3), ("random", 1)])
def test_the_picture_of_another_agent_has_what_there_is(tmp_path, monkeypatch, agent, n_panels):
    made = Simulation("acrobot", n_episodes=2, seeds=[0], agent=agent, env_settings={"horizon": 15})
    shown = panels_of(tmp_path / "a.png", monkeypatch, made.run(), made.algorithm)
    assert len(shown) == n_panels
    assert shown[0] == "seed 0"
