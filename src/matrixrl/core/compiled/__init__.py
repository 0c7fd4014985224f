"""Backward induction compiled with numba (the extra `fast`); its plans are those of the NumPy version."""
