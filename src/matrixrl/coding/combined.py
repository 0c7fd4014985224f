"""Codecs of elements that have several parts: tuples and dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from matrixrl.checks import fail, shown
from matrixrl.coding.base import Codec, digits_of
from matrixrl.coding.whole import DiscreteCodec

__all__ = ["DictCodec", "TupleCodec"]


class _Combined(Codec):
    """A codec of elements that have an element of each part."""

    parts: tuple[Codec, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each digit of each part."""
        return tuple(n for part in self.parts for n in part.sizes)

    @property
    def firsts(self) -> tuple[int, ...]:
        """Smallest value of each digit of each part."""
        return tuple(n for part in self.parts for n in part.firsts)


@dataclass(frozen=True)
class TupleCodec(_Combined):
    """Tuples with one element of each part.

    >>> codec = TupleCodec((DiscreteCodec(2), DiscreteCodec(3, first=1)))
    >>> codec.encode("obs", (1, 3), "Give a state."), codec.decode(5)
    (5, (1, 3))
    """

    parts: tuple[Codec, ...]

    def names(self, name: str) -> list[str]:
        """Return the name of each digit of each part."""
        return [one for i, part in enumerate(self.parts) for one in part.names(f"{name}[{i}]")]

    def encode(self, name: str, value: Any, remedy: str) -> int:
        """Return the number of a tuple, a list or a vector."""
        values = list(value) if isinstance(value, np.ndarray) and value.ndim == 1 else value
        if not isinstance(values, (tuple, list)) or len(values) != len(self.parts):
            fail(name, f"must be a tuple of {len(self.parts)} parts", shown(value), remedy)
        named = [(f"{name}[{i}]", part, one) for i, (part, one) in enumerate(zip(self.parts, values, strict=True))]
        return _number(named, remedy)

    def decode(self, number: int) -> tuple[Any, ...]:
        """Return a new tuple."""
        digits = digits_of(number, [part.size for part in self.parts])
        return tuple(part.decode(digit) for part, digit in zip(self.parts, digits, strict=True))

    def description(self) -> dict[str, Any]:
        """Return the codec as plain data."""
        return {"kind": "tuple", "parts": [part.description() for part in self.parts]}

    def __str__(self) -> str:
        return f"Tuple({', '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class DictCodec(_Combined):
    """Dictionaries with one element of each part; keys are text or whole numbers.

    >>> codec = DictCodec(("day", "stock"), (DiscreteCodec(2), DiscreteCodec(3)))
    >>> codec.encode("obs", {"stock": 2, "day": 1}, "Give a state."), codec.decode(5)
    (5, {'day': 1, 'stock': 2})
    """

    keys: tuple[str | int, ...]
    parts: tuple[Codec, ...]

    def names(self, name: str) -> list[str]:
        """Return the name of each digit of each part."""
        return [one for key, part in self._items for one in part.names(f"{name}[{key!r}]")]

    def encode(self, name: str, value: Any, remedy: str) -> int:
        """Return the number of a dictionary, whatever the order of its keys."""
        wanted = ", ".join(map(repr, self.keys))
        if not isinstance(value, Mapping):
            fail(name, f"must be a dictionary with the keys {wanted}", shown(value), remedy)
        if len(value) != len(self.keys) or any(key not in value for key in self.keys):
            fail(name, f"must have the keys {wanted}", f"the keys {shown(list(value))}", remedy)
        return _number([(f"{name}[{k!r}]", part, value[k]) for k, part in self._items], remedy)

    def decode(self, number: int) -> dict[str | int, Any]:
        """Return a new dictionary."""
        digits = digits_of(number, [part.size for part in self.parts])
        return {key: part.decode(digit) for (key, part), digit in zip(self._items, digits, strict=True)}

    @property
    def _items(self) -> list[tuple[str | int, Codec]]:
        return list(zip(self.keys, self.parts, strict=True))

    def description(self) -> dict[str, Any]:
        """Return the codec as plain data."""
        return {"kind": "dict", "keys": list(self.keys), "parts": [part.description() for part in self.parts]}

    def __str__(self) -> str:
        return f"Dict({', '.join(f'{key!r}: {part}' for key, part in self._items)})"


def _number(named: Sequence[tuple[str, Codec, Any]], remedy: str) -> int:
    """Return the number of an element from its parts, each with its name in messages and its value."""
    number = 0
    for name, part, value in named:
        is_coin = isinstance(value, (bool, np.bool_)) and part == DiscreteCodec(2)  # flags are often given as such
        number = number * part.size + part.encode(name, int(value) if is_coin else value, remedy)
    return number
