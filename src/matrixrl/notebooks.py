"""Progress in a notebook: one output that is updated in place."""

from __future__ import annotations

import time
from html import escape
from importlib import import_module
from typing import Any

__all__ = ["NotebookBar"]

_SECONDS = 0.25  # between two updates


class NotebookBar:
    """A bar in the output of a cell. Neither widgets nor scripts are needed, and a saved notebook keeps its last text.

    Args:
        label: Text before the bar.
    """

    def __init__(self, label: str) -> None:
        self._label, self._share, self._words = label, 0.0, ""
        self._handle: Any = None
        self._next = 0.0

    def show(self, share: float, words: str) -> None:
        """Show a share of all work in [0, 1] and words about it, at most every quarter of a second.

        Args:
            share: Share that is done.
            words: Text after the bar.
        """
        self._share, self._words = share, words
        if time.monotonic() >= self._next:
            self._update()

    def close(self) -> None:
        """Show the last state."""
        self._update()

    def _update(self) -> None:
        display: Any = import_module("IPython.display").display  # there is one wherever there is a notebook

        self._next = time.monotonic() + _SECONDS
        if self._handle is None:
            self._handle = display(self, display_id=True)
        else:
            self._handle.update(self)

    def __repr__(self) -> str:
        return f"{self._label} {100 * self._share:.0f} % {self._words}".rstrip()

    def _repr_html_(self) -> str:
        """Return the bar, in the colours of the page."""
        bar = f'<progress value="{self._share:.4f}" max="1"></progress>'
        return f"<div>{escape(self._label)} {bar} {escape(self._words)}</div>"
