"""docs/proofs.md, 3 and 5: the evidence against a radius has mean at most one, by enumeration of all data.

A radius that fails with probability δ can be read backwards: for given data, 1/δ* is the evidence that makes it just
fail. The proofs bound the mean of 1/δ*, summed over everything that shares one δ, by 1. For data of up to 8 steps every
sequence is listed with its probability, so these means are exact. They are close to 1 for fair coins, so a radius whose
noise term, log-determinant or share of δ is a little too small gives a mean above 1, and one that is a little too large
a mean well below.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from matrixrl.core import Clock, Confidence
from matrixrl.core.sets import NormalisedBall
from matrixrl.features import Features, OneHotPhi, OneHotPsi, TablePhi, TablePsi

RIDGE = 4.0
MIXED = TablePhi(np.array([[[1.0, 0.0], [0.6, 0.8]], [[0.8, -0.6], [0.0, 1.0]]]))  # one block, four pairs
PSI = {
    "one-hot ψ": OneHotPsi(2),
    "long ψ": TablePsi(np.array([[3.0, 1.0], [1.0, 2.0]])),  # K_ψ⁻¹ψ(s) is neither a unit vector nor centred
}


def confidence_of(phi, psi, radius, *, known_reward=True):
    return Confidence.of(
        Features(phi, psi),
        NormalisedBall(radius=radius),
        ridge=RIDGE,
        exploration=1.0,
        delta=0.5,
        known_reward=known_reward,
        horizon=4,
    )


class AllRuns:
    """Every sequence of two outcomes for pairs that depend on the outcomes before, with its probability."""

    def __init__(self, phi, n_steps, chance):
        self.outcomes = np.array(list(itertools.product((0, 1), repeat=n_steps)))
        before = np.cumsum(self.outcomes, axis=1) - self.outcomes
        self.pairs = before % 2 * 3  # pair 0 or 3: known before the step, but not in advance
        p = np.where(self.pairs == 0, chance, 1.0 - chance)
        self.probability = np.where(self.outcomes == 1, p, 1.0 - p).prod(axis=1)
        self.surprise = self.outcomes - p  # (B, n), mean 0 given the past
        self.rows = phi.rows(self.pairs.ravel()).reshape(*self.pairs.shape, phi.d)
        self.design = phi.design(len(self.outcomes), ridge=RIDGE)
        self.design.update(self.pairs, np.ones(self.pairs.shape))

    def deviations(self, difference):
        """Return ‖A^{-1/2}Σφηᵀ‖ (B,) for η = surprise · difference, from the data alone; and per pair, (B, P)."""
        moment = np.einsum("bnd,bn->bd", self.rows, self.surprise)  # Σφηᵀ has rank one: moment · differenceᵀ
        matrix = RIDGE * np.eye(self.rows.shape[2]) + np.einsum("bnd,bne->bde", self.rows, self.rows)
        along = np.einsum("bd,bd->b", moment, np.linalg.solve(matrix, moment[:, :, None])[:, :, 0])
        by_pair = np.abs(moment) / np.sqrt(np.einsum("bdd->bd", matrix))  # of one-hot pairs
        length = np.linalg.norm(difference)
        return np.sqrt(along) * length, by_pair * length

    def mean(self, evidence):
        return float(self.probability @ evidence)


def evidence(radius_at, deviation):
    """Return 1/δ*, where radius_at(δ*) = deviation, for a radius L√(2 ln(1/δ) + c) with any L and c."""
    high, low = radius_at(0.5) ** 2, radius_at(0.01) ** 2
    scale_sq = (low - high) / (2.0 * np.log(0.5 / 0.01))
    return np.exp((deviation**2 - high) / (2.0 * scale_sq)) / 0.5


@pytest.mark.parametrize("n_steps", [1, 4, 8])
@pytest.mark.parametrize("chance", [0.5, 0.2])
@pytest.mark.parametrize("psi", PSI)
@pytest.mark.parametrize("radius", ["self-normalised", "block"])
def test_one_radius_for_all_features(radius, psi, chance, n_steps):
    runs = AllRuns(MIXED, n_steps, chance)
    confidence = confidence_of(MIXED, PSI[psi], radius)
    targets = PSI[psi].table @ np.linalg.inv(PSI[psi].table.T @ PSI[psi].table)
    deviation, _ = runs.deviations(targets[1] - targets[0])
    bias = confidence.regularity.core_norm

    def noise(delta):
        given = replace(confidence, delta=delta)
        return given.radii(runs.design, Clock(1, None)).models[:, 0] - bias

    found = runs.mean(evidence(noise, deviation))
    assert found <= 1.0
    assert found > (0.9 if chance == 0.5 else 0.7)


@pytest.mark.parametrize("n_steps", [1, 4, 8])
@pytest.mark.parametrize("chance", [0.5, 0.2])
@pytest.mark.parametrize("psi", PSI)
def test_one_radius_for_each_pair_shares_one_delta(psi, chance, n_steps):
    """Σ over the K = 4 pairs: each has δ/4, also a pair that is never visited."""
    phi = OneHotPhi(2, 2)
    runs = AllRuns(phi, n_steps, chance)
    confidence = confidence_of(phi, PSI[psi], "block")
    targets = PSI[psi].table @ np.linalg.inv(PSI[psi].table.T @ PSI[psi].table)
    _, deviation = runs.deviations(targets[1] - targets[0])
    counts = runs.design.counts
    bias = RIDGE * np.linalg.norm(targets, axis=1).max() / np.sqrt(RIDGE + counts)

    def noise(delta):
        given = replace(confidence, delta=delta)
        return given.radii(runs.design, Clock(1, None)).models - bias

    visited = counts > 0
    high = np.where(visited, noise(0.5), 0.0)
    assert (noise(0.5)[~visited] <= 1e-12).all()  # there is no noise without data
    low = np.where(visited, noise(0.01), 0.0)
    at = {0.5: np.where(visited, high, 1.0), 0.01: np.where(visited, low, 2.0)}
    each = np.where(visited, evidence(at.get, deviation), 0.25)  # without data δ* is δ/4 and nothing is lost
    found = runs.mean(each.sum(axis=1))
    assert found <= 1.0
    assert found > (0.9 if chance == 0.5 else 0.7)


@pytest.mark.parametrize("radius", ["self-normalised", "block"])
@pytest.mark.parametrize("chance", [0.5, 0.2])
def test_learned_rewards_and_transitions_share_one_delta(radius, chance):
    """0/1 rewards that are the outcomes: their noise is ½-sub-Gaussian, and each of the two has δ/2."""
    runs = AllRuns(MIXED, 8, chance)
    confidence = confidence_of(MIXED, OneHotPsi(2), radius, known_reward=False)
    of_models, _ = runs.deviations(np.array([1.0, -1.0]))
    of_rewards, _ = runs.deviations(np.array([1.0]))

    def radii(delta):
        return replace(confidence, delta=delta).radii(runs.design, Clock(1, None))

    models = evidence(lambda d: radii(d).models[:, 0] - confidence.regularity.core_norm, of_models)
    rewards = evidence(lambda d: radii(d).rewards[:, 0] - confidence.reward_regularity.core_norm, of_rewards)
    for found in (runs.mean(models), runs.mean(rewards)):
        assert found <= 0.5
        assert found > 0.5 * (0.9 if chance == 0.5 else 0.7)


def test_the_enumeration_would_find_a_noise_term_that_is_too_small():
    """Ten per cent less noise, and the mean of the evidence of fair coins is above 1."""
    runs = AllRuns(MIXED, 8, 0.5)
    confidence = confidence_of(MIXED, OneHotPsi(2), "self-normalised")
    deviation, _ = runs.deviations(np.array([1.0, -1.0]))

    def smaller(delta):
        given = replace(confidence, delta=delta)
        return 0.9 * (given.radii(runs.design, Clock(1, None)).models[:, 0] - confidence.regularity.core_norm)

    assert runs.mean(evidence(smaller, deviation)) > 1.0
