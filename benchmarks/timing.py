"""Ratios taken in one run, alternating, so that a noisy machine cannot favour one side."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def cpu_seconds(call: Callable[[], object]) -> float:
    """Processor time: other programs on the machine do not count."""
    start = time.process_time()
    call()
    return time.process_time() - start


def alternate(
    one: Callable[[], object],
    two: Callable[[], object],
    rounds: int,
    before: Callable[[], object] = lambda: None,
    clock: Callable[[Callable[[], object]], float] = seconds,
) -> tuple[float, float]:
    """Return the best time of each, measured in turns; what is called before each turn is outside the clock."""
    one(), two()
    pairs = []
    for _ in range(rounds):
        before()
        pairs.append((clock(one), clock(two)))
    return min(a for a, _ in pairs), min(b for _, b in pairs)
