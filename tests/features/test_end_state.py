"""Features may leave out the end state: what the library adds is what a user would have to add by hand."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from scipy import sparse

from matrixrl import FiniteMDP, InvalidInput, KernelMatrixRL, MatrixRL, Task, from_gymnasium
from matrixrl.core.embedding import embedding
from matrixrl.core.radius import BlockRadius
from matrixrl.features import (
    Features,
    FunctionPhi,
    OneHotPhi,
    OneHotPsi,
    Phi,
    Psi,
    SparsePsi,
    TablePhi,
    TablePsi,
    indicator_groups,
    one_hot,
)
from matrixrl.features.bundle import cover_end, phi_with_end, psi_with_end
from matrixrl.problems import DenseTransitions, Problem, read_problem, solve

S, A, GROUPS, HORIZON = 6, 2, 4, 5
END = S  # its number


class OwnPhi(Phi):
    """A user's own map, known by its rows alone."""

    def __init__(self, table):
        self.kept = np.asarray(table)
        self.n_states, self.n_actions, self.d = self.kept.shape

    def rows(self, pairs):
        states, actions = self.states_and_actions(pairs)
        return self.kept[states, actions]


class OwnPsi(Psi):
    def __init__(self, table):
        self.kept = np.asarray(table)
        self.n_states, self.d_psi = self.kept.shape

    def rows(self, states):
        return self.kept[states]


def by_hand(table, length):
    """Return a table of φ (S, A, d) or ψ (S, d) with one more state that has a feature of its own."""
    ended = np.zeros([n + 1 if i in (0, table.ndim - 1) else n for i, n in enumerate(table.shape)])
    ended[tuple(slice(n) for n in table.shape)] = table
    ended[-1, ..., -1] = length
    return ended


def tables(seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((S, A, 3)), rng.random((S, 3)) + 0.1


def grouped():
    """Return the group of each pair (S, A), and its indicators as φ (S, A, K)."""
    groups = np.arange(S * A).reshape(S, A) % GROUPS
    return groups, np.eye(GROUPS)[groups]


def world(seed=0, *, terminates=True):
    """Return an MDP with an end state in which the pairs of a group share a law, and rewards linear in φ."""
    rng = np.random.default_rng(seed)
    groups, _ = grouped()
    laws = rng.dirichlet(np.ones(S + 1), GROUPS)
    if not terminates:
        laws[:, END] = 0.0
        laws /= laws.sum(axis=1, keepdims=True)
    table = np.zeros((S + 1, A, S + 1))
    table[:S], table[END, :, END] = laws[groups], 1.0
    reward = np.zeros((S + 1, A))
    reward[:S] = rng.random(GROUPS)[groups]
    return FiniteMDP(table, reward, HORIZON, end_state=END)


def maps():
    phi, _ = tables()
    return {
        "table": TablePhi(phi),
        "own": OwnPhi(phi),
        "function": FunctionPhi(lambda s: phi[s], S, A),
    }


@pytest.mark.parametrize("name", maps())
def test_phi_of_every_kind_gets_one_feature_that_no_other_pair_has(name):
    table, _ = tables()
    longest = np.linalg.norm(table, axis=2).max()
    ended = phi_with_end(maps()[name])
    expected = by_hand(table, longest)
    np.testing.assert_allclose(ended.table, expected, rtol=1e-12)
    np.testing.assert_allclose(ended.at(np.array([END, 2, 0])), expected[[END, 2, 0]].transpose(1, 0, 2), rtol=1e-12)
    weights = np.random.default_rng(1).standard_normal((2, 4))
    np.testing.assert_allclose(ended.dot(weights), np.einsum("sad,bd->bas", expected, weights), rtol=1e-12)
    np.testing.assert_allclose(ended.max_norm_sq, longest**2, rtol=1e-12)
    assert ended.blocks().count == 2
    assert ended.blocks().knowing(END, S + 1).n_events == 1


def test_the_length_of_a_map_that_is_zero_where_it_is_probed():
    flat = OwnPhi(np.zeros((40, A, 2)))
    assert phi_with_end(flat).table[-1, 0].tolist() == [0.0, 0.0, 1.0]


def psi_maps():
    _, psi = tables()
    return {
        "table": TablePsi(psi),
        "sparse": SparsePsi(sparse.csr_array(psi)),
        "own": OwnPsi(psi),
    }


@pytest.mark.parametrize("name", psi_maps())
def test_psi_of_every_kind_gets_one_feature_and_keeps_its_constants(name):
    _, table = tables()
    plain = TablePsi(table)
    ended = psi_with_end(psi_maps()[name])
    expected = by_hand(table, 1.0 / plain.constants.dual_norm)
    np.testing.assert_allclose(ended.table, expected, rtol=1e-12)
    np.testing.assert_allclose(ended.constants.dual_norm, plain.constants.dual_norm, rtol=1e-9)
    np.testing.assert_allclose(ended.total, expected.sum(axis=0), rtol=1e-12)
    values = np.random.default_rng(1).random((3, S + 1))
    np.testing.assert_allclose(ended.project(values), values @ expected, rtol=1e-12)


def test_one_hot_features_stay_one_hot():
    phi, psi = cover_end(OneHotPhi(S, A), OneHotPsi(S), S + 1, END)
    assert (type(phi), phi.d, type(psi), psi.d_psi) == (OneHotPhi, (S + 1) * A, OneHotPsi, S + 1)


def test_what_the_kernel_or_the_inverse_left_out_is_still_said():
    table, _ = tables()
    assert phi_with_end(TablePhi(table, left_out="a tail")).left_out == "a tail"
    nearly = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-7], [1.0, 1.0]])
    psi = TablePsi(nearly, pseudo=True)
    assert psi.left_out is not None
    assert psi_with_end(psi).left_out == psi.left_out
    own = OwnPsi(nearly)
    own.pseudo = True
    assert psi_with_end(own).left_out == own.left_out is not None


