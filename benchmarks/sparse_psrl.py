"""PSRL that draws only those entries of P that are not negligible, for tables with hundreds of states."""

from __future__ import annotations

import math

import numpy as np

from matrixrl.algorithms.baselines import PSRL
from matrixrl.records import FloatArray

LEAST = 1e-20
"""Gamma variables below this are set to 0. A row sums to about 0.5 or more, so its digits do not change."""


class SparsePSRL(PSRL):
    r"""PSRL with the same posterior, whose draws cost the number of next states seen and not S.

    A next state that was never seen has a Gamma(α) variable with α = prior / S, nearly always below `LEAST`. Those that
    are above are drawn directly: the density :math:`x^{\alpha-1}e^{-x}/\Gamma(\alpha)` is at most 1/(xΓ(α)) below 1 and
    :math:`e^{-x}/\Gamma(\alpha)` above, so every entry is proposed with the probability of that envelope, and a
    proposal is kept with the probability of the ratio. `LEAST` is the only approximation.
    """

    def draw_transitions(self) -> FloatArray:
        """Draw P from its posterior: (B, P, S)."""
        alpha = self.settings.prior / self.task.n_states
        masses = np.array([-math.log(LEAST), math.exp(-1.0)]) / math.gamma(alpha)
        if masses.sum() > 0.5:  # few states: every entry counts
            return super().draw_transitions()
        counts = self.model.transitions
        draws = np.zeros(counts.shape)
        for b, rng in enumerate(self.streams["agent"]):
            flat, seen = draws[b].reshape(-1), counts[b].reshape(-1)
            places, values = unseen_entries(flat.size, alpha, masses, rng)
            flat[places] = values
            visited = np.flatnonzero(seen)
            flat[visited] = rng.standard_gamma(seen[visited] + alpha)
            lost = np.flatnonzero(draws[b].sum(axis=1) == 0.0)
            draws[b, lost, rng.integers(counts.shape[2], size=lost.size)] = 1.0
        draws /= draws.sum(axis=2, keepdims=True)
        return draws


def unseen_entries(
    size: int, alpha: float, masses: FloatArray, rng: np.random.Generator
) -> tuple[np.ndarray, FloatArray]:
    """Return positions and values of those of `size` independent Gamma(α) variables that are above `LEAST`.

    Args:
        size: Number of variables.
        alpha: α, small.
        masses: Masses of the envelope below and above 1, which sum to at most 1.
        rng: Random generator.
    """
    chance = float(masses.sum())
    expected = size * chance
    places = np.empty(0, dtype=np.int64)
    last = -1
    while last < size:  # gaps between successes of independent trials are geometric
        steps = rng.geometric(chance, size=int(expected + 6.0 * math.sqrt(expected) + 10.0))
        more = last + np.cumsum(steps)
        places, last = np.concatenate([places, more]), int(more[-1])
    places = places[places < size]
    uniforms = rng.random((3, places.size))
    below = uniforms[0] < masses[0] / chance
    values = np.where(below, LEAST ** uniforms[1], 1.0 - np.log1p(-uniforms[1]))
    kept = uniforms[2] < np.where(below, values**alpha * np.exp(-values), values ** (alpha - 1.0))
    return places[kept], values[kept]
