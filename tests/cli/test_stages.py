"""Commands on environments whose laws depend on the stage, and on discounted ones."""

from __future__ import annotations

import json

import pytest

from commands import forked

LAKE = ["gym:FrozenLake-v1", "--set", "horizon=6", "--set", "stage_dependent=true"]
ENDLESS = ["gym:FrozenLake-v1", "--set", "discount=0.8"]


def test_a_run_of_stages_prints_its_classes(tmp_path):
    done = forked("run", *LAKE, "-n", "6", "-k", "2", "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert "S=17 A=4 d=408 d_psi=17 classes of stages=6 H=6" in " ".join(done.stdout.split())
    summary = json.loads((tmp_path / "run" / "result.json").read_text())
    assert summary["stage_classes"] == 6


def test_an_environment_that_is_registered_with_stages(tmp_path):
    words = ["dynamic-pricing", "--set", "capacity=3", "--set", "horizon=5", "--agent-set", "known_reward=false"]
    done = forked("run", *words, "-n", "6", "-k", "2", "--certify", "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert "S=4 A=6 d=120 d_psi=4 classes of stages=5 H=5" in " ".join(done.stdout.split())
    assert len((tmp_path / "run" / "episodes.csv").read_text().splitlines()) == 13
    found = json.loads(forked("inspect", *words[:5], "--json").stdout)
    assert (found["sizes"]["n_actions"], found["sizes"]["stage_classes"]) == (6, 5)
    listed = forked("list", "envs")
    assert "dynamic-pricing" in listed.stdout


def test_a_discounted_run_prints_its_discount():
    done = forked("run", *ENDLESS, "-n", "6", "-k", "2")
    assert done.returncode == 0, done.stderr
    assert "H=21 discount=0.8" in " ".join(done.stdout.split())
    found = json.loads(forked("run", *ENDLESS, "-n", "6", "-k", "2", "--json").stdout)
    assert (found["discount"], found["horizon"]) == (0.8, 21)


@pytest.mark.parametrize(("words", "shown"), [(LAKE, "stage_classes=6"), (ENDLESS, "horizon=21")])
def test_inspect(words, shown):
    done = forked("inspect", *words)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert shown in text
    assert "n_actions=4" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gym:FrozenLake-v1", "--set", "discount=2"], "error: discount must be finite and in [0, 1]; got 2.0"),
        (
            ["gym:FrozenLake-v1", "--set", "stage_dependent=week"],
            "error: stage_dependent must be True, False, or one",
        ),
        (["gym:Blackjack-v1", "--set", "discount=0.9"], "error: discount is not a setting of gym:Blackjack-v1"),
        (["river-swim", "--set", "discount=0.9"], "error: river-swim setting must be one of"),
    ],
)
def test_mistakes_are_one_line(words, message):
    for command in ("run", "inspect"):
        done = forked(command, *words)
        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
