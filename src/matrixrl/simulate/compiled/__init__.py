"""Whole episodes in compiled loops (numba, the extra `fast`)."""

from matrixrl.simulate.compiled.player import CompiledPlayer, why_not_compiled

__all__ = ["CompiledPlayer", "why_not_compiled"]
