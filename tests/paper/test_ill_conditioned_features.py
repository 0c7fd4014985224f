"""docs/proofs.md, 4: a direction of φ or ψ is left out only if it is a rounding error, or nothing is proven."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from matrixrl import FiniteMDP, KernelMatrixRL, MatrixRL, Task, make
from matrixrl.algorithms import UCMatrixRL
from matrixrl.core import regularity
from matrixrl.features import (
    Features,
    FunctionPhi,
    OneHotPsi,
    SparsePsi,
    TablePhi,
    TablePsi,
    kernel_features,
    transformer_features,
)
from matrixrl.features.phi import design_eigenvalue
from matrixrl.problems import Problem
from matrixrl.records import Steps

HORIZON = 10
SIZES = [1.0, 1e-3, 1e-6, 9e-8, 1e-10, 1e-13]


def switch() -> FiniteMDP:
    """Two states: action a leads to state a, and every step in state 1 pays 1; V*(0) = 9."""
    transitions = np.zeros((2, 2, 2))
    transitions[:, 0, 0] = transitions[:, 1, 1] = 1.0
    return FiniteMDP(transitions, [[0.0, 0.0], [1.0, 1.0]], HORIZON, start=[1.0, 0.0])


def nearly_equal(size: float) -> np.ndarray:
    """φ(s, 0) = (1, 0) and φ(s, 1) = (1, size): they represent every P of the world above."""
    table = np.zeros((2, 2, 2))
    table[:, :, 0], table[:, 1, 1] = 1.0, size
    return table


def certificate(features: Features, episodes: int = 60, **settings):
    """Return the certificate of an agent that has tried both actions equally often."""
    algorithm = UCMatrixRL(**settings).start(Problem.of(switch(), features), [0])
    actions = np.arange(HORIZON)[None] % 2
    states = np.concatenate([[[0]], actions[:, :-1]], axis=1)
    for _ in range(episodes):
        algorithm.update(Steps.of(states, actions, (states == 1).astype(float), actions))
    found = algorithm.certifier.certify(algorithm.plan())
    return float(found.lower[0]), float(found.upper[0]), algorithm.claims.certificate(bool(found.empty[0]))


MAPS = {
    "table": nearly_equal,
    "function": lambda size: FunctionPhi(lambda states: nearly_equal(size)[states], 2, 2),
    "unused third feature": lambda size: np.concatenate([nearly_equal(size), np.zeros((2, 2, 1))], axis=2),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", MAPS)
def test_a_certificate_holds_the_truth_however_close_two_features_are(kind, size):
    made = MAPS[kind](size)
    phi = made if isinstance(made, FunctionPhi) else TablePhi(made)
    lower, upper, words = certificate(Features(phi, OneHotPsi(2)))
    assert words.holds
    assert lower <= 9.0 + 1e-9
    assert upper >= 9.0 - 1e-9


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("blocks", [1, 2])
def test_the_bound_on_the_core_covers_it(size, blocks):
    """M* = (e_0; (e_1 − e_0)/size) in each block, and its norm is known; the bound is within a factor of 3."""
    rows = nearly_equal(size).transpose(1, 0, 2).reshape(4, 2)
    table = np.kron(np.eye(blocks), rows)
    truth = math.sqrt(blocks * (1.0 + 2.0 / size**2))
    features = Features(TablePhi(table.reshape(2, -1, 2 * blocks)), OneHotPsi(2))
    found = regularity(features)
    assert truth <= found.core_norm <= 3.0 * truth * math.sqrt(blocks)
    each = 1.0 / np.sqrt(features.phi.blocks().eigenvalues)
    assert (each >= math.sqrt(1.0 + 2.0 / size**2) / math.sqrt(1.0 + 1.0)).all()
    assert features.phi.blocks().count == blocks


@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e60])
def test_the_bound_scales_with_the_features(scale):
    rows = np.random.default_rng(0).standard_normal((12, 4))
    assert design_eigenvalue(scale * rows) == pytest.approx(scale**2 * design_eigenvalue(rows), rel=1e-9)


def test_directions_at_rounding_level_do_not_count():
    """A third feature that is the sum of two others, with rounding errors, changes nothing."""
    rng = np.random.default_rng(1)
    rows = rng.random((40, 2))
    turned = rows @ (rng.standard_normal((2, 5)) / 3.0)  # rank 2, with rounding errors in 3 directions
    assert np.linalg.matrix_rank(turned) == 2
    scaled = np.linalg.norm(turned, 2) / 100.0
    assert design_eigenvalue(turned) > (1e-3 * scaled) ** 2
    doubled = np.column_stack([rows, rows])
    assert design_eigenvalue(doubled) == pytest.approx(2.0 * design_eigenvalue(rows), rel=1e-9)


def test_the_weights_are_those_of_a_design_and_never_worse_than_uniform_ones():
    """Against eigenvalues of the moment matrix where these are accurate."""
    rng = np.random.default_rng(2)
    for d in (1, 3, 6):
        rows = rng.standard_normal((50, d)) * rng.uniform(0.1, 1.0, (50, 1))
        uniform = np.linalg.eigvalsh(rows.T @ rows / 50)[0]
        found = design_eigenvalue(rows)
        assert found >= uniform * (1 - 1e-12)
        assert found <= np.min(np.max(np.abs(rows @ np.linalg.eigh(rows.T @ rows)[1]), axis=0) ** 2) + 1e-12
    assert design_eigenvalue(np.eye(5)) == pytest.approx(0.2)


ORTHOGONAL = {
    "table": lambda psi, **options: TablePsi(psi, **options),
    "sparse": lambda psi, **options: SparsePsi(sparse.csr_array(psi), **options),
}


@pytest.mark.parametrize("size", [1e-5, 1e-6, 1e-8, 1e-12])
@pytest.mark.parametrize("kind", ORTHOGONAL)
def test_nearly_dependent_psi_is_not_called_proven(kind, size):
    near = ORTHOGONAL[kind](np.array([[1.0, 0.0], [1.0, size]]), pseudo=True)
    features = Features(TablePhi(np.eye(4).reshape(2, 2, 4)), near)
    words = certificate(features, episodes=1, set="normalised")[2].reason
    assert "nearly dependent: 1 of its 2 directions" in words
    assert "numpy.linalg.qr(psi)[0]" in words
    agent = MatrixRL(switch(), psi=near, set="normalised", seed=0)
    assert agent.guarantee.reason == words
    assert certificate(features, episodes=1)[2].holds, "next states are counted for indicator φ, whatever ψ is"


@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_independent_psi_is_proven(size):
    """Down to what K_ψ can be inverted for; and with the advice of the message for every size."""
    psi = np.array([[1.0, 0.0], [1.0, size]])
    for kind in ORTHOGONAL.values():
        assert kind(psi, pseudo=True).left_out is None
    for near in SIZES[:-1]:
        orthogonal = np.linalg.qr(np.array([[1.0, 0.0], [1.0, near]]))[0]
        features = Features(TablePhi(np.eye(4).reshape(2, 2, 4)), TablePsi(orthogonal))
        lower, upper, words = certificate(features, episodes=200)
        assert words.holds
        assert 4.0 < lower <= 9.0 + 1e-9 <= upper + 2e-9


@pytest.mark.parametrize("kind", ORTHOGONAL)
def test_dependent_psi_with_the_pseudo_inverse_is_proven(kind):
    """A column that is a combination of others, rounding included, loses nothing."""
    rng = np.random.default_rng(3)
    basis = np.abs(rng.standard_normal((30, 3)))
    psi = np.column_stack([basis, basis @ rng.random(3), basis[:, 0] / 3.0])
    assert ORTHOGONAL[kind](psi, pseudo=True).left_out is None


def square(n):
    return np.array([[i, j] for i in range(n) for j in range(n)], dtype=float)


def test_a_kernel_that_was_cut_off_is_not_called_proven(tmp_path):
    """RBF 1.0 on a unit square of 8 × 8 points has rank 64, and float64 knows 30 to 50 of its directions."""
    from sklearn.gaussian_process.kernels import RBF

    points = square(8) / 7.0
    features = kernel_features(points, 2, k_phi=RBF(1.0))
    assert features.phi.d < 2 * 64
    task = Task(np.zeros((64, 2)), 5, start=np.eye(64)[0])
    agent = KernelMatrixRL(task, points=points, length_scale=1.0, seed=0)
    words = agent.guarantee.reason
    assert words.startswith("k_phi is approximated")
    assert agent.certificate().guarantee.reason == words
    agent.save(tmp_path / "agent")
    assert KernelMatrixRL.load(tmp_path / "agent").guarantee.reason == words
    assert MatrixRL(task, phi=features.phi, psi=features.psi, seed=0).guarantee.reason == words
    next_states = kernel_features(points, 2, k_phi=RBF(0.05), k_psi=RBF(1.0))
    assert next_states.phi.left_out is None
    assert next_states.psi.left_out.startswith("k_psi is approximated")


def test_kernels_of_known_rank_are_proven():
    from sklearn.gaussian_process.kernels import RBF

    points = square(6)
    for kernel in (RBF(0.5), "linear", "polynomial"):
        assert kernel_features(points, 2, k_phi=kernel).phi.left_out is None
    assert KernelMatrixRL(make("river-swim"), seed=0, length_scale=0.1).guarantee


def test_features_of_transformers_are_what_they_are_but_for_directions_that_are_left_out():
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.preprocessing import PolynomialFeatures

    points = square(6) / 5.0
    few = transformer_features(points, 2, phi=RBFSampler(n_components=9, random_state=0), psi=PolynomialFeatures(2))
    assert few.phi.left_out is None
    assert few.psi.left_out is None
    many = RBFSampler(gamma=0.05, n_components=60, random_state=0)
    cut = transformer_features(points, 2, phi=PolynomialFeatures(1), psi=many).psi
    assert cut.left_out.startswith("psi is approximated")


def test_embedding_of_a_cut_kernel_misses_the_law_that_the_kernel_represents():
    """Why a cut kernel proves nothing: with all 64 directions every P is represented; with those kept it is not."""
    from sklearn.gaussian_process.kernels import RBF

    from matrixrl.core.embedding import embedding

    mdp = make("grid-world", size=8).unwrapped.mdp
    points = square(8)
    exact = kernel_features(points, mdp.n_actions, k_phi=RBF(0.3))
    cut = kernel_features(points / 7.0, mdp.n_actions, k_phi=RBF(1.0))
    assert embedding(mdp.transitions, exact).residual < 1e-6
    assert embedding(mdp.transitions, cut).residual > 0.1
    assert exact.phi.left_out is None
    assert cut.phi.left_out is not None