def test_features_that_are_complete_are_left_as_they_are():
    phi, psi = OneHotPhi(S + 1, A), OneHotPsi(S + 1)
    assert cover_end(phi, psi, S + 1, END) == (phi, psi)
    assert cover_end(phi, psi, S + 2, None) == (phi, psi)  # nothing is added without an end state
    assert cover_end(phi, psi, S + 2, 0) == (phi, psi)  # or if it is not the last one


@pytest.mark.parametrize("options", [{}, {"set": "normalised"}, {"set": "sandwich-or-ball"}, {"columns": S + 1}])
@pytest.mark.parametrize("kind", [TablePhi, OwnPhi])
def test_an_agent_learns_as_with_features_that_were_completed_by_hand(options, kind):
    mdp, (_, table) = world(), grouped()
    given = MatrixRL(mdp, phi=kind(table), seed=0, **options)
    complete = MatrixRL(mdp, phi=kind(by_hand(table, 1.0)), seed=0, **options)
    np.testing.assert_array_equal(given.learn(8).returns, complete.learn(8).returns)
    np.testing.assert_array_equal(given.history.upper, complete.history.upper)
    assert given.problem.features.phi.d == GROUPS + 1


def test_an_explicit_one_hot_phi_of_the_environment_is_the_default():
    lake = gym.make("FrozenLake-v1", is_slippery=False)
    default = MatrixRL(lake, horizon=8, seed=0).learn(5)
    given = MatrixRL(lake, horizon=8, seed=0, phi=OneHotPhi(16, 4), psi=OneHotPsi(16)).learn(5)
    np.testing.assert_array_equal(default.upper, given.upper)
    mdp = from_gymnasium(lake, horizon=8, features=one_hot(16, 4))
    assert (mdp.features.phi.d, mdp.features.psi.d_psi) == (17 * 4, 17)


@pytest.mark.parametrize("terminates", [True, False])
@pytest.mark.parametrize("options", [{}, {"set": "normalised"}])
def test_features_without_the_end_state_embed_p_and_the_proof_holds(options, terminates):
    mdp, (_, table) = world(terminates=terminates), grouped()
    agent = MatrixRL(mdp, phi=TablePhi(table), known_reward=False, seed=0, **options)
    fit = embedding(mdp.transitions, agent.problem.features)
    assert fit.residual < 1e-12
    assert agent.guarantee
    optimum = solve(mdp).start_value
    for _ in range(8):
        agent.learn(5)
        shown = agent.certificate()
        assert shown.lower <= optimum <= shown.upper
        assert shown.guarantee


