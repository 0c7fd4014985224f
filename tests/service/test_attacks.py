"""What somebody could send to a service that runs: each is refused, nothing changes, and others are answered."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest
from processes import serving

from matrixrl_serve.log import EventLog

SHOP = 'name = "shop"\nstates = 3\nactions = ["wait", "order"]\nhorizon = 3\nstart = 0\ntime_out = 60\n'


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Directory, host and port of a service."""
    folder = tmp_path_factory.mktemp("attacked")
    (folder / "shop.toml").write_text(SHOP)
    with serving(folder / "data", problem=folder / "shop.toml") as url:
        host, _, port = url.removeprefix("http://").partition(":")
        found = folder / "data", host, int(port)
        assert post(found, "/v1/episodes", {"episode": "first"})[0] == 200
        for step in range(3):
            body = {"state": 0, "action": "wait", "reward": 0.0, "next_state": 0, "step": step}
            assert post(found, "/v1/episodes/first/tell", body)[0] == 200
        yield found


def n_events(place):
    """Return how many events there are that requests caused."""
    log = EventLog(place[0], create=False)
    try:
        return sum(event.actor != "learner" for event in log.read())
    finally:
        log.close()


def sent(place, data, *, timeout=10.0):
    """Send bytes on a connection of their own, and return the status and the body of the answer; None if it closes."""
    with socket.create_connection(place[1:], timeout=timeout) as own:
        own.sendall(data)
        answer = b""
        while b"\r\n\r\n" not in answer:
            part = own.recv(1 << 16)
            if not part:
                return None, answer
            answer += part
        head, _, body = answer.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        while len(body) < length:
            body += own.recv(1 << 16)
        return int(head.split()[1]), body


def post(place, path, body, headers=""):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
    return sent(place, head.encode() + data)


def get(place, path, headers="Host: 127.0.0.1\r\n"):
    return sent(place, f"GET {path} HTTP/1.1\r\n{headers}\r\n".encode())


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/static/../../../../etc/passwd",
        "/v1/episodes/..%2f..%2fetc%2fpasswd",
        "/v1/episodes/%2e%2e/%2e%2e/log.db",
        "/v1/export?format=../../../tmp/x",
        "/v1/export?format=/etc/passwd",
        "/v1/export?format=minari:../../evil",
        "/v1/events?kind=../../etc",
        "/v1/events?after=0;DROP%20TABLE%20events",
        "/log.db",
    ],
)
def test_no_path_leads_to_a_file(place, path):
    before = n_events(place)
    status, body = get(place, path)
    assert status in (404, 405, 422), body
    assert b"root:" not in body
    assert n_events(place) == before


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "a/b", "<script>alert(1)</script>", "'; DROP TABLE events; --", "a\u0000b", "", "x" * 65, " "],
)
def test_names_of_episodes_have_a_fixed_alphabet(place, name):
    before = n_events(place)
    assert post(place, "/v1/episodes", {"episode": name})[0] == 422
    assert n_events(place) == before


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 500_000,
        b'{"episode":' * 90_000,
        b'{"key": "\\ud800"}',
        b'{"key": "a\\u0000b"}',
        b'{"key": "\\u202e\\u0007"}',
        b'{"episode": "e", "episode": 3}',
        b"\xff\xfe{}",
        b'{"key": 1' + b"0" * 10_000 + b"}",
        b"NaN",
        b"null",
        b'"text"',
        b"[]",
    ],
)
def test_strange_json_is_refused(place, body):
    before = n_events(place)
    status, answer = post(place, "/v1/episodes", body)
    assert status == 422, answer
    assert json.loads(answer)["error"]
    assert n_events(place) == before


