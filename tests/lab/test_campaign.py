from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from experiments import SMALL, experiment, finished

from matrixrl.algorithms import ALGORITHMS
from matrixrl.envs import CONTROL as ENVIRONMENTS_OF_CONTROL
from matrixrl.errors import MatrixRLError, ProtocolError, UnknownName
from matrixrl.play import Simulation, run_seeds
from matrixrl.play.resume import restore_simulation, save_simulation
from matrixrl_lab import experiments, play, run_experiment
from matrixrl_lab.analysis import summarise
from matrixrl_lab.execution import Campaign, blocks, executors, make_executor
from matrixrl_lab.execution.blocks import play_block
from matrixrl_lab.execution.executors import ProcessExecutor, RayExecutor, SerialExecutor
from matrixrl_lab.export import export
from matrixrl_lab.spec import read_spec, work_out
from matrixrl_lab.store import Store


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The digest of the small experiment, run here without interruption."""
    return finished(tmp_path_factory.mktemp("reference") / "s")


class Stopped(Exception):
    """What stops a campaign in these tests."""


def stop_after(count):
    """Return an observer that stops the campaign after some blocks."""

    class Observer:
        seen = 0

        def block(self, order, result):
            self.seen += 1
            if self.seen == count:
                raise Stopped

    return Observer()


@pytest.mark.parametrize("count", [1, 2, 6, 11, 17])  # of 18: within a task, between tasks, before the last
def test_stopped_after_a_block_and_resumed_is_bit_for_bit_the_same(tmp_path, reference, count):
    folder = tmp_path / "s"
    with Store.create(folder, experiment(tmp_path)) as store, pytest.raises(Stopped):
        Campaign(store, make_executor("serial"), [stop_after(count)]).run()
    with Store.open_to_write(folder) as store:
        again = Campaign(store, make_executor("serial"))
        assert 0 < again.stored < again.total
        again.run()
        assert store.digest() == reference


@pytest.mark.full  # killed workers give the same rows below
def test_processes_and_ray_give_the_same_rows_as_this_process(tmp_path, reference):
    assert finished(tmp_path / "processes", executor=make_executor("processes", 2)) == reference
    assert finished(tmp_path / "ray", executor=make_executor("ray", 2)) == reference


def dying(folder, times, first=20):
    """Return a player whose worker kills itself, as the system does when memory runs out."""
    from matrixrl_lab.execution.blocks import play_block as play

    def player(order):
        import os
        import signal

        deaths = len(list(folder.iterdir()))
        if order.first == first and order.key == (0, 0) and deaths < times:
            (folder / str(deaths)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return play(order)

    return player


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ProcessExecutor, RayExecutor])
def test_a_worker_that_is_killed_costs_its_block_only(tmp_path, reference, kind):
    graves = tmp_path / "graves"
    graves.mkdir()
    assert finished(tmp_path / "s", executor=kind(2, play=dying(graves, 1))) == reference
    assert len(list(graves.iterdir())) == 1, "a worker did die"


@pytest.mark.slow
def test_a_worker_that_always_dies_fails_its_task_and_no_other(tmp_path, reference):
    graves = tmp_path / "graves"
    graves.mkdir()
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        outcome = Campaign(store, ProcessExecutor(1, play=dying(graves, 99))).run()
        assert outcome.failed == [(0, (0, 1), "its worker died 3 times (killed, or out of memory)")]
        failed = [(row.cell, row.seed, row.episodes) for row in store.runs() if row.status == "failed"]
        assert failed == [(0, 0, 20), (0, 1, 20)]
        assert sum(row.status == "done" for row in store.runs()) == 7
    with Store.open_to_write(tmp_path / "s") as store:
        Campaign(store, make_executor("serial")).run()
        assert store.digest() == reference


@pytest.mark.slow
def test_an_innocent_block_beside_one_that_always_dies_is_played(tmp_path, monkeypatch):
    """One death alone is enough to fail here, because each costs two workers that start."""
    monkeypatch.setattr(executors, "_ATTEMPTS", 1)
    graves = tmp_path / "graves"
    graves.mkdir()
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        outcome = Campaign(store, ProcessExecutor(2, play=dying(graves, 99))).run()
        assert [(cell, seeds) for cell, seeds, _ in outcome.failed] == [(0, (0, 1))]
        assert len(list(graves.iterdir())) >= 2, "in company, and alone"
        assert sum(row.status == "done" for row in store.runs()) == 7


def test_an_alarm_takes_the_proof_away(tmp_path):
    text = """
