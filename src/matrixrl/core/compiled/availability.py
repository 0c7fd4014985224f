"""Whether compiled loops can be used here, and whether they are worth loading."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec

from matrixrl.checks import fail

__all__ = ["pays_off", "to_compile", "why_not_usable"]

_WORTH_IT = 20_000


@cache
def why_not_usable() -> str | None:
    """Return why nothing can be compiled here, or None; the first call imports numba."""
    if find_spec("numba") is None:
        return "numba is not installed"
    try:
        import numba  # noqa: F401
    except ImportError as error:  # such as a NumPy version that numba does not support yet
        return f"numba cannot be imported ({error})"
    return None


def pays_off(n_episodes: int, horizon: int, n_pairs: int) -> bool:
    """Say whether so many episodes are worth the second in which numba and the loops are loaded.

    With NumPy a stage of a backup costs about 60 µs, and more where there are hundreds of pairs.

    >>> pays_off(100, horizon=24, n_pairs=12), pays_off(1000, horizon=24, n_pairs=12)
    (False, True)
    """
    return n_episodes * horizon * max(1.0, n_pairs / 100.0) >= _WORTH_IT


def to_compile(wanted: bool | None, *, n_episodes: int, horizon: int, n_pairs: int) -> bool:
    """Return whether to use compiled loops: as requested, or where they pay off if `wanted` is None.

    Raises:
        InvalidInput: They are requested and cannot be used, or `wanted` is not a truth value.
    """
    if wanted not in (None, True, False):
        fail("compiled", "must be true, false or None", repr(wanted), "Leave it out, or pass one of them.")
    if wanted is None:
        return pays_off(n_episodes, horizon, n_pairs) and _usable()
    reason = why_not_usable() if wanted else None
    if reason is not None:
        fail("compiled", "needs numba", reason, "Install it: pip install 'matrixrl[fast]'.")
    return wanted


@cache
def _usable() -> bool:
    """Say whether numba can be used; warn once if it is installed and cannot."""
    reason = why_not_usable()
    if reason is not None and find_spec("numba") is not None:
        warnings.warn(f"{reason}: compiled loops are left out", RuntimeWarning, stacklevel=2)
    return reason is None
