from __future__ import annotations

import numpy as np
import pytest
from worlds_of_service import Clock, direct, play, served, shop

from matrixrl.errors import InvalidInput
from matrixrl_serve.errors import Conflict, NotFound
from matrixrl_serve.service import Service


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def service(tmp_path, clock):
    with Service(shop(), tmp_path, learning=False, clock=clock) as service:
        yield service


@pytest.fixture
def decisions(service):
    return direct(service)


def opened(decisions, **options):
    return decisions.open("local", **options).episode


def test_the_same_question_gets_the_same_answer_and_one_event(decisions):
    name = opened(decisions)
    first = decisions.ask("local", name, state=0)
    again = decisions.ask("local", name, state=0)
    later = decisions.ask("local", name, state=0, step=0, key="k")
    assert (again.action, again.why, again.repeated) == (first.action, first.why, True)
    assert later.action == first.action
    assert decisions.projection.counts["asked"] == 1


def test_another_question_about_the_same_step_is_a_conflict(decisions):
    name = opened(decisions)
    decisions.ask("local", name, state=0)
    with pytest.raises(Conflict, match="asked for with other allowed actions"):
        decisions.ask("local", name, state=0, allowed=["wait"])
    with pytest.raises(Conflict, match="asked for with another state"):
        decisions.ask("local", name, state=1, step=0)


def test_outcomes_may_come_late_and_in_any_order(decisions):
    name = opened(decisions)
    for step, state in enumerate((0, 2, 1)):
        decisions.ask("local", name, state=state, step=step)
    assert not decisions.tell("local", name, reward=1.0, next_state=0, step=2).ended
    assert not decisions.tell("local", name, reward=0.5, step=1).ended
    assert decisions.tell("local", name, reward=0.0, step=0).ended
    steps = decisions.find(name).steps
    assert [step.told.following for step in steps] == [2, 1, 0]
    assert [step.told.reward for step in steps] == [0.0, 0.5, 1.0]


def test_an_outcome_that_comes_twice_is_recorded_once(decisions):
    name = opened(decisions)
    decisions.ask("local", name, state=0)
    decisions.tell("local", name, reward=1.0, next_state=2, key="a")
    again = decisions.tell("local", name, reward=1.0, next_state=2, key="a")
    assert (again.step, again.repeated) == (0, True)
    assert decisions.projection.counts["told"] == 1
    with pytest.raises(Conflict, match="another outcome"):
        decisions.tell("local", name, reward=0.0, next_state=2, key="a")
    with pytest.raises(Conflict, match="key was used for step 0"):
        decisions.tell("local", name, reward=1.0, next_state=2, state=2, action="wait", step=1, key="a")


def test_repeats_are_recognised_after_the_end_and_after_a_restart(tmp_path):
    rng = np.random.default_rng(0)
    with Service(shop(), tmp_path, learning=False) as service:
        name = direct(service).open("me", key="begin").episode
        first = direct(service).ask("me", name, state=0, key="q")
        direct(service).tell("me", name, reward=0.5, terminated=True, key="r")
        play(direct(service), rng)
    for _ in range(2):
        with Service(None, tmp_path, learning=False) as service:
            decisions = direct(service)
            assert decisions.open("me", key="begin").episode == name
            assert decisions.ask("me", name, state=0, key="q").action == first.action
            assert decisions.tell("me", name, reward=0.5, terminated=True, key="r").ended
            assert decisions.end("me", name).repeated
            with pytest.raises(Conflict, match="is over: it was ended"):
                decisions.ask("me", name, state=1, step=1)
            with pytest.raises(Conflict, match="is over: it was ended"):
                decisions.abandon("me", name)
            assert decisions.open("you", key="begin").episode != name


def test_a_key_opens_one_episode(decisions):
    name = opened(decisions, key="k")
    assert opened(decisions, key="k") == name
    assert decisions.projection.n_opened == 1
    with pytest.raises(Conflict, match="key was used to open"):
        decisions.open("local", key="k", episode="other")
    assert opened(decisions, episode="mine") == "mine"
    assert decisions.open("local", episode="mine").repeated
    with pytest.raises(Conflict, match="was opened before"):
        decisions.open("somebody", episode="mine")


