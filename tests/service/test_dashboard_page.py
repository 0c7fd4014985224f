from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
import uvicorn
from worlds_of_service import direct, outcome, play, shop

from browser import Watched, chromium
from matrixrl.pages.server import open_socket
from matrixrl_serve import Client
from matrixrl_serve.access import create_token, revoke_token
from matrixrl_serve.http import make_app
from matrixrl_serve.log import Draft
from matrixrl_serve.service import Service

SCRIPT = "<script>window.hacked = 1</script>"
IMAGE = "\"><img src=x onerror='window.hacked = 2'>"
LINK = "javascript:window.hacked=3"
HOSTILE = {
    "name": f"{SCRIPT}{IMAGE} & co",
    "states": [SCRIPT, IMAGE, LINK],
    "actions": [f"wait {IMAGE}", f"<a href='{LINK}'>order</a>"],
    "start": SCRIPT,
}


@contextmanager
def running(problem, folder, port=0, learning=False):
    """Serve a problem from a thread of this process; yield the service and its address."""
    with Service(problem, folder, learning=learning) as service, open_socket(port) as listener:
        app = make_app(service)
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none", timeout_graceful_shutdown=5))
        app.state.stopping = lambda: server.should_exit
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield service, f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            started = time.monotonic()
            thread.join()
            assert time.monotonic() - started < 3.0  # open streams do not keep it


@pytest.fixture(scope="module", autouse=True)
def _quick():
    """Look more often than once a second, so that tests wait less."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("matrixrl.pages.server._PAUSE", 0.1)
        yield


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@contextmanager
def opened(browser, url, **options):
    watched = Watched(browser, **options)
    try:
        watched.page.goto(url)
        yield watched
    finally:
        watched.page.context.close()


def wait_for(page, expression):
    """Wait until an expression is true; polled from outside, because the policy of the page forbids eval."""
    deadline = time.monotonic() + 20
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(50)


def text(page, selector):
    return page.locator(selector).inner_text()


def shows(element, words):
    return f"document.getElementById('{element}').innerText === '{words}'"


def test_numbers_change_while_the_page_is_open(tmp_path, browser):
    with (
        running(shop(), tmp_path, learning=True) as (_, url),
        Client(url) as client,
        opened(browser, url) as watched,
    ):
        page = watched.page
        wait_for(page, shows("open", 0))
        assert text(page, "#mode") == "live"
        assert page.locator("#alarms, #sign-in, #notice, #sign-out").filter(visible=True).count() == 0
        wait_for(page, "document.getElementById('values').data?.[0].x.length === 1")
        episode, rng, state = client.open("first"), np.random.default_rng(0), 0
        wait_for(page, shows("open", 1))
        assert text(page, "#episodes tbody td.name >> nth=0") == "first"
        for _ in range(3):
            answer = episode.ask(state)
            reward, state = outcome(rng, state, ["wait", "order"].index(answer.action))
            episode.tell(reward, next_state=state)
        wait_for(page, shows("open", 0))
        wait_for(page, shows("decisions", 3))
        wait_for(page, shows("learned", "from 1 episode"))
        wait_for(page, "document.getElementById('values').data[0].x.length === 2")
        wait_for(
            page, "[...document.querySelectorAll('#pairs td')].map(c => +c.innerText).reduce((a, b) => a + b) === 3"
        )
        assert text(page, "#model") == "2"
        assert "earned" in text(page, "#events")
        shown = client.certificate()
        assert float(text(page, "#upper")) == pytest.approx(shown["upper"], abs=5e-4)
        assert float(text(page, "#gap")) == pytest.approx(shown["gap"], abs=5e-4)
        number, words = text(page, "#estimate").removeprefix("estimated ").split(", ")
        assert float(number) == pytest.approx(shown["estimate"], abs=5e-4)
        assert words == "which is no bound"
        left = float(text(page, "#chance").split("; ")[1].split(" %")[0])
        assert left == pytest.approx(100.0 * shown["share_left"], abs=5e-4)
        assert watched.errors == []
        assert all(address.startswith((url, "data:")) for address in watched.requests)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A service in which every name and every word is hostile."""
    problem = shop(**HOSTILE, mode="shadow", incumbent=HOSTILE["actions"][:1] * 3, promote=True)
    with running(problem, tmp_path_factory.mktemp("hostile")) as (service, url):
        decisions = direct(service)
        for name in (SCRIPT, IMAGE, LINK):
            decisions.open(name, episode=f"{name} open")
            decisions.open(name, episode=name)
            decisions.ask(name, name, state=SCRIPT)
            decisions.tell(name, name, reward=0.5, next_state=IMAGE, state=SCRIPT, action=HOSTILE["actions"][1])
            decisions.set_mode(name, "live" if decisions.projection.mode == "shadow" else "shadow", f"because {name}")
            decisions.note([Draft("token", name, {"name": name, "scopes": [name], "what": "created"})])
        decisions.note([Draft("alarm", "learner", {"words": f"tide {SCRIPT}{IMAGE}"})])
        service.learn_now()
        yield url


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (375, False)])
def test_hostile_words_are_words(hostile, browser, width, dark):
    with opened(browser, hostile, width=width, dark=dark) as watched:
        page = watched.page
        wait_for(page, "document.querySelectorAll('#pairs tbody tr').length === 3")
        wait_for(page, "document.querySelectorAll('.chart .plot-container').length === 4")
        assert text(page, "h1") == HOSTILE["name"]
        assert page.title().endswith(HOSTILE["name"])
        assert page.locator("#policy tbody tr td:first-child").all_inner_texts() == HOSTILE["states"]
        assert page.locator("#pairs thead th").all_inner_texts()[1:] == HOSTILE["actions"]
        assert f"tide {SCRIPT}{IMAGE}" in text(page, "#alarms")
        assert "more in an episode than the incumbent" in text(page, "#promotion-words")
        assert f"because {IMAGE}" in text(page, "#changes")
        assert f"{LINK} ({LINK}) was created" in text(page, "#events")
        assert SCRIPT in page.locator("#episodes tbody td.name").all_inner_texts()[1]
        page.locator("#search").fill("ONERROR")
        wait_for(page, "document.querySelectorAll('#policy tbody tr').length === 1")
        page.locator("#values").hover()
        page.wait_for_timeout(200)
        assert page.evaluate("window.hacked") is None
        assert page.locator("main img, main script, main a, main iframe").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
        dim = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every(c => c < 60)")
        assert dim == dark
        assert watched.errors == []


