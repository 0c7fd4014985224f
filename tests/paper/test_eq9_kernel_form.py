"""YW19 (9), Algorithm 2: the kernel form equals the feature form, by two routes that share no code (E3)."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge

from matrixrl import FiniteMDP, InvalidInput, MatrixRL, make, run_seeds
from matrixrl.core.dual import DualEstimate, effective_dimension, hat_projection
from matrixrl.core.regularity import theorem_3_bound
from matrixrl.features import Features, TablePhi, TablePsi, features_from_grams, kernel_features, transformer_features
from matrixrl.features.from_kernels import factor_gram
from matrixrl.problems import low_rank
from tolerances import ALGEBRA
from worlds import algorithm_with_data

CASES = {
    "full rank psi": low_rank(n_states=14, n_actions=2, d=4, d_psi=5, horizon=4, seed=0),
    "orthonormal psi": low_rank(n_states=14, n_actions=2, d=4, d_psi=3, horizon=4, orthonormal=True, seed=1),
}


def grams(world):
    """k_φ of all pairs (row a·S + s, as inside the library) and k_ψ of all states."""
    rows = world.features.phi.flat
    table = world.features.psi.table
    return rows @ rows.T, table @ table.T


def visited(world, seen):
    pairs = np.concatenate([world.features.phi.pairs(b.states, b.actions)[0] for b in seen])
    return pairs, np.concatenate([b.following[0] for b in seen])


@pytest.mark.parametrize("world", CASES.values(), ids=CASES)
@pytest.mark.parametrize("episodes", [1, 3, 40])
def test_widths_predictions_and_logdet_are_those_of_the_features(world, episodes):
    """Few steps leave the visited ψ short of spanning R^d'; many repeat pairs and next states."""
    rng = np.random.default_rng(episodes)
    algorithm, seen = algorithm_with_data(world, rng, episodes=episodes)
    k_phi, k_psi = grams(world)
    dual = DualEstimate(k_phi, *visited(world, seen), k_psi)
    values = rng.random(14)
    primal = world.features.phi.dot(algorithm.model.core_matrix() @ world.features.psi.project(values[None])[0])
    np.testing.assert_allclose(dual.predict(values), primal.ravel(), atol=ALGEBRA)
    np.testing.assert_allclose(dual.width_sq(), algorithm.model.design.width_sq[0], atol=ALGEBRA)
    assert dual.logdet == pytest.approx(algorithm.model.design.logdet[0], abs=ALGEBRA)


def test_the_printed_formula_differs_and_the_projection_does_not():
    """E3: (K̄K̄ᵀ)⁻¹ is singular once a next state repeats; a pseudo-inverse is wrong unless the visited ψ span R^d'."""
    world = CASES["full rank psi"]
    rng = np.random.default_rng(5)
    algorithm, seen = algorithm_with_data(world, rng, episodes=1)  # 4 steps, d' = 5
    k_phi, k_psi = grams(world)
    pairs, following = visited(world, seen)
    values = rng.random(14)
    bar = k_psi[following]  # K̄, (t, S)
    weights = np.linalg.solve(np.eye(len(pairs)) + k_phi[np.ix_(pairs, pairs)], k_phi[pairs]).T
    printed = weights @ k_psi[np.ix_(following, following)] @ np.linalg.pinv(bar @ bar.T) @ bar @ values
    right = world.features.phi.dot(algorithm.model.core_matrix() @ world.features.psi.project(values[None])[0]).ravel()
    assert np.abs(printed - right).max() > 1e-3
    np.testing.assert_allclose(weights @ (hat_projection(k_psi) @ values)[following], right, atol=ALGEBRA)
    twice = np.append(following, following[0])
    repeated = k_psi[twice] @ k_psi[twice].T
    assert np.linalg.matrix_rank(repeated) < len(twice)


@pytest.mark.parametrize("world", CASES.values(), ids=CASES)
@pytest.mark.parametrize("kind", ["normalised", "frobenius", "frobenius-closed"])
def test_learning_from_gram_matrices_alone_is_learning_from_features(world, kind):
    """The whole run: only inner products matter, also for the sets, the radii and the constants."""
    n = world.mdp.n_states
    order = np.arange(n * 2).reshape(2, n).T.ravel()  # pair (s, a) in row s·A + a
    k_phi, k_psi = grams(world)
    features = features_from_grams(k_phi[np.ix_(order, order)], k_psi, n_actions=2)
    assert features.phi.d == 4
    kernelised = FiniteMDP(world.mdp.transitions, world.mdp.task.reward, 4, features=features)
    settings = {"n_episodes": 30, "seeds": 3, "set": kind}
    usual, dual = run_seeds(world.mdp, **settings), run_seeds(kernelised, **settings)
    np.testing.assert_allclose(dual.regret, usual.regret, atol=ALGEBRA)
    if kind != "frobenius-closed":  # its C_ψ is a bound that depends on the coordinates of ψ
        np.testing.assert_allclose(dual.upper, usual.upper, atol=1e-7)


