"""Text of users and files for the terminal: names and paths must not move the cursor or change colours."""

from __future__ import annotations

__all__ = ["literal", "printable"]


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
    from rich.markup import escape  # only terminals need it; `printable` is also used where a policy is deployed

    return escape(printable(value))
