"""What a worker in another interpreter does with an order; `launch` starts it.

Orders are one JSON object, the last argument; answers are JSON objects, one on each line of standard output.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from matrixrl.interrupts import ending_in_order
from matrixrl.threads import limited_threads

__all__ = ["follow", "tell"]


def follow(verbs: Mapping[str, Callable[[dict[str, Any]], None]]) -> None:
    """Follow the order on the command line: its verb, and what it needs to know."""
    verb, order = sys.argv[1], json.loads(sys.argv[2])
    # What packages print goes to standard error; SIGTERM, by which an interrupted command ends its worker, cleans up.
    with ending_in_order(), contextlib.redirect_stdout(sys.stderr), limited_threads(1):
        verbs[verb](order)


def tell(**answer: Any) -> None:
    """Write one answer."""
    print(json.dumps(answer), file=sys.__stdout__, flush=True)
