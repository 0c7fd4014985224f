"""Parse ``key=value`` settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from matrixrl.errors import InvalidInput

__all__ = ["parse_settings"]


def parse_settings(option: str, items: Sequence[str]) -> dict[str, Any]:
    """Parse settings: numbers, true, false and null as such, "a,b" as a list, anything else as text.

    Args:
        option: Name of the option, for error messages.
        items: Texts of the form key=value.

    >>> parse_settings("--set", ["n_states=6", "slip=0.1", "name=abc", "reward_range=-1,0"])
    {'n_states': 6, 'slip': 0.1, 'name': 'abc', 'reward_range': [-1, 0]}
    """
    settings: dict[str, Any] = {}
    for item in items:
        key, equals, value = item.partition("=")
        key = key.strip()
        if not equals or not key:
            raise InvalidInput(f"{option} must be key=value; got {item!r}. Write for example n_states=6.")
        if key in settings:
            raise InvalidInput(f"{option} {key} must be given once; got two values. Remove one of them.")
        settings[key] = _value(value.strip())
    return settings


def _value(text: str) -> Any:
    if "," in text:
        return [_value(part) for part in text.split(",")]
    try:
        return json.loads(text)
    except ValueError:
        return text
