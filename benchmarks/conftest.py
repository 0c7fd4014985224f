"""One thread for everybody, and the ratios in one table at the end."""

from __future__ import annotations

import pytest
from threadpoolctl import threadpool_limits

collect_ignore_glob = ["[!t]*.py"]  # scripts: one has an environment of its own, others import much
LINES: list[str] = []


@pytest.fixture(autouse=True)
def _one_thread():
    with threadpool_limits(1):
        yield


@pytest.fixture
def report():
    def write(name: str, measured: float, bound: str, **details: object) -> None:
        shown = "  ".join(f"{k}={v}" for k, v in details.items())
        LINES.append(f"{name:<58} {measured:8.2f}  (target {bound})  {shown}")

    return write


def pytest_terminal_summary(terminalreporter):
    terminalreporter.section("ratios")
    for line in LINES:
        terminalreporter.write_line(line)
