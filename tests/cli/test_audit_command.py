"""The command ``matrixrl audit``: a table, JSON, files, and one line for what is wrong."""

from __future__ import annotations

import json

import pytest

from commands import forked
from matrixrl import MatrixRL, Policy, Task
from matrixrl.agents import audit_log

TASK = [word for part in ("n_states=3", "n_actions=2", "horizon=6", "start=0") for word in ("--task", part)]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("audit") / "log.csv"
    agent = MatrixRL("river-swim", env_settings={"n_states": 3, "horizon": 6}, seed=0)
    agent.learn(60)
    agent.export(path)
    agent.greedy().save(path.with_name("mine.json"))
    return path


def test_a_table_and_files(log, tmp_path):
    words = ["audit", str(log), *TASK, "--policy", str(log.with_name("mine.json")), "--out", str(tmp_path / "out")]
    done = forked(*words)
    assert done.returncode == 0, done.stderr
    for word in ("safest", "mine", "the log's policies", "safe improvement", "pairs that need data", "in the order in"):
        assert word in " ".join(done.stdout.split())
    entries = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert Policy.load(tmp_path / "out" / "safest.json").digest == entries["safest"]
    assert (tmp_path / "out" / "audit.png").read_bytes()[1:4] == b"PNG"
    again = forked(*words)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "already holds an audit" in again.stderr
    assert forked(*words, "--overwrite").returncode == 0


def test_json_is_what_the_library_returns(log, tmp_path):
    (tmp_path / "task.toml").write_text("n_states = 3\nn_actions = 2\nhorizon = 5\nstart = 0\n")
    words = ["--problem", str(tmp_path / "task.toml"), "--task", "horizon=6", "--fixed-policy", "--delta", "0.2"]
    done = forked("audit", str(log), *words, "--json")
    assert done.returncode == 0, done.stderr
    found = audit_log(str(log), Task(n_states=3, n_actions=2, horizon=6, start=0), fixed_policy=True, delta=0.2)
    assert json.loads(done.stdout) == json.loads(found.to_json())


def test_an_environment_gives_the_rewards(log):
    world = ["--env", "river-swim", "--set", "n_states=3", "--set", "horizon=6"]
    done = forked("audit", str(log), *world, "--json")
    assert done.returncode == 0, done.stderr
    found = audit_log(str(log), "river-swim", env_settings={"n_states": 3, "horizon": 6})
    assert json.loads(done.stdout)["policies"] == json.loads(found.to_json())["policies"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--task must say what"),
        ([*TASK, "--task", "size=3"], "--task must be among"),
        ([*TASK, "--env", "river-swim"], "--env must be left out"),
        (["--task", "n_states=2", "--task", "n_actions=2", "--task", "horizon=6"], "log.csv, line"),
        ([*TASK, "--policy", "log.csv"], "log.csv"),
        ([*TASK, "--policy", "mine.json", "--policy", "./mine.json"], "different names"),
        ([*TASK, "--delta", "2"], "delta must be"),
        ([*TASK, "--column", "state=s"], "columns must name"),
        (["--problem", "log.csv"], "--problem must be a TOML file"),
        (["--problem", "none.toml"], "No such file"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_is_wrong_is_said_in_one_line(log, words, message):
    done = forked("audit", "log.csv", *words, cwd=log.parent)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
