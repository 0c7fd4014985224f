"""Specs that are included in the library, by name."""

from __future__ import annotations

import tomllib
from importlib import resources

__all__ = ["shipped_specs", "shipped_text", "shipped_titles"]

_ORDER = ("quick", "riverswim", "linear", "control", "large")


def shipped_specs() -> list[str]:
    """Return the names of all shipped specs, ordered by running time.

    >>> shipped_specs()[0]
    'quick'
    """
    return list(_ORDER)


def shipped_text(name: str) -> str:
    """Return the text of a shipped spec."""
    return (resources.files(__name__) / f"{name}.toml").read_text(encoding="utf-8")


def shipped_titles() -> dict[str, str]:
    """Return the title of every shipped spec by name."""
    return {name: str(tomllib.loads(shipped_text(name))["title"]) for name in shipped_specs()}
