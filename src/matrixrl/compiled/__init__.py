"""Loops that numba compiles, for the extra `fast`: what they compute, the layers above say in numpy as well.

Nothing here is imported until it is asked for: numba costs half a second, and may not be there.
"""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["is_installed", "pays_off"]

_WORTH_IT = 20_000


def is_installed() -> bool:
    """Say whether numba is there."""
    return find_spec("numba") is not None


def pays_off(n_episodes: int, horizon: int, n_pairs: int) -> bool:
    """Say whether so many episodes are worth the second in which numba and the loops are loaded.

    Without them a stage of a backup costs about 60 µs, and more where there are hundreds of pairs.

    >>> pays_off(100, horizon=24, n_pairs=12), pays_off(1000, horizon=24, n_pairs=12)
    (False, True)
    """
    return n_episodes * horizon * max(1.0, n_pairs / 100.0) >= _WORTH_IT
