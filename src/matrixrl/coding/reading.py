"""Codecs from descriptions that need not be trusted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from matrixrl.checks import LARGEST_INTEGER, integer, number
from matrixrl.coding.base import Codec
from matrixrl.coding.box import BoxCodec
from matrixrl.coding.combined import DictCodec, TupleCodec
from matrixrl.coding.whole import ArrayCodec, DiscreteCodec
from matrixrl.errors import InvalidInput

__all__ = ["codec_from"]

_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float32", "float64")
_LOWEST = -(2**63)
_DAMAGED = "It is damaged."


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
