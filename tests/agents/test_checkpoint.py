from __future__ import annotations

import json
import os
import pickle
import zipfile

import gymnasium as gym
import numpy as np
import pytest

import hostile
from agents.helpers import assert_same_arrays
from hostile import archive_of, changed, header_of, members_of, npy, raw_npy, resealed
from matrixrl import CheckpointError, InvalidInput, MatrixRL, Task, make
from matrixrl.archive import FORMAT_VERSION, pack

PROBLEMS = {
    "one-hot": lambda: make("river-swim", n_states=5, horizon=9),
    "dense features, downdates": lambda: make("linear-mdp", n_states=40, d=8, horizon=5),
    "dense features, refactored": lambda: make("linear-mdp", n_states=40, d=3, horizon=5),
    "end state": lambda: make("gym:FrozenLake-v1", horizon=12),
    "a real Gymnasium environment": lambda: gym.make("FrozenLake-v1", max_episode_steps=12),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("settings", [{"preset": "tuned"}, {"radius": "theorem", "n_episodes": 40}])
def test_stop_save_load_go_on_is_bitwise_an_uninterrupted_run(name, settings, tmp_path):
    whole = MatrixRL(PROBLEMS[name](), seed=9, **settings)
    uninterrupted = whole.learn(40)
    part = MatrixRL(PROBLEMS[name](), seed=9, **settings)
    for stop in (13, 14, 13):
        part.learn(stop)
        part.save(tmp_path / "agent.npz")
        part = MatrixRL.load(tmp_path / "agent.npz", env=PROBLEMS[name]())
    for column in ("returns", "lengths", "upper", "alarms", "regret"):
        np.testing.assert_array_equal(getattr(part.history, column), getattr(uninterrupted, column))
    assert_same_arrays(part.algorithm.state(), whole.algorithm.state())
    after, before = part.problem.env.unwrapped, whole.problem.env.unwrapped
    assert after.np_random.bit_generator.state == before.np_random.bit_generator.state
    assert part.settings == whole.settings


@pytest.mark.parametrize("kind", ["normalised", "tightest"])
def test_a_save_in_the_middle_of_an_episode_goes_on_there(kind, tmp_path):
    """One decision a day, the process gone in between."""
    steady = MatrixRL(Task(np.full((3, 2), 0.5), 4), seed=1, set=kind)
    nightly = MatrixRL(Task(np.full((3, 2), 0.5), 4), seed=1, set=kind)
    rng = np.random.default_rng(0)
    for _ in range(6):
        steady.begin_episode()
        nightly.begin_episode()
        state = 0
        for _ in range(4):
            nightly.save(tmp_path / "a")
            nightly = MatrixRL.load(tmp_path / "a")
            action = steady.act(state)
            assert nightly.act(state) == action
            following = int(rng.integers(0, 3))
            steady.observe(state, action, 0.5, following)
            nightly.observe(state, action, 0.5, following)
            state = following
        assert steady.end_episode() == nightly.end_episode()
    assert_same_arrays(nightly.algorithm.state(), steady.algorithm.state())


def test_an_episode_that_left_its_plan_has_no_regret_after_a_save_either(tmp_path):
    agent = MatrixRL(make("river-swim", n_states=4, horizon=3), seed=0)
    for override in (True, False):
        episode = agent.begin_episode()
        episode.observe(0, 1 - episode.act(0) if override else episode.act(0), 0.0, 1)
        agent.save(tmp_path / "a")
        loaded = MatrixRL.load(tmp_path / "a", make("river-swim", n_states=4, horizon=3))
        assert (loaded.end_episode().regret is None) == (episode.end().regret is None) == override


def test_a_loaded_agent_predicts_without_an_environment(tmp_path):
    agent = MatrixRL(make("river-swim"), seed=0, preset="tuned")
    agent.learn(50)
    agent.save(tmp_path / "a.npz")
    loaded = MatrixRL.load(tmp_path / "a.npz")
    np.testing.assert_array_equal(loaded.policy, agent.policy)
    assert loaded.problem.env is None


def test_a_least_upper_bound_from_features_that_are_not_one_hot_survives_a_save(tmp_path):
    agent = MatrixRL("linear-mdp", seed=0)
    agent.learn(n_episodes=2, certify=True)
    before = agent.certificate()
    agent._ledger.least_upper[:] = before.upper - 0.01  # as an earlier certificate would have it
    agent.save(tmp_path / "agent.mrl")
    assert MatrixRL.load(tmp_path / "agent.mrl").certificate().upper == pytest.approx(before.upper - 0.01)


def test_a_reward_that_rounding_moves_out_of_its_range_does_not_spoil_a_file(tmp_path):
    task = Task(n_states=1, n_actions=1, horizon=1, reward_range=(-3.0, 0.5), start=0)
    agent = MatrixRL(task, seed=0)
    episode = agent.begin_episode()
    episode.observe(0, 0, np.nextafter(-3.0, -4.0), 0)
    episode.end()
    agent.save(tmp_path / "agent.mrl")
    assert MatrixRL.load(tmp_path / "agent.mrl").certificate() == agent.certificate()


def test_another_environment_is_refused(tmp_path):
    agent = MatrixRL(make("river-swim"), seed=0)
    agent.learn(3)
    agent.save(tmp_path / "a.npz")
    for other in (make("river-swim", n_states=5), make("river-swim", horizon=9), make("deep-sea")):
        with pytest.raises(InvalidInput, match="env must be the problem"):
            MatrixRL.load(tmp_path / "a.npz", env=other)


def test_saving_is_atomic_and_never_silent(tmp_path, monkeypatch):
    agent = MatrixRL(make("river-swim"), seed=0)
    agent.learn(3)
    target = tmp_path / "a.npz"
    agent.save(target)
    before = target.read_bytes()
    agent.learn(3)

    def full_disk(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(CheckpointError, match="No space left"):
        agent.save(target)
    assert target.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]
    with pytest.raises(CheckpointError, match="cannot write"):
        agent.save(tmp_path / "missing" / "a.npz")
    with pytest.raises(CheckpointError, match="cannot write"):
        agent.certificate().save(".")


@pytest.fixture
def saved(tmp_path):
    agent = MatrixRL(make("linear-mdp", n_states=20, d=4, horizon=3), seed=0)
    agent.learn(4)
    agent.begin_episode()
    agent.observe(0, 0, 0.5, 1)
    agent.save(tmp_path / "good.npz")
    return tmp_path / "good.npz"


def rewrite(source, target, change):
    """Copy a checkpoint with some of its members changed, {name: bytes or None}, and with a new digest."""
    target.write_bytes(changed(source.read_bytes(), change))


def with_header(source, target, **changes):
    target.write_bytes(hostile.with_header(source.read_bytes(), **changes))


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.5, 0.95, 0.999])
def test_truncated_files(saved, tmp_path, keep):
    data = saved.read_bytes()
    (tmp_path / "cut").write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(CheckpointError, match=r"truncated|not a matrixrl file"):
        MatrixRL.load(tmp_path / "cut")


