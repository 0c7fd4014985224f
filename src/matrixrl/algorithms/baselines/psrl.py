"""Posterior sampling (PSRL): play the best policy of a model drawn from Dirichlet laws, as a table or sparse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from matrixrl.algorithms.baselines.base import POSITIVE, Baseline, BaselineSettings, Presets
from matrixrl.algorithms.baselines.tabular_model import PairCounts
from matrixrl.linalg import OutcomeCounts
from matrixrl.records import FloatArray, IntArray, Plan
from matrixrl.settings import setting

__all__ = ["LEAST", "PSRL", "draw_distributions", "draw_expectation", "unseen_entries"]

LEAST = 1e-20
"""Gamma variables below this are set to 0. A row sums to about 0.5 or more, so its digits do not change."""

_MANY = 0.5  # share of unseen entries from which on all of them are drawn


@dataclass(frozen=True)
class PSRLSettings(BaselineSettings):
    """Settings of PSRL."""

    prior: float = setting(
        1.0,
        "Number of visits that the symmetric Dirichlet prior on every row of P counts for: α = prior / S for each next "
        "state.",
        POSITIVE,
    )
    reward_prior: float = setting(
        1.0, "Both parameters of the Beta prior on every expected reward, where rewards are unknown.", POSITIVE
    )

    # Section 6 of the paper: α = 1/S for transitions. Its rewards are Gaussian with a normal-gamma prior; ours are in
    # [0, 1], where the uniform Beta(1, 1) is the counterpart.
    PRESETS: ClassVar[Presets] = {"paper": {}, "tuned": {"prior": 0.5, "reward_prior": 0.3}}


class PSRL(Baseline):
    """Posterior sampling for reinforcement learning (Osband, Russo and Van Roy 2013, Algorithm 1).

    Each episode draws P from its Dirichlet posterior and, where they are unknown, expected rewards from Beta
    posteriors, and plays the best policy of the draw. Rewards in [0, 1] that are not 0 or 1 enter the Beta posterior as
    parts of a success.

    >>> from matrixrl.problems import Problem, tabular
    >>> psrl = PSRL().start(Problem.of(tabular(n_states=3, horizon=4).mdp), seeds=[0])
    >>> psrl.plan().values.shape
    (1, 5, 3)
    """

    name = "psrl"
    settings_class = PSRLSettings
    settings: PSRLSettings
    model: PairCounts

    # Theorem 1
    no_proof = "the paper bounds the regret averaged over problems drawn from the prior, not that of one problem"

    def draw_transitions(self) -> FloatArray:
        """Draw P from its posterior as a table: (B, P, S)."""
        weights = self.model.transitions + self.settings.prior / self.task.n_states
        return draw_distributions(weights, self.streams["agent"])

    def _draw_expectation(self) -> Callable[[FloatArray], FloatArray]:
        """Draw P from its posterior and return the product with it, (B, S) → (B, A, S); 0 where it is not needed."""
        model, shape = self.model, self.model.shape
        if model.lists is None:
            table = self.draw_transitions()
            return lambda values: np.matmul(table, values[:, :, None]).reshape(shape)
        pairs, alpha = self._drawn_pairs(), self.settings.prior / self.task.n_states
        product = draw_expectation(model.lists, alpha, pairs, self.streams["agent"])

        def expect(values: FloatArray) -> FloatArray:
            expected = np.zeros(model.counts.shape)
            expected[:, pairs] = product(values)
            return expected.reshape(shape)

        return expect

    def draw_rewards(self) -> FloatArray:
        """Draw expected rewards from their posterior: (B, A, S); 0 where they are not needed."""
        model, prior, pairs = self.model, self.settings.reward_prior, self._drawn_pairs()
        successes = prior + model.reward_sums[:, pairs]
        failures = prior + np.maximum(model.counts[:, pairs] - model.reward_sums[:, pairs], 0.0)
        draws = np.zeros(model.counts.shape)
        for b, rng in enumerate(self.streams["agent"]):
            draws[b, pairs] = rng.beta(successes[b], failures[b])
        return draws.reshape(model.shape)

    def _drawn_pairs(self) -> IntArray:
        """Return the pairs whose rewards and, where next states are lists, laws are drawn."""
        if self.frame.allowed is None or self.model.lists is None:
            return np.arange(self.model.counts.shape[1])
        return np.flatnonzero(self.frame.allowed)

    def make_plan(self) -> Plan:
        """Draw a model and return its best plan (Algorithm 1, lines 3 and 4)."""
        expect = self._draw_expectation()
        reward = self.unit_reward if self.settings.known_reward else self.draw_rewards()
        return self.induct(lambda _, values: expect(values) + reward)


def draw_distributions(weights: FloatArray, rngs: Sequence[np.random.Generator]) -> FloatArray:
    """Draw one distribution from the Dirichlet law of each row of positive weights: (B, n, S) → (B, n, S).

    >>> draw_distributions(np.array([[[1e9, 1e9]]]), [np.random.default_rng(0)]).round(3)
    array([[[0.5, 0.5]]])
    """
    draws = np.empty(weights.shape)
    for b, rng in enumerate(rngs):
        rng.standard_gamma(weights[b], out=draws[b])
    total = draws.sum(axis=2, keepdims=True)
    lost = total[:, :, 0] < np.finfo(np.float64).tiny
    for b in np.flatnonzero(lost.any(axis=1)).tolist():
        # All of a row underflowed, so every weight is tiny; such a Dirichlet law puts all on one state, which is
        # state i with probability proportional to weight i.
        rows = np.flatnonzero(lost[b])
        chances = np.cumsum(weights[b, rows], axis=1)
        level = rngs[b].random((rows.size, 1)) * chances[:, -1:]
        draws[b, rows] = 0.0
        draws[b, rows, np.minimum((chances <= level).sum(axis=1), weights.shape[2] - 1)] = 1.0
        total[b, rows] = 1.0
    draws /= total
    return draws


def draw_expectation(
    counts: OutcomeCounts, alpha: float, pairs: IntArray, rngs: Sequence[np.random.Generator]
) -> Callable[[FloatArray], FloatArray]:
    r"""Draw P of some pairs from its posterior and return the product with it, (B, S) → (B, n).

    A row with counts c has the law Dirichlet(c + α): independent Gamma variables divided by their sum. Those of next
    states that were seen are drawn for each of them. A next state that was not seen has a Gamma(α) variable; with
    α = prior / S nearly all of them are below `LEAST`, and `unseen_entries` draws only the others. `LEAST` is the only
    difference from a draw of all entries, and it changes no digit of a row. Pairs are in ascending order.
    """
    seen, n_states = counts.seen, counts.n_outcomes
    replicas, rows = np.divmod(seen.ids, counts.n_rows)
    row_of = np.full(counts.n_rows, -1)
    row_of[pairs] = np.arange(len(pairs))
    drawn = []
    for b, rng in enumerate(rngs):
        mine = (replicas == b) & (row_of[rows] >= 0)
        entries = mine[seen.places]
        codes = row_of[rows[seen.places[entries]]] * n_states + seen.outcomes[entries]
        weights = rng.standard_gamma(seen.times[entries] + alpha)
        places, values = unseen_entries(len(pairs) * n_states, alpha, rng)
        found = np.searchsorted(codes, places)
        known = found < len(codes)
        known[known] = codes[found[known]] == places[known]
        places, values = places[~known], values[~known]
        parts = [_matrix(codes, weights, len(pairs), n_states), _matrix(places, values, len(pairs), n_states)]
        total = np.sum([np.asarray(part.sum(axis=1)).ravel() for part in parts], axis=0)
        lost = np.flatnonzero(total == 0.0)  # the law of a row of tiny weights puts all on one state
        if lost.size:
            alone = lost * n_states + rng.integers(n_states, size=lost.size)
            parts.append(_matrix(alone, np.ones(lost.size), len(pairs), n_states))
            total[lost] = 1.0
        drawn.append((parts, total))

    def expect(values: FloatArray) -> FloatArray:
        each = zip(drawn, values, strict=True)
        return np.stack([sum(part @ mine for part in parts) / total for (parts, total), mine in each])

    return expect


def _matrix(codes: IntArray, weights: FloatArray, n_rows: int, n_states: int) -> sparse.csr_array:
    """Return the matrix (n, S) of entries that are sorted by row times S plus column."""
    rows, columns = np.divmod(codes, n_states)
    firsts = np.searchsorted(rows, np.arange(n_rows + 1))
    return sparse.csr_array((weights, columns, firsts), shape=(n_rows, n_states))


def unseen_entries(size: int, alpha: float, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    r"""Return positions and values of those of `size` independent Gamma(α) variables that are above `LEAST`.

    The density :math:`x^{\alpha-1}e^{-x}/\Gamma(\alpha)` is at most 1/(xΓ(α)) below 1 and
    :math:`e^{-x}/\Gamma(\alpha)` above, so every entry is proposed with the probability of that envelope, and a
    proposal is kept with the probability of the ratio. If that probability is large, all entries are drawn.
    """
    masses = np.array([-math.log(LEAST), math.exp(-1.0)]) / math.gamma(alpha)  # of the envelope below and above 1
    chance = float(masses.sum())
    if chance > _MANY:
        values = rng.standard_gamma(alpha, size=size)
        places = np.flatnonzero(values > LEAST)
        return places, values[places]
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
