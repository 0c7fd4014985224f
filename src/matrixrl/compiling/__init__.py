"""Compilation of loops with numba (the extra `fast`): whether to use it, and a clock that leaves it out.

numba is imported only when compiled loops are used, because the import takes half a second and numba is optional. The
decorators are in `matrixrl.compiling.jit`, which imports it.
"""

from __future__ import annotations

from matrixrl.compiling.availability import pays_off, saves_time, to_compile, why_not_usable
from matrixrl.compiling.clock import playing_time

__all__ = ["pays_off", "playing_time", "saves_time", "to_compile", "why_not_usable"]