@pytest.mark.slow
def test_signing_in(tmp_path, browser):
    with running(shop(name="till"), tmp_path) as (service, url):
        secrets = {scope: create_token(service.log, scope, [scope]) for scope in ("read", "ask")}
        time.sleep(1.2)  # the service takes notice within a second
        with opened(browser, url) as watched:
            page = watched.page
            wait_for(page, "!document.getElementById('sign-in').hidden")
            assert page.locator("#shown, #refusal").filter(visible=True).count() == 0

            def sign_in(token):
                page.locator("#token").fill(token)
                page.get_by_role("button", name="Sign in").click()

            sign_in("wrong")
            wait_for(page, "document.getElementById('refusal').innerText.includes('the token is not valid')")
            sign_in(secrets["ask"])
            wait_for(page, "document.getElementById('refusal').innerText.includes('this needs read')")
            assert page.evaluate("Object.keys(sessionStorage).length") == 0
            assert page.locator("#shown").is_hidden()
            sign_in(secrets["read"])
            wait_for(page, shows("title", "till"))
            wait_for(page, "document.querySelectorAll('#policy tbody tr').length === 3")
            assert page.locator("#sign-in").is_hidden()
            assert page.locator("#token").input_value() == ""
            page.reload()  # the tab stays signed in
            wait_for(page, shows("title", "till"))
            page.get_by_role("button", name="Sign out").click()
            wait_for(page, "!document.getElementById('sign-in').hidden")
            assert page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])") == "[{},{}]"
            sign_in(secrets["read"])
            wait_for(page, shows("title", "till"))
            revoke_token(service.log, "read")
            wait_for(page, "document.getElementById('refusal').innerText.includes('the token is not valid')")
            assert page.locator("#shown").is_hidden()
            assert "till" not in text(page, "body")
            assert all(secret not in address for address in watched.requests for secret in secrets.values())
            assert all("401" in words or "403" in words for words in watched.errors)


@pytest.mark.slow
def test_a_lost_connection_is_said_and_found_again(tmp_path, browser):
    problem = shop(mode="shadow", incumbent=["order"] * 3, promote=True)
    with running(problem, tmp_path) as (service, url):
        play(direct(service), np.random.default_rng(0), policy="wait")
        lower = direct(service).newest.report["comparison"]["lower"]
        assert lower < 0.0
        context = opened(browser, url)
        page = context.__enter__().page
        wait_for(page, shows("opened", "1 opened so far"))
        assert f"once the lower end is above 0: {-lower:g} to go." in text(page, "#promotion-words")
    try:
        wait_for(page, "document.getElementById('notice').innerText.startsWith('Connection lost, trying again')")
        assert page.locator("#notice").is_visible()
        assert text(page, "#opened") == "1 opened so far"  # what was known stays
        with running(problem, tmp_path, port=int(url.rpartition(":")[2])) as (service, _):
            play(direct(service), np.random.default_rng(1), policy="wait")
            wait_for(page, shows("opened", "2 opened so far"))
            assert page.locator("#notice").is_hidden()
    finally:
        context.__exit__(None, None, None)


@pytest.mark.slow
def test_many_states_are_searched_sorted_and_paged(tmp_path, browser):
    names = [f"place {k}" for k in range(70)]
    problem = shop(states=names, actions=40, start=names[0], time_out=None)
    with running(problem, tmp_path) as (service, url), opened(browser, url, width=375, height=700) as watched:
        name = direct(service).open("local").episode
        direct(service).tell("local", name, reward=0.5, state=names[0], next_state=names[7], action=39)
        direct(service).tell("local", name, reward=0.5, state=names[7], next_state=names[7], action=39)
        page, first = (
            watched.page,
            "[...document.querySelectorAll('#policy tbody td:first-child')].map(c => c.innerText)",
        )
        wait_for(page, f"{first}.length === 50")
        assert page.evaluate(first) == names[:50]
        assert "page 1 of 2, 70 states" in text(page, "#page")
        assert len(page.locator("#pairs thead th").all()) == 25
        assert "24 of 40 actions" in text(page, "#pairs-note")
        page.get_by_role("button", name="Next page").click()
        wait_for(page, f"{first}[0] === 'place 50'")
        page.get_by_role("button", name="Visits").first.click()
        wait_for(page, f"{first}[0] === 'place 0' && {first}[1] === 'place 7'")
        assert page.locator("th[aria-sort='descending']").inner_text() == "Visits"
        page.locator("#search").fill("PLACE 1")
        wait_for(page, f"{first}.length === 11")
        page.locator("#stage").fill("99")
        page.locator("#stage").press("Enter")
        wait_for(page, "document.getElementById('stage').value === '3'")
        page.get_by_role("button", name="Widths").click()
        wait_for(page, "document.querySelector('#pairs td').innerText === '1'")  # one step is left to earn
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert watched.errors == []
