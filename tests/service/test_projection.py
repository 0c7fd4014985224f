from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from worlds_of_service import Clock, direct, play, shop

from matrixrl.errors import StoreError
from matrixrl_serve.log import EventLog
from matrixrl_serve.log.tables import events
from matrixrl_serve.log_replay import replay
from matrixrl_serve.projection import Projection
from matrixrl_serve.service import Service


def busy(service, n=12, seed=0):
    """Play episodes that overlap, with late, missing and reordered outcomes, and learn now and then."""
    rng, decisions = np.random.default_rng(seed), direct(service)
    for k in range(n):
        play(decisions, rng)
        if k % 3 == 0:
            service.learn_now()
        if k % 4 == 1:  # one that stays open for a while, asked ahead
            name = decisions.open("local", episode=f"late-{seed}-{k}").episode
            decisions.ask("local", name, state=0, step=0)
            decisions.ask("local", name, state=1, step=1, allowed=["order"])
        if k % 4 == 3:
            decisions.tell("local", f"late-{seed}-{k - 2}", reward=1.0, next_state=2, step=1)
            decisions.tell("local", f"late-{seed}-{k - 2}", reward=0.0, step=0)
            if k < n - 1:  # the last one stays open
                decisions.end("local", f"late-{seed}-{k - 2}")
    service.learn_now()


def state_of(learner):
    """Return everything that a learner knows, to compare."""
    plain = learner.to_plain() | {"learned": None}  # when it last tried to plan is no part of it
    arrays = {name: array.tolist() for name, array in learner.agent.algorithm.state().items()}
    return plain, arrays


def test_a_replay_is_equal_bit_for_bit(tmp_path):
    with Service(shop(), tmp_path, learning=False) as service:
        busy(service)
        seq, decisions = service.writer.seq, direct(service).projection.counts["asked"]
        plans = direct(service).projection.plan
    found = replay(tmp_path)
    assert found.difference is None
    assert (found.n_events, found.n_decisions, found.n_plans) == (seq, decisions, plans)
    assert plans > 3


def test_a_restart_without_a_checkpoint_is_the_same_service(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, restarts in ((one, False), (other, True)):
        service = Service(shop(), folder, learning=False, clock=Clock())
        for seed in range(3):
            busy(service, seed=seed)
            if restarts:
                service.close()
                for file in (folder / "checkpoints").iterdir():
                    file.unlink()
                service = Service(None, folder, learning=False, clock=Clock())
        service.close()
    logs = [
        [(e.kind, e.step, e.body.get("action"), e.body.get("digest")) for e in EventLog(f).read()] for f in (one, other)
    ]
    assert logs[0] == logs[1]


def test_a_checkpoint_and_the_rest_of_the_log_give_what_the_whole_log_gives(tmp_path):
    with Service(shop(), tmp_path, learning=False) as service:
        busy(service)
    service = Service(None, tmp_path, learning=False)
    busy(service, seed=1)
    before = state_of(service.learner)
    service.writer.close()
    service.log.close()
    service._lock.release()  # as if it had been killed: no checkpoint of the second part
    assert len(list((tmp_path / "checkpoints").glob("*.state"))) == 1
    again = Service(None, tmp_path, learning=False)
    assert state_of(again.learner) == before
    for file in (tmp_path / "checkpoints").iterdir():
        file.unlink()
    again._lock.release()
    whole = Service(None, tmp_path, learning=False)
    assert state_of(whole.learner) == before


def test_the_desk_has_the_book_of_the_log(tmp_path):
    with Service(shop(), tmp_path, learning=False) as service:
        busy(service)
        service.writer.latest.result()
        projection = Projection("live")
        for event in service.log.read():
            projection.apply(event)
        assert projection.to_plain() == direct(service).projection.to_plain()
        assert Projection.from_plain(json.loads(json.dumps(projection.to_plain()))).to_plain() == projection.to_plain()
        assert projection.episodes  # some are open


def test_an_episode_keeps_the_plan_that_it_was_opened_with(tmp_path):
    """An answer from the newest plan instead would be another action, or another version, and replay would say so."""
    with Service(shop(), tmp_path, learning=False) as service:
        decisions, rng = direct(service), np.random.default_rng(0)
        before = [decisions.open("local").episode for _ in range(12)]
        name = decisions.open("local").episode
        first = decisions.newest
        for other in before:  # they were opened earlier, so they are learned from while it is open
            play(decisions, rng, name=other)
            service.learn_now()
        assert decisions.newest.version > 3
        assert (decisions.newest.policy != first.policy).any()
        for step, state in ((0, 0), (1, 2), (2, 1)):
            answer = decisions.ask("local", name, state=state, step=step)
            assert answer.plan == first.version == 1
            assert answer.action == ["wait", "order"][first.policy[step, state]]
            assert answer.why[0].upper == first.upper[step, state, 0]
    assert replay(tmp_path).difference is None


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("asked", lambda body: {**body, "action": 1 - body["action"]}, "its plan says"),
        ("planned", lambda body: {**body, "digest": "0" * 64}, "differs in digest"),
        ("planned", lambda body: {**body, "episodes": body["episodes"] + 1}, "differs in episodes"),
        ("told", lambda body: {**body, "reward": 1.0 - body["reward"]}, "differs in"),
    ],
)
def test_replay_finds_what_does_not_follow(tmp_path, kind, change, words):
    """An event is forged with the digests of all that follow, so that only the decisions betray it."""
    with Service(shop(), tmp_path, learning=False) as service:
        busy(service)
    log = EventLog(tmp_path)
    chosen = [event for event in log.read() if event.kind == kind][2]
    text = json.dumps(change(chosen.body), sort_keys=True, separators=(",", ":"))
    before, *rest = log.read(chosen.seq - 2)
    with log.engine.begin() as connection:
        for event in rest:
            forged = dataclasses.replace(event, text=text) if event.seq == chosen.seq else event
            before = dataclasses.replace(forged, digest=forged.digest_after(before.digest))
            connection.execute(events.update().where(events.c.seq == event.seq).values(before.row()))
    log.check()
    log.close()
    assert words in replay(tmp_path).difference


