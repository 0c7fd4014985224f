"""Numbers of the elements of finite spaces: a number, an array, a tuple or a dictionary becomes one whole number.

An element with several parts is a number with one digit for each part, in mixed radix. The first part is the most
significant digit, as in NumPy's order of array entries.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import LARGEST_INTEGER, fail, index, integer, number, shown
from matrixrl.errors import InvalidInput

__all__ = ["ArrayCodec", "BoxCodec", "Codec", "DictCodec", "DiscreteCodec", "TupleCodec", "codec_from"]

_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_LOWEST = -(2**63)
_FLOATS = ("float32", "float64")
_FINEST = 4097  # grid points along one continuous number
_MOST_ELEMENTS = 10**7  # grid points of an array of continuous numbers
_SLACK = 1e-6  # share of the range by which a continuous number may lie outside of its bounds, from rounding
_DAMAGED = "It is damaged."


class Codec(ABC):
    """Numbers the elements of a finite space from 0 to `size` − 1, and returns the element of a number.

    Two codecs are equal if they give the same number to the same element.
    """

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each digit."""

    @property
    @abstractmethod
    def firsts(self) -> tuple[int, ...]:
        """Smallest value of each digit."""

    @abstractmethod
    def names(self, name: str) -> list[str]:
        """Return the name of each digit of an element with a name, such as ``state['stock'][0]``."""

    def values(self, number: int) -> list[int]:
        """Return the value of each digit of the element of a number.

        >>> TupleCodec((DiscreteCodec(2), DiscreteCodec(3, first=5))).values(4)
        [1, 6]
        """
        return [first + digit for first, digit in zip(self.firsts, _digits(number, self.sizes), strict=True)]

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.sizes)

    @abstractmethod
    def encode(self, name: str, value: Any, remedy: str) -> int:
        """Return the number of an element.

        Args:
            name: Name of the element in error messages; the name of a part is ``name[…]``.
            value: The element.
            remedy: Sentence that tells the user what to do.

        Raises:
            InvalidInput: `value` is not an element; the message names the part that is wrong.
        """

    @abstractmethod
    def decode(self, number: int) -> Any:
        """Return a new object for the element of a number from 0 to `size` − 1."""

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Return the codec as plain data, which `codec_from` reads."""

    def cells(self, numbers: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Return the value of each part of elements (n,) as tables show them: (n, p).

        >>> TupleCodec((DiscreteCodec(2), DiscreteCodec(3, first=5))).cells(np.array([4]))
        array([[1, 6]])
        """
        digits = np.stack(np.unravel_index(numbers, self.sizes), axis=1)
        return np.asarray(digits + np.array(self.firsts))

    def digits(self, part: int, cells: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the digits of values (n,) of a part, and which of them it can have: (n,) and (n,)."""
        first, size = self.firsts[part], self.sizes[part]
        good = (cells == np.floor(cells)) & (cells >= first) & (cells < first + size)
        return np.where(good, cells - first, 0.0).astype(np.int64), good

    def rule(self, part: int) -> str:
        """Return in words which values a part can have."""
        return f"must be a whole number in {self.firsts[part]} … {self.firsts[part] + self.sizes[part] - 1}"

    def coordinates(self) -> NDArray[np.float64]:
        """Return a point for each element, (size, p): one coordinate for each digit, evenly from −1 to 1.

        >>> TupleCodec((DiscreteCodec(2), DiscreteCodec(3))).coordinates()[1]
        array([-1.,  0.])
        """
        digits = np.unravel_index(np.arange(self.size), self.sizes) if self.sizes else ()
        columns = [np.linspace(-1.0, 1.0, n)[digit] for n, digit in zip(self.sizes, digits, strict=True)]
        return np.stack(columns, axis=1) if columns else np.zeros((self.size, 1))


@dataclass(frozen=True)
class DiscreteCodec(Codec):
    """The whole numbers first, …, first + count − 1, as Gymnasium's `Discrete`.

    >>> DiscreteCodec(3, first=5).encode("obs", 6, "Give a state."), DiscreteCodec(3, first=5).decode(1)
    (1, 6)
    """

    count: int
    first: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of the only digit."""
        return (self.count,)

    @property
    def firsts(self) -> tuple[int, ...]:
        """Smallest value of the only digit."""
        return (self.first,)

    def names(self, name: str) -> list[str]:
        """Return the name itself."""
        return [name]

    def encode(self, name: str, value: Any, remedy: str) -> int:
        """Return value − first."""
        return index(name, value, size=self.count, first=self.first, remedy=remedy) - self.first

    def decode(self, number: int) -> int:
        """Return number + first."""
        return int(number) + self.first

    def description(self) -> dict[str, Any]:
        """Return the codec as plain data."""
        return {"kind": "discrete", "count": self.count, "first": self.first}

    def __str__(self) -> str:
        return f"Discrete({self.count})" if self.first == 0 else f"Discrete({self.count}, start={self.first})"


@dataclass(frozen=True)
class ArrayCodec(Codec):
    """Arrays of whole numbers, each with a range of its own, as Gymnasium's `MultiDiscrete` and `MultiBinary`.

    Attributes:
        counts: Number of values of each entry, in C order.
        lowest: Smallest value of each entry.
        shape: Shape of the array.
        dtype: Type of its entries.

    >>> codec = ArrayCodec((2, 3), (0, 0), (2,))
    >>> codec.encode("obs", [1, 2], "Give a state."), codec.decode(5)
    (5, array([1, 2]))
    """

    counts: tuple[int, ...]
    lowest: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str = "int64"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each entry."""
        return self.counts

    @property
    def firsts(self) -> tuple[int, ...]:
        """Smallest value of each entry."""
        return self.lowest

    def names(self, name: str) -> list[str]:
        """Return the name of each entry."""
        return [f"{name}[{', '.join(map(str, place))}]" for place in np.ndindex(self.shape)]

    def encode(self, name: str, value: Any, remedy: str) -> int:
        """Return the number of an array, or of nested lists."""
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):
            array = np.empty(0, dtype=object)
        kinds = "iub" if all(count == 2 for count in self.counts) else "iu"
        if array.shape != self.shape or (array.dtype.kind not in kinds and array.size):
            fail(name, f"must be whole numbers of shape {self.shape}", shown(value), remedy)
        number = 0
        for i, entry in enumerate(array.ravel().tolist()):
            count, first = self.counts[i], self.firsts[i]
            if not first <= entry < first + count:
                fail(self.names(name)[i], f"must be in {first} … {first + count - 1}", shown(entry), remedy)
            number = number * count + int(entry) - first
        return number

    def decode(self, number: int) -> NDArray[Any]:
        """Return a new array."""
        return np.array(self.values(number), dtype=self.dtype).reshape(self.shape)

    def description(self) -> dict[str, Any]:
        """Return the codec as plain data."""
        lists = {"counts": list(self.counts), "firsts": list(self.lowest), "shape": list(self.shape)}
        return {"kind": "array", **lists, "dtype": self.dtype}

    def __str__(self) -> str:
        counts = np.array(self.counts).reshape(self.shape).tolist()
        if not any(self.firsts):
            return f"MultiDiscrete({counts})"
        return f"MultiDiscrete({counts}, start={np.array(self.firsts).reshape(self.shape).tolist()})"


@dataclass(frozen=True)
class BoxCodec(Codec):
    """Arrays of real numbers between bounds, as Gymnasium's `Box`, on a grid that is as fine as numbers allow.

    Attributes:
        levels: Number of grid points along each entry, odd, so that the middle is one of them.
        low: Smallest value of each entry, in C order.
        high: Largest value of each entry.
        shape: Shape of the array.
        dtype: Type of its entries.

    >>> codec = BoxCodec.of((-2.0,), (2.0,), (1,), "float64")
    >>> codec.levels, codec.encode("action", [0.5], "Give an action."), codec.decode(2560)
    (4097, 2560, array([0.5]))
    """

    levels: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    shape: tuple[int, ...]
    dtype: str = "float64"

    @classmethod
    def of(cls, low: Sequence[float], high: Sequence[float], shape: tuple[int, ...], dtype: str) -> BoxCodec:
        """Return the finest grid whose elements can be numbered; it has fewer than 3 levels if there are too many."""
        count = max(1, len(low))
        levels = min(_FINEST, int(_MOST_ELEMENTS ** (1.0 / count) + 1e-9))
        return cls(levels - (levels % 2 == 0), tuple(map(float, low)), tuple(map(float, high)), tuple(shape), dtype)

    @property
    def n_entries(self) -> int:
        """Number of entries of the array."""
        return len(self.low)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of grid points along each entry."""
        return (self.levels,) * self.n_entries

    @property
    def firsts(self) -> tuple[int, ...]:
        """Zero for each entry."""
        return (0,) * self.n_entries

    def names(self, name: str) -> list[str]:
        """Return the name of each entry."""
        return [f"{name}[{', '.join(map(str, place))}]" for place in np.ndindex(self.shape)]

    def encode(self, name: str, value: Any, remedy: str) -> int:
        """Return the number of the nearest array of the grid."""
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            array = np.empty(0)
        if array.shape != self.shape or not np.isfinite(array).all():
            fail(name, f"must be finite numbers of shape {self.shape}", shown(value), remedy)
        found = []
        for i, entry in enumerate(array.ravel()):
            [digit], [good] = self.digits(i, np.array([entry]))
            if not good:
                fail(self.names(name)[i], self.rule(i), shown(float(entry)), remedy)
            found.append(digit)
        return int(np.ravel_multi_index(tuple(found), self.sizes))

    def decode(self, number: int) -> NDArray[Any]:
        """Return a new array."""
        found: NDArray[Any] = self.cells(np.array([number]))[0].reshape(self.shape)
        return found

    def cells(self, numbers: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Return the entries of elements (n,): (n, q)."""
        low, high = np.array(self.low), np.array(self.high)
        exact = low + 0.5 * (self.scaled(numbers) + 1.0) * (high - low)
        found: NDArray[Any] = np.clip(exact, low, high).astype(self.dtype)  # rounding may have left the box
        return found

    def digits(self, part: int, cells: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the nearest grid points of values (n,) of an entry, and which of them are within its bounds."""
        low, high = self.low[part], self.high[part]
        slack = _SLACK * (high - low)
        good = (cells >= low - slack) & (cells <= high + slack)
        share = (np.where(good, cells, low) - low) / (high - low if high > low else 1.0)
        return np.rint(np.clip(share, 0.0, 1.0) * (self.levels - 1)).astype(np.int64), good

    def rule(self, part: int) -> str:
        """Return the bounds of an entry in words."""
        return f"must be in [{self.low[part]:g}, {self.high[part]:g}]"

    def scaled(self, numbers: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Return the entries of elements (n,), from −1 at the lower to 1 at the upper bound: (n, q)."""
        digits = np.stack(np.unravel_index(numbers, self.sizes), axis=1)
        return np.asarray(digits * (2.0 / (self.levels - 1)) - 1.0, dtype=np.float64)

    def nearest(self, scaled: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the numbers of the elements nearest to entries (n, q) from −1 to 1: (n,)."""
        digits = np.rint(0.5 * (np.clip(scaled, -1.0, 1.0) + 1.0) * (self.levels - 1)).astype(np.int64)
        return np.asarray(np.ravel_multi_index(tuple(digits.T), self.sizes), dtype=np.int64)

    def description(self) -> dict[str, Any]:
        """Return the codec as plain data."""
        bounds = {"low": list(self.low), "high": list(self.high)}
        return {"kind": "box", "levels": self.levels, **bounds, "shape": list(self.shape), "dtype": self.dtype}

    def __str__(self) -> str:
        return f"Box({list(self.low)}, {list(self.high)}, {self.shape}, {self.dtype})"


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
        digits = _digits(number, [part.size for part in self.parts])
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
        digits = _digits(number, [part.size for part in self.parts])
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


def _digits(number: int, sizes: Sequence[int]) -> list[int]:
    """Return the digits of a number in mixed radix, the most significant one first."""
    digits, rest = [], int(number)
    for size in reversed(sizes):
        rest, digit = divmod(rest, size)
        digits.append(digit)
    return digits[::-1]


def codec_from(data: Any) -> Codec:
    """Return the codec that `Codec.description` described, from a file that need not be trusted.

    Raises:
        InvalidInput: The data do not describe a codec.

    >>> str(codec_from(DiscreteCodec(4).description()))
    'Discrete(4)'
    """
    kind = data.get("kind") if isinstance(data, dict) else None
    fields = {
        "discrete": {"count", "first"},
        "array": {"counts", "firsts", "shape", "dtype"},
        "tuple": {"parts"},
        "dict": {"keys", "parts"},
        "box": {"levels", "low", "high", "shape", "dtype"},
    }
    if not isinstance(kind, str) or kind not in fields or set(data) != {"kind", *fields[kind]}:
        raise InvalidInput("a space must be described by its kind and its parts")
    if kind == "discrete":
        return DiscreteCodec(_count(data["count"]), _first(data["first"]))
    if kind == "array":
        return _array_from(data)
    if kind == "box":
        return _box_from(data)
    parts = tuple(codec_from(part) for part in _list(data["parts"]))
    if kind == "tuple":
        return TupleCodec(parts)
    keys = tuple(_list(data["keys"]))
    if any(type(key) not in (str, int) for key in keys) or not len(set(keys)) == len(keys) == len(parts):
        raise InvalidInput("the keys of a space must be texts or whole numbers, one for each part")
    return DictCodec(keys, parts)


def _array_from(data: dict[str, Any]) -> ArrayCodec:
    counts, firsts = [_count(n) for n in _list(data["counts"])], [_first(n) for n in _list(data["firsts"])]
    shape = tuple(integer("shape", n, low=0, remedy=_DAMAGED) for n in _list(data["shape"]))
    if data["dtype"] not in _DTYPES or not len(counts) == len(firsts) == math.prod(shape):
        raise InvalidInput("the entries of a space of arrays must be as many as its shape says")
    limits = np.iinfo(data["dtype"])
    for count, first in zip(counts, firsts, strict=True):
        if not limits.min <= first <= first + count - 1 <= limits.max:
            raise InvalidInput(f"the entries of a space of arrays must be {data['dtype']}")
    return ArrayCodec(tuple(counts), tuple(firsts), shape, data["dtype"])


def _box_from(data: dict[str, Any]) -> BoxCodec:
    low, high = ([_bound(x) for x in _list(data[name])] for name in ("low", "high"))
    shape = tuple(integer("shape", n, low=0, remedy=_DAMAGED) for n in _list(data["shape"]))
    if data["dtype"] not in _FLOATS or not len(low) == len(high) == math.prod(shape):
        raise InvalidInput("the bounds of a space of continuous numbers must be as many as its shape says")
    if not low or any(a > b for a, b in zip(low, high, strict=True)):
        raise InvalidInput("the bounds of a space of continuous numbers must be low <= high")
    codec = BoxCodec.of(low, high, shape, data["dtype"])
    if codec.levels < 3 or codec.levels != data["levels"]:
        raise InvalidInput("the grid of a space of continuous numbers must be that of this version")
    return codec


def _bound(value: Any) -> float:
    return number("bound", value, low=-1e12, high=1e12, remedy=_DAMAGED)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidInput("the parts of a space must be a list")
    return value


def _count(value: Any) -> int:
    return integer("count", value, low=1, remedy=_DAMAGED)


def _first(value: Any) -> int:
    return integer("first", value, low=_LOWEST, high=LARGEST_INTEGER, remedy=_DAMAGED)
