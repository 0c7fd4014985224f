"""A real headless Chromium for tests of pages, and what went wrong in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Error, Page, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def _installed() -> str | None:
    return next((path for path in map(shutil.which, _NAMES) if path is not None), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the Chromium of this machine, or the one that playwright installed."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_installed(), args=_FLAGS)
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


def _install() -> None:
    """Install a Chromium where there is none: the system's where we may, else playwright's own."""
    try:
        with chromium():
            return
    except Error:
        pass  # none is there, or it does not start
    if shutil.which("apt-get") is not None and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"]
        subprocess.run(install, check=True, env=quiet, stdout=subprocess.DEVNULL)
    else:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True)
    with chromium():
        return


if __name__ == "__main__":
    _install()
