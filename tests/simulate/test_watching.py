"""The live view of control tasks, and videos before and after."""

from __future__ import annotations

import io
import subprocess

import numpy as np
import pytest
from rich.console import Console

from matrixrl import run_seeds
from matrixrl.play import Simulation
from matrixrl.play.monitor import EpisodeMonitor, surprise_share
from matrixrl.play.video import Recorder
from matrixrl.progress import EpisodeProgress

SHORT = {"horizon": 30}


class Watched(Simulation):
    """Keeps the plan and the steps of every episode, and watches."""

    def _learn(self, played):
        self.seen = [*getattr(self, "seen", []), (played.first_plan, played.steps)]
        super()._learn(played)


@pytest.fixture(scope="module")
def watched():
    run = Watched("pendulum", n_episodes=4, seeds=[1], env_settings=SHORT)
    run._monitor = EpisodeMonitor(run.algorithm)
    for _ in range(4):
        run.advance()
    return run


def test_watching_notes_returns_surprises_and_length_scales(watched):
    watch = watched._monitor
    np.testing.assert_array_equal(watch.returns, watched.series.returns[0])
    assert np.isnan(watch.surprises[0]), "no model before the first episode"
    assert all(0.0 <= share <= 1.0 for share in watch.surprises[1:])
    np.testing.assert_array_equal(watch.length_scales[-1], watched.algorithm.length_scales()[0])


def test_a_surprise_is_a_step_that_the_model_puts_elsewhere(watched):
    """Against the predictions of the model, compared with the steps by hand."""
    plan, steps = watched.seen[2]
    one, dynamics = plan.plans[0], plan.plans[0].world.dynamics
    n = int(steps.taken[0].sum())
    actions = one.grid.coordinates(steps.actions[0, :n])
    following, pays = dynamics.predict(np.concatenate([one.scale(steps.states[0, :n]), actions], axis=1))
    off = np.abs(following - one.scale(steps.next_states[0, :n])).max(axis=1)
    low, high = dynamics.limits[:, -1]
    wrong = (off > 0.03) | (np.abs(pays - steps.rewards[0, :n]) > 0.05 * (high - low))
    assert surprise_share(plan, steps) == pytest.approx(wrong.mean())


def test_lines_name_every_length_scale(watched):
    lines = watched._monitor.lines()
    scales = ["length x0, cos θ", "length x1, sin θ", "length x2, speed", "length u0"]
    assert [line.split("  ")[0] for line in lines] == ["returns", "surprises", *scales]
    assert f"{watched.series.returns[0, -1]:.4g}" in lines[0]
    assert lines[-1].endswith(f"{watched.algorithm.length_scales()[0, -1]:.3g}")


def test_only_the_shortest_of_many_length_scales_are_shown(watched):
    watch = EpisodeMonitor(watched.algorithm)
    watch.length_scales = [np.array([5.0, 0.1, *np.full(10, 1.0)])]  # of three coordinates and nine actions
    lines = watch.lines()
    assert len(lines) == 8
    assert "length x1" in lines[0]
    assert not any("x0" in line for line in lines)


def test_the_terminal_shows_the_lines_and_the_run_is_the_same(monkeypatch):
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
    inner = EpisodeProgress.__init__
    monkeypatch.setattr(
        EpisodeProgress,
        "__init__",
        lambda self, *args, **options: inner(self, *args, **{**options, "console": console}),
    )
    options = {"n_episodes": 3, "seeds": [7], "env_settings": SHORT}
    shown = run_seeds("cart-pole", progress=True, **options)
    words = console.file.getvalue()
    for wanted in ("kernel-control on cart-pole", "returns", "surprises", "length x2, angle", "length action"):
        assert wanted in words
    np.testing.assert_array_equal(shown.returns, run_seeds("cart-pole", **options).returns)


def test_a_bar_without_lines_is_one_line_high():
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
    with EpisodeProgress("x", 2, console=console) as bar:
        bar.advance("note")
    assert console.file.getvalue().count("\n") <= 1


def frames(path, height, width):
    """Return the images of a video: (n, height, width, 3)."""
    from imageio_ffmpeg import get_ffmpeg_exe

    words = [get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(words, capture_output=True, check=True).stdout
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, height, width, 3).astype(int)


@pytest.mark.slow
def test_the_video_before_is_the_first_episode_and_both_begin_alike(tmp_path):
    settings = {"horizon": 12}
    runs = Simulation("pendulum", n_episodes=2, seeds=[3], env_settings=settings)
    result = runs.run()
    folder = tmp_path / "v"
    before, after, both = Recorder("pendulum", settings, folder).record_both(runs.fresh(), runs.algorithm)
    ends = ("after", "before-and-after", "before")
    assert sorted(path.name for path in folder.iterdir()) == [f"pendulum-{end}.mp4" for end in ends]
    assert before.episode_return == pytest.approx(result.returns[0, 0], abs=1e-9), "that of the run"
    left, right, whole = frames(before.path, 500, 500), frames(after.path, 500, 500), frames(both, 536, 1008)
    assert len(left) == len(right) == len(whole)
    assert len(left) in (12, 13), "the start and every step; moviepy may round the last image away"
    assert np.abs(left[0] - right[0]).mean() < 0.5 < np.abs(left[-1] - right[-1]).mean()
    for start, part in ((0, left), (508, right)):
        assert np.abs(whole[:, 36:, start : start + 500] - part).mean() < 1.0, "the same images, up to compression"
        assert (whole[0, :36, start : start + 500] < 128).any(), "a title"


@pytest.mark.slow
def test_the_shorter_video_waits_at_its_last_image(tmp_path):
    settings = {"horizon": 40}
    runs = Simulation("cart-pole", n_episodes=3, seeds=[0], env_settings=settings)
    result = runs.run()
    before, after, both = Recorder("cart-pole", settings, tmp_path).record_both(runs.fresh(), runs.algorithm)
    assert (before.length, before.episode_return) == (result.lengths[0, 0], result.returns[0, 0])
    assert before.length != after.length
    whole, shorter = frames(both, 436, 1208), min(before.length, after.length)
    assert len(whole) - max(before.length, after.length) in (0, 1)
    start = 0 if before.length == shorter else 608
    short, other = whole[shorter:, 36:, start : start + 600], whole[shorter:, 36:, 608 - start :][:, :, :600]
    moved = [bool((np.abs(part - part[0]) > 80).any()) for part in (short, other)]
    assert moved == [False, True]
