"""Codecs of whole numbers and arrays of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, index, shown
from matrixrl.coding.base import Codec

__all__ = ["ArrayCodec", "DiscreteCodec"]


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