def test_a_request_may_allow_fewer_actions(service):
    decisions = direct(service)
    name = opened(decisions)
    usual = ["wait", "order"][decisions.newest.policy[0, 0]]
    other = "order" if usual == "wait" else "wait"
    answer = decisions.ask("local", name, state=0, allowed=[other])
    assert answer.action == other
    assert [bound.action for bound in answer.why] == [other]


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        (lambda d, e: d.ask("x", e, state=7), InvalidInput, "state must be in 0 … 2; got 7"),
        (lambda d, e: d.ask("x", e, state="a"), InvalidInput, "state must be a whole number"),
        (lambda d, e: d.ask("x", e, state=1), InvalidInput, "state must be 0, in which all episodes begin"),
        (lambda d, e: d.ask("x", e, state=0, allowed=[]), InvalidInput, "allowed must be a list of at least one"),
        (lambda d, e: d.ask("x", e, state=0, allowed=["no"]), InvalidInput, "allowed[0] must be one of wait, order"),
        (lambda d, e: d.ask("x", e, state=0, step=9), InvalidInput, "step must be at most 2"),
        (lambda d, e: d.ask("x", e, state=0, step=1), Conflict, "cannot be asked before step 0"),
        (lambda d, _: d.ask("x", "none", state=0), NotFound, "episode 'none' does not exist"),
        (lambda d, e: d.tell("x", e, reward=0.0, next_state=0), InvalidInput, "state must be given"),
        (lambda d, e: d.tell("x", e, reward=0.0, next_state=0, state=0), InvalidInput, "action must be given"),
        (
            lambda d, e: d.tell("x", e, reward=2.0, next_state=0, state=0, action="wait"),
            InvalidInput,
            "reward must be finite and in [0, 1]",
        ),
        (lambda d, e: d.tell("x", e, reward=0.0, state=0, action="wait"), InvalidInput, "next_state must be given"),
        (
            lambda d, e: d.tell("x", e, reward=0.0, state=0, action="wait", next_state=0, terminated="yes"),
            InvalidInput,
            "terminated must be true or false",
        ),
        (lambda d, e: d.end("x", e), Conflict, "has no steps; abandon it"),
        (lambda d, _: d.set_mode("x", "fast"), InvalidInput, "mode must be one of shadow, live, frozen"),
    ],
)
def test_a_bad_request_is_refused_and_changes_nothing(decisions, service, request_, error, words):
    name = opened(decisions)
    before, seq = decisions.projection.to_plain(), service.writer.seq
    with pytest.raises(error) as caught:
        request_(decisions, name)
    assert words in str(caught.value)
    assert decisions.projection.to_plain() == before
    assert service.writer.seq == seq


def test_what_contradicts_the_order_of_states_is_refused(decisions):
    name = opened(decisions)
    decisions.ask("local", name, state=0)
    decisions.tell("local", name, reward=0.0, next_state=2)
    with pytest.raises(Conflict, match="state must be 2, in which step 0"):
        decisions.ask("local", name, state=1)
    decisions.ask("local", name, state=2)
    decisions.tell("local", name, reward=0.0, terminated=True)
    with pytest.raises(Conflict, match="nothing follows it"):
        decisions.tell("local", name, reward=0.0, next_state=0, state=0, action="wait", step=2)


def test_missing_outcomes_time_out_with_the_default_reward(tmp_path, clock):
    with Service(shop(default_reward=0.25), tmp_path, learning=False, timer=clock) as service:
        decisions = direct(service)
        late, idle, untouched = opened(decisions), opened(decisions), opened(decisions)
        decisions.ask("local", late, state=0)
        decisions.ask("local", late, state=2, step=1)  # the outcome of step 0 is missing, its next state is known
        decisions.ask("local", idle, state=0)
        decisions.tell("local", idle, reward=1.0, next_state=1)
        assert served(service, clock, 60) == set()  # the first look is at second 1
        assert served(service, clock, 1) == {late, idle, untouched}
        assert [decisions.find(name).closed for name in (late, idle, untouched)] == ["timed_out", "ended", "abandoned"]
        with pytest.raises(Conflict, match="timed out"):
            decisions.tell("local", late, reward=1.0, next_state=0, step=1)
        service.learn_now()
        agent = service.learner.agent
        assert agent.n_episodes == 2
        assert agent.n_time_outs == 1
        assert agent.history.returns.tolist() == [0.5, 1.0]
        assert agent.algorithm.model.counts.totals().sum() == 3.0
        said = decisions.newest.report["assumptions"]
        assert said.startswith(agent.assumptions)
        assert "not reported in time pays 0.25" in said


def test_an_abandoned_episode_ends_the_proof_only_if_it_was_asked(service):
    decisions = direct(service)
    decisions.abandon("local", opened(decisions))
    play(decisions, np.random.default_rng(0))
    service.learn_now()
    assert service.learner.agent.guarantee
    name = opened(decisions)
    decisions.ask("local", name, state=0)
    decisions.abandon("local", name)
    play(decisions, np.random.default_rng(1))
    service.learn_now()
    assert "abandoned after it was asked" in service.learner.agent.guarantee.reason
    assert "abandoned" in decisions.newest.report["certificate"]["guarantee"]["reason"]


def test_episodes_are_learned_from_in_the_order_in_which_they_were_opened(service):
    decisions, rng = direct(service), np.random.default_rng(0)
    first = opened(decisions)
    decisions.ask("local", first, state=0)
    for _ in range(5):
        play(decisions, rng)
    service.learn_now()
    assert service.learner.agent.n_episodes == 0
    decisions.tell("local", first, reward=0.0, terminated=True)
    service.learn_now()
    assert service.learner.agent.n_episodes == 6
    assert service.learner.agent.history.lengths[0] == 1
    assert service.learner.agent.guarantee


def test_episodes_that_wait_for_an_older_one_are_counted(tmp_path):
    with Service(shop(), tmp_path, learning=False) as service:
        decisions = direct(service)
        first, second, third = (decisions.open("local").episode for _ in range(3))
        assert decisions.projection.n_held_back == 0
        decisions.abandon("local", second)
        assert decisions.projection.n_held_back == 1
        assert decisions.projection.oldest.id == first
        decisions.abandon("local", first)
        assert decisions.projection.n_held_back == 0
        assert decisions.projection.oldest.id == third
        decisions.abandon("local", third)
        assert decisions.projection.oldest is None
        assert decisions.projection.n_held_back == 0
