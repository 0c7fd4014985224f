from __future__ import annotations

import csv
import json
import signal
from dataclasses import replace

import numpy as np
import pytest

from matrixrl import FiniteMDP, InvalidInput, make, run_seeds
from matrixrl.errors import MatrixRLError, OutputExists
from matrixrl.play import OutputDirectory, Simulation
from matrixrl.play.resume import restore_simulation, save_simulation
from matrixrl.problems import tabular


def test_a_users_own_mdp_in_five_lines():
    mdp = FiniteMDP(np.full((3, 2, 3), 1 / 3), np.eye(3)[:, :2], horizon=4)
    result = run_seeds(mdp, n_episodes=10, seeds=2)
    assert result.regret.shape == (2, 10)
    assert result.env == "FiniteMDP"
    assert result.guarantee


def test_environments_by_object_and_by_name_are_the_same_run():
    by_name = run_seeds("river-swim", n_episodes=8, seeds=2)
    by_object = run_seeds(make("river-swim"), n_episodes=8, seeds=2)
    np.testing.assert_array_equal(by_name.regret, by_object.regret)


def test_summary_is_complete_and_consistent():
    result = run_seeds("river-swim", n_episodes=30, seeds=[4, 9], preset="tuned")
    summary = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert summary["seeds"] == [4, 9]
    assert summary["n_episodes"] == 30
    assert summary["regret"]["per_seed"] == pytest.approx(result.regret.sum(axis=1).tolist())
    assert summary["regret"]["mean"] == pytest.approx(np.mean(summary["regret"]["per_seed"]))
    assert summary["regret"]["std"] == pytest.approx(np.std(summary["regret"]["per_seed"], ddof=1))
    assert summary["regret_curve"]["episode"][0] == 1
    assert summary["regret_curve"]["episode"][-1] == 30
    assert summary["regret_curve"]["mean"][-1] == pytest.approx(summary["regret"]["mean"])
    assert summary["settings"]["n_episodes"] == 30
    assert "tuned" in summary["guarantee"]["reason"]
    assert summary["alarms"] == []
    assert summary["interrupted"] is False


def test_stopping_keeps_what_was_played():
    simulation = Simulation("river-swim", n_episodes=50, seeds=[0])
    stopped = simulation.run(callback=lambda done: done < 12)
    assert stopped.n_episodes == 12
    assert stopped.interrupted
    whole = run_seeds("river-swim", n_episodes=50, seeds=[0])
    np.testing.assert_array_equal(simulation.run().regret, whole.regret)  # and goes on where it was


def test_an_interrupt_passes_through_with_the_finished_episodes_kept():
    simulation = Simulation("river-swim", n_episodes=50, seeds=[0])

    def press_ctrl_c(done):
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulation.run(callback=press_ctrl_c)
    assert simulation.result().n_episodes == 7
    assert simulation.result().interrupted


def test_an_interrupt_while_an_episode_is_learned_does_not_rewind_the_streams(monkeypatch):
    simulation = Simulation("river-swim", n_episodes=20, seeds=[0, 1])
    update = simulation.algorithm.update

    def learn_and_press_ctrl_c(steps, plan):
        update(steps, plan)
        if simulation.algorithm.episode == 7:
            signal.raise_signal(signal.SIGINT)  # held back until the episode is noted

    monkeypatch.setattr(simulation.algorithm, "update", learn_and_press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        simulation.run()
    assert simulation.done == 7
    np.testing.assert_array_equal(simulation.run().regret, run_seeds("river-swim", n_episodes=20, seeds=2).regret)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"n_episodes": 0}, "n_episodes must be at least 1"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"seeds": []}, "seeds must not be empty"),
        ({"seeds": [1, 1]}, "seeds must differ"),
        ({"seeds": [-1]}, "seeds must be at least 0"),
        ({"agent": "matrixrl"}, "Did you mean 'matrix-rl'"),
        ({"exploratoin": 1}, "Did you mean 'exploration'"),
    ],
)
def test_bad_calls(call, words):
    with pytest.raises(InvalidInput) as caught:
        run_seeds("river-swim", **{"n_episodes": 5, **call})
    assert words in str(caught.value)