def test_every_flipped_bit_is_refused(saved, tmp_path):
    """Bit rot, wherever it is: the digest is of every byte."""
    data = saved.read_bytes()
    for position in {*np.random.default_rng(0).integers(0, len(data), 150).tolist(), 0, len(data) - 1}:
        damaged = bytearray(data)
        damaged[position] ^= 1 << (position % 8)
        (tmp_path / "rot").write_bytes(damaged)
        with pytest.raises(CheckpointError):
            MatrixRL.load(tmp_path / "rot")


def test_an_edit_without_a_new_digest_is_refused_by_name(saved, tmp_path):
    data = bytearray(saved.read_bytes())
    data[data.index(b"problem_reward.npy") + 200] ^= 1
    (tmp_path / "edit").write_bytes(data)
    with pytest.raises(CheckpointError, match="damaged or was changed"):
        MatrixRL.load(tmp_path / "edit")


def test_numpy_reads_the_arrays_of_a_checkpoint(saved):
    with np.load(saved) as archive:
        assert archive["learned_design"].shape == (1, 4, 4)


def test_foreign_files(tmp_path):
    np.savez(tmp_path / "foreign.npz", a=np.zeros(3))
    (tmp_path / "text").write_text("hello")
    (tmp_path / "pickle").write_bytes(pickle.dumps({"a": 1}))
    for name, words in [
        ("foreign.npz", "no header"),
        ("text", "not a matrixrl file"),
        ("pickle", "not a matrixrl file"),
        ("nothing", "is not a file"),
        (".", "is not a file"),
    ]:
        with pytest.raises(CheckpointError, match=words):
            MatrixRL.load(tmp_path / name)


def test_newer_versions_say_upgrade_and_older_ones_that_they_are(saved, tmp_path):
    assert header_of(saved.read_bytes())["version"] == FORMAT_VERSION
    with_header(saved, tmp_path / "new", version=99)
    with pytest.raises(CheckpointError, match=r"format 99.*newer than.*upgrade"):
        MatrixRL.load(tmp_path / "new")
    with_header(saved, tmp_path / "old", version=2)
    with pytest.raises(CheckpointError, match=r"format 2, .* older than"):
        MatrixRL.load(tmp_path / "old")


def test_a_file_of_format_3_says_which_version_wrote_it(tmp_path):
    """As `numpy.savez` wrote it, without a digest."""
    header = {"format": "matrixrl-agent", "version": 3, "library": "0.7.0"}
    np.savez(tmp_path / "old.npz", header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), a=np.zeros(3))
    words = "format 3, written by matrixrl '0.7.0', older than the .* load it with the version that wrote it"
    with pytest.raises(CheckpointError, match=words):
        MatrixRL.load(tmp_path / "old.npz")