def test_a_kernel_of_low_rank_on_psi_is_projected():
    """k_ψ of rank 2 on 14 states: ψ gets two coordinates, and predictions are the projected ones."""
    world = low_rank(n_states=14, n_actions=2, d=3, d_psi=2, horizon=4, seed=3)
    k_phi, k_psi = grams(world)
    features = features_from_grams(k_phi[np.ix_(*[np.arange(28).reshape(2, 14).T.ravel()] * 2)], k_psi, n_actions=2)
    assert features.psi.d_psi == 2
    rng = np.random.default_rng(0)
    algorithm, seen = algorithm_with_data(world, rng, episodes=6)
    dual = DualEstimate(k_phi, *visited(world, seen), k_psi)
    values = rng.random(14)
    primal = world.features.phi.dot(algorithm.model.core_matrix() @ world.features.psi.project(values[None])[0]).ravel()
    np.testing.assert_allclose(dual.predict(values), primal, atol=ALGEBRA)


def test_the_dual_is_scikit_learns_kernel_ridge_and_gaussian_process():
    """An oracle that is not ours: one row a visit, alpha = λ."""
    rng = np.random.default_rng(0)
    points = rng.random((20, 2))
    kernel = RBF(0.5)
    gram = kernel(points, points)
    pairs, following = rng.integers(0, 20, 40), rng.integers(0, 6, 40)
    values = rng.random(6)
    dual = DualEstimate(gram, pairs, following, np.eye(6), ridge=0.3)
    ridge = KernelRidge(alpha=0.3, kernel="precomputed").fit(gram[np.ix_(pairs, pairs)], values[following])
    np.testing.assert_allclose(dual.predict(values), ridge.predict(gram[:, pairs]), atol=ALGEBRA)
    process = GaussianProcessRegressor(kernel, alpha=0.3, optimizer=None).fit(points[pairs], values[following])
    _, deviation = process.predict(points, return_std=True)
    np.testing.assert_allclose(np.sqrt(0.3 * dual.width_sq()), deviation, atol=1e-7)


def test_h_1_is_the_kernel_bandit():
    """KernelUCB / GP-UCB: mean + √β·w, with scikit-learn's kernel ridge and Gaussian process as the other route."""
    points = np.linspace(-1.0, 1.0, 9)[:, None]
    gram = RBF(0.4)(points, points)
    features = features_from_grams(gram, None, n_actions=9)
    reward = np.exp(-4.0 * (points - 0.3) ** 2).T * 0.9
    mdp = FiniteMDP(np.ones((1, 9, 1)), reward, 1, features=features)
    chosen = {"preset": "optimistic", "radius": "constant", "beta": 0.5, "ridge": 0.1, "exploration": 0.7}
    agent = MatrixRL(mdp, known_reward=False, seed=0, **chosen)
    arms = []
    for _ in range(25):
        agent.begin_episode()
        arms.append(agent.act(0))
        agent.observe(0, arms[-1], reward[0, arms[-1]], 0)
        agent.end_episode()
    pulls = np.array(arms)
    assert len(set(arms)) > 3
    ridge = KernelRidge(alpha=agent.algorithm.model.ridge, kernel="precomputed")
    ridge.fit(gram[np.ix_(pulls, pulls)], reward[0, pulls])
    process = GaussianProcessRegressor(RBF(0.4), alpha=agent.algorithm.model.ridge, optimizer=None)
    _, deviation = process.fit(points[pulls], reward[0, pulls]).predict(points, return_std=True)
    width = deviation / np.sqrt(agent.algorithm.model.ridge)
    index = np.clip(ridge.predict(gram[:, pulls]) + 0.7 * np.sqrt(0.5) * width, 0.0, 1.0)
    most = agent.algorithm.model.bounds(agent.algorithm.clock, "agent")[0].most
    np.testing.assert_allclose(most[0, :, 0], index, atol=1e-7)
    assert agent.policy.act(0, stage=0) == int(index.argmax())


