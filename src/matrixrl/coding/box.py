"""The codec of continuous numbers, on a fine grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, shown
from matrixrl.coding.base import Codec

__all__ = ["BoxCodec"]

_FINEST = 4097  # grid points along one continuous number
_MOST_ELEMENTS = 10**7  # grid points of an array of continuous numbers
_SLACK = 1e-6  # share of the range by which a continuous number may lie outside of its bounds, from rounding


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
