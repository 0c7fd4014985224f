from __future__ import annotations

import http.client
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from browser import Watched, chromium
from matrixrl.errors import InvalidInput, MatrixRLError, MissingExtra, StoreError
from matrixrl_lab.execution import Campaign, make_executor
from matrixrl_lab.live import Watcher, make_app, serve, snapshot
from matrixrl_lab.live.snapshot import CURVE_POINTS
from matrixrl_lab.spec import read_spec, work_out
from matrixrl_lab.store import Store

HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'> & co"
SERVE = """
import sys
from pathlib import Path
from matrixrl_lab.live import serve
serve(Path(sys.argv[1]), port=int(sys.argv[2]), announce=lambda url: print(url, flush=True))
"""


def experiment(folder: Path, *, title: str = "Small", episodes: int = 60, **more):
    numbers = {"episodes": episodes, "seeds": 4, "block": 10, "batch": 2, **more}
    spec = folder / "spec.toml"
    spec.write_text(
        "\n".join(f"{key} = {value}" for key, value in numbers.items())
        + f"""
name = "small"
title = {json.dumps(title)}
[[env]]
name = "river-swim"
settings = {{ n_states = 4, horizon = 6 }}
[[env]]
name = "river-swim"
id = "<img src=x onerror='window.hacked = 3'> longer river"
settings = {{ n_states = 7, horizon = 8 }}
[[agent]]
name = "matrix-rl"
[[agent]]
name = "random"
id = "<a href='javascript:window.hacked = 4'>random</a> %{{x}} &amp; $x$"
"""
    )
    return work_out(read_spec(spec))


def play(store: Store, pause: float = 0.0, hurry: threading.Event | None = None, upto: int | None = None) -> None:
    """Run a campaign to its end or to some episodes, with a pause after each block until `hurry` is set."""
    waiting = hurry or threading.Event()

    def tick(campaign):
        waiting.wait(pause)
        if upto is not None and campaign.stored >= upto:
            raise KeyboardInterrupt

    try:
        Campaign(store, make_executor("serial")).run(tick)
    except KeyboardInterrupt:
        assert upto is not None


@contextmanager
def playing(folder: Path, made, pause: float):
    """Run a campaign in a thread; it pauses after each block until the event is set, or the context ends."""
    hurry = threading.Event()

    def work():
        with Store.create(folder, made) as store:
            play(store, pause, hurry)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield hurry
    finally:
        hurry.set()
        thread.join()


class Server:
    """The real server in its own process."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        command = [sys.executable, "-c", SERVE, str(folder), str(port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        assert self.url, self.process.stderr.read()
        self.port = int(self.url.rstrip("/").rpartition(":")[2])

    def stop(self) -> tuple[int, str, str, float]:
        """Interrupt it as Ctrl-C does; return exit code, stdout, stderr and the seconds until it ended."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err, time.monotonic() - started

    def get(self, path="/", method="GET", host=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, headers={} if host is None else {"Host": host})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()


@contextmanager
def serving(folder: Path, port: int = 0):
    server = Server(folder, port)
    try:
        yield server
    finally:
        if server.process.returncode is None:
            server.stop()


@contextmanager
def streaming(server: Server):
    """Yield an iterator over the lines of /events."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield (line.decode().rstrip("\n") for line in iter(answer.readline, b""))
    finally:
        connection.close()


def snapshots(lines):
    return (json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished experiment with hostile names, two seeds of which failed."""
    folder = tmp_path_factory.mktemp("finished")
    with Store.create(folder / "store", experiment(folder, title=HOSTILE, episodes=250, block=50)) as store:
        play(store)
        store.fail(3, [1, 2], f"RuntimeError: no luck {HOSTILE}\nand a second line")
    return folder / "store"


@pytest.fixture(scope="module")
def server(finished):
    with serving(finished) as found:
        yield found


# Snapshots


