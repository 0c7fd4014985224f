"""Logs out: what is written, in the numbers of the environment, whole or not at all."""

from __future__ import annotations

import csv

import gymnasium as gym
import minari
import numpy as np
import pyarrow.parquet as pq
import pytest

from logs.worlds_with_logs import (
    END,
    assert_same_steps,
    problem,
    random_log,
    shifted_problem,
    vector_problem,
)
from matrixrl import InvalidInput, MatrixRL, Task, make
from matrixrl.errors import MatrixRLError
from matrixrl.logs import read_log, write_log

NAMES = ["episode", "step", "state", "action", "reward", "next_state", "terminated", "truncated", "source"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path


def targets(folder):
    return [str(folder / "log.csv"), str(folder / "log.parquet"), "minari:worlds/out-v0"]


@pytest.mark.parametrize("make_problem", [problem, shifted_problem, vector_problem])
def test_what_is_written_is_what_is_read(make_problem, folder):
    shifts = {"first_state": 10, "first_action": 5} if make_problem is shifted_problem else {}
    log = random_log(n_episodes=40, vectors=make_problem is vector_problem, **shifts)
    keep = log["step"] >= np.where(log["episode"] % 3 == 0, 2, 0)  # some episodes begin late
    steps = read_log({name: column[keep] for name, column in log.items()}, make_problem(), first_step=0).steps
    assert steps.firsts.max() == 2
    for target in targets(folder):
        write_log(target, steps, np.zeros(steps.n_episodes, dtype=bool), make_problem(), "somebody")
        assert_same_steps(read_log(target, make_problem()).steps, steps)


def test_the_columns_of_a_file(folder):
    steps = read_log(random_log(first_state=10, first_action=5), shifted_problem()).steps
    logged = np.arange(steps.n_episodes) >= 15
    write_log(str(folder / "log.csv"), steps, logged, shifted_problem(), "somebody")
    write_log(str(folder / "log.parquet"), steps, logged, shifted_problem(), "somebody")
    with (folder / "log.csv").open() as file:
        header, *rows = csv.reader(file)
    table = pq.read_table(folder / "log.parquet").to_pydict()
    assert header == list(table) == NAMES
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    for name, column in columns.items():
        assert list(column) == ["" if cell is None else str(cell) for cell in table[name]], name
    assert {int(s) for s in columns["state"]} == {10, 11, 12, 13}
    assert {int(a) for a in columns["action"]} == {5, 6, 7}
    ended = [cell == "True" for cell in columns["terminated"]]
    assert [cell == "" for cell in columns["next_state"]] == ended  # the end state has no number in the environment
    assert sum(cell == "True" for cell in columns["truncated"]) == 20 - sum(ended)
    assert [columns["source"][columns["episode"].index(str(e))] for e in (0, 14, 15, 19)] == [
        "played",
        "played",
        "log",
        "log",
    ]


def test_a_minari_data_set_for_other_programs(folder):
    steps = read_log(random_log(), problem()).steps
    write_log("minari:worlds/out-v3", steps, np.zeros(20, dtype=bool), problem(), "somebody")
    data = minari.load_dataset("worlds/out-v3")
    assert (data.total_episodes, data.total_steps) == (20, steps.n_steps)
    assert (data.observation_space, data.action_space) == (gym.spaces.Discrete(5), gym.spaces.Discrete(3))
    for one, episode in zip(data.iterate_episodes(), steps.parts(1), strict=True):
        assert one.observations.tolist() == [*episode.states.tolist(), int(episode.next_states[-1])]
        assert one.truncations.tolist()[-1] is not one.terminations.tolist()[-1]
        assert (one.observations[-1] == END) == bool(one.terminations[-1])


def test_a_hidden_end_is_written_as_some_observation(folder):
    steps = read_log(random_log(first_state=10, first_action=5), shifted_problem()).steps
    write_log("minari:worlds/hidden-v0", steps, np.zeros(20, dtype=bool), shifted_problem(), "somebody")
    data = minari.load_dataset("worlds/hidden-v0")
    assert all(
        data.observation_space.contains(np.int64(o)) for one in data.iterate_episodes() for o in one.observations
    )


def test_files_are_replaced_whole_or_not_at_all(folder, monkeypatch):
    agent = MatrixRL(make("river-swim", n_states=3, horizon=4), seed=0)
    agent.learn(3)
    for path in (folder / "log.csv", folder / "log.parquet"):
        path.write_text("before")

        def broken(*_, **__):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("matrixrl.logs.writer._columns", broken)
            with pytest.raises(KeyboardInterrupt):
                agent.export(path)
        assert path.read_text() == "before"
        assert sorted(p.name for p in folder.iterdir()) in (["log.csv"], ["log.csv", "log.parquet"])
        assert agent.export(path) == 12
        assert MatrixRL(make("river-swim", n_states=3, horizon=4), seed=0).plan_log(path).n_steps == 12
    with monkeypatch.context() as patch:
        patch.setattr(minari, "create_dataset_from_buffers", broken)
        with pytest.raises(KeyboardInterrupt):
            agent.export("minari:worlds/out-v0")
    assert agent.export("minari:worlds/out-v0") == 12
    with pytest.raises(InvalidInput, match="path must be the name of a new Minari data set; got 'worlds/out-v0'"):
        agent.export("minari:worlds/out-v0")


def test_targets_that_are_none(folder):
    agent = MatrixRL(make("river-swim", n_states=3, horizon=4), seed=0)
    agent.learn(1)
    for target, words in [
        ("log", r"path must end in \.csv, \.parquet, \.pq, or begin with minari:"),
        ("log.pickle", r"path must end in \.csv"),
        ("minari:log", "Minari data set must be a name of the form namespace/name-v0; got 'log'"),
        ("minari:../log-v0", "Minari data set must be a name"),
        ("", "path must be a path that is not empty"),
        (7, "path must be a path"),
    ]:
        with pytest.raises(InvalidInput, match=words):
            agent.export(target)
    (folder / "file").write_text("")
    with pytest.raises(MatrixRLError, match="cannot write"):
        agent.export(folder / "file" / "log.csv")


def test_episodes_with_gaps_can_be_written_but_not_to_minari(folder):
    agent = MatrixRL(Task(np.zeros((3, 1)), horizon=3), seed=0)
    episode = agent.begin_episode()
    episode.observe(0, 0, 0.0, 1)
    episode.observe(2, 0, 0.0, 1)  # told by somebody who left out a step
    episode.end()
    assert agent.export(folder / "log.csv") == 2
    with pytest.raises(
        InvalidInput, match="must have episodes without gaps; got episode 0, where a step does not begin"
    ):
        agent.export("minari:worlds/gap-v0")
    with pytest.raises(InvalidInput, match=r"line 3, column 'state' must be 1, the next state of line 2; got 2"):
        MatrixRL(Task(np.zeros((3, 1)), horizon=3), seed=0).learn_from(folder / "log.csv")
