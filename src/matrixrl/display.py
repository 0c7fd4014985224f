"""Text for terminals and notebooks: printable text, tables of HTML, numbers as blocks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Described", "confidence", "html_table", "in_digits", "literal", "printable", "sparkline"]

_LONGEST = 400  # characters of a cell
_CELL = "text-align:left;vertical-align:top;padding:0.1em 1em 0.1em 0;background:transparent"
_BARS = "▁▂▃▄▅▆▇█"
_UNKNOWN = "·"


def printable(value: object) -> str:
    r"""Return text on one line in which every character that is not printable is shown as an escape.

    These are control characters, marks of the direction of text, other invisible characters and lone surrogates.

    >>> print(printable("a\x1b[2Jb\u202e\n"))
    a\x1b[2Jb\u202e\n
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))


def literal(value: object) -> str:
    r"""Return `printable` text for Rich, in which brackets are text and not markup.

    >>> literal("[red]a")
    '\\[red]a'
    """
    from rich import markup  # only terminals need it; `printable` is also used where a policy is deployed

    return markup.escape(printable(value))


def sparkline(values: NDArray[Any], *, low: float | None = None, high: float | None = None) -> str:
    """Return the last 40 values (n,) as a line of block characters from `low` to `high`, with a dot for NaN.

    >>> import numpy as np
    >>> sparkline(np.array([0.0, np.nan, 1.0, 2.0])), sparkline(np.array([1.0, 1.0]), low=0.0, high=1.0)
    ('▁·▅█', '██')
    """
    import numpy as np  # the help of the command line does not need it

    shown = values[-40:]
    known = shown[~np.isnan(shown)]
    bottom = known.min(initial=np.inf) if low is None else low
    top = known.max(initial=-np.inf) if high is None else high
    if top <= bottom:
        return "".join(_UNKNOWN if np.isnan(x) else _BARS[0] for x in shown)
    heights = np.clip((shown - bottom) / (top - bottom), 0.0, 1.0) * (len(_BARS) - 1)
    return "".join(_UNKNOWN if np.isnan(x) else _BARS[round(float(x))] for x in heights)


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
        return html_table(self._words(), self._facts())
