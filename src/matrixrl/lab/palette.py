"""Colours, dashes and markers of agents, and the colours of pages: one definition for all charts and pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matrixrl.lab.spec import Experiment

__all__ = ["COLOURS", "DARK_PAGE", "LIGHT_PAGE", "LOOKS", "REFERENCE", "Look", "look", "looks_of"]

# The colours of Okabe and Ito, which colour-blind readers can tell apart, without yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_ON_DARK = ("#3D9BE0", "#F0803C", "#1FBF94", "#DD94BC", "#E69F00", "#8CCBF2", "#F2F2F2")
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

LIGHT_PAGE = {
    "ground": "#ffffff",
    "raised": "#f4f5f7",
    "ink": "#1b1f24",
    "soft": "#565d66",
    "line": "#cfd4da",
    "accent": "#005a8f",
    "good": "#0b6b4b",
    "good-ground": "#e1f3ec",
    "warn": "#7a4a00",
    "warn-ground": "#fbeed3",
    "bad": "#9b1c1c",
    "bad-ground": "#fbe6e6",
    "fill": COLOURS[0],
    "fill-bad": COLOURS[1],
}
"""CSS colours of a page on a light ground, by the name of the custom property."""

DARK_PAGE = {
    "ground": "#14171b",
    "raised": "#1f242a",
    "ink": "#e6e9ed",
    "soft": "#a8b0ba",
    "line": "#3b434c",
    "accent": "#7cc0f0",
    "good": "#6fdcb4",
    "good-ground": "#12352a",
    "warn": "#f2c46d",
    "warn-ground": "#3a2c10",
    "bad": "#ff9c9c",
    "bad-ground": "#421b1b",
    "fill": _ON_DARK[0],
    "fill-bad": _ON_DARK[1],
}
"""The same properties on a dark ground."""


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
    Look(COLOURS[i % 7], _ON_DARK[i % 7], tuple(_DASHES)[i % 6], _MARKERS[i % len(_MARKERS)]) for i in range(42)
)
"""All looks, in the order in which agents receive them."""


def look(i: int) -> Look:
    """Return the look of the agent at position i; looks repeat after 42 positions.

    >>> look(0).colour, look(1).dash
    ('#0072B2', 'dash')
    """
    return LOOKS[i % len(LOOKS)]


def looks_of(experiment: Experiment) -> dict[str, Look]:
    """Return the look of every agent id by its position in the spec, the same on every environment."""
    ids = dict.fromkeys(cell.agent_id for cell in experiment.cells)
    return {name: look(i) for i, name in enumerate(ids)}
