"""Validation of arguments. Every message names the argument, the rule, what was received and what to do."""

from __future__ import annotations

import difflib
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from matrixrl.errors import InvalidInput, UnknownName
from matrixrl.tolerances import PROBABILITY

__all__ = [
    "choice",
    "distributions",
    "fail",
    "file_path",
    "finite",
    "fits_memory",
    "flag",
    "function",
    "index",
    "indices",
    "integer",
    "number",
    "optional_flag",
    "real_numbers",
    "shaped",
    "show_where",
    "shown",
    "shown_element",
    "users_stacklevel",
    "within",
]

_PACKAGE = str(Path(__file__).parent) + os.sep
LARGEST_INTEGER = 2**63 - 1
"""Largest whole number that arrays, files and stores can hold."""

_SHOWN = 80  # characters of a value in a message
_SHOWN_NAMES = 30  # longer lists, such as the environments of Gymnasium, are shortened in messages


def fail(argument: str, rule: str, received: object, remedy: str) -> NoReturn:
    """Raise `InvalidInput` with a message of the form "argument rule; got received. remedy".

    >>> fail("horizon", "must be at least 1", 0, "Give the number of steps in an episode.")
    Traceback (most recent call last):
    matrixrl.errors.InvalidInput: horizon must be at least 1; got 0. Give the number of steps in an episode.
    """
    try:
        text = str(received)
    except Exception:  # noqa: BLE001  # of a user's class
        text = shown(received)
    error = InvalidInput(f"{argument} {rule}; got {text}. {remedy}")
    error.argument = argument
    raise error


def _number_of(value: object) -> object:
    """Return the number of an array without axes, and any other value as it is."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def shown(value: object) -> str:
    """Return a value as text for a message, shortened if it is long."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001  # of a user's class
        text = f"a {type(value).__name__} whose repr fails ({type(error).__name__})"
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def shown_element(value: object) -> str:
    """Return a state or an action as text: its name or number, and a vector as a tuple.

    >>> shown_element(np.array([0, 3])), shown_element("low")
    ('(0, 3)', "'low'")
    """
    return shown(tuple(value.tolist()) if isinstance(value, np.ndarray) and value.ndim == 1 else value)


def integer(argument: str, value: object, *, low: int, high: int = LARGEST_INTEGER, remedy: str) -> int:
    """Return `value` as an int in low … high."""
    found = _whole_number(argument, value, remedy)
    if found < low:
        fail(argument, f"must be at least {low}", shown(found), remedy)
    if found > high:
        fail(argument, f"must be at most {high}", shown(found), remedy)
    return found


def _whole_number(argument: str, value: object, remedy: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        fail(argument, "must be a whole number", shown(value), remedy)
    return int(value)


def flag(argument: str, value: object, *, remedy: str = "Pass one of them.") -> bool:
    """Return `value` as a bool; only True and False are accepted, also those of NumPy."""
    value = _number_of(value)
    if not isinstance(value, (bool, np.bool_)):
        fail(argument, "must be true or false", shown(value), remedy)
    return bool(value)


def function(argument: str, value: Any, *, of: int, remedy: str) -> Callable[..., Any]:
    """Return `value` if it is a function, or another object, that can be called with `of` arguments."""
    plural = "s" * (of > 1)
    if not callable(value) or isinstance(value, type):
        fail(argument, f"must be a function of {of} argument{plural}", shown(value), remedy)
    try:
        inspect.signature(value).bind(*(None for _ in range(of)))
    except TypeError as error:
        fail(argument, f"must be a function of {of} argument{plural}", f"{shown(value)} ({error})", remedy)
    except ValueError:  # a function in C without a signature
        pass
    called: Callable[..., Any] = value
    return called


def optional_flag(argument: str, value: object) -> bool | None:
    """Return `value` as a bool, or None."""
    if value is not None and not isinstance(value, (bool, np.bool_)):
        fail(argument, "must be true, false or None", shown(value), "Leave it out or pass one of these.")
    return None if value is None else bool(value)


def file_path(argument: str, value: object) -> str:
    """Return the path of a file or directory as text; an empty one and null characters are refused."""
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str) or not path.strip():
        fail(argument, "must be a path that is not empty", shown(value), "Give text or a pathlib.Path.")
    if "\0" in path:
        fail(argument, "must be a path without null characters", shown(path), "Remove them.")
    return path