def test_a_snapshot_shows_the_numbers_of_the_store(finished):
    shown = snapshot(finished)
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert (shown["title"], shown["episodes"], shown["seeds"], shown["finished"]) == (HOSTILE, 250, 4, True)
    cells = [cell for panel in shown["environments"] for cell in panel["cells"]]
    assert [cell["status"] for cell in cells] == ["done", "done", "done", "failed"]
    assert [panel["measure"] for panel in shown["environments"]] == ["regret", "regret"]
    with Store.open_to_read(finished) as store:
        for number, cell in enumerate(cells):
            at = np.array(cell["curve"]["episode"])
            mean = np.cumsum(store.read(number, "regret"), axis=1).mean(axis=0)
            np.testing.assert_allclose(cell["curve"]["mean"], mean[at - 1], rtol=1e-12)
            assert at[0] == 1
            assert at[-1] == 250
            assert 50 < len(at) <= CURVE_POINTS
    (failure,) = shown["failures"]
    assert failure["seeds"] == [1, 2]
    assert failure["reason"] == f"RuntimeError: no luck {HOSTILE}\nand a second line"


def test_progress_counts_what_is_stored_and_what_will_not_come(tmp_path):
    with Store.create(tmp_path / "store", experiment(tmp_path)) as store:
        play(store, upto=100)
        store.fail(0, [0, 1], "no luck")
        store.fail(3, [2], "no luck")
    shown = snapshot(tmp_path / "store")
    # seeds 0 and 1 have 50 of 60 episodes each and lose 10; seed 2 of the last cell loses all 60
    expected = {"done": 0, "running": 0, "pending": 13, "failed": 3, "stored": 100, "lost": 80, "total": 960}
    assert {key: shown["progress"][key] for key in expected} == expected
    assert not shown["finished"]
    assert [c["status"] for panel in shown["environments"] for c in panel["cells"]] == [
        "running",
        "pending",
        "pending",
        "pending",
    ]


@pytest.mark.slow
def test_curves_only_grow_while_seeds_are_at_different_episodes(tmp_path):
    watcher, seen = Watcher(tmp_path / "store"), []

    def look(campaign):
        del campaign
        shown = watcher.snapshot()
        seen.append([(cell["curve"]["episode"] or [0])[-1] for p in shown["environments"] for cell in p["cells"]])

    with Store.create(tmp_path / "store", experiment(tmp_path)) as store:
        Campaign(store, make_executor("serial")).run(look)
    assert (np.diff(np.array(seen), axis=0) >= 0).all()
    assert seen[:2] == [[0, 0, 0, 0], [10, 0, 0, 0]]  # before anything is played, and after the first block
    assert seen[-1] == [60, 60, 60, 60]


def test_only_cells_with_news_are_read_again(tmp_path):
    with Store.create(tmp_path / "store", experiment(tmp_path)) as store:
        play(store, upto=300)  # the first cell is finished, the second one is under way
        watcher = Watcher(store.folder)
        before, again = (watcher.snapshot()["environments"][0]["cells"] for _ in range(2))
        assert all(one["curve"] is other["curve"] for one, other in zip(before, again, strict=True))
        play(store, upto=320)
        after = watcher.snapshot()["environments"][0]["cells"]
    assert after[0]["curve"] is before[0]["curve"]
    assert len(after[1]["curve"]["episode"]) > len(before[1]["curve"]["episode"])


def test_a_directory_without_a_store_is_refused(tmp_path):
    with pytest.raises(StoreError, match="holds no results"):
        snapshot(tmp_path)


# The server


def test_only_get_from_this_machine_is_answered(finished, server):
    status, headers, page = server.get("/")
    assert status == 200
    assert "<html" in page
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers
    assert json.loads(server.get("/snapshot.json")[2]) == {"problem": None, **snapshot(finished)}
    assert "plotly.js v" in server.get("/plotly.js")[2][:200]
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
        assert server.get("/snapshot.json", method)[0] == 405
    for path in ("/docs", "/redoc", "/openapi.json", "/page.html", "/../server.py", "/results.sqlite"):
        assert server.get(path)[0] == 404
    for host in (f"localhost:{server.port}", "LOCALHOST", "[::1]:8787", "127.0.0.1"):
        assert server.get("/", host=host)[0] == 200
    for host in ("evil.example", f"localhost.evil.example:{server.port}", "127.0.0.1.nip.io", "0.0.0.0", ""):
        status, _, said = server.get("/snapshot.json", host=host)
        assert status == 421
        assert HOSTILE not in said


