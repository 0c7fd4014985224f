"""The dual form of MatrixRL (YW19 Algorithm 2): kernel values only, one row for each distinct pair."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import GRAM_RANK

__all__ = ["DualEstimate", "effective_dimension", "hat_projection"]

_GREEDY = 300  # largest number of pairs that are chosen one by one


def hat_projection(gram_psi: FloatArray) -> FloatArray:
    """Return the orthogonal projection (S, S) on the range of the Gram matrix of k_ψ (S, S) (E3)."""
    eigenvalues, vectors = np.linalg.eigh(gram_psi)
    basis = vectors[:, eigenvalues > GRAM_RANK * eigenvalues[-1]]
    hat: FloatArray = basis @ basis.T
    return hat


class DualEstimate:
    r"""Widths and predictions from the steps of some episodes, computed with kernel values only.

    There is one row for each distinct pair. With the diagonal matrix N of the numbers of visits and the mean targets ȳ,
    \(w^2 = (k(x,x) - k^\top (K + \lambda N^{-1})^{-1} k)/\lambda\), and the prediction of PV at x is
    \(k^\top (K + \lambda N^{-1})^{-1} \bar y\). Both are equal to the results with one row for each step.

    Args:
        gram_phi: (P, P) k_φ of all pairs.
        pairs: (t,) Visited pairs.
        next_states: (t,) Next states.
        gram_psi: (S, S) k_ψ of all states.
        ridge: Ridge parameter λ.

    Attributes:
        distinct: Distinct visited pairs, in increasing order.
        logdet: ln det(I + K/λ) over all t steps.
    """

    def __init__(
        self, gram_phi: FloatArray, pairs: IntArray, next_states: IntArray, gram_psi: FloatArray, *, ridge: float = 1.0
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
        """Return the squared widths w² (P,) of all pairs."""
        solved = cho_solve(self._factor, self._across)
        widths: FloatArray = (np.diagonal(self._gram) - (self._across * solved).sum(axis=0)) / self._ridge
        return widths

    def predict(self, values: FloatArray) -> FloatArray:
        """Return the estimates (P,) of PV at all pairs for values (S,)."""
        predicted: FloatArray = self._across.T @ cho_solve(self._factor, self._mean @ (self._hat @ values))
        return predicted


def effective_dimension(rows: FloatArray, *, most: int) -> float:
    r"""Return an estimate of \(\sup_{t \le T} \ln\det(I + K_{X_t}) / \ln(1+t)\) from below (YW19 section 4).

    Up to t = 300, sets of pairs are chosen greedily: the pair with the largest width is added next. For t on a grid
    from 300 to T, pairs are repeated in proportions that a few multiplicative steps towards the largest determinant
    choose. Apart from rounding the proportions, every such set is a candidate of the supremum.

    Args:
        rows: (P, d) Features of the pairs, in any coordinates with the same inner products.
        most: Largest size T of a set.

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
