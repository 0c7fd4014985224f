"""Names of states and actions: texts, numbers and tuples in an order, and products of named parts."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, shown
from matrixrl.errors import UnknownName
from matrixrl.spaces.codecs import LARGEST_SPACE, Codec, DiscreteCodec, TupleCodec

__all__ = ["NamesCodec", "PartsCodec", "cell_text", "name_text", "read_space"]

Name = str | int | float | tuple[str | int | float, ...]

_LONGEST = 100  # characters of a name
_MOST_TEXT = 3 << 20  # bytes of all names of a space together, which the header of a file must hold
_WHOLE = 2**53  # whole numbers below have a float64 of their own, which data frames make of them
_SHOWN = 8  # names in a message
_COMPARED = 1000  # names among which a message looks for a similar one
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which a cell begins that a spreadsheet program may compute
_REMEDY = "Give a list of different names, a number, a range, or a dictionary of parts."


@dataclass(frozen=True)
class NamesCodec(Codec):
    """Names, numbered in their order: texts, whole or finite numbers, or tuples of them.

    >>> codec = NamesCodec(("low", "mid", "high"))
    >>> codec.encode("obs", "mid", ""), codec.decode(2)
    (1, 'high')
    >>> codec.encode("obs", "hihg", "")
    Traceback (most recent call last):
    matrixrl.errors.UnknownName: obs must be one of low, mid, high; got 'hihg'. Did you mean 'high'?
    """

    kind = "names"

    elements: tuple[Name, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", (len(self.elements),))
        object.__setattr__(self, "firsts", (0,))

    def names(self, name: str) -> list[str]:
        return [name]

    def encode(self, name: str, value: Any, remedy: str) -> int:
        """Return the number of a name; lists and arrays count as tuples."""
        del remedy  # of spaces without names
        found = None
        if not isinstance(value, (bool, np.bool_)):
            try:
                found = self._numbers.get(_plain_name(value))
            except TypeError:  # not hashable
                found = None
        return self._refuse(name, value) if found is None else found

    def decode(self, number: int) -> Name:
        return self.elements[number]

    def columns(
        self, numbers: NDArray[np.integer[Any]], text: Callable[[Any], str] | None = None
    ) -> list[NDArray[Any]]:
        return [self._column(text)[numbers]]

    def _column(self, text: Callable[[Any], str] | None) -> NDArray[Any]:
        """Return all names as an array: of numbers if all are numbers, else of objects."""
        if all(isinstance(element, (int, float)) for element in self.elements):
            return np.array(self.elements)
        column = np.empty(self.size, dtype=object)
        column[:] = self.elements if text is None else list(map(text, self.elements))
        return column

    def find(self, cell: Any) -> int | None:
        """Return the number of the name in a cell of a table, as it is or as text; None if it is none.

        >>> NamesCodec(("1", "2")).find(2), NamesCodec((9.9, "free")).find("9.90"), NamesCodec(("=a",)).find("'=a")
        (1, 0, 0)
        """
        if isinstance(cell, (bool, np.bool_)):
            return None
        plain = _plain_name(cell)
        if (found := self._numbers.get(plain)) is not None:
            return found
        if not isinstance(plain, str):
            whole = isinstance(plain, float) and plain.is_integer()
            return self._texts.get(name_text(int(plain) if whole else plain))
        for text in (plain, plain.strip(), plain.strip().removeprefix("'")):
            if (found := self._texts.get(text)) is not None:
                return found
        try:
            return self._numbers.get(float(plain))
        except ValueError:
            return None

    def rule(self, part: int) -> str:
        """Return in words which names there are; there is one part."""
        del part
        return f"must be one of {self._some}" if self.size <= _SHOWN else f"must be one of the {self.size:,} {self}"

    @property
    def _some(self) -> str:
        return ", ".join(one if isinstance(one, str) else repr(one) for one in self.elements[:_SHOWN])

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        return {element: number for number, element in enumerate(self.elements)}

    @cached_property
    def _texts(self) -> dict[str, int]:
        return {name_text(element): number for number, element in enumerate(self.elements)}

    def _refuse(self, name: str, value: Any) -> NoReturn:
        hint, text = "Give one of the names.", value if isinstance(value, str) else shown(value)
        if text in self._texts:  # a number as text, or the other way round
            hint = f"Give it as {self.elements[self._texts[text]]!r}."
        elif self.size <= _COMPARED and (near := difflib.get_close_matches(text, self._texts, n=1)):
            hint = f"Did you mean {self.elements[self._texts[near[0]]]!r}?"
        error = UnknownName(f"{name} {self.rule(0)}; got {shown(value)}. {hint}")
        error.argument = name
        raise error

    def __str__(self) -> str:
        return f"names {self._some}" + ", …" * (self.size > _SHOWN)


@dataclass(frozen=True)
class PartsCodec(TupleCodec):
    """The product of named parts: tuples with one element of each part, which may also be given by the parts' names.

    Attributes:
        as_objects: Whether elements are returned as dictionaries, as in JSON.

    >>> codec = read_space("states", {"stock": range(3), "day": ["mon", "tue"]})
    >>> codec.encode("state", (2, "tue"), ""), codec.encode("state", {"day": "mon", "stock": 1}, ""), codec.decode(4)
    (5, 2, (2, 'mon'))
    """

    kind = "parts"

    as_objects: bool = False

    def _values(self, name: str, value: Any, remedy: str) -> Sequence[Any]:
        del remedy
        assert self.keys is not None
        value = value.tolist() if isinstance(value, np.ndarray) else value
        if isinstance(value, Mapping) and set(value) == set(self.keys):
            return [value[key] for key in self.keys]
        if isinstance(value, (tuple, list)) and len(value) == len(self.keys):
            return value
        listed = ", ".join(map(str, self.keys))
        rule = f"must be an object with the parts {listed}" if self.as_objects else f"must be a tuple ({listed})"
        fail(name, rule, shown(value), "Give all of them, and nothing else.")

    def encode(self, name: str, value: Any, remedy: str) -> int:
        """Return the number of a tuple or a list of the parts, or of a dictionary."""
        del remedy
        return super().encode(name, value, "Give one of the values of the part.")

    def _part_name(self, name: str, label: str | int) -> str:
        return f"{name}.{label}"

    def decode(self, number: int) -> Any:
        element = super().decode(number)
        return element if self.as_objects else tuple(element.values())

    def __str__(self) -> str:
        return f"parts ({', '.join(f'{key}: {part}' for key, part in self._labelled)})"


def read_space(argument: str, given: Any, *, as_objects: bool = False) -> Codec:
    """Return the codec of states or actions as users name them.

    Args:
        argument: Name of the argument in messages.
        given: Their number; a range; a sequence of names, each a text, a number or a tuple of these; a dictionary of
            named parts, each one of these; or a codec. Whole numbers that follow each other are no names but a range.
        as_objects: Return elements with named parts as dictionaries.

    Raises:
        InvalidInput: It is nothing of that kind, a name is there twice or none, or there are too many.

    >>> read_space("states", {"stock": 5, "day": ["mon", "tue"]}).size
    10
    """
    if isinstance(given, Mapping) and given:
        for key in given:
            if not isinstance(key, str) or not _is_text(key):
                rule = f"must name its parts by printable texts of at most {_LONGEST} characters"
                fail(argument, rule, shown(key), "Such as {'stock': range(26), 'day': ['mon', …]}.")
        parts = tuple(_read_part(f"{argument}.{key}", part) for key, part in given.items())
        space: Codec = PartsCodec(parts, tuple(map(_plain_name, given)), as_objects)
    else:
        space = _read_part(argument, given)
    if space.size > LARGEST_SPACE:
        fail(argument, f"must be at most {LARGEST_SPACE:,}", f"{space.size:,}", "Group them.")
    return space


def cell_text(value: Any) -> str:
    """Return a name as the text of a CSV cell, in which a spreadsheet program sees text and no formula.

    >>> cell_text("=1+1"), cell_text(("mon", 3)), cell_text("low")
    ("'=1+1", 'mon, 3', 'low')
    """
    text = name_text(value)
    return f"'{text}" if isinstance(value, (str, tuple)) and text.startswith(_FORMULA) else text


def name_text(name: Any) -> str:
    """Return a name as text."""
    if isinstance(name, tuple):
        return ", ".join(map(name_text, name))
    return name if isinstance(name, str) else repr(name)


def _plain_name(value: Any) -> Any:
    """Return a value of NumPy as one of Python, a list or an array as a tuple, and a text of a subclass as text."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    return tuple(map(_plain_name, value)) if isinstance(value, (tuple, list)) else value


