"""Backward induction compiled with numba (the extra `fast`); its plans are those of the NumPy version."""

from __future__ import annotations

from matrixrl.core.compiled.arguments import fill_in_compiled, has_compiled_form

__all__ = ["fill_in_compiled", "has_compiled_form"]
