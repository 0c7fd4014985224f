"""The compiled backup (numba, the extra `fast`): the same plans as NumPy, in one call.

numba is imported only when compiled loops are used: it takes half a second and may not be installed.
"""

from __future__ import annotations

from matrixrl.core.compiled.arguments import fill_in_compiled, has_compiled_form
from matrixrl.core.compiled.availability import pays_off, to_compile, why_not_usable

__all__ = ["fill_in_compiled", "has_compiled_form", "pays_off", "to_compile", "why_not_usable"]
