from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import matrixrl_lab
from matrixrl import run_seeds
from matrixrl.cli.demo import DEMO, DEMO_SETTINGS
from matrixrl.cli.main import app
from matrixrl.colours import COLOURS
from matrixrl.errors import MissingExtra
from matrixrl.play import Simulation
from matrixrl.plots.figures import draw_regret
from matrixrl.plots.style import require_matplotlib


def pixels(path, colour):
    """Return how many pixels of a picture are near a colour such as #0072B2."""
    from matplotlib.image import imread

    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return int((np.abs(imread(path)[:, :, :3] - wanted).max(axis=2) < 0.03).sum())


def test_every_public_name_of_the_lab_exists():
    for name in matrixrl_lab.__all__:
        assert getattr(matrixrl_lab, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'compare_settings'"):
        _ = matrixrl_lab.compare_settings


def test_the_picture_shows_the_curves(tmp_path):
    results = {
        "paper": run_seeds("river-swim", n_episodes=20, seeds=[0, 1], set="frobenius"),
        "ours": run_seeds("river-swim", n_episodes=20, seeds=[0, 1], preset="tuned"),
    }
    draw_regret(results, tmp_path / "a.png", title="test")
    assert all(pixels(tmp_path / "a.png", colour) > 100 for colour in COLOURS[:2]), "both curves are there"


def test_without_matplotlib_the_way_out_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"matrixrl\[viz\]"):
        require_matplotlib()


def test_the_demo_compares_the_paper_and_us_on_the_same_seeds():
    settings = list(DEMO_SETTINGS.values())
    assert {"preset": "optimistic", "set": "frobenius", "radius": "theorem"} in settings
    assert {} in settings
    for chosen in settings:  # every one of them can be played
        assert run_seeds(**DEMO, n_episodes=1, seeds=1, **chosen).n_episodes == 1


def test_an_interrupted_demo_writes_what_there_is(monkeypatch, tmp_path):
    whole = Simulation.advance
    calls = {"n": 0}

    def advance(self, count):
        calls["n"] += 1
        if calls["n"] == 9:
            raise KeyboardInterrupt
        whole(self, count)

    monkeypatch.setattr(Simulation, "advance", advance)
    done = CliRunner().invoke(app, ["demo", "river-swim", "-n", "6", "-k", "1", "--out", str(tmp_path / "demo")])
    assert done.exit_code == 130
    summary = json.loads((tmp_path / "demo" / "result.json").read_text())
    assert [(label, one["n_episodes"]) for label, one in summary.items()] == [
        ("paper's set, theorem radius", 6),
        ("normalised set, proven radius", 2),
    ]


def test_a_single_episode_can_be_drawn(tmp_path):
    draw_regret({"one": run_seeds("river-swim", n_episodes=1, seeds=1)}, tmp_path / "a.png", title="t")
    assert (tmp_path / "a.png").stat().st_size > 1000
