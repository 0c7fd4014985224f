"""States and actions as applications name them: numbers, names, or objects with several parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from matrixrl.checks import fail, shown
from matrixrl.errors import UnknownName
from matrixrl.spaces import Codec, DiscreteCodec, TupleCodec

__all__ = ["Counted", "Named", "Parts", "Space", "read_space"]

_MOST = 10_000_000
_LONGEST_NAME = 100


class Space(ABC):
    """A finite set of elements that JSON can hold, numbered from 0.

    Attributes:
        size: Number of elements.
    """

    size: int

    @abstractmethod
    def encode(self, argument: str, value: Any) -> int:
        """Return the number of an element, or refuse a value that is none.

        Args:
            argument: Name of the value in messages.
            value: The element.
        """

    @abstractmethod
    def decode(self, number: int) -> Any:
        """Return the element of a number."""

    @property
    @abstractmethod
    def codec(self) -> Codec:
        """Numbers of the parts of the elements, for files."""


class Counted(Space):
    """The numbers 0 … size − 1.

    >>> Counted(3).encode("state", 2)
    2
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def encode(self, argument: str, value: Any) -> int:
        """Return the number itself."""
        if type(value) is not int:
            fail(argument, "must be a whole number", shown(value), f"Give one of 0 … {self.size - 1}.")
        if not 0 <= value < self.size:
            fail(argument, f"must be in 0 … {self.size - 1}", shown(value), "See the problem file.")
        return value

    def decode(self, number: int) -> int:
        """Return the number itself."""
        return int(number)

    @property
    def codec(self) -> Codec:
        """The numbers 0 … size − 1."""
        return DiscreteCodec(self.size)


class Named(Space):
    """Names, numbered in their order.

    >>> Named(["wait", "order"]).encode("action", "order")
    1
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self.size = len(self._names)

    def encode(self, argument: str, value: Any) -> int:
        """Return the number of a name."""
        found = self._numbers.get(value) if isinstance(value, str) else None
        if found is None:
            some = ", ".join(self._names[:8]) + (", …" if self.size > 8 else "")
            error = UnknownName(f"{argument} must be one of {some}; got {shown(value)}. Give one of the names.")
            error.argument = argument
            raise error
        return found

    def decode(self, number: int) -> str:
        """Return the name of a number."""
        return self._names[number]

    @property
    def codec(self) -> Codec:
        """The numbers 0 … size − 1."""
        return DiscreteCodec(self.size)


class Parts(Space):
    """Objects with several parts, each a number or a name; the first part is the most significant digit.

    >>> Parts({"stock": Counted(5), "day": Named(["mon", "tue"])}).encode("state", {"stock": 2, "day": "tue"})
    5
    """

    def __init__(self, parts: Mapping[str, Space]) -> None:
        self._parts = dict(parts)
        self.size = 1
        for part in self._parts.values():
            self.size *= part.size

    def encode(self, argument: str, value: Any) -> int:
        """Return the number of an object."""
        if not isinstance(value, dict) or set(value) != set(self._parts):
            rule = f"must be an object with the parts {', '.join(self._parts)}"
            fail(argument, rule, shown(value), "Give all of them, and nothing else.")
        number = 0
        for name, part in self._parts.items():
            number = number * part.size + part.encode(f"{argument}.{name}", value[name])
        return number

    def decode(self, number: int) -> dict[str, Any]:
        """Return the object of a number."""
        found = {}
        for name, part in reversed(self._parts.items()):
            number, digit = divmod(number, part.size)
            found[name] = part.decode(digit)
        return {name: found[name] for name in self._parts}

    @property
    def codec(self) -> Codec:
        """One digit for each part."""
        return TupleCodec(tuple(part.codec for part in self._parts.values()))


def read_space(argument: str, given: Any) -> Space:
    """Return the space of a count, a list of names, or a table of parts.

    >>> read_space("states", {"stock": 5, "day": ["mon", "tue"]}).size
    10
    """
    space = _read(argument, given, nested=False)
    if space.size > _MOST:
        fail(argument, f"must be at most {_MOST:,}", f"{space.size:,}", "Group them.")
    return space


def _read(argument: str, given: Any, *, nested: bool) -> Space:
    remedy = "Give a number, a list of names" + ("." if nested else ", or a table of parts.")
    if type(given) is int and given >= 1:
        return Counted(given)
    if isinstance(given, list) and given:
        for name in given:
            if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
                rule = f"must be printable names of at most {_LONGEST_NAME} characters"
                fail(argument, rule, shown(name), remedy)
        if len(set(given)) < len(given):
            fail(argument, "must be different names", shown(given), "Remove what is there twice.")
        return Named(given)
    if isinstance(given, dict) and given and not nested:
        return Parts({name: _read(f"{argument}.{name}", part, nested=True) for name, part in given.items()})
    fail(argument, "must be a count of at least 1, names or parts", shown(given), remedy)
