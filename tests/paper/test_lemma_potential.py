"""The potential lemmas along real runs: Σ min(1, w²) against ln det A, with both widths of the paper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrixrl.algorithms import UCMatrixRL
from matrixrl.envs import LinearMDP, RiverSwim
from matrixrl.play import Simulation


class RecordingMatrixRL(UCMatrixRL):
    """Keeps w² of every pair at the moment it is played (the paper's w_{n,h}) and the pairs themselves."""

    def begin(self) -> None:
        super().begin()
        self.played: list[np.ndarray] = []
        self.pairs: list[np.ndarray] = []

    def learn(self, steps):
        pairs = self.features.phi.pairs(steps.states, steps.actions)
        self.played.append(np.take_along_axis(self.model.design.width_sq, pairs, axis=1)[0])
        self.pairs.append(pairs[0])
        super().learn(steps)


@pytest.mark.parametrize("env", [RiverSwim(6, 24), LinearMDP(n_states=40, d=6, horizon=9)])
@pytest.mark.parametrize("preset", ["optimistic", "tuned"])
def test_sum_of_widths_is_below_the_log_determinant_along_a_run(env, preset):
    simulation = Simulation(env, n_episodes=300, seeds=[0], agent=RecordingMatrixRL(preset=preset), compiled=False)
    simulation.run()
    recorder = simulation.algorithm
    assert len(recorder.played) == 300
    horizon, d = env.mdp.horizon, env.mdp.features.phi.d
    ridge = recorder.settings.ridge
    c_phi = env.mdp.features.phi.max_norm_sq / (ridge * d)  # the lemma for features φ/√λ
    total = np.minimum(1.0, np.concatenate(recorder.played)).sum()
    logdet = recorder.model.design.logdet[0]
    assert total <= 2 * horizon * logdet
    assert 2 * horizon * logdet <= 2 * horizon * d * np.log(300 * horizon * c_phi + 1)

    # The within-episode version: A_{n,h} takes in every step at once, and no factor H is lost.
    rows = env.mdp.features.phi.rows(np.concatenate(recorder.pairs))
    inverse, fresh = np.eye(d) / ridge, 0.0
    for phi in rows:
        solved = inverse @ phi
        width_sq = float(phi @ solved)
        fresh += min(1.0, width_sq)
        inverse -= np.outer(solved, solved) / (1.0 + width_sq)
    assert fresh <= 2 * logdet


@given(st.integers(0, 10_000))
def test_determinant_grows_by_the_product_of_one_plus_width(seed):
    """det A_{t+1} = det A_t (1 + w̃²): the identity under both lemmas."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((12, 4))
    matrix, product = np.eye(4), 0.0
    for phi in rows:
        product += np.log1p(phi @ np.linalg.solve(matrix, phi))
        matrix += np.outer(phi, phi)
    assert product == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-10)