def test_a_log_that_is_not_the_one_of_the_checkpoint_is_refused(tmp_path):
    with Service(shop(), tmp_path, learning=False) as service:
        busy(service)
        last = service.writer.seq
    log = EventLog(tmp_path)
    with log.engine.begin() as connection:
        connection.execute(events.delete().where(events.c.seq == last))
    log.close()
    with pytest.raises(StoreError, match="not the one of its checkpoint"):
        Service(None, tmp_path)


def test_a_damaged_checkpoint_is_left_out(tmp_path):
    with Service(shop(), tmp_path, learning=False) as service:
        busy(service)
        before = state_of(service.learner)
    for file in (tmp_path / "checkpoints").glob("*.state"):
        file.write_bytes(file.read_bytes()[:-100])
    with Service(None, tmp_path, learning=False) as again:
        assert state_of(again.learner) == before


def test_a_directory_has_one_service_and_one_problem(tmp_path):
    with Service(shop(), tmp_path), pytest.raises(StoreError, match="only one process can serve it"):
        Service(shop(), tmp_path)
    with pytest.raises(StoreError, match="differs in horizon"):
        Service(shop(horizon=4), tmp_path)
    with pytest.raises(StoreError, match="give a problem file"):
        Service(None, tmp_path / "empty")


def test_the_learner_of_a_process_publishes_and_answers_do_not_wait(tmp_path):
    import time

    with Service(shop(), tmp_path) as service:
        rng = np.random.default_rng(0)
        deadline = time.monotonic() + 120
        while direct(service).newest.version < 4 and time.monotonic() < deadline:
            play(direct(service), rng)
            service.writer.latest.result()  # as an application does
        assert direct(service).newest.version >= 4
        assert service.failure is None
    assert replay(tmp_path).difference is None


def test_a_busy_log_does_not_keep_the_learner_from_planning(tmp_path):
    """Every event that the learner takes is followed by another one: it must plan all the same."""
    with Service(shop(), tmp_path, learning=False) as service:
        for k in range(5):
            play(direct(service), np.random.default_rng(k))
        feed, taken = service.learner.feed, []

        def feed_while_more_come(event):
            assert len(taken) < 500
            taken.append(event.seq)
            feed(event)
            direct(service).open("local")

        service.learner.feed = feed_while_more_come
        service.learn_now()
        service.learner.feed = feed
        assert direct(service).newest.version == 2