@pytest.mark.slow
def test_events_follow_the_store_at_most_once_a_second(tmp_path):
    folder = tmp_path / "store"
    with serving(folder) as server, streaming(server) as lines:
        stream = snapshots(lines)
        assert "holds no results" in next(stream)["problem"]
        seen, times = [], []
        with playing(folder, experiment(tmp_path), pause=0.3) as hurry:
            for shown in stream:
                if shown["problem"] is None:
                    seen.append(shown)
                    times.append(time.monotonic())
                    if len(seen) == 4:
                        hurry.set()
                    if shown["finished"]:
                        break
        stored = [shown["progress"]["stored"] for shown in seen]
        assert len(stored) >= 4
        assert stored == sorted(set(stored))  # one event for each change, none without
        assert seen[-1]["progress"]["stored"] == seen[-1]["progress"]["total"] == 960
        assert np.diff(times).min() > 0.7  # one second, with a margin for the delivery
        with Store.open_to_write(folder) as store:
            store.fail(0, [0], "no luck")
        assert next(stream)["failures"][0]["reason"] == "no luck"
        shutil.rmtree(folder)
        assert "holds no results" in next(stream)["problem"]
        folder.mkdir()
        (folder / "results.sqlite").write_bytes(b"not a database at all, but some text" * 100)
        assert "damaged or not a store" in next(stream)["problem"]


def test_a_quiet_stream_gives_signs_of_life(server):
    with streaming(server) as lines:
        assert next(snapshots(lines))["finished"]
        assert next(line for line in lines if line).startswith(":")  # a comment, not an event


def test_an_interrupt_ends_it_with_streams_open(finished):
    with serving(finished) as server, streaming(server) as one, streaming(server) as two:
        assert next(snapshots(one))["finished"]
        assert next(snapshots(two))["finished"]
        code, out, err, seconds = server.stop()
        assert (code, out, err) == (0, "", "")
        assert seconds < 3.0
        assert [line for line in one if line] == []  # the stream has an end


def test_a_client_that_leaves_is_let_go(server):
    for _ in range(5):
        with streaming(server) as lines:
            assert next(snapshots(lines))["finished"]
    deadline = time.monotonic() + 10
    while connections(server) > 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def connections(server: Server) -> int:
    """Count open connections of the server by its file descriptors, less the one that listens and its own."""
    links = [p.readlink().name for p in Path(f"/proc/{server.process.pid}/fd").iterdir() if p.is_symlink()]
    mine = {line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if is_open(line, server)}
    return sum(link.removeprefix("socket:[").removesuffix("]") in mine for link in links)


def is_open(line: str, server: Server) -> bool:
    local, _, state = line.split()[1:4]
    return int(local.rpartition(":")[2], 16) == server.port and state != "0A"  # 0A listens


def test_a_port_in_use_is_one_clear_line(finished, server):
    with pytest.raises(MatrixRLError, match=rf"--port {server.port} .*--port"):
        serve(finished, port=server.port)


@pytest.mark.parametrize("port", [-1, 65536, "80"])
def test_a_port_that_is_none_is_refused(finished, port):
    with pytest.raises(InvalidInput, match="--port must be"):
        serve(finished, port=port)


@pytest.mark.parametrize("package", ["fastapi", "plotly"])
def test_without_the_packages_the_way_out_is_said(finished, monkeypatch, package):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"{package}.*matrixrl\[lab\]"):
        make_app(finished)


# The page

POINTS = "[...document.querySelectorAll('.chart')].map(c => c.data?.[0].x.at(-1))"


def wait_for(page, expression: str) -> None:
    """Wait until an expression is true; polled from outside, because the policy of the page forbids eval."""
    deadline = time.monotonic() + 30
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(50)