def test_a_header_that_could_not_be_read_is_not_written():
    with pytest.raises(CheckpointError, match="the header would have"):
        pack("matrixrl-agent", {"long": "x" * (8 << 20)}, {})


@pytest.mark.parametrize("words", [np.zeros(6, dtype=np.uint64), np.ones(5, dtype=np.uint64), np.ones(6)])
def test_a_damaged_stream_of_the_environment_is_refused(saved, tmp_path, words):
    rewrite(saved, tmp_path / "odd", {"env_stream.npy": npy(words)})
    with pytest.raises(CheckpointError, match="random state must be one"):
        MatrixRL.load(tmp_path / "odd", make("linear-mdp", n_states=20, d=4, horizon=3))


DAMAGED_ADVICE = [(9, [0]), (0, [99]), (0, [0.5]), (0, []), (0, [0, 0]), (0, [[0]]), (-2, [0]), (0, None)]


@pytest.mark.parametrize(("action", "states"), DAMAGED_ADVICE, ids=str)
def test_damaged_advice_is_refused(saved, tmp_path, action, states):
    told = None if states is None else npy(np.array(states))
    advice = {"episodes_advised.npy": npy(np.array([action])), "episodes_advised_states.npy": told}
    rewrite(saved, tmp_path / "odd", advice)
    with pytest.raises(CheckpointError, match="cannot be restored"):
        MatrixRL.load(tmp_path / "odd")


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("pwned",))


def test_pickles_are_never_opened(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hostile = npy(np.array([Bomb()], dtype=object))
    for member in ("header.npy", "problem_reward.npy", "learned_cross_moment.npy", "extra.npy"):
        rewrite(saved, tmp_path / "hostile", {member: hostile})
        with pytest.raises(CheckpointError, match="type object"):
            MatrixRL.load(tmp_path / "hostile")
    assert not (tmp_path / "pwned").exists()


def test_arrays_that_claim_more_than_the_file_holds_are_refused_before_allocation(saved, tmp_path):
    huge = raw_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000000), }")
    rewrite(saved, tmp_path / "huge", {"problem_reward.npy": huge})
    with pytest.raises(CheckpointError, match="claims"):
        MatrixRL.load(tmp_path / "huge")


def test_compressed_members_are_refused(saved, tmp_path):
    (tmp_path / "z").write_bytes(archive_of(members_of(saved.read_bytes()), zipfile.ZIP_DEFLATED))
    with pytest.raises(CheckpointError, match="compressed"):
        MatrixRL.load(tmp_path / "z")


@pytest.mark.parametrize(
    "change",
    [
        {"algorithm": "kernel-matrix-rl"},
        {"algorithm": ...},
        {"settings": 5},
        {"settings": {}},
        {"settings": ...},
        {"objects": ...},
        {"seed": "zero"},
        {"seed": -1},
        {"certified": 999},
        {"certified": ...},
        {"problem": ...},
        {"plans": ...},
        {"plans": []},
        {"plans": [{}]},
        {"plans": [3]},
        {"plans": [{"policy": 0, "values": 0, "empty": 0}, {"policy": 0, "values": 0, "empty": 0}]},
        {"plans": [{"policy": 0, "values": 0, "empty": 0}, {"empty": 0, "policy": 0, "values": 0}]},
        {"plans": [{"policy": 0, "values": 0, "empty": 1}]},
        {"plans": [{"policy": 0, "values": 0, "empty": False}]},
        {"plans": [{"policy": 0, "values": 0}]},
        {"plans": 3},
        {"n_begun": -1},
        {"n_begun": ...},
        {"n_begun": 10**30},
        {"late_episodes": "forget"},
        {"late_episodes": ...},
        {"compiled": "maybe"},
        {"version": "one"},
        {"version": 0},
        {"format": "other"},
    ],
    ids=str,
)
def test_headers_that_do_not_fit_are_refused(saved, tmp_path, change):
    with_header(saved, tmp_path / "odd", **change)
    with pytest.raises(CheckpointError):
        MatrixRL.load(tmp_path / "odd")


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "other"},
        {"kind": ...},
        {"horizon": 0},
        {"horizon": "long"},
        {"reward_range": [0]},
        {"reward_range": None},
        {"end_state": 999},
        {"states": {"kind": "discrete", "count": 10**9, "first": 0}},
        {"states": None},
        {"states": ...},
        {"states": {"kind": "discrete", "count": 20, "first": "x"}},
        {"actions": {"kind": "discrete", "count": 2, "first": 0.5}},
        {"actions": {"kind": "discrete", "count": 3, "first": 0}},
        {"end_is_added": True},
        {"knows_reward": False},
        {"knows_reward": "yes"},
        {"phi": "one-hot"},
        {"psi": "one-hot"},
    ],
    ids=str,
)
def test_headers_of_the_problem_that_do_not_fit_are_refused(saved, tmp_path, change):
    problem = {**header_of(saved.read_bytes())["problem"], **change}
    with_header(saved, tmp_path / "odd", problem={k: v for k, v in problem.items() if v is not ...})
    with pytest.raises(CheckpointError):
        MatrixRL.load(tmp_path / "odd")