def test_effective_dimension():
    """Near d for unit vectors in R^d and many steps; larger for rougher kernels; Theorem 3 is linear in it."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert 1.0 < effective_dimension(x, most=50) < effective_dimension(x, most=10**6) <= 4.0
    uniform = max(100 * np.log1p(t / 100) / np.log1p(t) for t in np.geomspace(1, 10**6, 2000))
    assert effective_dimension(np.eye(100), most=10**6) == pytest.approx(uniform, rel=1e-3)
    points = rng.random((60, 2))
    found = [
        effective_dimension(factor_gram("k", RBF(scale)(points, points))[0], most=500) for scale in (2.0, 0.5, 0.1)
    ]
    assert found == sorted(found)
    greedy = effective_dimension(factor_gram("k", RBF(0.5)(points, points))[0], most=3)
    best = max(
        np.linalg.slogdet(np.eye(3) + RBF(0.5)(points[[i, j, k]], points[[i, j, k]]))[1] / np.log(4.0)
        for i in range(0, 60, 6)
        for j in range(60)
        for k in range(60)
    )
    assert greedy >= (1.0 - 1.0 / np.e) * best
    bound = {"c_psi": 2.0, "norm": 3.0, "horizon": 5, "n_episodes": 100}
    twice, once = theorem_3_bound(effective_dim=4.0, **bound), theorem_3_bound(effective_dim=2.0, **bound)
    assert twice == pytest.approx(2.0 * once)
    assert once == pytest.approx(2.0 * 3.0 * np.log(500) * 2.0 * 25 * np.sqrt(500))


def test_kernels_that_are_none_are_refused_with_numbers():
    points = np.linspace(0, 1, 5)[:, None]
    with pytest.raises(InvalidInput, match=r"k_phi must be symmetric.*differ by"):
        kernel_features(points, 2, k_phi=lambda x, y: np.exp(x - y.T))
    with pytest.raises(InvalidInput, match="k_psi must be positive semi-definite"):
        kernel_features(points, 2, k_psi=lambda x, y: -np.abs(x - y.T))
    with pytest.raises(InvalidInput, match=r"k_phi must return shape \(5, 5\)"):
        kernel_features(points, 2, k_phi=lambda *_: np.zeros(3))
    with pytest.raises(InvalidInput, match="k_phi must be finite"):
        kernel_features(points, 2, k_phi=lambda x, y: np.full((len(x), len(y)), np.nan))
    with pytest.raises(InvalidInput, match="k_phi must be one of"):
        kernel_features(points, 2, k_phi="rfb")
    with pytest.raises(InvalidInput, match="gram_phi must have shape"):
        features_from_grams(np.eye(5), None, n_actions=2)


def test_duplicated_points_share_what_is_learned():
    """Two states at one place have one feature vector."""
    points = np.array([[0.0], [0.0], [1.0]])
    phi = kernel_features(points, 2).phi.table
    np.testing.assert_allclose(phi[0], phi[1], atol=ALGEBRA)
    features = Features(TablePhi(phi), TablePsi(np.eye(3)))
    assert features.phi.d == 4


def test_transformers_as_phi_and_psi():
    """Nyström with every point is the exact kernel, on both sides; random Fourier features come close with many."""
    points = np.random.default_rng(0).random((12, 2))
    kernel = RBF(0.5)
    exact = kernel_features(points, 2, k_phi=kernel, k_psi=kernel, action_correlation=0.3)
    nystroem = Nystroem(gamma=0.5 / 0.5**2, n_components=12)
    full = transformer_features(points, 2, phi=nystroem, psi=nystroem, action_correlation=0.3)
    rows = [f.phi.flat @ f.phi.flat.T for f in (exact, full)]
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-7)
    tables = [f.psi.table @ f.psi.table.T for f in (exact, full)]
    np.testing.assert_allclose(tables[0], tables[1], atol=1e-7)
    errors = []
    for count in (20, 5000):
        random = transformer_features(points, 2, phi=RBFSampler(gamma=2.0, n_components=count, random_state=0))
        product = random.phi.flat @ random.phi.flat.T
        errors.append(np.abs(product[:12, :12] - kernel(points, points)).max())
    assert errors[1] < 0.1 < errors[0]
    assert not hasattr(nystroem, "components_")  # the user's object is left alone


def test_learning_with_transformers():
    env = make("grid-world", size=5, horizon=12)
    features = transformer_features(env.unwrapped.points, 4, phi=Nystroem(n_components=20, random_state=0))
    found = MatrixRL(env, phi=features.phi, psi=features.psi, preset="tuned", seed=0).learn(20)
    assert found.n_episodes == 20
    with pytest.raises(InvalidInput, match="features must have a method fit"):
        transformer_features(env.unwrapped.points, 4, phi=3)
