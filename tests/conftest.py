from __future__ import annotations

import signal
import threading

import numpy as np
import pytest
from hypothesis import settings

# Derandomised: a failure is reproducible, and a pass today is a pass tomorrow.
settings.register_profile("matrixrl", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("matrixrl")

# As at a terminal. A background job of a shell inherits an ignored SIGINT, and so do the processes that it starts.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20190526)
