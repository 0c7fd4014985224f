"""The mark of intervals from so few seeds that they hold the truth less often than they say, and its footnote."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["COVERAGE", "FEW", "MARK", "few_seeds_mark", "few_seeds_note"]

FEW = 8
"""Intervals from fewer seeds are marked."""

MARK = "†"

COVERAGE = {3: (75, 69), 4: (87, 82), 5: (92, 86), 6: (93, 88), 7: (94, 89)}
"""Measured coverage of the 95 % interval of a mean, in percent, for normal and for exponential data, by the number of
seeds: ``python benchmarks/interval_coverage.py``, 20,000 samples each. One or two seeds have no interval."""


def few_seeds_mark(seeds: int) -> str:
    """Return the mark of an interval from some seeds, or an empty text.

    >>> few_seeds_mark(4), few_seeds_mark(8), few_seeds_mark(2)
    ('†', '', '')
    """
    return MARK if seeds in COVERAGE else ""


def few_seeds_note(counts: Iterable[int]) -> str:
    """Return the footnote of the mark, or an empty text if no interval has it.

    Args:
        counts: Numbers of seeds of the intervals of a table.

    >>> few_seeds_note([4, 8])[:79]
    '† from fewer than 8 seeds: with 4 seeds of one environment the measured coverag'
    """
    marked = sorted({count for count in counts if few_seeds_mark(count)})
    if not marked:
        return ""
    normal, exponential = (" and ".join(f"{COVERAGE[count][k]} %" for count in marked) for k in (0, 1))
    seeds = " and ".join(map(str, marked))
    return (
        f"{MARK} from fewer than {FEW} seeds: with {seeds} seeds of one environment the measured coverage of a 95 % "
        f"interval of a mean is {normal} for normal data and {exponential} for exponential data."
    )