name = "misfit"
episodes = 40
seeds = 2
block = 10
[[env]]
name = "river-swim"
settings = { n_states = 12 }
[[agent]]
name = "kernel-matrix-rl"
settings = { k_phi = "linear" }
"""
    finished(tmp_path / "s", text)
    with Store.open_to_read(tmp_path / "s") as store:
        assert store.facts(0)["guarantee"]["reason"].startswith("the features explain 13.4 % of the known transitions")
        assert all(row.alarms > 0 for row in store.runs())
        assert summarise(store)[0].agents[0].guarantee.reason.startswith("misspecification alarm on 2 of 2 seeds")
        ends = [row.outcome["certificate"]["guarantee"]["reason"] for row in store.runs()]
        assert all("misspecification alarm" in words for words in ends)


def test_a_window_must_begin_where_the_simulation_stands():
    with pytest.raises(ProtocolError, match="the window is episodes 3 to 5, and 0 were played"):
        Simulation("river-swim", n_episodes=6, seeds=[0], window=range(3, 6)).run()


@pytest.mark.slow
def test_an_export_during_a_run_is_whole(tmp_path):
    """A writer in a thread, small blocks, exports all the while: each has as many numbers in every column."""
    folder = tmp_path / "s"
    Store.create(folder, experiment(tmp_path, episodes=200, block=10)).close()

    def write():
        with Store.open_to_write(folder) as store:
            Campaign(store, make_executor("serial")).run()

    thread = threading.Thread(target=write)
    thread.start()
    exported = 0
    while thread.is_alive():
        with Store.open_to_read(folder) as store:
            export(store, tmp_path / "all.csv", "csv")
            summarise(store)
        exported += 1
    thread.join()
    assert exported >= 5


def test_an_agent_that_fails_is_named_with_its_reason(tmp_path):
    def play(order):
        if order.cell.agent == "psrl":
            raise ZeroDivisionError("division by zero")
        return play_block(order)

    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        outcome = Campaign(store, SerialExecutor(play)).run()
        reasons = {reason for _, _, reason in outcome.failed}
        assert len(outcome.failed) == 2
        assert all(reason.startswith("ZeroDivisionError: division by zero (test_campaign.py:") for reason in reasons)
        assert {row.cell for row in store.runs() if row.status == "done"} == {0, 2}


def stored_episodes(folder):
    """Return how many episodes a store has, 0 if there is none."""
    if not Store.is_there(folder):
        return 0
    with Store.open_to_read(folder) as store:
        return sum(row.episodes for row in store.runs())


@pytest.mark.slow
def test_killed_at_random_moments_and_resumed_is_bit_for_bit_the_same(tmp_path, reference):
    """Killed once at any time, twice after more blocks; benchmarks/kill_and_resume.py does it 50 times."""
    folder, spec = tmp_path / "s", tmp_path / "small.toml"
    spec.write_text(SMALL)
    rng = np.random.default_rng(7)
    start = [sys.executable, "-m", "matrixrl", "compare", str(spec), "--out", str(folder), "--workers", "2"]
    resume = [sys.executable, "-m", "matrixrl", "resume", str(folder), "--workers", "2"]
    kills = 0
    while True:
        command = resume if (folder / "results.sqlite").exists() else start
        process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if kills == 0:
            time.sleep(float(rng.uniform(0.5, 1.5)))
        else:
            before = stored_episodes(folder)
            while process.poll() is None and (kills == 3 or stored_episodes(folder) == before):
                time.sleep(0.02)
            time.sleep(float(rng.uniform(0.0, 0.1)))
        if process.poll() is not None:
            assert process.returncode == 0, process.stderr.read().decode()
            break
        os.kill(process.pid, signal.SIGKILL)  # the parent alone: its workers end by themselves
        process.communicate()
        deadline = time.monotonic() + 60
        while subprocess.run(["pgrep", "-g", str(process.pid)], capture_output=True, check=False).stdout:
            assert time.monotonic() < deadline, "a process is left behind"
            time.sleep(0.1)
        kills += 1
    process.communicate()
    assert kills >= 2
    with Store.open_to_read(folder) as store:
        assert store.digest() == reference


@pytest.mark.parametrize("agent", sorted(set(ALGORITHMS) - {"kernel-control"}))
def test_every_agent_goes_on_from_its_saved_state_bit_for_bit(agent):
    horizon = 1 if agent in ("lin-ucb", "kernel-ucb") else 8
    given = {
        "agent": agent,
        "seeds": [3, 5],
        "n_episodes": 14,
        "env_settings": {"n_states": 4, "horizon": horizon, "noisy_rewards": True},
        "settings": {"known_reward": False},
    }
    whole = Simulation("river-swim", **given).run()
    first = Simulation("river-swim", **given, window=range(6))
    first.run()
    second = Simulation("river-swim", **given, window=range(6, 14))
    restore_simulation(second, save_simulation(first))
    rest = second.run()
    assert np.array_equal(np.hstack([first.series.regret, rest.regret]), whole.regret)
    assert np.array_equal(np.hstack([first.series.returns, rest.returns]), whole.returns)
    assert np.array_equal(np.hstack([first.series.upper, rest.upper]), whole.upper)
    assert rest.n_plans == whole.n_plans


def test_certificates_are_kept_where_there_are_any(tmp_path):
    finished(tmp_path / "s", certify=True)
    with Store.open_to_read(tmp_path / "s") as store:
        lower, upper = store.read(0, "lower"), store.read(0, "upper")
        value = store.facts(0)["optimal_value"]
        assert lower.shape == upper.shape == (3, 60)
        assert (lower <= value).all()
        assert (upper >= value - 1e-9).all()
        assert store.read(1, "lower").shape == (3, 0), "psrl has none"
        ends = [row.outcome["certificate"] for row in store.runs() if row.cell == 0]
        assert all(end["lower"] <= value <= end["upper"] + 1e-9 for end in ends)


CONTROL = """\
name = "control"
episodes = 6
seeds = 2
block = 2
[[env]]
name = "cart-pole"
settings = { horizon = 25, noise = 0.2 }
[[env]]
name = "pendulum"
settings = { horizon = 10, sparse = true, torques = 3 }
[[agent]]
name = "kernel-matrix-rl"
settings = { budget = 40 }
[[agent]]
name = "random"
"""


@pytest.fixture(scope="module")
def control(tmp_path_factory):
    """A finished experiment on control tasks, played without interruption."""
    folder = tmp_path_factory.mktemp("control") / "s"
    return folder, finished(folder, CONTROL)


def test_control_tasks_are_measured_by_returns(control):
    with Store.open_to_read(control[0]) as store:
        assert store.read(0, "return").shape == (2, 6)
        assert store.read(0, "regret").shape == store.read(0, "optimistic").shape == (2, 0)
        assert ((store.read(1, "return") > 0) & (store.read(1, "return") <= 25)).all()
        assert "optimal_value" not in store.facts(0)
        assert not store.facts(0)["guarantee"]["holds"]
        settings = {"horizon": 25, "noise": 0.2}
        for seed in (0, 1):
            alone = run_seeds(
                "cart-pole", n_episodes=6, seeds=[seed], env_settings=settings, agent="kernel-matrix-rl", budget=40
            )
            assert np.array_equal(store.read(0, "return", [seed]), alone.returns), "as in one piece"


@pytest.mark.parametrize("count", [1, 2, 5, 14])
def test_a_control_task_stopped_in_the_middle_of_a_seed_goes_on_bit_for_bit(tmp_path, control, count):
    with Store.create(tmp_path / "s", experiment(tmp_path, CONTROL)) as store, pytest.raises(Stopped):
        Campaign(store, make_executor("serial"), [stop_after(count)]).run()
    with Store.open_to_write(tmp_path / "s") as store:
        assert [row.episodes for row in store.runs() if row.status == "running"] in ([2], [4])
        again = Campaign(store, make_executor("serial"))
        assert again.stored == 2 * count, "a stop costs no block that was stored"
        again.run()
        assert store.digest() == control[1]


@pytest.mark.full  # control tasks that are stopped, and workers that are killed, have tests above
def test_a_control_task_whose_workers_are_killed_goes_on_bit_for_bit(tmp_path, control):
    graves = tmp_path / "graves"
    graves.mkdir()
    executor = ProcessExecutor(2, play=dying(graves, 1, first=2))
    assert finished(tmp_path / "s", CONTROL, executor) == control[1]
    assert len(list(graves.iterdir())) == 1, "a worker did die"


@pytest.mark.parametrize("env", sorted(ENVIRONMENTS_OF_CONTROL))
def test_every_control_task_goes_on_from_its_saved_state_bit_for_bit(env):
    given = {"agent": "random", "seeds": [3], "n_episodes": 6, "env_settings": {"horizon": 12, "noise": 0.3}}
    whole = Simulation(env, **given).run()
    first = Simulation(env, **given, window=range(4))
    first.run()
    second = Simulation(env, **given, window=range(4, 6))
    restore_simulation(second, save_simulation(first))
    assert np.array_equal(np.hstack([first.series.returns, second.run().returns]), whole.returns)
    assert np.array_equal(first.last.states[0], whole_states(env, given, 4)[-1])


def whole_states(env, given, n):
    """Return the states of each episode of one whole run."""
    simulation, found = Simulation(env, **given), []
    for _ in range(n):
        simulation.advance()
        found.append(simulation.last.states[0])
    return found


def test_a_state_that_was_not_stored_costs_the_seed_and_nothing_else(tmp_path, reference):
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store, pytest.raises(Stopped):
        Campaign(store, make_executor("serial"), [stop_after(5)]).run()
    with contextlib.closing(sqlite3.connect(tmp_path / "s" / "results.sqlite")) as database, database:
        assert database.execute("DELETE FROM states").rowcount == 1
    with Store.open_to_write(tmp_path / "s") as store:
        again = Campaign(store, make_executor("serial"))
        assert again.stored == 120, "two seeds were finished, one begins anew"
        again.run()
        assert store.digest() == reference


def test_a_state_of_another_version_costs_the_seed_and_nothing_else(tmp_path, reference, monkeypatch):
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store, pytest.raises(Stopped):
        Campaign(store, make_executor("serial"), [stop_after(5)]).run()
    monkeypatch.setattr("matrixrl.archive.FORMAT_VERSION", 10**6)
    with Store.open_to_write(tmp_path / "s") as store:
        outcome = Campaign(store, make_executor("serial")).run()
        assert (outcome.failed, outcome.restarted) == ([], 1)
        assert store.digest() == reference


def test_a_state_too_large_to_store_is_played_in_one_block(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "_LARGEST_STATE", 0)
    seen = []

    class Observer:
        def block(self, order, result):
            seen.append((order.first, result.columns["return"].shape[1], result.state))

    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        Campaign(store, make_executor("serial"), [Observer()]).run()
        assert [row.episodes for row in store.runs()] == [60] * 9
    assert (0, 60, None) in seen


@pytest.mark.slow
def test_sampled_columns_go_on_bit_for_bit(tmp_path):
    sampled = SMALL.replace("river-swim", "soft-grid").replace("n_states = 4", "side = 8")
    sampled = sampled.replace('preset = "tuned"', 'preset = "tuned", columns = 20').replace("psrl", "random")
    sampled = sampled.replace('[[agent]]\nname = "random"\n', "", 1)
    whole = finished(tmp_path / "whole", sampled)
    with Store.create(tmp_path / "parts", experiment(tmp_path, sampled)) as store, pytest.raises(Stopped):
        Campaign(store, make_executor("serial"), [stop_after(2)]).run()
    with Store.open_to_write(tmp_path / "parts") as store:
        Campaign(store, make_executor("serial")).run()
        assert store.digest() == whole


class Named(Exception):
    """What ends a run in these tests, with the name of the executor that it would have used."""


@pytest.fixture
def named_executor(monkeypatch):
    """Let the lab raise the name of the executor that it would make."""

    def raise_name(on, workers=None, address=None):
        raise Named(on)

    monkeypatch.setattr(experiments, "make_executor", raise_name)


@pytest.mark.parametrize("name", ["serial", "ray", None])
def test_the_spec_chooses_the_executor_and_the_caller_wins(tmp_path, named_executor, name):
    text = SMALL if name is None else f'executor = "{name}"\n{SMALL}'
    expected = name or "processes"
    (tmp_path / "small.toml").write_text(text)
    with pytest.raises(Named, match=expected):
        run_experiment(tmp_path / "small.toml", tmp_path / "s")
    with pytest.raises(Named, match="processes"):
        run_experiment(tmp_path / "small.toml", tmp_path / "s", on="processes")
    assert not (tmp_path / "s").exists(), "an executor that cannot be made leaves no store"
    with Store.create(tmp_path / "s", work_out(read_spec(tmp_path / "small.toml"))) as store:
        with pytest.raises(Named, match=expected):
            play(store)
        with pytest.raises(Named, match="serial"):
            play(store, on="serial")
    (tmp_path / "small.toml").write_text(f'executor = "serial"\n{SMALL}')
    with pytest.raises(Named, match="serial"):
        run_experiment(tmp_path / "small.toml", tmp_path / "s")  # the same experiment: only the executor is another


def test_executors_are_refused_by_name(tmp_path):
    with pytest.raises(UnknownName, match="--on must be one of serial, processes, ray"):
        make_executor("cloud")
    with pytest.raises(MatrixRLError, match="--workers must be at least 1"):
        make_executor("processes", 0)
    with pytest.raises(MatrixRLError, match="--address must be left out"):
        make_executor("serial", None, "127.0.0.1:6379")
    with pytest.raises(MatrixRLError, match=r"no Ray cluster answers at 127\.0\.0\.1:9"):
        make_executor("ray", None, "127.0.0.1:9")


def test_shipped_specs_run_in_a_small_form(tmp_path):
    for name in ("quick", "riverswim", "linear"):
        small = work_out(read_spec(name, {"episodes": 4, "seeds": 2}))
        with Store.create(tmp_path / name, small) as store:
            assert Campaign(store, make_executor("serial")).run().failed == []
            assert all(row.status == "done" for row in store.runs())
