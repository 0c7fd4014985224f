"""Numbers and intervals as text, for pages, tables and verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from matrixrl_lab.analysis.statistics import Interval

__all__ = ["amount", "decimals", "hundredths", "interval_parts", "interval_text", "rounded"]

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
