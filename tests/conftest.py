from __future__ import annotations

import os
import signal
import threading

# Sums differ in their last digits between one and two threads, and `learn` plays with one: set before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A machine without compiled loops says once that it compiles them, in whichever test comes first.
os.environ.setdefault("MATRIXRL_PROGRESS_SECONDS", "0")

import numpy as np
import pytest
from hypothesis import settings

# Derandomised: a failure is reproducible, and a pass today is a pass tomorrow.
settings.register_profile("matrixrl", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("matrixrl")

# As at a terminal. A background job of a shell inherits an ignored SIGINT, and so do the processes that it starts.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One worker more than cores, as tests of services and of interruptions mostly wait."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests of compiled loops first: one worker compiles them, while others begin with tests without loops."""
    items.sort(key=lambda item: "compiled" not in item.nodeid)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20190526)
