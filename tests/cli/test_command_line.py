"""The command as a user types it: a real process, its streams and its exit code."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from commands import forked

BASE = [sys.executable, "-m", "matrixrl"]


def run(*args, **kwargs):
    return subprocess.run([*BASE, *args], capture_output=True, text=True, timeout=120, check=False, **kwargs)


def test_json_is_one_object_and_nothing_else():
    done = run(
        *["run", "river-swim", "--set", "n_states=4", "--set", "horizon=20", "--episodes", "40"],
        *["--seeds", "3", "--seed", "5", "--agent-set", "preset=tuned", "--json"],
    )
    assert done.returncode == 0
    assert done.stderr == ""
    summary = json.loads(done.stdout)
    expected = {
        "env", "agent", "settings", "n_episodes", "horizon", "seeds", "optimal_value", "regret",
        "regret_curve", "return_mean", "guarantee", "alarms", "seconds",
    }  # fmt: skip
    assert expected <= set(summary)
    assert summary["optimal_value"] == pytest.approx(8.271, abs=5e-4)
    assert summary["seeds"] == [5, 6, 7]
    assert set(summary["regret"]) == {"mean", "std", "per_seed"}
    assert set(summary["regret_curve"]) == {"episode", "mean"}


def test_the_same_command_gives_the_same_numbers():
    args = ["run", "linear-mdp", "--episodes", "20", "--seeds", "2", "--json"]
    one, two = (json.loads(run(*args).stdout) for _ in range(2))
    one.pop("seconds"), two.pop("seconds")
    assert one == two


@pytest.mark.slow
def test_table_csv_and_picture(tmp_path):
    out = tmp_path / "run"
    args = ["run", "gym:FrozenLake-v1", "--set", "horizon=10", "-n", "15", "-k", "2", "--out", str(out)]
    done = run(*args)
    assert done.returncode == 0, done.stderr
    assert "gym:FrozenLake-v1" in done.stdout
    assert "V*(s0)" in done.stdout
    assert sorted(p.name for p in out.iterdir()) == ["episodes.csv", "regret.png", "result.json"]
    assert (out / "regret.png").read_bytes().startswith(b"\x89PNG")
    before = (out / "result.json").read_bytes()
    again = forked(*args)
    assert again.returncode == 2
    assert "--overwrite" in again.stderr
    assert (out / "result.json").read_bytes() == before
    assert forked(*args, "--overwrite").returncode == 0


@pytest.mark.parametrize("topic", [None, "envs", "agents", "sets", "radii", "presets"])
def test_list(topic):
    done = forked("list", *([topic] if topic else []))
    assert done.returncode == 0
    words = {
        "envs": "matrixrl/RiverSwim-v0",
        "agents": "matrix-rl",
        "sets": "normalised",
        "radii": "self-normalised",
        "presets": "tuned",
    }
    for name, word in words.items():
        assert (word in done.stdout) or topic not in (None, name)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "river-swin"], "Did you mean 'river-swim'"),
        (["run", "FrozenLake-v1"], "Did you mean 'gym:FrozenLake-v1'"),
        (["run", "gym:Blackjack-v1"], "horizon must be given for Blackjack-v1"),
        (["run", "river-swim", "--agent", "matrx-rl"], "Did you mean 'matrix-rl'"),
        (["run", "river-swim", "--set", "n_state=3"], "Did you mean 'n_states'"),
        (["run", "river-swim", "--set", "n_states"], "must be key=value"),
        (["run", "river-swim", "--set", "n_states=3", "--set", "n_states=4"], "given once"),
        (["run", "river-swim", "--set", "n_states=many"], "n_states must be a whole number"),
        (["run", "river-swim", "--agent-set", "set=forbenius"], "Did you mean 'frobenius'"),
        (["run", "river-swim", "--agent-set", "radius=theorm"], "Did you mean 'theorem'"),
        (["run", "river-swim", "--agent-set", "exploration=lots"], "exploration must be a number"),
        (["run", "river-swim", "--episodes", "0"], "--episodes must be at least 1"),
        (["run", "river-swim", "--seeds", "0"], "--seeds must be at least 1"),
        (["run", "river-swim", "--seed", "-3"], "seed must be at least 0"),
        (["list", "env"], "Did you mean 'envs'"),
    ],
)
def test_mistakes_end_in_one_line(args, words):
    assert_one_line(forked(*args), words)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "river-swin"], "Did you mean 'river-swim'"),
        (["run", "own:Env"], "environment 'own:Env' would import and run code"),
    ],
    ids=str,
)
def test_mistakes_end_in_one_line_of_a_command_that_is_started(args, words):
    assert_one_line(run(*args), words)


def assert_one_line(done, words):
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_ctrl_c_ends_cleanly_with_what_was_played(tmp_path):
    out = tmp_path / "run"
    process = subprocess.Popen(
        # without compiled loops, which take seconds to load, the first episode is played at once
        [*BASE, "run", "river-swim", "-n", "1000000", "-k", "2", "--json", "--no-compiled", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not out.exists() and time.monotonic() < deadline:  # made just before the first episode
        time.sleep(0.05)
    time.sleep(2.0)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    summary = json.loads(stdout)
    assert summary["interrupted"] is True
    assert 0 < summary["n_episodes"] < 1_000_000
    assert json.loads((out / "result.json").read_text()) == summary


def test_version_and_help():
    assert run("--version").stdout.startswith("matrixrl 0.")
    assert "river-swim" in forked("run", "--help").stdout


@pytest.mark.slow
def test_a_control_task_ends_with_a_table_a_picture_and_a_video(tmp_path):
    out, video = tmp_path / "run", tmp_path / "video"
    args = ["run", "mountain-car", "--set", "sparse=true", "--set", "horizon=40", "-n", "3", "--out", str(out)]
    done = run(*args, "--record", str(video))
    assert done.returncode == 0, done.stderr
    assert "mountain-car  H=40  kernel-control" in done.stdout
    assert "no proof" in done.stdout
    assert sorted(p.name for p in out.iterdir()) == ["episodes.csv", "result.json", "returns.png"]
    assert (out / "returns.png").read_bytes().startswith(b"\x89PNG")
    assert len((out / "episodes.csv").read_text().splitlines()) == 4
    ends = ("after", "before-and-after", "before")
    assert sorted(p.name for p in video.iterdir()) == [f"mountain-car-{end}.mp4" for end in ends]
    assert all(p.stat().st_size > 1000 for p in video.iterdir())
    again = forked(*args)
    assert again.returncode == 2
    assert "--overwrite" in again.stderr


def test_a_control_task_in_json():
    done = forked("run", "gym:CartPole-v1", "-n", "2", "--seeds", "2", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert len(summary["returns"]) == 2
    assert summary["agent"] == "kernel-control"
    assert np.array(summary["length_scales"]).shape == (2, 5), "four coordinates and the actions"
    assert not summary["guarantee"]["holds"]


@pytest.mark.slow
@pytest.mark.parametrize(("env", "agent"), [("gym:FrozenLake-v1", "matrix-rl"), ("cart-pole", "random")])
def test_whatever_renders_can_be_recorded(tmp_path, env, agent):
    words = ["run", env, "--agent", agent, "--set", "horizon=5", "-n", "2", "-k", "1", "--record", str(tmp_path / "v")]
    done = forked(*words)
    assert done.returncode == 0, done.stderr
    videos = list((tmp_path / "v").iterdir())
    assert len(videos) == 3
    for video in videos:
        assert video.stat().st_size > 1000
        assert f"wrote {video}" in done.stdout


def test_what_cannot_be_recorded_is_refused_before_anything_is_played(tmp_path):
    done = forked("run", "river-swim", "-n", "2", "--record", str(tmp_path / "v"), "--out", str(tmp_path / "o"))
    assert done.returncode == 2
    assert "--record must be left out for river-swim" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run", "cart-pole", "--certify"], "certify must be left out for kernel-control"),
        (
            ["run", "cart-pole", "--agent", "matrix-rl"],
            "must have numbered states or functions of states for matrix-rl",
        ),
        (["run", "cart-pole", "--agent", "psrl"], "problem must have numbered states for psrl"),
        (["run", "river-swim", "--record", "x"], "--record must be left out for river-swim"),
        (["run", "cart-pole", "--agent-set", "budgte=3"], "agent setting must be one of"),
        (["run", "gym:Pendulum-v1", "--agent", "kernel-matrix-rl"], "GridActions"),
        (["run", "cart-pole", "--plot-coordinates", "0", "1"], "--plot-coordinates is about the figure of --out"),
        (["run", "cart-pole", "--out", "x", "--plot-coordinates", "0", "4"], "--plot-coordinates must be in 0 … 3"),
        (["run", "cart-pole", "--out", "x", "--plot-coordinates", "2", "2"], "must be two different coordinates"),
        (["run", "river-swim", "--out", "x", "--plot-coordinates", "0", "1"], "must be left out for numbered states"),
        (["inspect", "cart-pole"], "must have numbered states or functions of states for matrix-rl"),
        (["inspect", "cart-pole", "--agent", "kernel-matrix-rl"], "Try matrixrl run cart-pole"),
        (["run", "cart-pole", "--episodes", "0"], "--episodes must be at least 1"),
        (["run", "cart-pole", "--seeds", "0"], "--seeds must be at least 1"),
        (["run", "cart-pole", "--agent-set", "seed=3"], "agent setting must be one of"),
        (["run", "gym:CartPole-v1", "--set", "reward_range=5"], "reward_range must be a pair of numbers"),
        (["run", "gym:CartPole-v1", "--set", "foo=1"], "cannot be made"),
        (["run", "own:Env"], "environment 'own:Env' would import and run code"),
        (["run", "river-swim", "--agent", "own:Agent"], "agent 'own:Agent' would import and run code"),
        (["run", "river-swim", "--agent-set", "set=own:Set"], "set 'own:Set' would import and run code"),
        (["run", "gym:own:Env-v0"], "environment 'gym:own:Env-v0' would import and run code"),
        (["inspect", "own:Env"], "environment 'own:Env' would import and run code"),
    ],
    ids=str,
)
def test_control_mistakes_end_in_one_line(args, message):
    assert_one_line(forked(*args), message)
