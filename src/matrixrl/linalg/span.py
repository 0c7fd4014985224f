"""The span of feature vectors: which directions they use, decided by singular values and never by a Gram matrix.

An eigenvalue of ΦᵀΦ is the square of a singular value of Φ, so a direction with a relative singular value of 1e-8 is
lost in the rounding errors of the Gram matrix, and is exact to eight digits in a QR factorisation of Φ.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from matrixrl.records import FloatArray, IntArray

__all__ = ["Span", "exact_rank", "rounding_level", "span_of", "span_of_chunks"]

_CHUNK = 1 << 14  # number of rows that are factorised together
_PRIME = (1 << 31) - 1  # products of two residues fit into 63 bits


class Span(NamedTuple):
    """The directions that the rows of a matrix use.

    Attributes:
        basis: (d, r) Orthonormal directions, r the rank.
        singular_values: (r,) Singular values above the rounding level, largest first.
    """

    basis: FloatArray
    singular_values: FloatArray

    @property
    def rank(self) -> int:
        """Number of directions r."""
        return len(self.singular_values)


def rounding_level(shape: tuple[int, ...], largest: float) -> float:
    """Return the level below which a singular value is a rounding error, as in `numpy.linalg.matrix_rank`."""
    return float(max(shape) * np.finfo(np.float64).eps * largest)


def span_of(rows: FloatArray) -> Span:
    """Return the directions that the rows use; only directions at the rounding level of singular values are left out.

    >>> span_of(np.array([[1.0, 0.0], [1.0, 9e-8]])).rank, span_of(np.ones((3, 2))).rank
    (2, 1)
    """
    return span_of_chunks(rows[first : first + _CHUNK] for first in range(0, len(rows), _CHUNK))


def span_of_chunks(chunks: Iterable[FloatArray]) -> Span:
    """Return the directions that the rows of all chunks (k, d) use; one chunk at a time is in memory."""
    factor: FloatArray | None = None
    n_rows = 0
    for chunk in chunks:
        stacked = chunk if factor is None else np.concatenate([factor, chunk])
        factor = np.asarray(np.linalg.qr(stacked, mode="r"), dtype=np.float64)
        n_rows += len(chunk)
    assert factor is not None
    _, values, directions = np.linalg.svd(factor, full_matrices=False)
    kept = values > rounding_level((n_rows, factor.shape[1]), float(values[0]))
    return Span(directions[kept].T, values[kept])


def exact_rank(rows: FloatArray) -> int:
    """Return the rank of a matrix whose entries are taken as the exact numbers that float64 holds.

    Elimination modulo a prime: the result is never above the rank, and below it with a probability of about 1e-9 per
    direction. It tells linearly dependent columns from columns that differ by less than rounding.

    >>> tiny = np.array([[1.0, 0.0], [1.0, 1e-20]])
    >>> span_of(tiny).rank, exact_rank(tiny), exact_rank(np.ones((3, 2)))
    (1, 2, 1)
    """
    basis = np.empty((0, rows.shape[1]), dtype=np.int64)
    for first in range(0, len(rows), _CHUNK):
        basis = _echelon(np.concatenate([basis, _residues(rows[first : first + _CHUNK])]))
    return len(basis)


def _residues(rows: FloatArray) -> IntArray:
    """Return float64 numbers m·2^e modulo the prime, as they are exactly."""
    mantissa, exponent = np.frexp(rows)
    whole = (mantissa * 2.0**53).astype(np.int64)
    exponents, where = np.unique(exponent, return_inverse=True)
    powers = np.array([pow(2, int(e) - 53, _PRIME) for e in exponents], dtype=np.int64)
    found: IntArray = (whole % _PRIME) * powers[where].reshape(rows.shape) % _PRIME
    return found


def _echelon(matrix: IntArray) -> IntArray:
    """Return the rows of the echelon form of a matrix modulo the prime that are not zero."""
    rank = 0
    for j in range(matrix.shape[1]):
        candidates = np.flatnonzero(matrix[rank:, j])
        if not len(candidates):
            continue
        pivot = rank + int(candidates[0])
        matrix[[rank, pivot]] = matrix[[pivot, rank]]
        matrix[rank] = matrix[rank] * pow(int(matrix[rank, j]), -1, _PRIME) % _PRIME
        below = matrix[rank + 1 :]
        below[:, j:] = (below[:, j:] - below[:, j : j + 1] * matrix[rank, j:]) % _PRIME
        rank += 1
    return matrix[:rank]
