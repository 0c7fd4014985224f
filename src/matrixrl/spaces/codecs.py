"""Codecs: each element of a finite space (a number, an array, a tuple, a dictionary) has one whole number.

An element with several parts is a number with one digit for each part, in mixed radix. The first part is the most
significant digit, as in NumPy's order of array entries.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, index, shown

__all__ = ["LARGEST_SPACE", "ArrayCodec", "BoxCodec", "Codec", "DiscreteCodec", "TupleCodec"]

LARGEST_SPACE = 10**7
"""Largest number of states or actions that are numbered: plans and rewards have an entry for each of them."""

_FINEST = 4097  # grid points along one continuous number
_SLACK = 1e-6  # share of the range by which a continuous number may lie outside of its bounds, from rounding


class Codec(ABC):
    """Numbers the elements of a finite space from 0 to `size` − 1, and returns the element of a number.

    Two codecs are equal if they give the same number to the same element.

    Attributes:
        kind: Kind of the space in a description.
        sizes: Number of values of each digit.
        firsts: Smallest value of each digit.
        shape: Shape of an element that is an array.
    """

    kind: ClassVar[str]
    sizes: tuple[int, ...]
    firsts: tuple[int, ...]
    shape: tuple[int, ...]

    def names(self, name: str) -> list[str]:
        """Return the name of each digit of an element with a name, such as ``state['stock'][0]``."""
        return [f"{name}[{', '.join(map(str, place))}]" for place in np.ndindex(self.shape)]

    @abstractmethod
    def encode(self, name: str, value: Any, remedy: str) -> int:
        """Return the number of an element; the message about another one names its part ``name[…]`` and the remedy."""

    @abstractmethod
    def decode(self, number: int) -> Any:
        """Return a new object for the element of a number from 0 to `size` − 1."""

    def description(self) -> dict[str, Any]:
        """Return the codec as plain data, which `codec_from` reads."""
        return {"kind": self.kind, **{field.name: _plain(getattr(self, field.name)) for field in fields(self)}}  # type: ignore[arg-type]

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.sizes)

    def cells(self, numbers: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Return the value of each part of elements (n,) as tables show them: (n, p).

        >>> TupleCodec((DiscreteCodec(2), DiscreteCodec(3, first=5))).cells(np.array([4]))
        array([[1, 6]])
        """
        digits = np.stack(np.unravel_index(numbers, self.sizes), axis=1)
        return np.asarray(digits + np.array(self.firsts))

    def columns(
        self, numbers: NDArray[np.integer[Any]], text: Callable[[Any], str] | None = None
    ) -> list[NDArray[Any]]:
        """Return one column (n,) for each part of elements (n,), with the names of parts that have names.

        Args:
            numbers: Numbers of the elements.
            text: Function by which names are written, such as `cell_text`; by default they are as they were given.
        """
        del text
        return list(self.cells(numbers).T)

    def leaf(self, part: int) -> tuple[Codec, int]:
        """Return the codec that a part belongs to, and the number of the part there."""
        return self, part

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

    kind = "discrete"

    count: int
    first: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", (self.count,))
        object.__setattr__(self, "firsts", (self.first,))

    def names(self, name: str) -> list[str]:
        return [name]

    def encode(self, name: str, value: Any, remedy: str) -> int:
        return index(name, value, size=self.count, first=self.first, remedy=remedy) - self.first

    def decode(self, number: int) -> int:
        return int(number) + self.first

    def __str__(self) -> str:
        return f"Discrete({self.count})" if self.first == 0 else f"Discrete({self.count}, start={self.first})"


