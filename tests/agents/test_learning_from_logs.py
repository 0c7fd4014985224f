"""Learning from a log is ask and tell of the same steps, all of them or none, and says what is proven afterwards."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from itertools import product
from unittest import mock

import numpy as np
import pytest

from agents.contract import CASES, DOUBLING
from agents.helpers import RaiseOnce, assert_same_agent, assert_same_arrays, assert_same_history
from covering import covering
from logs.worlds_with_logs import assert_same_steps
from matrixrl import Agent, InvalidInput, MatrixRL, ProtocolError, Task, make
from matrixrl.agents import logged
from matrixrl.agents.certification import LOG_ASSUMPTION
from matrixrl.logs import StepLog
from matrixrl.records import Guarantee
from named_agents import AGENTS
from tolerances import ALGEBRA

REFRESH = "refresh"  # number of small updates of the widths since they were computed anew
WITH_DATA = [c for c in CASES if c.agent != DOUBLING or c.settings.get("keep_data")]
every_case = pytest.mark.parametrize("case", WITH_DATA, ids=str)
FORMATS = ["log.csv", "log.parquet", "minari:worlds/export-v0"]


def record(case, n_episodes, seed=5, most=None):
    """Play at random in the environment of a case, and return what happened as columns."""
    env, rng = case.build().problem.env, np.random.default_rng(seed)
    agent, rows = case.build(), []
    problem, horizon = agent.problem, agent.problem.task.horizon
    for episode in range(n_episodes):
        obs, _ = env.reset(seed=seed if episode == 0 else None)
        for step in range(min(horizon, most or horizon)):
            obs = np.array(obs)
            possible = np.arange(*problem.task.choices[step])
            if problem.task.allowed is not None:
                possible = possible[problem.task.allowed[problem.state("obs", obs), possible]]
            action = problem.env_action(int(possible[rng.integers(len(possible))]))
            following, reward, terminated, _, _ = env.step(action)
            rows.append((episode, step, obs, action, float(reward), np.array(following), terminated))
            obs = following
            if terminated:
                break
    names = ("episode", "step", "state", "action", "reward", "next_state", "terminated")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def tell(agent, log):
    """Tell an agent every episode of a log."""
    for number in np.unique(log["episode"]):
        episode = agent.begin_episode()
        for i in np.flatnonzero(log["episode"] == number):
            row = [log[name][i] for name in ("state", "action", "reward", "next_state", "terminated")]
            episode.observe(row[0], row[1], float(row[2]), row[3], bool(row[4]))
        episode.end()


def learned(agent, *, without=()):
    """Return what was learned from data, without plans and columns that are kept, and what plans were charged with."""
    left, without = ("kept_", "column", "budget_"), (*without, REFRESH, f"tuned_{REFRESH}")
    return {n: a for n, a in agent.algorithm.learned().items() if not n.startswith(left) and n not in without}


def without_plans(case):
    """Return names of arrays that plans leave behind; few plans are made for a log, or none."""
    left = ("kernel", "fitted", "search", *(f"value_{name}" for name in ("points", "theta", "centre", "low", "high")))
    by_agent = {"ucbvi": ("q",), "ucrl-vtr": ("played",), "kernel-control": tuple(f"0_{name}" for name in left)}
    return by_agent.get(case.agent, ())


@every_case
def test_learning_from_a_log_is_ask_and_tell_of_its_steps(case):
    log, told, read = record(case, 9), case.build(), case.build()
    tell(told, log)
    read.learn_from(log, verbose=False)
    wanted = learned(told, without=without_plans(case))
    for name, array in learned(read, without=without_plans(case)).items():
        assert array.dtype == wanted[name].dtype
        if np.array_equal(wanted[name], np.round(wanted[name])):
            np.testing.assert_array_equal(array, wanted[name], err_msg=name)  # counts, exactly
        else:
            np.testing.assert_allclose(array, wanted[name], rtol=ALGEBRA, atol=ALGEBRA, err_msg=name)
    assert read.algorithm.episode == told.algorithm.episode == 9
    assert (read.n_episodes, read.n_logged_episodes, read.n_logged_steps) == (0, 9, len(log["reward"]))
    assert read.history.n_episodes == 0
    assert read.history.n_logged_episodes == 9
    np.testing.assert_allclose(read.history.logged_returns, told.history.returns)
    np.testing.assert_array_equal(read.history.logged_lengths, told.history.lengths)


@every_case
def test_the_agent_goes_on_in_its_environment_and_is_saved_bit_for_bit(case, tmp_path):
    """Log, episodes, another log, save in the middle: the two agents stay the same."""
    straight = case.build()
    straight.learn_from(record(case, 4), verbose=False)
    straight.learn(3)
    straight.learn_from(record(case, 3, seed=6, most=3), verbose=False)
    straight.save(tmp_path / "agent")
    again = case.kind.load(tmp_path / "agent", case.env())
    assert_same_agent(again, straight)
    assert_same_arrays(again._seen.arrays(), straight._seen.arrays())
    for agent in (straight, again):
        agent.learn(3)
        agent.learn_from(record(case, 2, seed=7), verbose=False)
    assert_same_agent(again, straight)
    assert (again.n_episodes, again.n_logged_episodes) == (6, 9)
    assert [again.history.n_episodes, again.history.n_logged_episodes] == [6, 9]
    np.testing.assert_array_equal(again.history.logged_returns, straight.history.logged_returns)
    with pytest.raises(InvalidInput, match="log must not be learned from twice"):
        again.learn_from(record(case, 4))


@pytest.mark.parametrize(
    ("case", "form"), covering(product(WITH_DATA, FORMATS), lambda row: (*row[0].factors, row[1])), ids=str
)
def test_an_export_gives_another_agent_the_same_knowledge(case, form, tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    agent = case.build()
    agent.learn(4)
    agent.learn_from(record(case, 3), verbose=False)
    agent.learn(2)
    n_steps = int(agent.history.lengths.sum()) + agent.n_logged_steps
    target = form if form.startswith("minari:") else tmp_path / form
    assert agent.export(target) == n_steps
    other = case.build()
    plan = other.learn_from(str(target), verbose=False).plan
    assert (plan.n_episodes, plan.n_steps, plan.n_partial) == (9, n_steps, 0)
    wanted = learned(agent, without=without_plans(case))
    for name, array in learned(other, without=without_plans(case)).items():
        np.testing.assert_allclose(array, wanted[name], rtol=ALGEBRA, atol=ALGEBRA, err_msg=name)
        if np.array_equal(wanted[name], np.round(wanted[name])):
            np.testing.assert_array_equal(array, wanted[name], err_msg=name)
    assert_same_steps(other._seen.all()[0], agent._seen.all()[0])
    assert agent._seen.all()[1].tolist() == [False] * 4 + [True] * 3 + [False] * 2  # in the order of learning
    with pytest.raises(InvalidInput, match="twice; got what this agent has exported"):
        agent.learn_from(str(target))


@every_case
def test_partial_episodes_are_learned_at_their_stages(case):
    """Episodes without their first step are learned from, and the agent goes on."""
    log = record(case, 8)
    keep = log["step"] >= log["episode"] % 2 if case.build().problem.task.horizon > 1 else log["step"] >= 0
    part = {name: column[keep] for name, column in log.items()}
    agent = case.build()
    record_of = agent.learn_from(part, first_step=0, verbose=False)
    assert agent.n_logged_steps == keep.sum()
    assert record_of.plan.n_late == len(
        {int(e) for e in part["episode"] if (part["step"][part["episode"] == e] > 0).all()}
    )
    agent.learn(2)
    agent.predict(part["state"][0], 0)


def test_stages_of_late_steps_reach_an_algorithm_that_has_stages():
    agent = AGENTS["q-learning"](make("river-swim", n_states=4, horizon=6), seed=0)
    rows = {"episode": [0, 0, 1], "step": [2, 3, 5], "state": [0, 1, 3], "action": [1, 0, 1], "reward": [0.0, 0.0, 1.0]}
    agent.learn_from({**rows, "next_state": [1, 0, 3]}, first_step=0, verbose=False)
    visited = np.argwhere(agent.algorithm.visits[0])
    assert visited.tolist() == [[2, 1, 0], [3, 0, 1], [5, 1, 3]]  # stage, action, state


@pytest.mark.parametrize(
    "settings", [{}, {"set": "normalised"}, {"known_reward": False}, {"set": "normalised", "known_reward": False}]
)
def test_steps_in_large_batches_are_the_episodes_one_by_one(settings, monkeypatch):
    case = next(c for c in CASES if str(c) == "matrix-rl on frozen-lake")
    log, whole, single = record(case, 50), case.build(**settings), case.build(**settings)
    assert whole.algorithm.steps_at_once > 1000
    whole.learn_from(log, verbose=False)
    monkeypatch.setattr(type(single.algorithm), "steps_at_once", 1)
    single.learn_from(log, verbose=False)
    for name, array in learned(whole).items():
        np.testing.assert_allclose(array, learned(single)[name], rtol=ALGEBRA, atol=ALGEBRA, err_msg=name)
    assert whole.algorithm.episode == single.algorithm.episode == 50


def test_the_log_in_another_order_of_its_rows_teaches_the_same():
    case = next(c for c in CASES if str(c) == "q-learning on river-swim")  # which depends on the order of episodes
    log, shuffled, straight = record(case, 30), case.build(), case.build()
    order = np.random.default_rng(0).permutation(len(log["reward"]))
    straight.learn_from(log, verbose=False)
    shuffled.learn_from({name: column[order] for name, column in log.items()}, verbose=False)
    assert_same_agent(shuffled, straight)


def river(**settings):
    return MatrixRL(make("river-swim", n_states=4, horizon=6), seed=0, **settings)


def river_log(n_episodes=10, seed=5):
    return record(next(c for c in CASES if str(c) == "matrix-rl on river-swim"), n_episodes, seed)


@every_case
def test_an_interrupt_or_an_error_in_the_middle_leaves_no_trace(case, monkeypatch):
    agent, log = case.build(), record(case, 6)
    agent.learn(2)
    before, history = agent.algorithm.state(), agent.history
    monkeypatch.setattr(type(agent.algorithm), "steps_at_once", 1)
    for error in (KeyboardInterrupt, MemoryError):
        RaiseOnce(agent.algorithm, "learn", at=4, error=error)
        with pytest.raises(error):
            agent.learn_from(log, verbose=False)
        del agent.algorithm.learn
        assert_same_arrays(agent.algorithm.state(), before)
        assert_same_history(agent.history, history)
        assert agent.n_logged_episodes == 0
        assert agent._seen.n_episodes == 2
    agent.learn_from(log, verbose=False)
    assert agent.n_logged_episodes == 6


def test_a_signal_while_the_log_is_being_added_comes_before_or_after_it():
    agent = river()
    update, calls = agent.algorithm.update, []

    def interrupted(*args, **kwargs):
        update(*args, **kwargs)
        calls.append(agent.algorithm.episode)
        os.kill(os.getpid(), signal.SIGINT)

    agent.algorithm.update = interrupted
    with pytest.raises(KeyboardInterrupt):
        agent.learn_from(river_log(), verbose=False)
    assert calls == [10]
    assert agent.n_logged_episodes == 0
    assert agent.algorithm.episode == 0
    del agent.algorithm.update
    note = logged.note_log

    def interrupted_note(*args):
        os.kill(os.getpid(), signal.SIGINT)
        note(*args)

    with mock.patch.object(logged, "note_log", interrupted_note), pytest.raises(KeyboardInterrupt):
        agent.learn_from(river_log(), verbose=False)  # too late: all of it is learned
    assert agent.n_logged_episodes == agent.algorithm.episode == agent.history.n_logged_episodes == 10


def test_rewards_outside_are_clipped_where_the_agent_says_so(tmp_path):
    log = {"episode": [0, 1], "state": [0, 1], "action": [0, 1], "reward": [0.5, 7.0], "next_state": [1, 0]}
    task = Task(np.zeros((2, 2)), horizon=2, reward_range=(0.0, 1.0))
    agents = [MatrixRL(task, known_reward=False, reward_outside="clip", seed=0) for _ in range(3)]
    agents[0].learn_from(log, first_step=0, verbose=False)
    agents[1].learn_from({**log, "reward": [0.5, 1.0]}, first_step=0, verbose=False)
    assert_same_arrays(agents[0].algorithm.learned(), agents[1].algorithm.learned())
    assert agents[0].history.logged_returns.tolist() == [0.5, 7.0]
    assert "clipped" in agents[0].guarantee.reason
    agents[0].export(tmp_path / "log.csv")
    agents[2].learn_from(tmp_path / "log.csv", verbose=False)
    assert_same_arrays(agents[2].algorithm.state(), agents[0].algorithm.state())


def test_the_plan_learns_nothing_and_is_printed(capsys):
    agent, log = river(), river_log()
    before = agent.algorithm.state()
    plan = agent.plan_log(log)
    assert_same_arrays(agent.algorithm.state(), before)
    assert capsys.readouterr().out == ""
    found = agent.learn_from(log)
    assert capsys.readouterr().out == f"{plan}\n"
    assert found.plan == plan
    assert str(found) == f"{plan}\n{found.statement}"


def test_what_is_proven_after_a_log():
    agent = river()
    assert LOG_ASSUMPTION not in agent.assumptions
    found = agent.learn_from(river_log(), verbose=False)
    assert found.guarantee == agent.guarantee == Guarantee(True)
    assert found.certificates == agent.certificate().guarantee == Guarantee(True)
    assert found.assumptions == agent.assumptions
    assert agent.assumptions.endswith(LOG_ASSUMPTION)
    assert "certificates hold for steps of any policy" in found.statement
    bound = agent.algorithm.claims.regret_bound
    assert bound(20) == river().algorithm.claims.regret_bound(30)  # played and logged episodes together
    assert agent.learn(20).cumulative_regret[-1] <= bound(20)


def test_what_is_not_proven_after_a_log():
    proven = Agent(make("river-swim", n_states=4, horizon=6), "ucbvi", n_episodes=50, seed=0)
    assert proven.guarantee
    found = proven.learn_from(river_log(), verbose=False)
    assert (
        found.guarantee
        == proven.guarantee
        == Guarantee(False, "the proof is about what ucbvi played, and 10 logged episodes were added")
    )
    assert found.certificates.reason == "ucbvi has no certificates"
    assert found.assumptions == ""
    assert "no regret bound is proven" in found.statement
    tuned = river(preset="tuned")
    words = tuned.learn_from(river_log(), verbose=False)
    assert words.certificates
    assert not words.guarantee


def test_rows_that_are_left_out_before_the_last_stage_withdraw_the_proof(tmp_path):
    """Whether an episode stops may depend on the outcome of its last step, which is not in the data."""
    log = river_log()
    del log["next_state"], log["terminated"]
    agent = river()
    agent.learn_from(log, verbose=False)
    assert agent.guarantee  # only steps of the last stage are missing
    short = {name: column[log["step"] < 4] for name, column in log.items()}
    agent = river()
    found = agent.learn_from(short, verbose=False)
    words = (
        "10 last rows of episodes that stopped before the last stage were left out of a log, as their next state is "
        "not known: which data are learned from may depend on what was observed"
    )
    claims = {found.guarantee, found.certificates, agent.guarantee, agent.certificate().guarantee}
    assert claims == {Guarantee(False, words)}
    agent.save(tmp_path / "agent")
    assert MatrixRL.load(tmp_path / "agent").guarantee.reason == words


def test_logged_episodes_do_not_count_where_returns_are_used():
    """They were played by nobody's frozen policy, and their regret is not the agent's."""
    with_log, without = river(), river()
    with_log.learn_from(river_log(200), verbose=False)
    for agent in (with_log, without):
        agent.learn(9)
    assert with_log._ledger.returns._levels.totals().sum() == without._ledger.returns._levels.totals().sum()
    found = with_log.regret_certificate()
    assert found.n_episodes == 9
    assert found.earned == pytest.approx(with_log.history.returns.sum())
    assert with_log.history.cumulative_regret[-1] <= found.upper
    assert with_log.certificate().upper < without.certificate().upper  # the model has learned


def assert_same_bounds(read, told):
    """Compare certificates that are about logged and about played episodes."""
    shown = told.certificate()
    assert read.certificate() == replace(shown, about=shown.about.replace(" episode", " logged episode"))


def test_a_log_narrows_certificates_as_played_episodes_do():
    told, read = river(), river()
    log = river_log(50)
    tell(told, log)
    read.learn_from(log, verbose=False)
    assert_same_bounds(read, told)
    assert read.recommend().certificate.upper == told.recommend().certificate.upper


def test_first_states_of_logs_count_as_those_of_played_episodes():
    task = Task(np.array([[0.0], [1.0], [0.0]]), horizon=2, end_state=2)
    agent = MatrixRL(task, seed=0)
    log = {"episode": [0], "state": [1], "action": [0], "reward": [1.0], "next_state": [1]}
    agent.learn_from(log, first_step=0, verbose=False)
    told = MatrixRL(task, seed=0)
    episode = told.begin_episode()
    episode.observe(1, 0, 1.0, 1)
    episode.end()
    assert_same_bounds(agent, told)


def test_refusals():
    with pytest.raises(InvalidInput, match="keep_data must be True"):
        AGENTS[DOUBLING](make("river-swim", n_states=4, horizon=6), seed=0).learn_from(river_log())
    agent = river()
    agent.begin_episode()
    with pytest.raises(ProtocolError, match="learn_from was called while an episode is open"):
        agent.learn_from(river_log())
    agent.abandon_episode()
    with pytest.raises(ProtocolError, match="export was called before any episode"):
        agent.export("log.csv")
    with pytest.raises(InvalidInput, match="first_step must be a whole number"):
        agent.learn_from(river_log(), first_step=0.5)
    with pytest.raises(InvalidInput, match="verbose must be true or false"):
        agent.learn_from(river_log(), verbose=1)
    with pytest.raises(InvalidInput, match="keep_log must be true or false"):
        river(keep_log=None)


def test_an_agent_that_keeps_no_log(tmp_path):
    agent = river(keep_log=False)
    agent.learn_from(river_log(), verbose=False)
    agent.learn(3)
    assert not agent.keep_log
    with pytest.raises(InvalidInput, match=r"export must be able to write .*keep_log=True"):
        agent.export(tmp_path / "log.csv")
    agent.save(tmp_path / "agent")
    again = MatrixRL.load(tmp_path / "agent", make("river-swim", n_states=4, horizon=6))
    assert_same_agent(again, agent)
    assert not again.keep_log
    kept = river()
    kept.learn_from(river_log(), verbose=False)
    kept.learn(3)
    kept.save(tmp_path / "kept")
    assert (tmp_path / "agent").stat().st_size < (tmp_path / "kept").stat().st_size
    assert_same_arrays(kept.algorithm.state(), agent.algorithm.state())


def test_many_played_episodes_are_kept_in_the_order_of_play():
    agent = AGENTS["psrl"](make("river-swim", n_states=3, horizon=2), seed=0)
    agent.learn(1030)  # more than are joined at once
    steps, logged = agent._seen.all()
    assert steps.n_episodes == 1030
    assert not logged.any()
    np.testing.assert_allclose(steps.returns(), agent.history.returns)
    assert isinstance(steps, StepLog)
    assert steps.states.dtype == steps.actions.dtype == np.uint8
    counts = np.zeros((2, 3, 3))
    np.add.at(counts, (steps.actions, steps.states, steps.next_states), 1.0)
    np.testing.assert_array_equal(counts.reshape(6, 3), agent.algorithm.model.transitions[0])
