"""Agents, logs, policies and pictures speak in the names of a problem, and learn as they do from numbers."""

from __future__ import annotations

import copy
import csv
from functools import partial

import numpy as np
import pandas as pd
import pytest
from gymnasium.vector import SyncVectorEnv

from matrixrl import CheckpointError, FiniteMDP, InvalidInput, MatrixRL, MDPEnv, Policy, Task, extras, plots, run_seeds
from matrixrl.errors import MissingExtra
from matrixrl.policies import read_actions

HORIZON = 5
WORLDS = {
    "texts": (["low", "mid", "high", "full"], ["wait", "order"]),
    "numbers": ([1, 2, 5, 10], [0.5, 2.5]),
    "tuples": ([("mon", 0), ("mon", 1), ("tue", 0), ("tue", 1)], [(0, "no"), (5, "yes")]),
    "parts": ({"stock": range(2), "day": ["mon", "tue"]}, {"order": [5], "rush": ["no", "yes"]}),
    "formulas": (["=1+1", "-5 %", "@a,b", 'say "é"'], ["+", "=cmd|'/c calc'!A1"]),
}
worlds = pytest.mark.parametrize(("states", "actions"), WORLDS.values(), ids=WORLDS)


def tables():
    rng = np.random.default_rng(3)
    return rng.dirichlet(np.ones(4), size=(4, 2)), rng.random((4, 2)).round(2)


def named_mdp(states, actions, **more):
    return FiniteMDP(*tables(), HORIZON, states=states, actions=actions, **more)


def asked_and_told(agent, n_episodes):
    """Play episodes outside of the agent, in whatever elements its problem has, and return the numbers."""
    law, reward = tables()
    rng, problem, seen = np.random.default_rng(0), agent.problem, []
    for _ in range(n_episodes):
        episode, s = agent.begin_episode(), 0
        for _ in range(HORIZON):
            chosen = episode.act(problem.states.decode(s))
            a = problem.actions.encode("action", chosen, "")
            following = int(rng.choice(4, p=law[s, a]))
            states = (problem.states.decode(one) for one in (s, following))
            episode.observe(next(states), chosen, reward[s, a], next(states))
            seen.append((s, a))
            s = following
        episode.end()
    return seen


@worlds
def test_a_task_with_names_is_learned_as_one_with_numbers(states, actions, tmp_path):
    named = MatrixRL(Task(states=states, actions=actions, horizon=HORIZON), seed=1)
    plain = MatrixRL(Task(n_states=4, n_actions=2, horizon=HORIZON), seed=1)
    assert asked_and_told(named, 8) == asked_and_told(plain, 8)
    begun = named.begin_episode()
    first = begun.act(named.problem.states.decode(0))
    named.save(tmp_path / "agent.npz")
    loaded = MatrixRL.load(tmp_path / "agent.npz")
    assert loaded.problem.states == named.problem.states == loaded.problem.finite_task.states
    assert loaded.open_episodes[0].act(named.problem.states.decode(0)) == first
    loaded.abandon_episode()
    begun.abandon()
    plain.begin_episode().abandon()
    assert asked_and_told(loaded, 4) == asked_and_told(named, 4) == asked_and_told(plain, 4)
    copied = copy.deepcopy(named)
    assert copied.greedy() == named.greedy()
    with pytest.raises(InvalidInput, match="obs"):
        named.begin_episode().act("no such state")