def users_stacklevel() -> int:
    """Return the `stacklevel` with which a warning of the calling function points at the user's line.

    That is the innermost line on the stack that is not in a file of the package; the outermost line if all are.
    """
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def installed_memory() -> float:
    """Return the memory of this machine in bytes; infinity if the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def fits_memory(argument: str, n_numbers: float, received: object, *, remedy: str) -> None:
    """Raise `InvalidInput` if so many numbers of 8 bytes are more than the memory of this machine."""
    if 8.0 * n_numbers > installed_memory():
        need = f"{8.0 * n_numbers / 1e9:,.3g} GB of memory"
        fail(argument, f"must fit in memory ({installed_memory() / 1e9:,.3g} GB)", f"{received}: {need}", remedy)


def number(
    argument: str,
    value: object,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_ends: bool = False,
    remedy: str,
) -> float:
    """Return `value` as a finite float in [low, high], or (low, high) with `open_ends`; 0-d arrays are accepted."""
    value = _number_of(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        fail(argument, "must be a number", shown(value), remedy)
    try:
        x = float(value)
    except OverflowError:
        x = math.inf
    inside = low < x < high if open_ends else low <= x <= high
    if not math.isfinite(x) or not inside:
        interval = f"({low:g}, {high:g})" if open_ends else f"[{low:g}, {high:g}]"
        fail(argument, f"must be finite and in {interval}", x, remedy)
    return x


def index(argument: str, value: object, *, size: int, first: int = 0, remedy: str) -> int:
    """Return `value` as an int in first … first+size-1; NumPy integers and 0-d arrays of integers are accepted."""
    i = _whole_number(argument, _number_of(value), remedy)
    if not first <= i < first + size:
        fail(argument, f"must be in {first} … {first + size - 1}", shown(i), remedy)
    return i


def indices(argument: str, value: object, *, size: int, first: int = 0, remedy: str) -> int | NDArray[np.int64]:
    """Return `value` as an int, or as an array of integers of any shape, each in first … first+size-1."""
    if not isinstance(value, (list, tuple)) and not (hasattr(value, "__array__") and np.ndim(value)):
        return index(argument, value, size=size, first=first, remedy=remedy)
    if np.ma.is_masked(value):
        fail(argument, "must not have masked entries", shown(value), remedy)
    try:
        given = np.asarray(value)
    except ValueError:
        fail(argument, "must be whole numbers", shown(value), remedy)
    if not given.size:
        return np.zeros(given.shape, dtype=np.int64)
    if given.dtype.kind not in "iu":
        fail(argument, "must be whole numbers", f"an array of {given.dtype}", remedy)
    bad = (given < first) | (given >= first + size)
    if bad.any():
        fail(argument, f"must be in {first} … {first + size - 1}", show_where(given, bad), remedy)
    return given.astype(np.int64)


def choice(argument: str, value: object, options: Iterable[str], *, remedy: str | None = None) -> str:
    """Return `value` if it is one of `options`, else raise `UnknownName` with the nearest option in the message.

    The remedy is for a value without a similar name.

    >>> choice("set", "normalized", ["frobenius", "normalised"])
    Traceback (most recent call last):
    matrixrl.errors.UnknownName: set must be one of frobenius, normalised; got 'normalized'.
    Did you mean 'normalised'?
    """
    names = list(options)
    if isinstance(value, str) and value in names:
        return value
    text = value if isinstance(value, str) else ""
    near = difflib.get_close_matches(text, names, n=1, cutoff=0.5)
    hint = f"Did you mean '{near[0]}'?" if near else remedy or "Pick one of those names."
    known = ", ".join(names)
    if len(names) > _SHOWN_NAMES:
        nearest = difflib.get_close_matches(text, names, n=5, cutoff=0.0)
        known = f"{len(names)} names, such as {', '.join(nearest)}"
    raise UnknownName(f"{argument} must be one of {known}; got {shown(value)}. {hint}")


_REPLACE = "Remove or replace those entries."


def shaped(
    argument: str, value: object, shape: tuple[int | None, ...], *, remedy: str, if_not_finite: str = _REPLACE
) -> NDArray[np.float64]:
    """Return a finite float64 copy of `value` if it has `shape`; None in `shape` stands for any size of at least 1.

    The result is a copy in C order, so later changes of `value` have no effect, and equal entries give bitwise equal
    results whatever the memory layout of `value`.
    """
    if np.ma.is_masked(value):
        fail(argument, "must not have masked entries", shown(value), "Fill or remove them.")
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "fiub":
            raise TypeError(f"entries of type {given.dtype}")
        array = np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        words = f"{type(value).__name__} ({' '.join(str(error).split())})"
        raise InvalidInput(f"{argument} must be an array of numbers; got {words}. {remedy}") from error
    wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
    fits = array.ndim == len(shape) and all(
        have >= 1 if want is None else have == want for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits:
        fail(argument, f"must have shape {wanted}", f"shape {array.shape}", remedy)
    return finite(argument, array, remedy=if_not_finite)


def real_numbers(value: object) -> NDArray[np.float64]:
    """Return the result of a user's function as a float64 array, or an empty array if it is not real numbers."""
    if np.ma.is_masked(value):
        return np.empty(0)
    try:
        raw = np.asarray(value)
        return raw.astype(np.float64) if raw.dtype.kind in "biuf" else np.empty(0)
    except (TypeError, ValueError, OverflowError):
        return np.empty(0)


def finite(argument: str, array: NDArray[np.float64], *, remedy: str = _REPLACE) -> NDArray[np.float64]:
    """Return `array` if every entry is finite; otherwise the error message gives the index of the first bad entry."""
    bad = ~np.isfinite(array)
    if bad.any():
        fail(argument, "must be finite", show_where(array, bad), remedy)
    return array


def within(argument: str, array: NDArray[np.float64], low: float, high: float, *, remedy: str) -> NDArray[np.float64]:
    """Return `array` if every entry lies in [low, high]."""
    bad = (array < low) | (array > high)
    if bad.any():
        fail(argument, f"must lie in [{low:g}, {high:g}]", show_where(array, bad), remedy)
    return array


def distributions(
    argument: str, rows: NDArray[np.float64], *, remedy: str = "Normalise each row."
) -> NDArray[np.float64]:
    """Return `rows` if every row along the last axis is a probability distribution."""
    negative = rows < -PROBABILITY
    if negative.any():
        fail(argument, "must not be negative", show_where(rows, negative), "Probabilities are >= 0.")
    sums = rows.sum(axis=-1)
    off = np.abs(sums - 1.0) > PROBABILITY
    if off.any():
        fail(argument, "rows must sum to one", f"sum {show_where(sums, off)}", remedy)
    return rows


def show_where(array: NDArray[Any], bad: NDArray[np.bool_]) -> str:
    """Return the value and the index of the first entry where `bad` is True, and the number of other such entries."""
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    count = int(bad.sum())
    others = "" if count == 1 else f" and {count - 1} more"
    where = f" at {list(place)}" if place else ""
    return f"{array[place]:.6g}{where}{others}"
