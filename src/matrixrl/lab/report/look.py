"""How an agent looks, the same in every chart, and how numbers and guarantees are said."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from matrixrl.lab.analysis import Interval
from matrixrl.lab.spec import Experiment

__all__ = [
    "COLOURS",
    "DASHES",
    "MARKERS",
    "Look",
    "amount",
    "guarantee_label",
    "hundredths",
    "interval_text",
    "looks_of",
]

# Okabe and Ito's colours but yellow, which white paper swallows: told apart by colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# The same on a dark ground: black turns white, and blue is lifted until it can be seen.
_ON_DARK = ("#3D9BE0", "#F0803C", "#1FBF94", "#DD94BC", "#E69F00", "#8CCBF2", "#F2F2F2")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""In Plotly's words. Six of them and seven colours: no two of 42 agents look the same."""
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Look:
    """How one agent is drawn.

    Attributes:
        colour: on a light ground.
        on_dark: on a dark one.
        dash: one of `DASHES`.
        marker: in matplotlib's letters.
    """

    colour: str
    on_dark: str
    dash: str
    marker: str


def looks_of(experiment: Experiment) -> dict[str, Look]:
    """Return the look of every agent id, by its place in the spec, so that it is the same on every environment."""
    ids = dict.fromkeys(cell.agent_id for cell in experiment.cells)
    return {
        name: Look(
            COLOURS[i % len(COLOURS)],
            _ON_DARK[i % len(_ON_DARK)],
            DASHES[i % len(DASHES)],
            MARKERS[i % len(MARKERS)],
        )
        for i, name in enumerate(ids)
    }


def guarantee_label(guarantee: Literal[True] | str | None) -> tuple[str, str]:
    """Return (proven, tuned, no proof or not known yet; why).

    >>> guarantee_label("tuned: the bonus was scaled by 0.1")
    ('tuned', 'the bonus was scaled by 0.1')
    """
    if guarantee is None:
        return "not known yet", "nothing was played so far"
    if guarantee is True:
        return "proven", "a regret bound is proven for these settings"
    # A shrunken confidence set is tuning too: the proof was there until somebody turned a knob.
    label = "tuned" if guarantee.startswith(("tuned", "exploration ")) else "no proof"
    return label, guarantee.removeprefix("tuned: ")


def amount(value: float | None, digits: int = 3) -> str:
    """Return a number as short as it is honest: thousands whole, the rest with some digits; – for none.

    >>> amount(12345.6), amount(0.012345), amount(None), amount(0.0)
    ('12,346', '0.0123', '–', '0')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) >= 10.0 ** (digits - 1):
        return f"{value:,.0f}".replace("-", "−")
    shown = f"{value:.{digits}g}"
    if "e" in shown:
        mantissa, power = shown.split("e")
        shown = f"{mantissa}·10{str(int(power)).translate(_RAISED)}"
    return shown.replace("-", "−")


def hundredths(value: float) -> str:
    """Return a number with two decimals, as exponents are read.

    >>> hundredths(0.0034), hundredths(-0.5)
    ('0.00', '−0.50')
    """
    return f"{value + 0.0:.2f}".replace("-0.00", "0.00").replace("-", "−")


def interval_text(interval: Interval | None, say: Callable[[float], str] = amount) -> tuple[str, str]:
    """Return (value, its interval in brackets or nothing).

    >>> interval_text(Interval(2.0, 1.0, 3.0))
    ('2', '[1, 3]')
    """
    if interval is None:
        return "–", ""
    if not (math.isfinite(interval.low) and math.isfinite(interval.high)):
        return say(interval.value), ""
    return say(interval.value), f"[{say(interval.low)}, {say(interval.high)}]"