@pytest.mark.slow
def test_the_page_grows_with_the_campaign(tmp_path, browser):
    folder = tmp_path / "store"
    with serving(folder) as server:
        watched = Watched(browser)
        page = watched.page
        page.goto(server.url)
        wait_for(page, "document.getElementById('notice').innerText.includes('holds no results')")
        with playing(folder, experiment(tmp_path, episodes=120), pause=0.3):
            wait_for(page, f"document.querySelectorAll('.chart .scatterlayer').length === 2 && {POINTS}[0] > 10")
            assert page.locator("#notice").is_hidden()
            first = page.evaluate(POINTS)
            # a hidden agent and the zoom are kept while episodes are added
            page.locator(".chart .legendtoggle").first.click()
            wait_for(page, "document.querySelector('.chart').data[0].visible === 'legendonly'")
            page.evaluate("Plotly.relayout(document.querySelector('.chart'), {'xaxis.range': [0, 33]})")
            wait_for(page, f"{POINTS}[0] > {first[0]}")
            wait_for(page, "/about .* left/.test(document.getElementById('left').innerText)")
            assert page.locator("#state").inner_text() == "Running"
            assert 0 < int(page.locator("#percent").inner_text().split()[0]) < 100
            assert page.evaluate("document.querySelector('.chart').data[0].visible") == "legendonly"
            assert page.evaluate("document.querySelector('.chart').layout.xaxis.range") == [0, 33]
        wait_for(page, "document.getElementById('percent').innerText === '100 %'")
        assert page.locator("#state").inner_text() == "Finished"
        assert page.locator("#left").inner_text() == ""
        assert page.evaluate(POINTS) == [120, 120]
        assert page.evaluate("document.querySelector('.chart').data[0].visible") == "legendonly"
        assert page.locator("tbody .state").all_inner_texts() == ["done"] * 4
        assert page.locator("#bar").get_attribute("aria-valuenow") == "100"
        drawn = page.evaluate(
            "document.querySelectorAll('.chart')[1].querySelectorAll('.scatterlayer path.js-line').length"
        )
        assert drawn == 2
        shutil.rmtree(folder)
        wait_for(page, "document.getElementById('notice').innerText.includes('holds no results')")
        assert page.locator("#percent").inner_text() == "100 %"  # the last state stays visible
        assert watched.errors == []
        assert all(url.startswith(server.url) or url.startswith("data:") for url in watched.requests)
        page.close()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)])
def test_hostile_words_are_words_and_failures_have_reasons(server, browser, width, dark):
    watched = Watched(browser, width=width, dark=dark)
    page = watched.page
    page.goto(server.url)
    wait_for(page, "document.querySelectorAll('.chart .legendtoggle').length === 4")
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.title().endswith(HOSTILE)
    assert page.locator("#state").inner_text() == "Finished, with failures"
    assert page.locator("#failures .reason").inner_text() == f"RuntimeError: no luck {HOSTILE}\nand a second line"
    assert "seeds 1, 2" in page.locator("#failures li").inner_text()
    assert page.locator("tbody .state.failed").count() == 1
    page.locator(".chart").first.hover()
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script, main a").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
    assert watched.errors == []
    page.close()


def test_the_theme_is_kept(server, browser):
    page = Watched(browser).page
    page.goto(server.url)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Switch between light and dark").click()
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    page.close()


@pytest.mark.slow
def test_a_lost_connection_is_said_and_found_again(finished, browser):
    page = Watched(browser).page
    with serving(finished) as server:
        page.goto(server.url)
        wait_for(page, "document.getElementById('state').innerText.startsWith('Finished')")
        assert page.locator("#notice").is_hidden()
        server.stop()
        wait_for(page, "document.getElementById('notice').innerText.startsWith('Connection lost, trying again')")
        assert page.locator("#notice").is_visible()
    with serving(finished, server.port):
        wait_for(page, "document.getElementById('notice').hidden")
    page.close()
