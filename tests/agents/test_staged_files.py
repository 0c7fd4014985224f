"""Saved agents of staged and discounted problems: hostile files are refused, good ones go on in the right stage."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from agents.contract import WORLDS, play_randomly
from agents.helpers import assert_same_agent, assert_same_arrays
from hostile import array_of, changed, header_member, header_of, members_of, npy
from matrixrl import CheckpointError, MatrixRL
from named_agents import AGENTS
from small_worlds import calendar

A = 3
FREE = calendar(n_states=5, horizon=6, classes=[0, 0, 1, 2, 1, 0])  # without masks, which would find some mistakes too


def saved(tmp_path, kind=MatrixRL, world="discounted stages", n_steps=3, **settings):
    """Return an agent with an open episode and a question, and the bytes of its file."""
    agent = kind(FREE if world == "free" else WORLDS[world](), seed=0, **settings)
    agent.learn(6)
    episode = agent.begin_episode()
    play_randomly(agent, episode, np.random.default_rng(2), most=n_steps)
    episode.act(1 if n_steps else 0)
    agent.save(tmp_path / "good")
    return agent, (tmp_path / "good").read_bytes()


def refuse(tmp_path, data, words, kind=MatrixRL, env=None):
    (tmp_path / "bad").write_bytes(data)
    with pytest.raises(CheckpointError, match=words):
        kind.load(tmp_path / "bad", env)


def array(data, name):
    return array_of(dict(members_of(data))[f"{name}.npy"])


def with_problem(data, **changes):
    header = copy.deepcopy(header_of(data))
    header["problem"] |= changes
    return changed(data, {header_name(data): header_member(header)})


def header_name(data):
    return next(name for name, _ in members_of(data) if "header" in name)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stages": [0, 0, 1, 2, 1]}, "stage"),
        ({"stages": [0, 0, 1, 3, 1, 0]}, "stages"),
        ({"stages": [0, 0, 0, 0, 0, 0]}, "stages"),
        ({"stages": [0, 0, 1, 2.0, 1, 0]}, "stages"),
        ({"stages": [0, 0, 1, True, 1, 0]}, "stages"),
        ({"stages": [-1, 0, 1, 2, 1, 0]}, "stages"),
        ({"stages": []}, "stages"),
        ({"stages": "012"}, "stages"),
        ({"stages": {"0": 1}}, "stages"),
        ({"stages": None}, "as many states and actions"),
        ({"discount": 2}, "discount"),
        ({"discount": 2.0}, "discount"),
        ({"discount": 0.0}, "discount"),
        ({"discount": -0.5}, "discount"),
        ({"discount": "half"}, "discount"),
        ({"discount": None}, "discount"),
        ({"discount": True}, "discount"),
        ({"is_endless": True}, "laws that all stages share"),
        ({"is_endless": 1}, "is_endless"),
        ({"is_endless": True, "discount": 1.0, "stages": None}, "an endless problem must have a discount below 1"),
    ],
    ids=str,
)
def test_stages_and_discounts_that_no_agent_saved_are_refused(changes, words, tmp_path):
    agent, data = saved(tmp_path)
    refuse(tmp_path, with_problem(data, **changes), words)
    refuse(tmp_path, with_problem(data, **changes), words, env=agent.problem.mdp)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"discount": 1.0}, "an endless problem must have a discount below 1"),
    ],
    ids=str,
)
def test_the_same_of_an_endless_problem(changes, words, tmp_path):
    _, data = saved(tmp_path, world="endless", n_steps=2)
    refuse(tmp_path, with_problem(data, **changes), words)


def test_an_action_of_another_stage_is_refused(tmp_path):
    """Adding A to an action gives one of another class of stages."""
    _, data = saved(tmp_path, world="free", known_reward=False)
    name = "episodes_actions"
    good = array(data, name)
    for place in (0, len(good) - 1):
        for other in ((good[place] + A) % (3 * A), (good[place] + 2 * A) % (3 * A)):
            bad = good.copy()
            bad[place] = other
            refuse(tmp_path, changed(data, {f"{name}.npy": npy(bad)}), "action must be in")
    bad = good.copy()
    bad[0] = 3 * A
    refuse(tmp_path, changed(data, {f"{name}.npy": npy(bad)}), "action")


@pytest.mark.parametrize("name", ["advised", "planned"])
def test_a_question_about_an_action_that_does_not_exist_is_refused(name, tmp_path):
    _, data = saved(tmp_path)
    bad = array(data, f"episodes_{name}").copy()
    bad[-1] += A
    refuse(tmp_path, changed(data, {f"episodes_{name}.npy": npy(bad)}), "action must be in 6 … 8")


@pytest.mark.parametrize(
    ("kind", "settings"), [(MatrixRL, {}), (MatrixRL, {"switch_growth": 0.5}), (AGENTS["ucrl2"], {})], ids=str
)
def test_plans_of_a_file_have_actions_of_their_stage(kind, settings, tmp_path):
    _, data = saved(tmp_path, kind=kind, world="free", **settings)
    names = [n.removesuffix(".npy") for n, _ in members_of(data) if "polic" in n or "frozen" in n]
    tables = [n for n in names if array(data, n).ndim >= 2 and array(data, n).shape[-2:] == (6, 5)]
    assert tables
    for name in tables:
        bad = array(data, name).copy()
        row = bad.reshape(-1, 6, 5)
        row[0, 3, 1] = (row[0, 3, 1] + A) % (3 * A)  # one of another class
        refuse(tmp_path, changed(data, {f"{name}.npy": npy(bad)}), "allowed|does not fit the problem", kind=kind)


@pytest.mark.parametrize("name", ["matrix-rl", "psrl", "q-learning"])
@pytest.mark.parametrize("n_steps", [0, 1, 4])
def test_an_episode_that_was_saved_in_the_middle_goes_on_at_its_stage(name, n_steps, tmp_path):
    """Without an environment: the file has the stages."""
    whole, _ = saved(tmp_path, kind=AGENTS[name], world="stages", n_steps=n_steps, known_reward=False)
    loaded = AGENTS[name].load(tmp_path / "good")
    assert_same_agent(loaded, whole)
    for agent in (whole, loaded):
        (episode,) = agent.open_episodes
        assert episode.stage == n_steps
        play_randomly(agent, episode, np.random.default_rng(3))
        episode.end()
    assert_same_arrays(loaded.algorithm.state(), whole.algorithm.state())
    steps = loaded._seen.all()[0]
    assert steps.actions.max() < A
    np.testing.assert_array_equal(steps.stages, np.concatenate([np.arange(n) for n in loaded.history.lengths]))


def test_a_plain_environment_is_enough_to_load_an_agent_that_separates_stages(tmp_path):
    plain = calendar(horizon=1, n_states=4)
    mdp = type(plain)(plain.transitions.law(), plain.task.reward, 5)
    agent = MatrixRL(mdp, stage_dependent=[0, 0, 1, 1, 2], seed=0)
    agent.learn(4)
    agent.save(tmp_path / "a")
    again = MatrixRL.load(tmp_path / "a", mdp)
    for one in (agent, again):
        one.learn(4)
    assert_same_agent(again, agent)
    staged = MatrixRL.load(tmp_path / "a", mdp.staged([0, 0, 1, 1, 2]))
    assert staged.problem.task.stages.n_classes == 3
    with pytest.raises(CheckpointError, match="classes of stages"):
        MatrixRL.load(tmp_path / "a", mdp.staged([0, 1, 1, 1, 2]))
