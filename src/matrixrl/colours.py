"""Colours, dashes and markers of agents, the same in pictures of matplotlib and in charts on pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["COLOURS", "LOOKS", "MISSING", "REFERENCE", "Look", "look"]

# The colours of Okabe and Ito, which colour-blind readers can tell apart, without yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_ON_DARK = ("#3D9BE0", "#F0803C", "#1FBF94", "#DD94BC", "#E69F00", "#8CCBF2", "#F2F2F2")  # the same on a dark ground

REFERENCE = "#888888"
"""Colour of reference lines, which belong to no agent."""

MISSING = "#d9d9d9"
"""Colour of cells of a heat map without a number."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h")
# Plotly's name of each dash with matplotlib's description. Six dashes and seven colours have no common factor, so all
# 42 pairs are different.
_DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (4, 1.6)),
    "dot": (0, (1, 1.4)),
    "dashdot": (0, (4, 1.4, 1, 1.4)),
    "longdash": (0, (7, 2)),
    "longdashdot": (0, (7, 1.6, 1, 1.6)),
}


@dataclass(frozen=True)
class Look:
    """Colour, dash and marker of one agent."""

    colour: str  # colour on a light ground, as #rrggbb
    on_dark: str  # colour on a dark ground, as #rrggbb
    dash: str  # name of the dash in Plotly
    marker: str  # marker code of matplotlib

    @property
    def line_style(self) -> Any:
        """Return the dash as a line style of matplotlib."""
        return _DASHES[self.dash]


LOOKS = tuple(
    Look(COLOURS[i % 7], _ON_DARK[i % 7], tuple(_DASHES)[i % 6], _MARKERS[i % len(_MARKERS)]) for i in range(42)
)
"""All looks, in the order in which agents receive them."""


def look(i: int) -> Look:
    """Return the look of the agent at position i; looks repeat after 42 positions.

    >>> look(0).colour, look(1).dash
    ('#0072B2', 'dash')
    """
    return LOOKS[i % len(LOOKS)]
