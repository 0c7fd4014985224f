"""Colours, dashes and markers of agents: one definition for all charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matrixrl.pages.colours import COLOURS, ON_DARK

__all__ = ["LOOKS", "REFERENCE", "Look", "look"]

REFERENCE = "#888888"
"""Colour of reference lines, which belong to no agent."""

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
    """Colour, dash and marker of one agent.

    Attributes:
        colour: Colour on a light ground, as #rrggbb.
        on_dark: Colour on a dark ground, as #rrggbb.
        dash: Name of the dash in Plotly.
        marker: Marker code of matplotlib.
    """

    colour: str
    on_dark: str
    dash: str
    marker: str

    @property
    def line_style(self) -> Any:
        """Return the dash as a line style of matplotlib."""
        return _DASHES[self.dash]


LOOKS = tuple(
    Look(COLOURS[i % 7], ON_DARK[i % 7], tuple(_DASHES)[i % 6], _MARKERS[i % len(_MARKERS)]) for i in range(42)
)
"""All looks, in the order in which agents receive them."""


def look(i: int) -> Look:
    """Return the look of the agent at position i; looks repeat after 42 positions.

    >>> look(0).colour, look(1).dash
    ('#0072B2', 'dash')
    """
    return LOOKS[i % len(LOOKS)]