@worlds
@pytest.mark.parametrize("allowed", [None, [[1, 1], [0, 1], [1, 0], [1, 1]]])
def test_an_mdp_with_names_is_played_as_one_with_numbers(states, actions, allowed, tmp_path):
    """With masks, agents play in the environment, which has numbers."""
    mdp = named_mdp(states, actions, allowed=allowed)
    plain = FiniteMDP(*tables(), HORIZON, allowed=allowed)
    one, other = MatrixRL(mdp, seed=2), MatrixRL(plain, seed=2)
    assert np.array_equal(one.learn(30).returns, other.learn(30).returns)
    vectors = [SyncVectorEnv([partial(MDPEnv, known)] * 3) for known in (mdp, plain)]
    assert np.array_equal(one.learn(9, env=vectors[0]).returns, other.learn(9, env=vectors[1]).returns)
    assert np.array_equal(one.visits, other.visits)
    runs = [run_seeds(known, n_episodes=20, seeds=2) for known in (mdp, plain)]
    assert np.array_equal(runs[0].returns, runs[1].returns)
    state = one.problem.states.decode(0)
    assert one.problem.actions.encode("action", one.predict(state, 0), "") == other.predict(0, 0)
    chosen = one.problem.env_action(0)
    second = one.problem.states.decode(1)
    bounds = one.compare(one.greedy(), lambda obs, _: one.problem.env_action(int(obs == second)))
    assert bounds.lower <= bounds.upper
    assert one.begin_episode().act(state, allowed=[chosen]) == chosen
    one.abandon_episode()
    one.save(tmp_path / "agent.npz")
    for env in (mdp, MDPEnv(mdp), None):
        assert MatrixRL.load(tmp_path / "agent.npz", env).predict(state, 0) == one.predict(state, 0)
    loaded = MatrixRL.load(tmp_path / "agent.npz", MDPEnv(mdp))
    assert np.array_equal(loaded.learn(5).returns, one.learn(5).returns)
    with pytest.raises(CheckpointError, match="observation space Discrete"):
        MatrixRL.load(tmp_path / "agent.npz", plain)


def test_another_order_of_names_is_another_problem(tmp_path):
    states, actions = WORLDS["texts"]
    agent = MatrixRL(named_mdp(states, actions), seed=0)
    agent.save(tmp_path / "agent.npz")
    with pytest.raises(CheckpointError, match=r"names mid, low, high, full .*saved: names low, mid, high, full"):
        MatrixRL.load(tmp_path / "agent.npz", named_mdp(["mid", "low", "high", "full"], actions))
    other = MatrixRL(named_mdp(["mid", "low", "high", "full"], actions), seed=0)
    with pytest.raises(InvalidInput, match="policy must be a policy of this problem"):
        other.compare(agent.greedy(), other.greedy())


def test_names_that_messages_do_not_show_are_compared(tmp_path):
    names = [f"n{i}" for i in range(12)]
    mdps = [FiniteMDP(np.full((12, 1, 12), 1 / 12), np.zeros((12, 1)), 3, states=[*names[:11], last]) for last in "xy"]
    agent = MatrixRL(mdps[0], seed=0)
    agent.save(tmp_path / "agent.npz")
    assert MatrixRL.load(tmp_path / "agent.npz", mdps[0]).predict("x", 0) == agent.predict("x", 0)
    with pytest.raises(CheckpointError, match=r"observation space names n0, .* in later names"):
        MatrixRL.load(tmp_path / "agent.npz", mdps[1])


