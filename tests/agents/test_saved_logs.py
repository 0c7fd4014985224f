"""Steps and counts of logs in a saved agent that no agent can have saved are refused."""

from __future__ import annotations

import numpy as np
import pytest

from agents.contract import Case
from hostile import array_of, changed, header_of, members_of, npy, with_header
from matrixrl import CheckpointError
from named_agents import AGENTS

RIVER = {
    "episode": [3, 3, 3, 4],
    "step": [0, 1, 2, 5],
    "state": [0, 1, 2, 3],
    "action": [1, 1, 1, 1],
    "reward": [0.0, 0.0, 0.0, 1.0],
    "next_state": [1, 2, 3, 3],
}
KINDS = [("matrix-rl", "river-swim"), ("q-learning", "river-swim"), ("kernel-matrix-rl", "cart-pole")]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return the bytes of a saved agent that played two episodes and learned from two logged ones, one of them late."""
    made, path = {}, tmp_path_factory.mktemp("saved") / "agent"
    for kind, world in KINDS:
        agent = Case(kind, world).build()
        agent.learn(2)
        log = dict(RIVER)
        if world == "cart-pole":
            log["state"], log["next_state"] = np.eye(4), np.roll(np.eye(4), -1, axis=0)
        agent.learn_from(log, verbose=False)
        agent.export(path.with_suffix(".csv"))
        agent.save(path)
        made[kind] = path.read_bytes()
    return made


def fill(value):
    return lambda array: np.full_like(array, value)


def first(value):
    def change(array):
        array.reshape(-1)[0] = value
        return array

    return change


def last(value):
    def change(array):
        array.reshape(-1)[-1] = value
        return array

    return change


ODD = [
    ("seen_states", lambda a: a.astype(np.int64)),
    ("seen_states", None),
    ("seen_rewards", first(np.nan)),
    ("seen_logged", lambda a: a.astype(np.uint8)),
    ("logs_learned", lambda a: a[:, :31]),
    ("history_logged_returns", None),
    ("history_logged_returns", lambda a: a[:-1]),
    ("learned_logged", None),
    ("learned_logged", fill(0)),
    ("learned_logged", fill(-1)),
    ("learned_logged", first(1)),
    ("learned_logged", first(5)),
    ("learned_logged", lambda a: a.astype(np.float64)),
    ("learned_logged", lambda a: a[:1]),
]


def load(data, path, kind="matrix-rl", world="river-swim"):
    path.write_bytes(data)
    return AGENTS[kind].load(path, Case(kind, world).env())


@pytest.mark.parametrize(("name", "change"), ODD, ids=[f"{i}: {row[0]}" for i, row in enumerate(ODD)])
def test_arrays_of_another_shape_or_type_are_refused(name, change, files, tmp_path):
    data = files["matrix-rl"]
    array = array_of(dict(members_of(data))[f"{name}.npy"])
    odd = changed(data, {f"{name}.npy": None if change is None else npy(change(array))})
    with pytest.raises(CheckpointError, match="cannot be restored"):
        load(odd, tmp_path / "odd")


@pytest.mark.parametrize(("kind", "world"), KINDS)
def test_what_was_saved_is_accepted(kind, world, files, tmp_path):
    agent = load(files[kind], tmp_path / "agent", kind, world)
    assert (agent.n_episodes, agent.n_logged_episodes, agent.n_logged_steps) == (2, 2, 4)
    assert agent._seen.all()[0].firsts.tolist() == [0, 0, 0, 5]


@pytest.mark.parametrize("keep", [False, None, 1, "yes"])
def test_the_flag_and_the_steps_belong_together(keep, files, tmp_path):
    assert header_of(files["matrix-rl"])["keep_log"] is True
    with pytest.raises(CheckpointError, match="cannot be restored"):
        load(with_header(files["matrix-rl"], keep_log=keep), tmp_path / "odd")


def test_vectors_that_are_not_finite_are_refused(files, tmp_path):
    data = files["kernel-matrix-rl"]
    states = array_of(dict(members_of(data))["seen_states.npy"])
    for bad in (np.nan, np.inf):
        states[1, 2] = bad
        with pytest.raises(CheckpointError, match="cannot be restored"):
            load(changed(data, {"seen_states.npy": npy(states)}), tmp_path / "odd", "kernel-matrix-rl", "cart-pole")
