"""Covering arrays: few rows of a product that have every pair of values that some row of the product has.

Most mistakes need one value, or two values that meet. A full product repeats each pair many times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import TypeVar

Row = TypeVar("Row")


def covering(rows: Iterable[Row], values: Callable[[Row], Sequence[object]] = tuple) -> list[Row]:
    """Return rows that together have every pair of values of two factors which some row has.

    Args:
        rows: All rows that are possible, such as a product without what makes no sense.
        values: The values of all factors of a row, hashable; the row itself by default.
    """
    rows = list(rows)
    pairs = [set(combinations(enumerate(values(row)), 2)) for row in rows]
    missing, chosen = set().union(*pairs), []
    while missing:
        best = max(range(len(rows)), key=lambda i: len(pairs[i] & missing))
        missing -= pairs[best]
        chosen.append(best)
    return [rows[i] for i in sorted(chosen)]