@worlds
@pytest.mark.parametrize("target", ["log.csv", "log.parquet", "frame", "columns", "minari:names/log-v0"])
def test_logs_have_the_names_and_teach_the_same(states, actions, target, tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    task = Task(states=states, actions=actions, horizon=HORIZON, start=None)
    agent, other = MatrixRL(task, seed=1), MatrixRL(task, seed=1)
    asked_and_told(agent, 6)
    path = target if target.startswith("minari") else tmp_path / (target if "." in target else "log.csv")
    agent.export(path)
    log = path
    if target in ("frame", "columns"):
        log = pd.read_csv(path)
        log = log if target == "frame" else {name: log[name].tolist() for name in log}
    learned = other.learn_from(log, verbose=False)
    assert learned.plan.n_steps == 6 * HORIZON
    assert np.array_equal(other.visits, agent.visits)
    assert np.array_equal(other.greedy().table, agent.greedy().table)


@worlds
@pytest.mark.parametrize("stages", [None, [0, 1, 0, 1, 0]])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_end_state_has_no_name_and_is_an_empty_cell(states, actions, stages, ending, tmp_path):
    task = Task(states=states, actions=actions, horizon=HORIZON, may_terminate=True, stage_dependent=stages)
    agent, other = (MatrixRL(task, seed=seed) for seed in (0, 1))
    decode = agent.problem.states.decode
    for _ in range(3):
        episode = agent.begin_episode()
        episode.observe(decode(0), episode.act(decode(0)), 0.5, decode(3))
        episode.observe(decode(3), episode.act(decode(3)), 1.0, decode(3), True)
        episode.end()
    agent.export(tmp_path / f"log.{ending}")
    if ending == "csv":
        columns = pd.read_csv(tmp_path / "log.csv").filter(regex="^next_state")
        assert columns[1::2].isna().all(axis=None)
        assert not columns[::2].isna().any(axis=None)
    other.learn_from(tmp_path / f"log.{ending}", first_step=0, verbose=False)
    assert np.array_equal(other.visits, agent.visits)
    assert np.array_equal(other.greedy().table, agent.greedy().table)
    assert len(agent.greedy().to_frame()) == 4 * HORIZON


def test_a_log_may_hold_names_in_any_form():
    states, actions = WORLDS["tuples"]
    task = Task(states=states, actions=actions, horizon=2, start=("mon", 0))
    rows = {
        "state": [("mon", 0), "mon, 1", ("mon", 0)],
        "action": ["0, no", (5, "yes"), [0, "no"]],
        "reward": [0, 1, 0.5],
        "episode": [0, 0, 1],
        "next_state": ["mon, 1", ("tue", 1), None],
    }
    with pytest.raises(InvalidInput, match=r"row 2 .*'action' must be a number"):  # a list is not hashable
        MatrixRL(task, seed=0).learn_from(rows, verbose=False)
    rows["action"][2] = " 0, no "
    agent = MatrixRL(task, seed=0)
    plan = agent.learn_from(rows, first_step=0, verbose=False).plan
    assert (plan.n_steps, plan.n_left_out) == (2, 1)
    assert agent.visits.tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]


def test_own_columns_of_parts_are_found_by_their_names():
    states, actions = WORLDS["parts"]
    task = Task(states=states, actions=actions, horizon=2, start=(0, "mon"))
    rows = {"stock": [0, 1], "day": ["mon", "tue"], "order": [5, 5], "rush": ["no", "yes"], "reward": [0, 1]}
    agent = MatrixRL(task, seed=0)
    plan = agent.plan_log(rows | {"episode": ["a", "a"]}, first_step=0)
    assert plan.columns["state"] == ("stock", "day")
    assert plan.columns["action"] == ("order", "rush")


def test_wrong_cells_of_a_log_are_named(tmp_path):
    task = Task(states=["low", "high"], actions=["wait", "order"], horizon=2, start="low")
    path = tmp_path / "log.csv"
    path.write_text("episode,state,action,reward,next_state\n1,low,wait,0,high\n1,hihg,order,1,low\n")
    with pytest.raises(InvalidInput, match=r"log.csv, line 3, column 'state' must be one of low, high; got 'hihg'"):
        MatrixRL(task, seed=0).learn_from(path, verbose=False)
    path.write_text("episode,state,action,reward,next_state\n1,low,wait,0,high\n1,,order,1,low\n")
    with pytest.raises(InvalidInput, match=r"line 3, column 'state' must be one of low, high, .* got an empty cell"):
        MatrixRL(task, seed=0).learn_from(path, verbose=False)
    path.write_text("episode,state,action,reward,next_state\n1,0,1,0,1\n")
    with pytest.raises(InvalidInput, match="line 2, column 'state' must be one of low, high; got '0'"):
        MatrixRL(task, seed=0).learn_from(path, verbose=False)


@worlds
@pytest.mark.parametrize("ending", ["json", "npz"])
def test_policies_keep_the_names(states, actions, ending, tmp_path):
    agent = MatrixRL(Task(states=states, actions=actions, horizon=HORIZON), seed=1)
    asked_and_told(agent, 5)
    policy = agent.greedy()
    policy.save(tmp_path / f"policy.{ending}")
    loaded = Policy.load(tmp_path / f"policy.{ending}")
    assert loaded == policy
    codecs = agent.problem.states, agent.problem.actions
    for stage in range(HORIZON):
        for s in range(4):
            expected = codecs[1].decode(int(policy.table[stage, s]))
            assert loaded.act(codecs[0].decode(s), stage=stage) == expected
    frame = policy.to_frame()
    assert len(frame) == 4 * HORIZON
    assert list(frame.columns) == ["stage", *codecs[0].names("state"), *codecs[1].names("action")]
    policy.to_csv(tmp_path / "policy.csv")
    with (tmp_path / "policy.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    assert header == list(frame.columns)
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row)
    told = zip(rows, frame.itertuples(index=False), strict=True)
    for row, entry in told:
        assert len(row) == len(entry)
        for cell, value in zip(row, entry, strict=True):
            text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            assert cell.removeprefix("'") == text
    space = agent.problem.states
    assert np.array_equal(read_actions("policy", loaded, _sizes(agent)), policy.table)
    with pytest.raises(InvalidInput, match="obs"):
        loaded.act(space.size, stage=0)


