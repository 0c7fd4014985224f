"""Time-outs count time in which an outcome could have been reported, and no missing outcome becomes a proven one."""

from __future__ import annotations

import time

import numpy as np
import pytest
from processes import end, start
from worlds_of_service import Clock, direct, play, served, shop

from matrixrl.errors import StoreError
from matrixrl_serve import Client, replay
from matrixrl_serve.client import ClientEpisode
from matrixrl_serve.errors import Conflict
from matrixrl_serve.log import EventLog, database
from matrixrl_serve.service import Service


def asked(decisions, state=0):
    name = decisions.open("local").episode
    decisions.ask("local", name, state=state)
    return name


def test_the_time_at_which_the_service_was_down_does_not_count(tmp_path):
    wall, timer = Clock(1e9), Clock(0.0)
    with Service(shop(default_reward=0.0), tmp_path, learning=False, clock=wall, timer=timer) as service:
        name = asked(direct(service))
        assert served(service, timer, 40) == set()
    wall.now += 1e6  # the service is down for longer than time_out
    timer = Clock(5e5)
    with Service(None, tmp_path, learning=False, clock=wall, timer=timer) as service:
        assert served(service, timer, 59) == set()
        direct(service).tell("local", name, reward=1.0, next_state=1, step=0)
        other = asked(direct(service))
        assert served(service, timer, 60) == set()
        assert served(service, timer, 2) == {name, other}
        service.learn_now()
        assert service.learner.agent.history.returns.tolist() == [1.0, 0.0]
    closed = [event for event in EventLog(tmp_path).read() if event.kind in ("ended", "timed_out")]
    assert [event.body["reason"] for event in closed] == ["time_out", "time_out"]
    assert all(60.0 <= event.body["waited"] <= 62.0 for event in closed)
    assert replay(tmp_path).difference is None


@pytest.mark.parametrize("jump", [1e6, -1e6])
def test_a_jump_of_the_clock_does_not_count(tmp_path, jump):
    wall, timer = Clock(1e9), Clock(0.0)
    with Service(shop(default_reward=0.0), tmp_path, learning=False, clock=wall, timer=timer) as service:
        name = asked(direct(service))
        served(service, timer, 10)
        wall.now += jump
        assert served(service, timer, 50) == set()
        assert served(service, timer, 1) == {name}


def test_a_process_that_stood_still_does_not_time_out_what_it_could_not_hear(tmp_path):
    timer = Clock(0.0)
    with Service(shop(default_reward=0.0), tmp_path, learning=False, timer=timer) as service:
        asked(direct(service))
        served(service, timer, 10)
        timer.now += 1000.0  # stopped by a debugger, or its machine slept
        assert served(service, timer, 40) == set()


def test_the_time_at_which_the_log_takes_nothing_does_not_count(tmp_path, monkeypatch):
    timer = Clock(0.0)
    monkeypatch.setattr(database, "_BUSY", 0.02)
    with Service(shop(default_reward=0.0), tmp_path, learning=False, timer=timer) as service:
        decisions = direct(service)
        name = asked(decisions)
        served(service, timer, 10)
        with service.log.engine.connect() as other:
            other.exec_driver_sql("BEGIN IMMEDIATE")  # nobody else can write
            for _ in range(20):
                timer.now += 5.0
                with pytest.raises(StoreError, match="locked"):
                    decisions.sweep()
            assert name in decisions.projection.episodes
        assert served(service, timer, 40) == set()
        assert name in served(service, timer, 20)


def test_a_question_that_was_answered_gives_the_next_one_its_own_time(tmp_path):
    timer = Clock(0.0)
    with Service(shop(default_reward=0.0), tmp_path, learning=False, timer=timer) as service:
        decisions = direct(service)
        name = asked(decisions)
        for state in (1, 2):
            assert served(service, timer, 50) == set()
            decisions.tell("local", name, reward=0.0, next_state=state)
            decisions.ask("local", name, state=state)
        assert served(service, timer, 50) == set()


def guarantee(service):
    """Return what the next plan says; those before it were proven from other data, and stay."""
    play(direct(service), np.random.default_rng(9))
    service.learn_now()
    return direct(service).newest.report["certificate"]["guarantee"]


def test_without_a_declared_reward_a_missing_outcome_ends_the_proof_and_is_not_learned(tmp_path):
    """An outcome that is missing because it was good must not be learned as 0: lower and upper would be false."""
    timer = Clock(0.0)
    with Service(shop(), tmp_path, learning=False, timer=timer) as service:
        decisions = direct(service)
        assert guarantee(service)["holds"]
        name = asked(decisions)
        decisions.tell("local", name, reward=1.0, next_state=1)
        decisions.ask("local", name, state=1)
        assert served(service, timer, 61) == {name}
        assert decisions.find(name).closed == "abandoned"
        with pytest.raises(Conflict, match="over"):
            decisions.tell("local", name, reward=1.0, next_state=0, step=1)
        assert "abandoned" in guarantee(service)["reason"]
        agent = service.learner.agent
        assert (agent.n_episodes, agent.n_time_outs) == (2, 0)
        assert len(agent.history.returns) == 2
        assert "not reported" not in decisions.newest.report["assumptions"]
    assert replay(tmp_path).difference is None


