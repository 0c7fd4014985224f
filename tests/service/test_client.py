from __future__ import annotations

import httpx
import numpy as np
import pytest
from worlds_of_service import direct, outcome, shop

from matrixrl.errors import InvalidInput, StoreError
from matrixrl_serve import Client, Service, make_app
from matrixrl_serve.client import InProcess
from matrixrl_serve.errors import Conflict, NotFound


@pytest.fixture
def service(tmp_path):
    with Service(shop(), tmp_path, learning=False) as service:
        yield service


class Lossy(httpx.BaseTransport):
    """Loses every second answer after the application has done its work."""

    def __init__(self, app):
        self._inner, self.count = InProcess(app), 0

    def handle_request(self, request):
        answer = self._inner.handle_request(request)
        self.count += 1
        if self.count % 2:
            raise httpx.ReadError("the answer was lost")
        return answer

    def close(self):
        self._inner.close()


def play(client, rng):
    episode, state, answers = client.open(), 0, []
    for _ in range(3):
        answers.append(episode.ask(state))
        reward, state = outcome(rng, state, ["wait", "order"].index(answers[-1].action))
        told = episode.tell(reward, next_state=state)
    assert told.ended
    return answers


def test_lost_answers_are_asked_for_again_and_nothing_is_done_twice(service):
    """Without the keys an open would begin two episodes, and a tell without a step would be a conflict."""
    transport = Lossy(make_app(service))
    with Client(transport=transport) as client:
        for k in range(4):
            answers = play(client, np.random.default_rng(k))
    assert [answer.step for answer in answers] == [0, 1, 2]
    assert direct(service).projection.n_opened == 4
    assert direct(service).projection.counts["asked"] == direct(service).projection.counts["told"] == 12
    assert transport.count == 2 * 4 * 7
    assert direct(service).n_repeated == 4 * 7


def test_errors_are_those_of_the_library(service):
    with Client(app=make_app(service)) as client:
        episode = client.open()
        with pytest.raises(InvalidInput, match=r"state must be in 0 … 2; got 5") as caught:
            episode.ask(5)
        assert caught.value.argument == "state"
        episode.ask(0)
        with pytest.raises(Conflict, match="other allowed actions"):
            episode.ask(0, allowed=["wait"])
        with pytest.raises(NotFound):
            client.episode("none")
        assert episode.abandon().how == "abandoned"
        assert client.certificate()["plan"] == 1


def test_a_service_that_cannot_be_reached_is_an_error(service):
    def refuse(request):
        raise httpx.ConnectError("refused")

    with Client(transport=httpx.MockTransport(refuse), retries=1) as client, pytest.raises(StoreError, match="reached"):
        client.open()


def test_numbers_of_numpy_are_sent_as_numbers(service):
    with Client(app=make_app(service)) as client:
        episode = client.open()
        answer = episode.ask(np.int64(0), allowed=["order"], step=np.int32(0))
        assert answer.action == "order"
        told = episode.tell(np.float32(0.5), next_state=np.array(1), terminated=np.bool_(True))
        assert told.ended
        assert client.episode(episode.name)["steps"][0]["reward"] == 0.5
        with pytest.raises(InvalidInput, match="must be made of numbers"):
            client.open().ask(object())


def test_a_name_stays_one_part_of_the_address(service):
    with Client(app=make_app(service)) as client:
        for name in ("../events?limit=1", "a/b", "..#", "%2e%2e/mode"):
            with pytest.raises(NotFound):
                client.episode(name)
