"""Loops that play whole episodes, compiled with numba."""
