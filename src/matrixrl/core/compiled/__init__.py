"""Backward induction compiled with numba; its plans are those of the NumPy version."""
