"""Small problems, logs of them, and one log in every format."""

from __future__ import annotations

import csv
import warnings

import gymnasium as gym
import minari
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from minari.data_collector import EpisodeBuffer

from matrixrl.problems import Problem, Task, read_problem

HORIZON = 6
END = 4


def problem(**changes):
    """Five states of which the last is the end, three actions, six stages."""
    settings = {
        "reward": np.zeros((5, 3)),
        "horizon": HORIZON,
        "reward_range": (-1.0, 2.0),
        "end_state": END,
        **changes,
    }
    return Problem.of(Task(**settings))


class Shifted(gym.Env):
    """States 10 … 13 and actions 5 … 7, with a hidden end."""

    observation_space = gym.spaces.Discrete(4, start=10)
    action_space = gym.spaces.Discrete(3, start=5)
    horizon = HORIZON


def shifted_problem():
    return read_problem(Shifted(), horizon=HORIZON, reward_range=(-1.0, 2.0), known_reward=False)


class Plane(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float64)
    action_space = gym.spaces.Discrete(3)


def vector_problem():
    return read_problem(Plane(), horizon=HORIZON, reward_range=(-1.0, 2.0))


def random_log(seed=0, n_episodes=20, *, n_states=4, first_state=0, first_action=0, vectors=False):
    """Return columns of whole episodes: each ends at random or after all stages."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(n_episodes):
        state = rng.uniform(-1.0, 1.0, 2) if vectors else int(rng.integers(n_states)) + first_state
        for step in range(HORIZON):
            following = rng.uniform(-1.0, 1.0, 2) if vectors else int(rng.integers(n_states)) + first_state
            ended = bool(rng.random() < 0.15)
            action, reward = int(rng.integers(3)) + first_action, float(rng.uniform(-1.0, 2.0))
            rows.append((episode, step, state, action, reward, following, ended, step == HORIZON - 1 and not ended))
            state = following
            if ended:
                break
    names = ("episode", "step", "state", "action", "reward", "next_state", "terminated", "truncated")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def flat(log):
    """Return a log in which every coordinate of a vector has a column of its own."""
    found = {}
    for name, column in log.items():
        if column.ndim == 2:
            found |= {f"{name}_{i}": column[:, i] for i in range(column.shape[1])}
        else:
            found[name] = column
    return found


def write_csv(path, log, separator=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(flat(log))
        writer.writerows(zip(*(column.tolist() for column in flat(log).values()), strict=True))
    return path


def arrow(log):
    return pa.table({name: pa.array(column.tolist()) for name, column in flat(log).items()})


def write_parquet(path, log):
    pq.write_table(arrow(log), path)
    return path


def episodes_of(log):
    return [{name: column[log["episode"] == e] for name, column in log.items()} for e in np.unique(log["episode"])]


def write_minari(identifier, log, spaces, data_format="hdf5"):
    """Write a real data set into the folder that MINARI_DATASETS_PATH names."""
    buffers = [
        EpisodeBuffer(
            observations=np.concatenate([one["state"], one["next_state"][-1:]]),
            actions=one["action"],
            rewards=one["reward"],
            terminations=one["terminated"],
            truncations=one["truncated"],
        )
        for one in episodes_of(log)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no author, no address
        return minari.create_dataset_from_buffers(
            identifier, buffers, observation_space=spaces[0], action_space=spaces[1], data_format=data_format
        )


def every_format(log, folder, spaces):
    """Yield the name and the form of one log in every format."""
    yield "csv", write_csv(folder / "log.csv", log)
    yield "csv as text", str(write_csv(folder / "again.csv", log))
    yield "semicolons", write_csv(folder / "semicolons.csv", log, ";")
    yield "tabs", write_csv(folder / "tabs.tsv", log, "\t")
    yield "parquet", write_parquet(folder / "log.parquet", log)
    yield "arrow", arrow(log)
    yield "arrays", flat(log)
    yield "lists", {name: column.tolist() for name, column in flat(log).items()}
    yield "text", {name: [str(cell) for cell in column.tolist()] for name, column in flat(log).items()}
    yield "pandas", pd.DataFrame(flat(log))
    yield "pandas with objects", pd.DataFrame(flat(log)).astype(object)
    yield "minari", write_minari("worlds/log-v0", log, spaces)
    yield "minari by name", "minari:worlds/log-v0"
    yield "minari in arrow", write_minari("worlds/arrow-v0", log, spaces, "arrow")


def assert_same_steps(found, wanted):
    for name in found.__slots__:
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)
