"""What every codec of a finite space can do."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Codec", "digits_of"]


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

        >>> from matrixrl.coding import DiscreteCodec, TupleCodec
        >>> TupleCodec((DiscreteCodec(2), DiscreteCodec(3, first=5))).values(4)
        [1, 6]
        """
        return [first + digit for first, digit in zip(self.firsts, digits_of(number, self.sizes), strict=True)]

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

        >>> from matrixrl.coding import DiscreteCodec, TupleCodec
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

        >>> from matrixrl.coding import DiscreteCodec, TupleCodec
        >>> TupleCodec((DiscreteCodec(2), DiscreteCodec(3))).coordinates()[1]
        array([-1.,  0.])
        """
        digits = np.unravel_index(np.arange(self.size), self.sizes) if self.sizes else ()
        columns = [np.linspace(-1.0, 1.0, n)[digit] for n, digit in zip(self.sizes, digits, strict=True)]
        return np.stack(columns, axis=1) if columns else np.zeros((self.size, 1))


def digits_of(number: int, sizes: Sequence[int]) -> list[int]:
    """Return the digits of a number in mixed radix, the most significant one first."""
    digits, rest = [], int(number)
    for size in reversed(sizes):
        rest, digit = divmod(rest, size)
        digits.append(digit)
    return digits[::-1]
