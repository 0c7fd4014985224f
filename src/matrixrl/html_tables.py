"""Objects as small tables in notebooks: the one place where their HTML is made."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from matrixrl.printable import printable

__all__ = ["Described", "confidence", "html_table", "in_digits"]

_LONGEST = 400  # characters of a cell
_CELL = "text-align:left;vertical-align:top;padding:0.1em 1em 0.1em 0;background:transparent"


def html_table(caption: str, rows: Mapping[str, object]) -> str:
    """Return a table with a caption and two columns; all text is escaped, and colours are those of the page.

    >>> html_table("a <b>", {"size": 3})
    '<div><strong>a &lt;b&gt;</strong><table><tbody><tr><th style="...">size</th><td style="...">3</td></tr>...
    """
    lines = [
        f'<tr><th style="{_CELL}">{_text(name)}</th><td style="{_CELL}">{_text(value)}</td></tr>'
        for name, value in rows.items()
    ]
    table = f"<table><tbody>{''.join(lines)}</tbody></table>" if lines else ""
    return f"<div><strong>{_text(caption)}</strong>{table}</div>"


def confidence(delta: float) -> str:
    """Return 1 − δ as text that never rounds to 1.

    >>> confidence(0.05), confidence(1e-9)
    ('0.95', '1 − 1e-09')
    """
    chance = f"{1.0 - delta:g}"
    return f"1 − {delta:g}" if chance == "1" else chance


def _text(value: object) -> str:
    """Return a value as escaped text on one line; long text is cut."""
    text = in_digits(value) if isinstance(value, float) else printable(value)
    return escape(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


def in_digits(number: float) -> str:
    """Return a number with four digits, or as a whole number if it has more before the point.

    >>> in_digits(0.123456), in_digits(5905.3), in_digits(16551.2)
    ('0.1235', '5,905', '16,551')
    """
    return f"{number:,.4g}" if abs(number) < 9999.5 else f"{number:,.0f}"


class Described:
    """An object with a short text, which is its `repr`, and facts, which notebooks show as a table.

    Subclasses implement `_words`, and `_facts` if there is more to tell.
    """

    __slots__ = ()

    def _words(self) -> str:
        """Return what the object is, on one line."""
        return type(self).__name__

    def _facts(self) -> dict[str, object]:
        """Return what there is to know about the object, by name."""
        return {}

    def __repr__(self) -> str:
        return f"<{printable(self._words())}>"

    def _repr_html_(self) -> str:
        """Return the object as a table, as notebooks show it."""
        return html_table(self._words(), self._facts())