def test_alarms_are_listed_by_seed():
    from matrixrl.features import Features, OneHotPsi, TablePhi

    world = tabular(n_states=4, n_actions=2, horizon=6, seed=0).mdp
    phi = np.ones((4, 2, 2)) * [1.0, 0.0]
    phi[:, 1] = [2.0, 0.0]  # sums to one at action 0, so to two at action 1
    wrong = FiniteMDP(world.transitions, world.task.reward, 6, features=Features(TablePhi(phi), OneHotPsi(4)))
    result = run_seeds(wrong, n_episodes=300, seeds=3, c_core=1.0)
    listed = result.alarm_list()
    assert [entry["seed"] for entry in listed] == [0, 1, 2]
    assert all(1 <= entry["first_episode"] <= 300 for entry in listed)
    assert "alarm on 3 of 3 seeds" in result.guarantee.reason


@pytest.mark.slow
def test_right_features_raise_no_alarm():
    for name in ("river-swim", "linear-mdp", "four-rooms"):
        assert not run_seeds(name, n_episodes=200, seeds=4, set="normalised").alarms.any()


def test_output_directory_refuses_to_mix_runs(tmp_path):
    results = {"a": run_seeds("river-swim", n_episodes=3, seeds=2)}
    OutputDirectory(tmp_path / "run").write_results(results)
    with pytest.raises(OutputExists, match=r"already holds a run \(result.json, episodes.csv\).*--overwrite"):
        OutputDirectory(tmp_path / "run")
    OutputDirectory(tmp_path / "run", overwrite=True).write_results(results)
    with (tmp_path / "run" / "episodes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert float(rows[2]["cumulative_regret"]) == pytest.approx(results["a"].cumulative_regret[0, 2])
    assert json.loads((tmp_path / "run" / "result.json").read_text())["n_episodes"] == 3


def test_output_that_cannot_be_written_is_said_before_the_work(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(MatrixRLError, match="cannot write"):
        OutputDirectory(tmp_path / "file" / "run")


def test_a_failed_write_leaves_no_half_file(tmp_path):
    directory = OutputDirectory(tmp_path)

    def half(path):
        path.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(MatrixRLError, match="No space left"):
        directory.write("result.json", half)
    assert list(tmp_path.iterdir()) == []


def with_one_alarm(window, at=0):
    """A simulation of two seeds whose plan of one episode has an empty confidence set, in the first seed only."""
    simulation = Simulation("river-swim", n_episodes=6, seeds=[0, 1], window=window, compiled=False)
    plan = simulation.algorithm.plan

    def alarming():
        made = plan()
        return replace(made, empty=np.array([3, 0])) if simulation.done == at else made

    simulation.algorithm.plan = alarming
    return simulation


def assert_only_the_second_is_proven(result):
    first, second = result.certificate
    assert "misspecification alarm" in first.guarantee.reason
    assert second.guarantee


def test_a_run_with_an_alarm_has_no_proven_final_certificate():
    """The alarm was in an early episode; neither later episodes nor the last certificate see it again."""
    simulation = with_one_alarm(range(6))
    result = simulation.run()
    assert result.alarms.sum() == 1
    assert simulation.ledger.alarmed.tolist() == [True, False]
    assert_only_the_second_is_proven(result)


def test_a_run_that_is_resumed_after_an_alarm_has_no_proven_final_certificate():
    first = with_one_alarm(range(3))
    first.run()
    second = Simulation("river-swim", n_episodes=6, seeds=[0, 1], window=range(3, 6), compiled=False)
    restore_simulation(second, save_simulation(first))
    result = second.run()
    assert not result.alarms.any()
    assert second.ledger.alarmed.tolist() == [True, False]
    assert_only_the_second_is_proven(result)