@pytest.mark.parametrize(
    ("member", "array"),
    [
        ("problem_reward.npy", np.full((20, 5), np.nan)),
        ("problem_reward.npy", np.zeros((20, 4))),
        ("problem_reward.npy", np.full((20, 5), 7.0)),
        ("problem_reward.npy", np.zeros(3)),
        ("problem_start.npy", np.ones(20)),
        ("problem_phi.npy", np.zeros((20, 5))),
        ("problem_psi.npy", np.zeros((20, 4))),
        ("learned_cross_moment.npy", np.zeros((1, 4, 5))),
        ("learned_design.npy", np.zeros((1, 4, 4), dtype=np.float32)),
        ("learned_design.npy", np.zeros((1, 4))),
        ("learned_width_sq.npy", np.full((1, 100), np.inf)),
        ("history_returns.npy", np.zeros(3)),
        ("plan_0_policy.npy", np.full((1, 3, 20), 9, dtype=np.uint8)),
        ("plan_0_policy.npy", np.zeros((1, 2, 20), dtype=np.uint8)),
        ("plan_7_policy.npy", np.zeros(1)),
        ("episodes_next_states.npy", np.array([99])),
        ("episodes_actions.npy", np.array([0.5])),
        ("episodes_rewards.npy", np.zeros(9)),
        ("episodes_number.npy", np.array(0)),
        ("episodes_plan.npy", np.array([1])),
        ("episodes_length.npy", np.array([2])),
        ("episodes_length.npy", np.array([0])),
        ("episodes_length.npy", np.array([-1])),
        ("episodes_terminated.npy", np.array([1])),
        ("episodes_waiting.npy", np.array([True, False])),
        ("episodes_other.npy", np.array([1.0])),
        ("learned_refresh.npy", None),
        ("learned_episode.npy", np.array(77)),
        ("learned_episode.npy", np.array(3.5)),
        ("learned_episode.npy", np.array(-1)),
        ("learned_episode.npy", None),
        ("learned_n_plans.npy", np.array([1, 1])),
        ("learned_streams.npy", np.zeros((0, 6), dtype=np.uint64)),
        ("learned_streams.npy", np.zeros((1, 6), dtype=np.uint64)),
        ("learned_streams.npy", np.ones((1, 6))),
        ("plan_0_values.npy", None),
        ("plan_0_empty.npy", np.zeros((1, 1), dtype=np.int64)),
        ("episodes_states.npy", None),
        ("episodes_plan.npy", None),
    ],
)
def test_arrays_that_do_not_fit_are_refused(saved, tmp_path, member, array):
    rewrite(saved, tmp_path / "odd", {member: None if array is None else npy(array)})
    with pytest.raises(CheckpointError, match="cannot be restored"):
        MatrixRL.load(tmp_path / "odd")


@pytest.mark.parametrize("shape", ["(True,)", "(1,) * 70", "(-1,)", "(1, 'a')", "((1,),)", "((((("])
def test_odd_shapes_in_array_headers(saved, tmp_path, shape):
    raw = raw_npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}")
    rewrite(saved, tmp_path / "odd", {"problem_reward.npy": raw})
    with pytest.raises(CheckpointError):
        MatrixRL.load(tmp_path / "odd")


def test_an_encrypted_member_is_refused(saved, tmp_path):
    data = bytearray(saved.read_bytes())
    with zipfile.ZipFile(saved) as archive:
        offset = archive.getinfo("problem_reward.npy").header_offset
    data[offset + 6] |= 1
    for match in range(len(data)):
        if data[match : match + 4] == b"PK\x01\x02":
            data[match + 8] |= 1
    (tmp_path / "locked").write_bytes(resealed(bytes(data)))
    with pytest.raises(CheckpointError, match="encrypted"):
        MatrixRL.load(tmp_path / "locked")


def test_a_large_dimension_is_not_allocated_on_the_word_of_a_small_file(saved, tmp_path):
    wide = np.zeros((20, 5, 600))
    wide[:, :, 0] = 1.0
    change = {"problem_phi.npy": npy(wide), "learned_cross_moment.npy": npy(np.zeros((1, 600, 4)))}
    rewrite(saved, tmp_path / "odd", change)
    with pytest.raises(CheckpointError, match="must have shape"):
        MatrixRL.load(tmp_path / "odd")
