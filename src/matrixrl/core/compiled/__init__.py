"""Backward induction compiled with numba (the extra `fast`); its plans are those of the NumPy version.

numba is imported only when compiled loops are used, because the import takes half a second and numba is optional.
"""

from __future__ import annotations

from matrixrl.core.compiled.arguments import by_pairs, fill_in_compiled, has_compiled_form
from matrixrl.core.compiled.availability import pays_off, to_compile, why_not_usable

__all__ = ["by_pairs", "fill_in_compiled", "has_compiled_form", "pays_off", "to_compile", "why_not_usable"]
