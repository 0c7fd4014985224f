"""Outcomes that never come, or come twice: time-outs, and steps with a number."""

from __future__ import annotations

import numpy as np
import pytest

from agents.helpers import assert_same_agent, assert_same_arrays
from continuum import line
from matrixrl import FiniteMDP, InvalidInput, KernelMatrixRL, MatrixRL, ProtocolError, Task, make
from matrixrl.records import Guarantee

END = 3


def task(**options):
    """States 0, 1, 2 and the end."""
    reward = np.array([[0.0, 0.25], [0.5, 0.75], [1.0, 0.0], [0.0, 0.0]])
    return Task(reward, 4, end_state=END, **options)


def learner(**options):
    return MatrixRL(task(), known_reward=False, seed=0, **options)


def tell(episode, obs=0, following=1):
    episode.observe(obs, episode.act(obs), 0.5, following)


def test_a_time_out_is_a_step_to_the_end():
    """The same as the outcome "ended, reward 0", told by hand."""
    timed, told = learner(), learner()
    for agent in (timed, told):
        tell(agent.begin_episode())
    action = timed.act(1)
    assert timed.open_episodes[0].time_out(0.0).length == 2
    assert told.act(1) == action
    told.observe(1, action, 0.0, 2, terminated=True)
    told.end_episode()
    assert_same_agent(timed, told)
    assert (timed.n_time_outs, told.n_time_outs) == (1, 0)
    assert timed.guarantee == told.guarantee == Guarantee(True)
    words = "whether a step times out depends on its state and action alone, and bounds are for the problem in which"
    assert words in timed.assumptions
    assert words not in told.assumptions


def test_the_reward_of_a_time_out_must_be_given_where_it_is_learned():
    agent = learner()
    episode = agent.begin_episode()
    episode.act(0, now=0.0)
    for close in (episode.time_out, lambda: agent.time_out_after(1.0, now=2.0)):
        with pytest.raises(InvalidInput, match=r"reward must be given .*time_out\(reward=…\)"):
            close()
        assert (episode.stage, episode.is_open, agent.n_time_outs) == (0, True, 0)
    assert episode.time_out(0.3).episode_return == 0.3


def test_known_rewards_are_paid_and_not_contradicted():
    agent = MatrixRL(task(), seed=0)
    episode = agent.begin_episode()
    known = task().reward[1, episode.act(1)]
    with pytest.raises(InvalidInput, match=f"reward must be left out, or be the known reward of the step, {known:g}"):
        episode.time_out(0.123)
    assert (episode.stage, episode.is_open, agent.n_time_outs) == (0, True, 0)
    assert episode.time_out().episode_return == known
    assert agent.guarantee
    other = MatrixRL(line(), columns=40, preset="tuned", seed=0)
    step = other.begin_episode()
    step.act([0.5])
    with pytest.raises(InvalidInput, match=r"time_out needs .*end state"):
        step.time_out()


def test_a_time_out_needs_a_step_under_way_and_an_end_state():
    agent = learner()
    episode = agent.begin_episode()
    words = "time_out was called while no step is under way; call act first, or end the episode"
    with pytest.raises(ProtocolError, match=words):
        episode.time_out()
    tell(episode)
    with pytest.raises(ProtocolError, match=words):
        episode.time_out()
    episode.act(1)
    with pytest.raises(InvalidInput, match=r"reward must lie in \[0, 1\]"):
        episode.time_out(-1.0)
    assert (episode.stage, agent.n_time_outs) == (1, 0)
    endless = MatrixRL(Task(np.zeros((3, 2)), 4), known_reward=False, seed=0).begin_episode()
    endless.act(0)
    rule = "time_out needs a problem with an end state, to which a step that timed out leads; got one without. Build"
    with pytest.raises(InvalidInput, match=rule):
        endless.time_out()
    for _ in range(3):
        tell(episode)
    with pytest.raises(ProtocolError, match="time_out was called after the last step"):
        episode.time_out()


def test_a_known_table_has_no_time_outs():
    """Regret and V* of a known MDP are those without time-outs, so nothing is claimed."""
    p = np.zeros((2, 1, 2))
    p[:, 0, 1] = 1.0
    agent = MatrixRL(FiniteMDP(p, [[0.5], [0.0]], 3, end_state=1), seed=0)
    agent.begin_episode().act(0)
    agent.open_episodes[0].time_out()
    words = "an episode timed out, which the known transition table does not have as an outcome"
    assert agent.guarantee == agent.certificate().guarantee == Guarantee(False, words)


def test_vectors_need_no_end_state():
    agent = KernelMatrixRL(make("cart-pole", horizon=15), seed=0)
    episode, obs = agent.begin_episode(), np.array([0.0, 0.1, 0.0, 0.0])
    action = episode.act(obs)
    assert episode.time_out(0.0).length == 1
    other = KernelMatrixRL(make("cart-pole", horizon=15), seed=0)
    other.begin_episode()
    assert other.act(obs) == action
    other.observe(obs, action, 0.0, obs, terminated=True)
    other.end_episode()
    assert_same_arrays(agent.algorithm.state(), other.algorithm.state())


