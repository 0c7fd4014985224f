"""A real headless Chromium for tests of pages, and what went wrong in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the Chromium of this machine, or the one that playwright installed."""
    found = next((path for path in map(shutil.which, _NAMES) if path is not None), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page whose console errors, exceptions and network requests are kept."""

    def __init__(self, browser: Browser, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        scheme = "dark" if dark else "light"
        self.page: Page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
