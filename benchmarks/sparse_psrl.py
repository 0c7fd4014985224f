"""PSRL that draws only those entries of P that are not negligible, for tables with hundreds of states."""

from __future__ import annotations

import math

import numpy as np

from matrixrl.algorithms.baselines import PSRL
from matrixrl.algorithms.baselines.psrl import LEAST, unseen_entries
from matrixrl.records import FloatArray


class SparsePSRL(PSRL):
    r"""PSRL with the same posterior, whose draws cost the number of next states seen and not S.

    The library draws this way where it keeps lists of next states; here the draws of a table are the same for problems
    of any size, so that the published runs can be repeated.
    """

    largest_table = None

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
            places, values = unseen_entries(flat.size, alpha, rng)
            flat[places] = values
            visited = np.flatnonzero(seen)
            flat[visited] = rng.standard_gamma(seen[visited] + alpha)
            lost = np.flatnonzero(draws[b].sum(axis=1) == 0.0)
            draws[b, lost, rng.integers(counts.shape[2], size=lost.size)] = 1.0
        draws /= draws.sum(axis=2, keepdims=True)
        return draws