def test_a_request_to_time_out_is_the_same(tmp_path):
    with Service(shop(), tmp_path, learning=False) as service:
        decisions = direct(service)
        name = asked(decisions)
        assert decisions.time_out("local", name).how == "abandoned"
        assert "abandoned" in guarantee(service)["reason"]


@pytest.mark.parametrize("known", [True, False])
def test_only_a_reward_that_is_known_fills_in_a_step_whose_next_state_came(tmp_path, known):
    """With known rewards nothing is missing: the next question shows the next state."""
    changes = {"rewards": [[0.1, 0.2]] * 3} if known else {}
    with Service(shop(**changes), tmp_path, learning=False) as service:
        decisions = direct(service)
        name = asked(decisions)
        decisions.ask("local", name, state=2, step=1)
        decisions.tell("local", name, reward=0.1, terminated=True, step=1, action="wait")
        assert decisions.time_out("local", name).how == ("timed_out" if known else "abandoned")
        if known:
            service.learn_now()
            assert service.learner.agent.guarantee
            assert service.learner.agent.n_episodes == 1
        else:
            assert "abandoned" in guarantee(service)["reason"]


def test_a_time_out_pays_the_known_reward_whatever_the_default_is(tmp_path):
    timer = Clock(0.0)
    problem = shop(rewards=[[0.1, 0.2]] * 3, default_reward=0.0)
    with Service(problem, tmp_path, learning=False, timer=timer) as service:
        name = asked(direct(service))
        answer = direct(service).find(name).steps[0].asked.action
        assert served(service, timer, 61) == {name}
        service.learn_now()
        agent = service.learner.agent
        assert (agent.n_episodes, agent.n_time_outs) == (1, 1)
        assert agent.history.returns.tolist() == [[0.1, 0.2][answer]]
        assert agent.guarantee
        assert "pays its known reward, and" in direct(service).newest.report["assumptions"]
    assert replay(tmp_path).difference is None


def test_a_log_in_which_time_outs_were_learned_without_a_declaration_proves_nothing(tmp_path):
    """Earlier versions closed such episodes as timed out, and learned 0."""
    with Service(shop(), tmp_path, learning=False) as service:
        decisions = direct(service)
        name = asked(decisions)
        decisions._close("clock", decisions.find(name), "timed_out", {"reason": "time_out"}, None)
        assert not guarantee(service)["holds"]


@pytest.mark.parametrize("by_request", [True, False])
def test_an_episode_that_was_never_asked_may_be_left_out_for_its_first_state(tmp_path, by_request):
    """Half of the customers pay nothing, and are not asked about: of 0.5, the lower bound says 0.9."""
    timer, rng = Clock(0.0), np.random.default_rng(0)
    problem = shop(states=2, actions=1, horizon=1, start=None, rewards=[[0.0], [1.0]])
    with Service(problem, tmp_path, learning=False, timer=timer) as service:
        decisions = direct(service)
        for kind in rng.integers(2, size=200):
            name = decisions.open("local").episode
            if kind == 1:
                decisions.ask("local", name, state=1)
                decisions.tell("local", name, reward=1.0, next_state=1)
            elif by_request:
                decisions.abandon("local", name)
        served(service, timer, 61)
        service.learn_now()
        said = decisions.newest.report["certificate"]
        assert said["lower"] > 0.9
        assert "abandoned" in said["guarantee"]["reason"]
        agent = service.learner.agent
        assert agent.n_episodes < 200
        assert agent.certificate(start=1).guarantee
        assert agent.guarantee
    assert replay(tmp_path).difference is None
    with Service(None, tmp_path, learning=False) as service:
        assert not service.learner.agent.certificate().guarantee


def test_a_checkpoint_of_an_earlier_version_does_not_hide_an_episode_that_was_never_asked(tmp_path):
    with Service(shop(start=None), tmp_path, learning=False) as service:
        direct(service).abandon("local", direct(service).open("local").episode)
        service.learn_now()
        service.learner.agent._ledger.start_doubt = None  # as earlier versions left it
    with Service(None, tmp_path, learning=False) as service:
        assert "abandoned" in guarantee(service)["reason"]


def test_over_http_a_late_report_is_taken_after_a_long_time_down(tmp_path):
    """The service is down for longer than time_out; the outcome comes when it is back."""
    problem = tmp_path / "problem.toml"
    problem.write_text(
        'states = 3\nactions = ["wait", "order"]\nhorizon = 3\nstart = 0\ntime_out = 2\ndefault_reward = 0.0\n'
    )
    process, url = start(tmp_path / "data", problem=problem)
    with Client(url) as client:
        episode = client.open("late")
        episode.ask(0, step=0)
    end(process)
    time.sleep(2.5)
    process, url = start(tmp_path / "data")
    try:
        time.sleep(1.2)  # the service has looked for overdue episodes
        with Client(url) as client:
            assert client.episode("late")["closed"] is None
            episode = ClientEpisode(client, episode.opened)
            assert episode.tell(1.0, next_state=1, step=0).ended is False
    finally:
        end(process)
