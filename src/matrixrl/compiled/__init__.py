"""Loops that numba compiles, for the extra `fast`: what they compute, the layers above say in numpy as well.

Nothing here is imported until it is asked for: numba costs half a second, and may not be there.
"""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["is_installed"]


def is_installed() -> bool:
    """Say whether numba is there."""
    return find_spec("numba") is not None
