"""Colours of pages and charts: one definition for all of them."""

from __future__ import annotations

__all__ = ["COLOURS", "DARK_PAGE", "LIGHT_PAGE", "ON_DARK"]

# The colours of Okabe and Ito, which colour-blind readers can tell apart, without yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
ON_DARK = ("#3D9BE0", "#F0803C", "#1FBF94", "#DD94BC", "#E69F00", "#8CCBF2", "#F2F2F2")
"""The same colours on a dark ground."""

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
    "fill": ON_DARK[0],
    "fill-bad": ON_DARK[1],
}
"""The same properties on a dark ground."""
