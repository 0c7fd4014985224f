from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog

import matrixrl
from matrixrl.errors import InvalidInput, MissingExtra
from matrixrl_lab.event_files import TensorBoardCallback
from matrixrl_lab.execution import Campaign, make_executor
from matrixrl_lab.execution.blocks import play_block
from matrixrl_lab.execution.executors import SerialExecutor
from matrixrl_lab.spec import read_spec, work_out
from matrixrl_lab.store import Store
from matrixrl_lab.tensorboard import CURVE_POINTS, TensorBoardObserver

SINGLE = 1e-6  # event files keep single precision

SPEC = """
name = "small"
episodes = {episodes}
seeds = 5
block = {block}
batch = 2
[[env]]
name = "river-swim"
settings = {{ n_states = 4 }}
[[agent]]
name = "matrix-rl"
id = "../../ours"
[[agent]]
name = "random"
"""


def events(path: Path) -> list[Event]:
    """Read an event file: length, checksum, message, checksum."""
    data, found, at = path.read_bytes(), [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        found.append(Event.FromString(data[at + 12 : at + 12 + length]))
        at += 12 + length + 4
    return found


def curves(path: Path) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for event in events(path):
        for value in event.summary.value:
            steps = found.setdefault(value.tag, {})
            assert event.step not in steps
            steps[event.step] = value.simple_value
    return found


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("events.out.tfevents.*"))


def agent(**more):
    return matrixrl.MatrixRL(matrixrl.make("river-swim", n_states=4), seed=3, **more)


def same(written: dict[int, float], values, first: int = 1) -> bool:
    assert list(written) == list(range(first, first + len(values)))
    np.testing.assert_allclose(list(written.values()), values, rtol=SINGLE, atol=1e-6)
    return True


def test_the_files_say_what_the_history_says(tmp_path):
    with TensorBoardCallback(tmp_path) as callback:
        history = agent().learn(30, callback=callback, certify=True)
    written = curves(*files(tmp_path))
    lower, upper = history.certified.T
    expected = {
        "episode/return": history.returns,
        "episode/length": history.lengths,
        "value/upper": history.upper,
        "regret/episode": history.regret,
        "regret/cumulative": history.cumulative_regret,
        "certificate/lower": lower,
        "certificate/upper": upper,
        "certificate/gap": upper - lower,
    }
    assert written.keys() == expected.keys()
    assert all(same(written[tag], values) for tag, values in expected.items())


def test_watching_changes_nothing(tmp_path):
    with TensorBoardCallback(tmp_path) as callback:
        watched = agent().learn(25, callback=callback)
    assert np.array_equal(watched.returns, agent().learn(25).returns)


def test_without_a_known_mdp_there_is_no_regret(tmp_path):
    with TensorBoardCallback(tmp_path) as callback:
        agent(measure_regret=False).learn(3, callback=callback)
    assert set(curves(*files(tmp_path))) == {"episode/return", "episode/length", "value/upper"}


def test_it_goes_on_where_the_agent_stands(tmp_path):
    learner = agent()
    learner.learn(10)
    refused = TensorBoardCallback(tmp_path / "refused")
    with refused, pytest.raises(InvalidInput, match=r"history=agent\.history"):
        learner.learn(1, callback=refused)
    with TensorBoardCallback(tmp_path / "going on", history=learner.history) as callback:
        learner.learn(5, callback=callback)
        history = learner.learn(4, callback=callback)
    written = curves(*files(tmp_path / "going on"))
    assert same(written["regret/cumulative"], history.cumulative_regret[11:], first=12)


def test_two_writers_in_one_second_keep_their_files(tmp_path):
    with TensorBoardCallback(tmp_path) as one, TensorBoardCallback(tmp_path) as two:
        agent().learn(3, callback=one)
        agent().learn(4, callback=two)
    assert sorted(len(curves(path)["episode/return"]) for path in files(tmp_path)) == [3, 4]


def test_without_tensorboardx_the_way_out_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(MissingExtra, match=r"matrixrl\[lab\]"):
        TensorBoardCallback(tmp_path)


def experiment(tmp_path, episodes=30, block=7, text=SPEC):
    spec = tmp_path / "spec.toml"
    spec.write_text(text.format(episodes=episodes, block=block))
    return work_out(read_spec(spec))


def expected_means(store: Store, number: int, seeds=None) -> np.ndarray:
    cell = store.experiment.cells[number]
    series = store.read(number, cell.measure, seeds)
    return (np.cumsum(series, axis=1) if cell.measure == "regret" else series).mean(axis=0)


