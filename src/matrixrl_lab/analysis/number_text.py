"""Numbers and intervals as text, for pages, tables and verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

from matrixrl_lab.analysis.statistics import Interval

__all__ = [
    "amount",
    "decimals",
    "few_seeds_mark",
    "few_seeds_note",
    "hundredths",
    "interval_parts",
    "interval_text",
    "rounded",
]

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def amount(value: float | None, digits: int = 3) -> str:
    """Return a number with some significant digits, large numbers as integers, and – for None or NaN.

    >>> amount(12345.6), amount(0.012345), amount(None), amount(0.0)
    ('12,346', '0.0123', '–', '0')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) >= 10.0 ** (digits - 1):
        return f"{value:,.0f}".replace("-", "−")
    text = f"{value:.{digits}g}"
    if "e" in text:
        mantissa, power = text.split("e")
        text = f"{mantissa}·10{str(int(power)).translate(_SUPERSCRIPTS)}"
    return text.replace("-", "−")


def rounded(value: float) -> str:
    """Return a large number with two significant digits and a power of ten, smaller ones in full.

    >>> rounded(71_234.0), rounded(2.345e11)
    ('71,234', '2.3·10¹¹')
    """
    if abs(value) < 1e6:
        return f"{value:,.0f}"
    mantissa, power = f"{value:.1e}".split("e")
    return f"{mantissa}·10{str(int(power)).translate(_SUPERSCRIPTS)}"


def decimals(value: float, digits: int = 2) -> str:
    """Return a number with a fixed number of decimals, and without the sign of a rounded zero.

    >>> decimals(1234.5, 1), decimals(-0.001)
    ('1,234.5', '0.00')
    """
    return f"{round(value, digits) + 0.0:,.{digits}f}"


def hundredths(value: float) -> str:
    """Return a number with two decimals and a typographic minus sign.

    >>> hundredths(0.0034), hundredths(-0.5)
    ('0.00', '−0.50')
    """
    return decimals(value).replace("-", "−")


def interval_parts(interval: Interval | None, number: Callable[[float], str] = amount) -> tuple[str, str]:
    """Return the text of the value and of its interval, which is empty if there is none.

    Args:
        interval: Value and interval; None gives – without an interval.
        number: Function that formats each number.

    >>> interval_parts(Interval(2.0, 1.0, 3.0))
    ('2', '[1, 3]')
    """
    if interval is None:
        return "–", ""
    if not (math.isfinite(interval.low) and math.isfinite(interval.high)):
        return number(interval.value), ""
    return number(interval.value), f"[{number(interval.low)}, {number(interval.high)}]"


def interval_text(interval: Interval | None, digits: int = 2) -> str:
    """Return the value and its interval with a fixed number of decimals.

    >>> interval_text(Interval(0.5, 0.45, 0.55)), interval_text(Interval(-0.001, math.nan, math.nan))
    ('0.50 [0.45, 0.55]', '0.00')
    """
    return " ".join(interval_parts(interval, partial(decimals, digits=digits))).rstrip()


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