def test_questions_that_are_old_time_out_by_a_rule(tmp_path):
    """Times are those of the caller: five questions at the times 0, 1, 2, none, 4, of which the third was answered."""
    agent = learner()
    episodes = [agent.begin_episode() for _ in range(5)]
    for now, episode in zip((0.0, 1.0, 2.0, None, 4.0), episodes, strict=True):
        action = episode.act(0, now=now)
    assert episodes[1].act(0, now=3.5) == episodes[1].act(0)  # asked again: the first time counts
    episodes[2].observe(0, action, 0.5, 1)
    agent.save(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a")
    for one in (agent, loaded):
        assert one.time_out_after(5.0, now=4.5) == ()
        assert [e.number for e in one.time_out_after(3.0, now=4.0, reward=0.0)] == [0, 1]
        assert (one.n_time_outs, one.n_episodes, len(one.open_episodes)) == (2, 2, 3)
        assert one.time_out_after(3.0, now=4.0) == ()
        assert [e.number for e in one.time_out_after(0.0, now=4.0, reward=0.0)] == [4]
        assert (one.n_time_outs, one.n_waiting) == (3, 1)
    assert_same_agent(loaded, agent)
    agent.save(tmp_path / "b")
    assert MatrixRL.load(tmp_path / "b").assumptions == agent.assumptions
    for limit, now, words in (
        (-1.0, 0.0, "limit must be finite"),
        (1.0, np.nan, "now must be"),
        ("1", 0, "limit must"),
    ):
        with pytest.raises(InvalidInput, match=words):
            agent.time_out_after(limit, now=now)
    with pytest.raises(InvalidInput, match="now must be a number"):
        agent.open_episodes[0].act(0, now="noon")


def test_a_rule_whose_reward_fits_some_episodes_only_changes_nothing():
    agent = MatrixRL(task(), seed=0)
    one, other = agent.begin_episode(), agent.begin_episode()
    first = task().reward[0, one.act(0, now=0.0)]
    other.act(1, now=0.0)
    with pytest.raises(InvalidInput, match="reward must be left out"):
        agent.time_out_after(1.0, now=9.0, reward=float(first))
    assert (agent.n_time_outs, len(agent.open_episodes), one.stage) == (0, 2, 0)


def test_a_time_out_lets_those_after_it_be_learned_from():
    agent = learner()
    first, second = agent.begin_episode(), agent.begin_episode()
    first.act(0)
    for _ in range(4):
        tell(second)
    assert second.end() is None
    assert first.time_out(0.0).index == 0
    assert second.record.index == 1
    assert agent.guarantee


def test_a_step_with_a_number_may_be_reported_again():
    agent = learner()
    episode = agent.begin_episode()
    steps = [(0, episode.act(0), 0.5, 1), (1, 0, 0.25, 2), (2, 1, 0.0, 0, True)]
    for number, step in enumerate(steps):
        for _ in range(3):
            episode.observe(*step, step=number)
        assert episode.stage == number + 1
        for earlier in range(number):
            episode.observe(*steps[earlier], step=earlier)
    assert episode.is_finished
    episode.observe(*steps[2], step=2)
    record = episode.end()
    assert (record.length, record.episode_return) == (3, 0.75)
    before = agent.algorithm.state()
    for number, step in enumerate(steps):
        episode.observe(*step, step=number)  # also after the end
    assert_same_arrays(agent.algorithm.state(), before)


CONTRADICTIONS = [(1, 0, 0.5, 1), (0, 1, 0.5, 1), (0, 0, 0.75, 1), (0, 0, 0.5, 2), (0, 0, 0.5, 1, True)]


@pytest.mark.parametrize("told", CONTRADICTIONS, ids=str)
@pytest.mark.parametrize("later", [False, True])
def test_a_step_that_contradicts_the_first_report_is_refused(told, later):
    agent = learner()
    episode = agent.begin_episode()
    episode.observe(0, 0, 0.5, 1, step=0)
    if later:
        episode.observe(1, 0, 0.5, 1, step=1)
    words = (
        "step must be reported once, or again with the same content: step 0 was observed with another content; got 0"
    )
    with pytest.raises(InvalidInput, match=words):
        episode.observe(*told, step=0)
    assert episode.stage == 1 + later
    episode.observe(0, 0, 0.5, 1, step=0)
    assert episode.end().episode_return == 0.5 + 0.5 * later


def test_steps_come_in_order_and_only_to_an_open_episode():
    agent = learner()
    agent.begin_episode()
    with pytest.raises(InvalidInput, match="step must be at most 0"):
        agent.observe(0, 0, 0.5, 1, step=2)
    for step, words in ((-1, "at least 0"), (1.5, "a whole number"), ("0", "a whole number")):
        with pytest.raises(InvalidInput, match=f"step must be {words}"):
            agent.observe(0, 0, 0.5, 1, step=step)
    assert agent.open_episodes[0].stage == 0
    agent.observe(0, 0, 0.5, 1, step=0)
    episode = agent.open_episodes[0]
    agent.end_episode()
    with pytest.raises(ProtocolError, match="ended or abandoned"):
        episode.observe(1, 0, 0.5, 1, step=1)


def test_an_outcome_that_comes_after_its_time_out_is_refused():
    agent = learner()
    episode = agent.begin_episode()
    action = episode.act(0)
    episode.time_out(0.0)
    with pytest.raises(InvalidInput, match="step 0 timed out"):
        episode.observe(0, action, 1.0, 1, step=0)
    assert agent.n_episodes == 1