def test_an_experiment_writes_the_means_of_its_store(tmp_path):
    board = tmp_path / "a" / "board"
    with (
        Store.create(tmp_path / "store", experiment(tmp_path)) as store,
        TensorBoardObserver(board, store) as observer,
    ):
        Campaign(store, make_executor("serial"), [observer]).run()
        observer.close()
        assert [path.parent.name for path in files(tmp_path)] == ["_.._ours", "random"]  # inside, whatever the id is
        for number, path in enumerate(files(tmp_path)):
            written = curves(path)
            assert list(written) == ["cumulative_regret/river-swim_n_states_4"]
            assert same(written["cumulative_regret/river-swim_n_states_4"], expected_means(store, number))
            names = {value.metadata.display_name for event in events(path) for value in event.summary.value}
            assert names == {"river-swim n_states=4"}


@pytest.mark.slow
def test_long_runs_are_thinned_to_steps_that_end_at_the_last(tmp_path):
    with (
        Store.create(tmp_path / "store", experiment(tmp_path, episodes=450, block=130)) as store,
        TensorBoardObserver(tmp_path / "board", store) as observer,
    ):
        Campaign(store, make_executor("serial"), [observer]).run()
        observer.close()
        (written,) = curves(files(tmp_path / "board" / "random")[0]).values()
        means = expected_means(store, 1)
    assert 100 <= len(written) <= CURVE_POINTS
    assert list(written)[-1] == 450
    np.testing.assert_allclose(list(written.values()), means[np.array(list(written)) - 1], rtol=SINGLE)


@pytest.mark.parametrize("stop_after", [3, 7, 12, 22])
def test_a_resumed_campaign_writes_whole_curves_that_replace_the_old(tmp_path, stop_after):
    board, looks = tmp_path / "board", 0

    def stop(campaign):
        nonlocal looks
        looks += 1
        if looks == stop_after:
            raise KeyboardInterrupt

    with (
        Store.create(tmp_path / "store", experiment(tmp_path)) as store,
        TensorBoardObserver(board, store) as observer,
        pytest.raises(KeyboardInterrupt),
    ):
        Campaign(store, make_executor("serial"), [observer]).run(stop)
    with Store.open_to_write(tmp_path / "store") as store:
        with TensorBoardObserver(board, store) as observer:
            Campaign(store, make_executor("serial"), [observer]).run()
        for number, name in enumerate(("_.._ours", "random")):
            earlier, last = files(board / name)
            (written,) = curves(last).values()
            assert same(written, expected_means(store, number))
            assert all(written[step] == value for old in curves(earlier).values() for step, value in old.items())
            first = [e for e in events(last) if e.HasField("session_log")]
            assert [(e.step, e.session_log.status) for e in first] == [(0, SessionLog.START)]


def fails_at_the_end_of_seed_2(order):
    if order.cell.agent == "random" and 2 in order.seeds and order.first > 0:
        raise RuntimeError("no luck")
    return play_block(order)


def test_the_mean_goes_on_without_seeds_that_failed(tmp_path):
    with Store.create(tmp_path / "store", experiment(tmp_path)) as store:
        with TensorBoardObserver(tmp_path / "board", store) as observer:
            outcome = Campaign(store, SerialExecutor(fails_at_the_end_of_seed_2), [observer]).run()
        assert [seeds for _, seeds, _ in outcome.failed] == [(2, 3)]
        (written,) = curves(*files(tmp_path / "board" / "random")).values()
        everyone, well = expected_means(store, 1), expected_means(store, 1, [0, 1, 4])
        assert len(everyone) == 7  # what all five have
        assert same(written, [*everyone, *well[7:]])


def test_control_tasks_write_returns(tmp_path):
    text = """
name = "control"
episodes = {episodes}
seeds = 2
block = {block}
env = [{{ name = "pendulum", settings = {{ horizon = 20 }} }}]
agent = [{{ name = "random" }}]
"""
    with Store.create(tmp_path / "store", experiment(tmp_path, episodes=5, block=2, text=text)) as store:
        with TensorBoardObserver(tmp_path / "board", store) as observer:
            Campaign(store, make_executor("serial"), [observer]).run()
        assert store.experiment.cells[0].measure == "return"
        written = curves(*files(tmp_path / "board"))
        assert list(written) == ["return/pendulum_horizon_20"]
        assert same(written["return/pendulum_horizon_20"], expected_means(store, 0))