def _sizes(agent):
    from matrixrl.agents.deployment import numbering

    return numbering(agent, "test")


def test_a_frame_needs_pandas(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"A data frame needs pandas; pip install 'matrixrl\[pandas\]'"):
        Policy([[0]], n_actions=1).to_frame()


def test_frames_of_numbers_have_the_numbers_of_the_environment():
    frame = Policy([[0, 1], [1, 0]], n_actions=2, first_state=5, n_unobserved=0).to_frame()
    assert frame.to_dict("list") == {"stage": [0, 0, 1, 1], "state": [5, 6, 5, 6], "action": [0, 1, 1, 0]}


def test_policies_of_names_are_made_by_hand():
    policy = Policy([[0, 1, 1]], n_actions=2, states=["low", "mid", "high"], actions=["wait", "order"])
    assert policy.act(np.str_("mid")) == "order"
    with pytest.raises(InvalidInput, match="states must number 3 elements from 0"):
        Policy([[0, 1, 1]], n_actions=2, states=["low", "mid"])
    with pytest.raises(InvalidInput, match="actions must be different names"):
        Policy([[0, 1, 1]], n_actions=2, actions=["a", "a"])


def test_certificates_and_errors_speak_in_names():
    mdp = named_mdp(
        *WORLDS["texts"], start="mid", allowed=lambda state: ["wait"] if state == "full" else ["wait", "order"]
    )
    agent = MatrixRL(mdp, seed=0)
    agent.learn(20)
    assert agent.certificate().start == "state 'mid', the declared start"
    assert agent.certificate(start="full").start == "state 'full'"
    assert agent.recommend(start="full").certificate.start == "state 'full'"
    with pytest.raises(
        InvalidInput, match=r"start must be one of low, mid, high, full; got 'fill'. Did you mean 'full'"
    ):
        agent.certificate(start="fill")
    episode = agent.begin_episode()
    with pytest.raises(InvalidInput, match="obs must be 'mid' at the first step"):
        episode.act("low")
    episode.observe("mid", "order", 0.5, "full")
    with pytest.raises(InvalidInput, match=r"action must be one of \['wait'\], which state 'full' allows; got order"):
        episode.observe("full", "order", 0.5, "low")


def test_pictures_show_the_names():
    agent = MatrixRL(named_mdp(*WORLDS["texts"]), seed=0)
    agent.learn(5)
    bounds = plots.action_bounds(agent, state="mid")
    assert [text.get_text() for text in bounds.get_yticklabels()] == ["wait", "order"]
    assert bounds.get_title() == "bounds in state mid, 5 episodes"
    visits = plots.visits(agent)
    assert [text.get_text() for text in visits.get_xticklabels()] == ["low", "mid", "high", "full"]
    chain = plots.policy(agent, layout=(1, 4))
    assert [text.get_text() for text in chain.get_xticklabels()] == ["low", "mid", "high", "full"]
    assert {text.get_text() for text in chain.texts} <= {"wait", "order"}
    assert plots.policy(agent.greedy(), layout=(2, 2)).texts[0].get_text() in ("wait", "order")


def test_a_hundred_thousand_names_are_saved(tmp_path):
    names = [f"customer {i}" for i in range(10**5)]
    agent = MatrixRL(Task(states=names, actions=["wait", "call"], horizon=2, start=names[7]), seed=0)
    episode = agent.begin_episode()
    episode.observe(names[7], "call", 1.0, names[8])
    episode.observe(names[8], "wait", 0.0, names[9])
    episode.end()
    agent.save(tmp_path / "agent.npz")
    assert MatrixRL.load(tmp_path / "agent.npz").predict(names[7], 0) == "call"
