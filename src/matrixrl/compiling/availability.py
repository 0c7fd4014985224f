"""Availability of compiled loops, and the choice whether to use them."""

from __future__ import annotations

import sys
import warnings
from functools import cache
from importlib.util import find_spec

from matrixrl.checks import fail

__all__ = ["pays_off", "saves_time", "to_compile", "why_not_usable"]

_WORTH_IT = 20_000  # stages with up to 100 pairs
_LOADING = 1.5  # seconds to import numba and to read compiled loops from their cache
_READING = 0.1  # seconds of the second part alone


@cache
def why_not_usable() -> str | None:
    """Return the reason why numba cannot be used, or None if it can; the first call imports numba."""
    if find_spec("numba") is None:
        return "numba is not installed"
    try:
        import numba  # noqa: F401
    except ImportError as error:  # such as a NumPy version that numba does not support yet
        return f"numba cannot be imported ({error})"
    return None


def pays_off(n_episodes: int, horizon: int, n_pairs: int) -> bool:
    """Return whether compiled loops save more time than loading numba and the loops costs (about a second).

    With NumPy a stage of a backup takes about 60 µs, and more if there are hundreds of pairs.

    Args:
        n_episodes: Number of episodes N.
        horizon: Number of steps H of an episode.
        n_pairs: Number of pairs P.

    >>> pays_off(100, horizon=24, n_pairs=12), pays_off(1000, horizon=24, n_pairs=12)
    (False, True)
    """
    return n_episodes * horizon * max(1.0, n_pairs / 100.0) >= _WORTH_IT


def saves_time(wanted: bool | None, seconds: float) -> bool:
    """Return whether to use compiled loops in place of NumPy code that gives the same numbers.

    Args:
        wanted: True or False to request or refuse them; None to use them if they are available and save time.
        seconds: Time that they save if they are loaded.

    Raises:
        InvalidInput: Compiled loops are requested but not available, or `wanted` is not True, False or None.

    >>> saves_time(False, 1000.0), saves_time(None, 0.001)
    (False, False)
    """
    if wanted is None:
        return seconds > (_READING if "numba" in sys.modules else _LOADING) and _usable()
    return to_compile(wanted, n_episodes=0, horizon=0, n_pairs=0)


def to_compile(wanted: bool | None, *, n_episodes: int, horizon: int, n_pairs: int) -> bool:
    """Return whether to use compiled loops.

    Args:
        wanted: True or False to request or refuse them; None to use them if they are available and `pays_off` is True.
        n_episodes: Number of episodes N.
        horizon: Number of steps H of an episode.
        n_pairs: Number of pairs P.

    Raises:
        InvalidInput: Compiled loops are requested but not available, or `wanted` is not True, False or None.
    """
    if wanted not in (None, True, False):
        fail("compiled", "must be true, false or None", repr(wanted), "Leave it out or pass one of these.")
    if wanted is None:
        return pays_off(n_episodes, horizon, n_pairs) and _usable()
    reason = why_not_usable() if wanted else None
    if reason is not None:
        fail("compiled", "needs numba", reason, "Install it: pip install 'matrixrl[fast]'.")
    return wanted


@cache
def _usable() -> bool:
    """Return whether numba can be used; warn once if it is installed but cannot be used."""
    reason = why_not_usable()
    if reason is not None and find_spec("numba") is not None:
        warnings.warn(f"{reason}: compiled loops are left out", RuntimeWarning, stacklevel=2)
    return reason is None
