"""Files that nobody would write: nothing is executed, nothing is learned, and the error is one of the library."""

from __future__ import annotations

import copy
import json
import pickle

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logs.worlds_with_logs import arrow, problem, random_log, write_csv, write_minari, write_parquet
from matrixrl import InvalidInput, MatrixRL
from matrixrl.errors import MatrixRLError, MissingExtra
from matrixrl.logs import read_log

SPACES = gym.spaces.Discrete(5), gym.spaces.Discrete(3)
HEADER = "episode,state,action,reward,next_state\n"


class Trap:
    """An object that writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", r"log\.csv must have a header .*; got an empty file"),
        (b"\n\n", r"log\.csv must have a header"),
        (b",,,\n", r"log\.csv must have a header"),
        (HEADER.encode(), r"log\.csv must have at least one row; got none"),
        (HEADER.encode("utf-16"), r"log\.csv must be text in UTF-8; got a byte 0xff"),
        (HEADER.encode() + b"0,0,0,0.5,\xe9\n", r"log\.csv must be text in UTF-8; got a byte 0xe9"),
        (HEADER.encode() + b'0,0,0,"0.5,1\n', r"log\.csv, line \d must be CSV"),
        (HEADER.encode() + b'0,0,0,0.5,"1\n', r"log\.csv, line \d must be CSV"),
        (HEADER.encode() + b"0,0,0," + b"9" * 200_000 + b",1\n", r"log\.csv, line 2 must be CSV; got field larger"),
        (HEADER.encode() + b"0,0,0," + b"9" * 100_000 + b",1\n", r"line 2, column 'reward' must be finite"),
        (HEADER.encode() + b"0,0,0," + b"x" * 100_000 + b",1\n", r"line 2, column 'reward' must be a number; got 'xxx"),
        (HEADER.encode() + b"0,\x000,0,0,1\n", r"line 2"),
        (HEADER.encode() + b"\x00" * 50, r"line 2"),
        (HEADER.encode() + b"0,0,0,__import__('os'),1\n", r"column 'reward' must be a number"),
        (HEADER.encode() + b"0,1e400,0,0,1\n", r"column 'state' must be a whole number"),
        (HEADER.encode() + b"0,-0x1,0,0,1\n", r"column 'state' must be a number"),
        (b"x" * 3_000_000, r"log\.csv, line 1 must be CSV; got field larger"),
        (HEADER.encode() + b"0,0,0,0,1\n" + b"y" * 3_000_000, r"log\.csv, line 3 must be CSV; got field larger"),
        (pickle.dumps({"episode": [0]}), r"log\.csv must "),
        (b"PK\x03\x04" + bytes(range(256)), r"log\.csv must be text in UTF-8"),
    ],
)
def test_a_file_that_is_no_csv(content, words, tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=words) as caught:
        read_log(path, problem())
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_files_need_pyarrow(name, tmp_path, monkeypatch):
    log = random_log(n_episodes=2)
    path = write_parquet(tmp_path / name, log) if name.endswith("parquet") else write_csv(tmp_path / name, log)
    monkeypatch.setattr("matrixrl.extras.missing_packages", list)
    with pytest.raises(MissingExtra, match=r"pyarrow; pip install 'matrixrl\[logs\]'"):
        read_log(path, problem())
    assert read_log(log, problem()).plan.n_steps == len(log["reward"])  # columns in memory do not


def test_paths_that_are_none(tmp_path):
    for path, words in [
        (tmp_path / "missing.csv", "log must be a file that can be read; got .*No such file"),
        (tmp_path / "missing.parquet", "log must be a Parquet file that can be read"),
        (tmp_path, "log must be a file whose name ends in one of .csv"),
        ("log.pickle", "log must be a file whose name ends in one of .csv"),
        ("", "log must be a path that is not empty"),
        ("a\0.csv", "log must be a path without null characters"),
        (42, "log must be a path, a data frame, a table, a dictionary"),
        (None, "log must be a path, a data frame"),
        ([1, 2], "log must be a path, a data frame"),
        ({}, "log must have a column for the state"),
    ]:
        with pytest.raises(InvalidInput, match=words):
            read_log(path, problem())
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidInput, match="log must be a file that can be read"):
        read_log(tmp_path / "folder.csv", problem())


def test_every_truncation_of_a_parquet_file_is_refused(tmp_path):
    whole = write_parquet(tmp_path / "log.parquet", random_log(n_episodes=2)).read_bytes()
    path = tmp_path / "cut.parquet"
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(InvalidInput, match="must be a Parquet file that can be read"):
            read_log(path, problem())


def test_damaged_bytes_of_a_parquet_file_never_escape(tmp_path, rng):
    whole = write_parquet(tmp_path / "log.parquet", random_log(n_episodes=2)).read_bytes()
    path, refused = tmp_path / "bad.parquet", 0
    for _ in range(150):
        data = bytearray(whole)
        for place in rng.integers(len(data), size=3):
            data[place] = rng.integers(256)
        path.write_bytes(data)
        try:
            read_log(path, problem())
        except MatrixRLError:
            refused += 1
    assert refused > 50


def test_no_object_of_a_parquet_file_is_unpickled(tmp_path):
    """Binary cells, nested cells and extension types are refused by their type, whatever they hold."""
    log, trap = random_log(n_episodes=2), tmp_path / "executed"
    cells = [pickle.dumps(Trap(str(trap)))] * len(log["reward"])
    for column in (pa.array(cells, pa.binary()), pa.array([[c] for c in cells], pa.list_(pa.binary()))):
        table = arrow(log).set_column(4, "reward", column)
        pq.write_table(table, tmp_path / "log.parquet")
        with pytest.raises(InvalidInput, match="column 'reward' must hold one number, flag, date or text in each row"):
            read_log(tmp_path / "log.parquet", problem())
    field = pa.field("reward", pa.float64(), metadata={b"ARROW:extension:name": b"arrow.py_extension_type"})
    field = field.with_metadata({**field.metadata, b"ARROW:extension:metadata": cells[0]})
    table = arrow(log).set_column(4, field, pa.array(log["reward"]))
    pq.write_table(table, tmp_path / "log.parquet")
    assert read_log(tmp_path / "log.parquet", problem()).plan.n_steps == len(log["reward"])  # plain numbers
    assert not trap.exists()


def test_objects_in_arrays_are_refused(tmp_path):
    log, trap = random_log(n_episodes=2), tmp_path / "executed"
    for role in ("state", "action", "reward", "terminated", "step", "next_state"):
        column = log[role].astype(object)
        column[1] = Trap(str(trap))
        with pytest.raises(InvalidInput, match=rf"row 1 .*, column '{role}' must be"):
            read_log({**log, role: column}, problem())
    assert not trap.exists()


@pytest.fixture
def minari_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    write_minari("worlds/log-v0", random_log(n_episodes=3), SPACES)
    return tmp_path / "worlds" / "log-v0" / "data"


def test_no_environment_is_made_to_read_a_minari_data_set(minari_folder):
    """Without saved spaces Minari would make the environment that the file names, and import its code."""
    path = minari_folder / "metadata.json"
    metadata = json.loads(path.read_text())
    spec = copy.deepcopy(gym.spec("CartPole-v1"))
    spec.entry_point = "no_such_module:make"
    for space in ("observation_space", "action_space"):
        changed = {key: value for key, value in metadata.items() if key != space} | {"env_spec": spec.to_json()}
        path.write_text(json.dumps(changed))
        with pytest.raises(InvalidInput, match="log must be a data set with saved spaces, as no code is run"):
            read_log("minari:worlds/log-v0", problem())
    path.write_text(json.dumps({**metadata, "env_spec": spec.to_json()}))
    # The text is not followed.
    assert read_log("minari:worlds/log-v0", problem(), first_step=0).plan.n_episodes == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: (data / "metadata.json").write_text("{"), "must name a Minari data set on this machine"),
        (lambda data: (data / "metadata.json").write_text("[" * 100_000), "must name a Minari data set on this"),
        (lambda data: (data / "metadata.json").write_text("[]"), "must be a data set with saved spaces"),
        (lambda data: (data / "metadata.json").unlink(), "must name a Minari data set on this machine"),
        (lambda data: (data / "main_data.hdf5").write_bytes(b"nothing"), "must be readable by Minari"),
        (lambda data: (data / "main_data.hdf5").unlink(), "must be readable by Minari"),
    ],
)
def test_a_damaged_minari_data_set(change, words, minari_folder):
    change(minari_folder)
    with pytest.raises(InvalidInput, match=words):
        read_log("minari:worlds/log-v0", problem())


def test_metadata_that_lie(minari_folder):
    path = minari_folder / "metadata.json"
    metadata = json.loads(path.read_text())
    for changes in ({"total_episodes": 50}, {"data_format": "pickle"}, {"minari_version": "9"}, {"dataset_id": 3}):
        path.write_text(json.dumps({**metadata, **changes}))
        with pytest.raises(InvalidInput, match="must be readable by Minari"):
            read_log("minari:worlds/log-v0", problem())


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "worlds/log", "no/such-v0", "a b-v0", "worlds/../log-v0"])
def test_names_that_are_no_minari_data_set(name, minari_folder):
    with pytest.raises(InvalidInput, match="Minari data set"):
        read_log(f"minari:{name}", problem())


def test_a_minari_data_set_with_other_spaces(minari_folder):
    log = random_log(n_episodes=3)
    log["state"] = log["state"].astype(float)[:, None] / 10.0
    log["next_state"] = log["next_state"].astype(float)[:, None] / 10.0
    data = write_minari("worlds/box-v0", log, (gym.spaces.Box(0.0, 1.0, (1,), np.float64), SPACES[1]))
    with pytest.raises(InvalidInput, match=r"episode 0, step . .*, column 'observations' must be a whole number"):
        read_log(data, problem())


def test_nothing_is_learned_from_a_hostile_log(tmp_path):
    agent = MatrixRL(problem().task, seed=0)
    before = agent.algorithm.state()
    log = random_log(n_episodes=3)
    log["reward"][-1] = np.nan
    with pytest.raises(InvalidInput, match="column 'reward'"):
        agent.learn_from(write_csv(tmp_path / "log.csv", log))
    after = agent.algorithm.state()
    assert all(np.array_equal(after[name], array) for name, array in before.items())
    assert agent.n_logged_episodes == 0