@pytest.mark.parametrize("number", [b"NaN", b"1e999", b"-Infinity", b"1" + b"0" * 5000, b'"1"', b"true", b"null"])
def test_rewards_are_finite_numbers(place, number):
    name = json.loads(post(place, "/v1/episodes", {})[1])["episode"]
    before = n_events(place)
    body = b'{"state": 0, "action": "wait", "next_state": 0, "reward": ' + number + b"}"
    assert post(place, f"/v1/episodes/{name}/tell", body)[0] == 422
    assert n_events(place) == before


def test_the_header_with_the_key_is_checked_as_the_body_is(place):
    before = n_events(place)
    for key in ("x" * 101, "\u00e4".encode("latin-1").decode("latin-1")):
        data = b"{}"
        head = f"POST /v1/episodes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nIdempotency-Key: {key}\r\n\r\n"
        assert sent(place, head.encode("latin-1") + data)[0] == 422
    assert n_events(place) == before


@pytest.mark.parametrize(
    "headers",
    [
        "Host: evil.example\r\n",
        "Host: 127.0.0.1.evil.example\r\n",
        "Host: 127.0.0.1\r\nHost: evil.example\r\n",
        "",
        "Host: \r\n",
        "Host: 127.0.0.1@evil.example\r\n",
    ],
)
def test_other_hosts_are_refused(place, headers):
    assert get(place, "/health", headers)[0] in (400, 421)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Sec-Fetch-Site: same-site\r\n", 403),
        ("Origin: http://evil.example\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Origin: http://127.0.0.1.evil.example\r\n", 403),
        ("Sec-Fetch-Site: same-origin\r\nOrigin: http://127.0.0.1:8799\r\n", 422),
        ("Sec-Fetch-Site: none\r\n", 422),
    ],
)
def test_pages_of_other_sites_cannot_make_a_browser_send_requests(place, headers, status):
    before = n_events(place)
    assert post(place, "/v1/mode", {"mode": "none"}, headers)[0] == status
    assert post(place, "/v1/episodes", b"[]", headers)[0] == status
    host = "Host: 127.0.0.1\r\n"
    if status == 403:
        assert get(place, "/v1/export?format=csv", host + headers)[0] == 403
        assert post(place, "/", b"[]", headers)[0] == 403
    assert get(place, "/", host + "Sec-Fetch-Site: cross-site\r\n")[0] == 200  # a link to the dashboard
    assert n_events(place) == before


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/v1/events?after={10**30}", 422),
        (f"/v1/values?after={10**30}", 422),
        ("/v1/episodes/%00", 404),
        ("/v1/episodes/" + "x" * 65, 404),
        ("/v1/events?after=-1", 422),
        ("/v1/events?limit=1000000", 422),
    ],
)
def test_numbers_and_names_that_no_database_holds(place, path, status):
    assert get(place, path)[0] == status


def test_an_endless_body_is_cut_off(place):
    before = n_events(place)
    head = b"POST /v1/episodes HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(place[1:], timeout=20.0) as own:
        own.sendall(head)
        with pytest.raises(OSError):  # noqa: PT011  # whichever of the errors of a closed connection
            for _ in range(1000):
                own.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
    assert n_events(place) == before


def test_slow_clients_do_not_hold_up_others(place):
    """Some send half a request and wait; the others are answered meanwhile. Half a request does nothing."""
    before = n_events(place)
    slow = [socket.create_connection(place[1:], timeout=10.0) for _ in range(100)]
    for number, one in enumerate(slow):
        half = b"POST /v1/episodes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n"
        one.sendall(half if number % 2 else half + b"\r\n{")
    begin = time.monotonic()
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(get(place, "/health")[0])) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 10
    assert time.monotonic() - begin < 10.0
    for one in slow:
        one.close()
    time.sleep(0.5)
    assert n_events(place) == before


def test_requests_that_are_smuggled_are_refused(place):
    """Two lengths, or a length beside chunks: proxies and servers could read them in different ways."""
    before = n_events(place)
    start = b"POST /v1/episodes HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    two = start + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} "
    both = start + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    for data in (two, both):
        assert sent(place, data)[0] in (None, 400)
    assert n_events(place) == before
