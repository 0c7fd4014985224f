"""A film shows the agent that learns: as many pictures as asked, each other than the one before."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import matrixrl
from matrixrl import plots
from matrixrl.cli.main import app
from matrixrl.errors import InvalidInput, MissingExtra, ProtocolError


def pictures(path):
    found = []
    with Image.open(path) as film:
        for i in range(film.n_frames):
            film.seek(i)
            found.append((np.asarray(film.convert("RGB"), dtype=float), film.info["duration"]))
    return found


def river(**settings):
    return matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3, "horizon": 8}, seed=0, **settings)


def blue(picture):
    """Count the pixels of the region or the band, which are light blue, in the left and the middle third."""
    light = np.abs(picture - np.array([178.0, 213.0, 232.0])).sum(axis=2) < 40
    band = np.abs(picture - np.array([204.0, 227.0, 240.0])).sum(axis=2) < 20
    third = picture.shape[1] // 3
    return light[:, :third].sum(), band[:, third : 2 * third].sum()


def test_the_confidence_set_shrinks_and_the_band_grows_from_picture_to_picture(tmp_path):
    agent, twin = river(), river()
    target = plots.film(agent, tmp_path / "a.gif", n_episodes=60, n_frames=6, fps=10)
    assert target == tmp_path / "a.gif"
    assert [file.name for file in tmp_path.iterdir()] == ["a.gif"]
    found = pictures(target)
    assert len(found) == 6
    assert [duration for _, duration in found] == [100] * 5 + [2500]
    regions, bands = zip(*(blue(picture) for picture, _ in found), strict=True)
    assert regions[0] > 5000, "any law is possible at first"
    assert all(one > other for one, other in pairwise(regions[1:]))
    assert all(one < other for one, other in pairwise(bands[1:]))
    twin.learn(60)
    assert agent.n_episodes == 60
    assert np.array_equal(agent.history.returns, twin.history.returns), "it plays as if nobody looked"


def test_the_demo_writes_a_small_film(tmp_path):
    out = tmp_path / "demo"
    done = CliRunner().invoke(app, ["demo", "--film", "-n", "40", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert [file.name for file in out.iterdir()] == ["film.gif"]
    assert (out / "film.gif").stat().st_size < 3_000_000
    assert len(pictures(out / "film.gif")) > 20
    assert "40 episodes: regret" in done.output
    refused = CliRunner().invoke(app, ["demo", "--film", "-n", "40", "--out", str(out)])
    assert "already holds a run (film.gif)" in str(refused.exception)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda p: plots.film(river(), p / "a.mp4"), InvalidInput, "path must end in .gif"),
        (lambda p: plots.film(river(), p / "a.gif", n_episodes=0), InvalidInput, "n_episodes must be at least 1"),
        (lambda p: plots.film(river(), p / "a.gif", n_frames=0), InvalidInput, "n_frames must be at least 1"),
        (lambda p: plots.film(river(), p / "a.gif", fps=0), InvalidInput, "fps must be"),
        (lambda p: plots.film(river(), p / "a.gif", state=1), InvalidInput, "must be given together with action"),
        (lambda p: plots.film(river(), p / "a.gif", state=9, action=0), InvalidInput, "state must be in 0 … 2"),
        (lambda p: plots.film(river(measure_regret=False), p / "a.gif"), InvalidInput, "and measure regret"),
        (lambda p: plots.film(matrixrl.Agent("river-swim", "psrl"), p / "a.gif"), ProtocolError, "psrl has none"),
        (lambda p: plots.film(matrixrl.MatrixRL("deep-sea"), p / "a.gif"), InvalidInput, "a pair with three next"),
    ],
)
def test_what_cannot_be_filmed_is_refused_before_anything_is_played(call, error, words, tmp_path):
    with pytest.raises(error, match=words):
        call(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_film_without_matplotlib_is_refused_before_anything_is_played(tmp_path, monkeypatch):
    import sys

    agent = river()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match="viz"):
        plots.film(agent, tmp_path / "a.gif")
    assert agent.n_episodes == 0