@dataclass(frozen=True)
class ArrayCodec(Codec):
    """Arrays of whole numbers, each with a range of its own, as Gymnasium's `MultiDiscrete` and `MultiBinary`.

    >>> codec = ArrayCodec((2, 3), (0, 0), (2,))
    >>> codec.encode("obs", [1, 2], "Give a state."), codec.decode(5)
    (5, array([1, 2]))
    """

    kind = "array"

    sizes: tuple[int, ...]
    firsts: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str = field(default="int64", compare=False)

    def encode(self, name: str, value: Any, remedy: str) -> int:
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):
            array = np.empty(0, dtype=object)
        kinds = "iub" if all(count == 2 for count in self.sizes) else "iu"
        if array.shape != self.shape or (array.dtype.kind not in kinds and array.size):
            fail(name, f"must be whole numbers of shape {self.shape}", shown(value), remedy)
        found = 0
        for i, entry in enumerate(array.ravel().tolist()):
            count, first = self.sizes[i], self.firsts[i]
            if not first <= entry < first + count:
                fail(self.names(name)[i], f"must be in {first} … {first + count - 1}", shown(entry), remedy)
            found = found * count + int(entry) - first
        return found

    def decode(self, number: int) -> NDArray[Any]:
        values = [first + digit for first, digit in zip(self.firsts, _digits(number, self.sizes), strict=True)]
        return np.array(values, dtype=self.dtype).reshape(self.shape)

    def __str__(self) -> str:
        counts, firsts = (np.array(values).reshape(self.shape).tolist() for values in (self.sizes, self.firsts))
        return f"MultiDiscrete({counts}, start={firsts})" if any(self.firsts) else f"MultiDiscrete({counts})"


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

    kind = "box"

    levels: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    shape: tuple[int, ...]
    dtype: str = "float64"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", (self.levels,) * self.n_entries)
        object.__setattr__(self, "firsts", (0,) * self.n_entries)

    @classmethod
    def of(cls, low: Sequence[float], high: Sequence[float], shape: tuple[int, ...], dtype: str) -> BoxCodec:
        """Return the finest grid whose elements can be numbered; it has fewer than 3 levels if there are too many."""
        levels = min(_FINEST, int(LARGEST_SPACE ** (1.0 / max(1, len(low))) + 1e-9))
        return cls(levels - (levels % 2 == 0), tuple(map(float, low)), tuple(map(float, high)), tuple(shape), dtype)

    @property
    def n_entries(self) -> int:
        """Number of entries of the array."""
        return len(self.low)

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
        found: NDArray[Any] = self.cells(np.array([number]))[0].reshape(self.shape)
        return found

    def cells(self, numbers: NDArray[np.integer[Any]]) -> NDArray[Any]:
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
        return f"must be in [{self.low[part]:g}, {self.high[part]:g}]"

    def scaled(self, numbers: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Return the entries of elements (n,), from −1 at the lower to 1 at the upper bound: (n, q)."""
        digits = np.stack(np.unravel_index(numbers, self.sizes), axis=1)
        return np.asarray(digits * (2.0 / (self.levels - 1)) - 1.0, dtype=np.float64)

    def nearest(self, scaled: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the numbers of the elements nearest to entries (n, q) from −1 to 1: (n,)."""
        digits = np.rint(0.5 * (np.clip(scaled, -1.0, 1.0) + 1.0) * (self.levels - 1)).astype(np.int64)
        return np.asarray(np.ravel_multi_index(tuple(digits.T), self.sizes), dtype=np.int64)

    def __str__(self) -> str:
        return f"Box({list(self.low)}, {list(self.high)}, {self.shape}, {self.dtype})"


@dataclass(frozen=True)
class TupleCodec(Codec):
    """Tuples with one element of each part, or dictionaries, if `keys` (text or whole numbers) are given.

    >>> codec = TupleCodec((DiscreteCodec(2), DiscreteCodec(3, first=1)))
    >>> codec.encode("obs", (1, 3), "Give a state."), codec.decode(5)
    (5, (1, 3))
    >>> TupleCodec((DiscreteCodec(2), DiscreteCodec(3)), keys=("day", "stock")).decode(5)
    {'day': 1, 'stock': 2}
    """

    kind = "tuple"

    parts: tuple[Codec, ...]
    keys: tuple[str | int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(n for part in self.parts for n in part.sizes))
        object.__setattr__(self, "firsts", tuple(n for part in self.parts for n in part.firsts))

    @property
    def _labelled(self) -> list[tuple[str | int, Codec]]:
        """Position or key of each part, and the part."""
        return list(zip(range(len(self.parts)) if self.keys is None else self.keys, self.parts, strict=True))

    def names(self, name: str) -> list[str]:
        return [one for label, part in self._labelled for one in part.names(self._part_name(name, label))]

    def encode(self, name: str, value: Any, remedy: str) -> int:
        """Return the number of a tuple, a list or a vector, or of a dictionary with its keys in any order."""
        found = 0
        for (label, part), one in zip(self._labelled, self._values(name, value, remedy), strict=True):
            if isinstance(one, (bool, np.bool_)) and part == DiscreteCodec(2):  # flags are often given as such
                one = int(one)
            found = found * part.size + part.encode(self._part_name(name, label), one, remedy)
        return found

    def _values(self, name: str, value: Any, remedy: str) -> Sequence[Any]:
        """Return the parts of an element in their order, or refuse what is none."""
        if self.keys is None:
            value = list(value) if isinstance(value, np.ndarray) and value.ndim == 1 else value
            if not isinstance(value, (tuple, list)) or len(value) != len(self.parts):
                fail(name, f"must be a tuple of {len(self.parts)} parts", shown(value), remedy)
            return value
        wanted = ", ".join(map(repr, self.keys))
        if not isinstance(value, Mapping):
            fail(name, f"must be a dictionary with the keys {wanted}", shown(value), remedy)
        if len(value) != len(self.keys) or any(key not in value for key in self.keys):
            fail(name, f"must have the keys {wanted}", f"the keys {shown(list(value))}", remedy)
        return [value[key] for key in self.keys]

    def _part_name(self, name: str, label: str | int) -> str:
        return f"{name}[{label!r}]"

    def decode(self, number: int) -> Any:
        digits = _digits(number, [part.size for part in self.parts])
        values = tuple(part.decode(digit) for part, digit in zip(self.parts, digits, strict=True))
        return values if self.keys is None else dict(zip(self.keys, values, strict=True))

    def columns(
        self, numbers: NDArray[np.integer[Any]], text: Callable[[Any], str] | None = None
    ) -> list[NDArray[Any]]:
        digits = np.unravel_index(numbers, [part.size for part in self.parts]) if self.parts else ()
        return [one for part, digit in zip(self.parts, digits, strict=True) for one in part.columns(digit, text)]

    def leaf(self, part: int) -> tuple[Codec, int]:
        for one in self.parts:
            if part < len(one.sizes):
                return one.leaf(part)
            part -= len(one.sizes)
        raise IndexError(part)

    def rule(self, part: int) -> str:
        leaf, own = self.leaf(part)
        return leaf.rule(own)

    def __str__(self) -> str:
        if self.keys is None:
            return f"Tuple({', '.join(map(str, self.parts))})"
        return f"Dict({', '.join(f'{key!r}: {part}' for key, part in self._labelled)})"


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value.description() if isinstance(value, Codec) else value


def _digits(number: int, sizes: Sequence[int]) -> list[int]:
    """Return the digits of a number in mixed radix, the most significant one first."""
    digits, rest = [], int(number)
    for size in reversed(sizes):
        rest, digit = divmod(rest, size)
        digits.append(digit)
    return digits[::-1]
