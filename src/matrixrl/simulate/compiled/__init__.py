"""Whole episodes in compiled loops (numba, the extra `fast`)."""

from matrixrl.simulate.compiled.choosing import compiled_player, why_not_compiled
from matrixrl.simulate.compiled.player import CompiledPlayer

__all__ = ["CompiledPlayer", "compiled_player", "why_not_compiled"]
