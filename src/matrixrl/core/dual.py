"""The dual form of MatrixRL (YW19 Algorithm 2): kernel values alone, one row for each distinct pair."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import GRAM_RANK

__all__ = ["DualEstimate", "effective_dimension", "hat_projection"]

_GREEDY = 300  # pairs that are chosen one by one


def hat_projection(gram_psi: FloatArray) -> FloatArray:
    """Return the projection on the range of k_ψ: GG⁺, the identity where it has full rank (E3)."""
    eigenvalues, vectors = np.linalg.eigh(gram_psi)
    basis = vectors[:, eigenvalues > GRAM_RANK * eigenvalues[-1]]
    hat: FloatArray = basis @ basis.T
    return hat


class DualEstimate:
    r"""Widths and predictions after some transitions, by kernel values only.

    With one row for each distinct pair, counts n and mean targets ȳ,
    \(w^2 = (k(x,x) - k^\top (K + \lambda N^{-1})^{-1} k)/\lambda\) and the prediction of PV at x is
    \(k^\top (K + \lambda N^{-1})^{-1} \bar y\): what repeated rows would give, at the cost of distinct ones.

    Args:
        gram_phi: (P, P) k_φ of all pairs.
        pairs: (t,) the pairs that were visited.
        next_states: (t,) where they led.
        gram_psi: (S, S) k_ψ of all states.
        ridge: λ.
    """

    def __init__(
        self,
        gram_phi: FloatArray,
        pairs: IntArray,
        next_states: IntArray,
        gram_psi: FloatArray,
        *,
        ridge: float = 1.0,
    ) -> None:
        self._gram, self._ridge = gram_phi, ridge
        self._hat = hat_projection(gram_psi)
        self.distinct, place, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        inner = gram_phi[np.ix_(self.distinct, self.distinct)] + ridge * np.diag(1.0 / counts)
        self._factor = cho_factor(inner, lower=True)
        self._across = gram_phi[self.distinct]
        self._mean = np.zeros((len(self.distinct), len(gram_psi)))
        np.add.at(self._mean, (place, next_states), 1.0)
        self._mean /= counts[:, None]
        kernel = gram_phi[np.ix_(pairs, pairs)]
        self.logdet = float(np.linalg.slogdet(np.eye(len(pairs)) + kernel / ridge)[1])

    def width_sq(self) -> FloatArray:
        """Return w² of every pair: (P,)."""
        solved = cho_solve(self._factor, self._across)
        widths: FloatArray = (np.diagonal(self._gram) - (self._across * solved).sum(axis=0)) / self._ridge
        return widths

    def predict(self, values: FloatArray) -> FloatArray:
        """Return the estimate of PV at every pair: (S,) → (P,)."""
        predicted: FloatArray = self._across.T @ cho_solve(self._factor, self._mean @ (self._hat @ values))
        return predicted


def effective_dimension(rows: FloatArray, *, most: int) -> float:
    r"""Return about \(\sup_{t \le T} \ln\det(I + K_{X_t}) / \ln(1+t)\) (YW19 section 4).

    Up to a few hundred pairs the sets are chosen greedily, the widest pair first; beyond, for t on a grid up to T,
    pairs are repeated in shares that a few steps towards a D-optimal design choose. Every such set (its shares
    rounded) is a candidate of the supremum, so this is an estimate from below.

    Args:
        rows: (P, d) features of the pairs, in any coordinates with the right inner products.
        most: T, the largest size of a set.

    >>> round(effective_dimension(np.eye(3), most=1), 6)  # ln 2 / ln 2
    1.0
    """
    inverse, widths = np.eye(rows.shape[1]), np.vecdot(rows, rows)
    logdet, best = 0.0, 0.0
    for t in range(1, min(most, _GREEDY) + 1):
        x = int(widths.argmax())
        if widths[x] <= 1e-12:
            return best
        logdet += float(np.log1p(widths[x]))
        best = max(best, float(logdet / np.log1p(t)))
        direction = inverse @ rows[x] / np.sqrt(1.0 + widths[x])
        inverse -= np.outer(direction, direction)
        widths = np.maximum(widths - (rows @ direction) ** 2, 0.0)
    shares = np.full(len(rows), 1.0 / len(rows))
    if most > _GREEDY:
        for t in np.geomspace(_GREEDY, most, 10):
            for _ in range(4):
                matrix = np.eye(rows.shape[1]) + t * (rows * shares[:, None]).T @ rows
                leverage = np.vecdot(rows @ np.linalg.inv(matrix), rows)
                shares *= leverage
                shares /= shares.sum()
            matrix = np.eye(rows.shape[1]) + t * (rows * shares[:, None]).T @ rows
            best = max(best, float(np.linalg.slogdet(matrix)[1] / np.log1p(t)))
    return best