def _read_part(argument: str, given: Any) -> Codec:
    if isinstance(given, Codec):
        return given
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool) and given >= 1:
        return DiscreteCodec(int(given))
    if isinstance(given, range) and given.step == 1 and given:
        return DiscreteCodec(len(given), given.start)
    if isinstance(given, np.ndarray) or (hasattr(given, "tolist") and hasattr(given, "dtype")):  # also of pandas
        given = given.tolist()
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)) or not len(given):
        fail(argument, "must be a count of at least 1, names or parts", shown(given), _REMEDY)
    names = tuple(map(_plain_name, given))
    for position, name in enumerate(names):
        if not _is_name(name):
            rule = f"must be printable text of 1 to {_LONGEST} characters, a finite number, or a tuple of these"
            fail(f"{argument}[{position}]", rule, shown(given[position]), "Rename it.")
    if all(type(name) is int for name in names) and names == tuple(range(names[0], names[0] + len(names))):
        return DiscreteCodec(len(names), names[0])
    _refuse_repeated(argument, names)
    if len(json.dumps(names)) > _MOST_TEXT:
        fail(argument, f"must have at most {_MOST_TEXT:,} bytes of names", f"{len(names):,} names", "Shorten them.")
    return NamesCodec(names)


def _is_text(text: str) -> bool:
    return 1 <= len(text) <= _LONGEST and text.isprintable() and not text.isspace()


def _is_name(name: Any) -> bool:
    if isinstance(name, tuple):
        return len(name) > 0 and all(not isinstance(one, tuple) and _is_name(one) for one in name)
    if isinstance(name, str):
        return _is_text(name)
    if isinstance(name, bool) or not isinstance(name, (int, float)):
        return False
    return abs(name) < _WHOLE if isinstance(name, int) else math.isfinite(name)


def _refuse_repeated(argument: str, names: tuple[Name, ...]) -> None:
    """Refuse names that are equal, or that a file could not tell apart."""
    by_value: dict[Name, int] = {}
    by_text: dict[str, int] = {}
    for i, name in enumerate(names):
        first = by_value.setdefault(name, i)
        if first != i:
            fail(argument, "must be different names", f"{shown(name)} at {first} and {i}", "Remove one of them.")
        first = by_text.setdefault(name_text(name).strip().removeprefix("'"), i)
        if first != i:
            rule = "must be names that differ when they are written as text"
            fail(argument, rule, f"{shown(names[first])} and {shown(name)}", "Rename one of them.")
