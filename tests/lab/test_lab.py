from __future__ import annotations

import sys

import numpy as np
import pytest

from matrixrl import run_seeds
from matrixrl.errors import MissingExtra
from matrixrl.lab import DEMO, Contender, compare_settings, draw_regret, require_matplotlib


def test_the_picture_shows_the_curves(tmp_path):
    from matplotlib.image import imread

    results = dict(
        compare_settings(
            "river-swim",
            [Contender("paper", {"set": "frobenius"}), Contender("ours", {"preset": "practical"})],
            n_episodes=20,
            seeds=[0, 1],
        )
    )
    draw_regret(results, tmp_path / "a.png", title="test")
    image = imread(tmp_path / "a.png")[:, :, :3]
    for colour in ((0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)):  # both curves are there, by their colours
        near = np.abs(image - np.array(colour) / 255).max(axis=2) < 0.03
        assert near.sum() > 100


def test_without_matplotlib_the_way_out_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"matrixrl\[viz\]"):
        require_matplotlib()


def test_the_demo_compares_the_paper_and_us_on_the_same_seeds():
    settings = [c.settings for c in DEMO.contenders]
    assert {"set": "frobenius", "radius": "theorem"} in settings
    assert {"set": "normalised", "radius": "theorem"} in settings


def test_an_interrupted_comparison_yields_what_there_is(monkeypatch):
    from matrixrl.simulate import Simulation

    whole = Simulation.advance
    calls = {"n": 0}

    def advance(self, count):
        calls["n"] += 1
        if calls["n"] == 9:
            raise KeyboardInterrupt
        whole(self, count)

    monkeypatch.setattr(Simulation, "advance", advance)
    seen = {}
    with pytest.raises(KeyboardInterrupt):
        for label, result in compare_settings("river-swim", [Contender("a"), Contender("b")], n_episodes=6, seeds=[0]):
            seen[label] = result.n_episodes
    assert seen == {"a": 6, "b": 2}


def test_a_single_episode_can_be_drawn(tmp_path):
    draw_regret({"one": run_seeds("river-swim", n_episodes=1, seeds=1)}, tmp_path / "a.png", title="t")
    assert (tmp_path / "a.png").stat().st_size > 1000