def test_features_of_next_states_without_the_end_state_embed_p_if_they_tell_where_an_episode_ends():
    """ψ is two halves of the states; where an episode ends is linear in φ, as are the halves."""
    rng = np.random.default_rng(3)
    halves = np.repeat(np.eye(2), S // 2, axis=0)
    groups, table = grouped()
    parts = rng.dirichlet(np.ones(3), GROUPS)
    laws = np.concatenate([parts[:, :2] @ halves.T / (S // 2), parts[:, 2:]], axis=1)
    law = np.zeros((S + 1, A, S + 1))
    law[:S], law[END, :, END] = laws[groups], 1.0
    features = Features(*cover_end(TablePhi(table), TablePsi(halves), S + 1, END))
    fit = embedding(DenseTransitions(law), features)
    assert fit.residual < 1e-12
    expected = np.zeros((GROUPS + 1, 3))  # the core by hand: K_ψ of a half is 3, the end has the length 1/C_ψ'
    expected[:GROUPS, :2] = parts[:, :2] / (S // 2)
    length = features.psi.table[END, -1]
    expected[:GROUPS, 2], expected[GROUPS, 2] = parts[:, 2] / length, 1.0 / length
    np.testing.assert_allclose(fit.core, expected, atol=1e-12)


def test_the_end_state_has_no_part_of_delta():
    mdp, (_, table) = world(), grouped()
    counts = MatrixRL(mdp, phi=TablePhi(table), seed=0).algorithm.model.confidence
    assert counts.n_groups == GROUPS
    ball = MatrixRL(mdp, phi=TablePhi(table), set="normalised", seed=0).algorithm
    assert ball.model.confidence.blocks.n_events == GROUPS
    assert len(np.unique(indicator_groups(ball.problem.features.phi))) == GROUPS + 1
    hot = MatrixRL(mdp, set="normalised", seed=0).algorithm
    assert hot.model.confidence.blocks.n_events == S * A
    columns = MatrixRL(mdp, phi=TablePhi(table), set="normalised", columns=S + 1, seed=0).algorithm
    assert columns.model.confidence.blocks.n_events == GROUPS


def test_the_radius_of_the_other_pairs_is_that_of_the_features_without_the_end_state():
    """Section 5 of the proofs: the block of the end state is never visited, so nothing else depends on it."""
    mdp, (phi, _) = world(), tables()
    ended = MatrixRL(mdp, phi=TablePhi(phi), set="normalised", seed=0).algorithm
    inner_mdp = FiniteMDP(np.full((S, A, S), 1.0 / S), mdp.task.reward[:S], HORIZON)
    inner = MatrixRL(inner_mdp, phi=TablePhi(phi), psi=OneHotPsi(S), set="normalised", seed=0).algorithm
    rng = np.random.default_rng(0)
    states, actions = rng.integers(0, S, (1, 20)), rng.integers(0, A, (1, 20))
    for algorithm in (ended, inner):
        algorithm.model.design.update(algorithm.problem.features.phi.pairs(states, actions), np.ones((1, 20)))
    found, expected = (
        BlockRadius()(a.model.confidence.inputs(a.model.design, a.clock)) / a.model.confidence.regularity.noise_scale
        for a in (ended, inner)
    )
    noise = [a.model.confidence.regularity.noise_scale for a in (ended, inner)]
    bias = [np.sqrt(1.0 / a.model.confidence.blocks.eigenvalues[0]) for a in (ended, inner)]
    np.testing.assert_allclose(bias[0], bias[1], rtol=1e-9)
    by_state = found.reshape(A, S + 1)[:, :S]
    np.testing.assert_allclose(by_state - bias[0] / noise[0], expected[0, 0] - bias[1] / noise[1], rtol=1e-9)


def test_own_maps_without_the_end_state_are_saved_and_given_again(tmp_path):
    mdp, (_, table) = world(), grouped()
    agent = MatrixRL(mdp, phi=OwnPhi(table), psi=OwnPsi(np.eye(S)), seed=0)
    agent.learn(4)
    agent.save(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a", mdp, phi=OwnPhi(table), psi=OwnPsi(np.eye(S)))
    np.testing.assert_array_equal(agent.learn(4).upper, loaded.learn(4).upper)
    with pytest.raises(InvalidInput, match=r"phi must be .*got a PhiWithEnd"):
        MatrixRL.load(tmp_path / "a", mdp, phi=OwnPhi(2.0 * table), psi=OwnPsi(np.eye(S)))
    with pytest.raises(InvalidInput, match="phi must be the feature map"):
        MatrixRL.load(tmp_path / "a", mdp, phi=OwnPhi(table[:, :, 1:]), psi=OwnPsi(np.eye(S)))


def test_tables_without_the_end_state_are_saved_complete(tmp_path):
    mdp, (_, table) = world(), grouped()
    agent = MatrixRL(mdp, phi=table, psi=np.eye(S), set="normalised", seed=0)
    agent.learn(4)
    agent.save(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a", mdp)
    np.testing.assert_array_equal(agent.learn(4).upper, loaded.learn(4).upper)


def test_points_of_a_kernel_may_leave_out_the_end_state():
    lake = gym.make("FrozenLake-v1")
    points = np.stack(np.unravel_index(np.arange(16), (4, 4)), axis=1) / 3.0
    agent = KernelMatrixRL(lake, horizon=8, points=points, seed=0)
    gram = agent.problem.features.phi.table[:, 0] @ agent.problem.features.phi.table[:, 0].T
    assert not gram[16, :16].any()
    distance = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(gram[:16, :16], np.exp(-0.5 * distance / agent.settings.length_scale**2), atol=1e-9)
    assert agent.learn(3).n_episodes == 3
    with pytest.raises(InvalidInput, match=r"points must have shape .*leave out the end state"):
        KernelMatrixRL(lake, horizon=8, points=points[:10], seed=0)


WORDS = r"the end state, number 16, which the library added: episodes that terminate go there, and earn 0"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"phi": np.ones((15, 4, 2))},
            rf"phi must cover 16 states \(or 17 with {WORDS}\) and 4 actions; got 15 states",
        ),
        ({"phi": np.ones((16, 3, 2))}, r"and 4 actions; got 17 states and 3 actions"),
        ({"psi": np.eye(18)}, rf"psi must cover 16 states \(or 17 with {WORDS}\); got 18 states"),
    ],
)
def test_features_of_another_size_are_refused_with_the_end_state_by_its_name(options, words):
    with pytest.raises(InvalidInput, match=words):
        MatrixRL(gym.make("FrozenLake-v1"), horizon=8, **options)


def test_an_observation_that_is_the_end_state_is_refused_by_its_name():
    class Hidden(gym.Env):
        observation_space, action_space, horizon = gym.spaces.Discrete(16), gym.spaces.Discrete(2), 3

    agent = MatrixRL(Hidden(), seed=0)
    with pytest.raises(
        InvalidInput, match=rf"obs must be in 0 … 15; got 16\. That is {WORDS}\. Give what was observed"
    ):
        agent.predict(16, stage=0)
    with pytest.raises(InvalidInput, match=r"obs must be in .*state of observation_space"):
        agent.predict(17, stage=0)
    with pytest.raises(InvalidInput, match="obs must be in 0 … 15"):
        agent.policy.act(16, 0)


def test_tasks_and_features_of_a_users_own_end_state():
    _, table = grouped()
    task = Task(np.zeros((S + 1, A)), HORIZON, end_state=END, features=Features(TablePhi(table), OneHotPsi(S)))
    assert (task.features.phi.n_states, task.features.psi.n_states) == (S + 1, S + 1)
    assert "which the library added" not in task.end_words
    middle = Task(np.zeros((S + 1, A)), HORIZON, end_state=2)
    assert middle.end_words is None
    with pytest.raises(InvalidInput, match=f"phi must cover {S + 1} states and {A} actions; got {S} states"):
        Task(np.zeros((S + 1, A)), HORIZON, end_state=2, features=Features(TablePhi(table), OneHotPsi(S)))
    assert read_problem(middle).n_observed == S + 1
    assert Problem.of(task).n_observed == S + 1
