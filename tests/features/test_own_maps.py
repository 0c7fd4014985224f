"""A user's own feature map needs its sizes and `rows`, and then equals the same numbers given as an array."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import Features, InvalidInput, MatrixRL
from matrixrl.features import Phi, Psi, TablePhi, TablePsi
from matrixrl.problems import low_rank

WORLD = low_rank(n_states=12, n_actions=3, d=4, horizon=5, seed=6)


class OwnPhi(Phi):
    n_states, n_actions, d = 12, 3, 4

    def rows(self, pairs):
        states, actions = self.states_and_actions(pairs)
        return WORLD.features.phi.table[states, actions]


class OwnPsi(Psi):
    n_states, d_psi = 12, 4

    def rows(self, states):
        return WORLD.features.psi.table[states]


def same_histories(one, two):
    for name in ("returns", "lengths", "upper", "alarms", "regret"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)


@pytest.mark.parametrize(
    "settings",
    [{}, {"preset": "tuned"}, {"known_reward": False}, {"columns": 9}],
    ids=str,
)
def test_an_own_map_gives_the_history_of_the_same_array(settings):
    tables = {"phi": WORLD.features.phi.table, "psi": WORLD.features.psi.table}
    given = MatrixRL(WORLD.mdp, **tables, seed=4, **settings).learn(12)
    same_histories(MatrixRL(WORLD.mdp, phi=OwnPhi(), psi=tables["psi"], seed=4, **settings).learn(12), given)
    same_histories(MatrixRL(WORLD.mdp, phi=tables["phi"], psi=OwnPsi(), seed=4, **settings).learn(12), given)
    same_histories(MatrixRL(WORLD.mdp, phi=OwnPhi(), psi=OwnPsi(), seed=4, **settings).learn(12), given)


def test_an_agent_with_own_maps_certifies_and_is_saved_as_tables(tmp_path):
    own, given = MatrixRL(WORLD.mdp, phi=OwnPhi(), psi=OwnPsi(), seed=0), MatrixRL(WORLD.mdp, seed=0)
    for agent in (own, given):
        agent.learn(5)
    assert own.certificate() == given.certificate()
    own.save(tmp_path / "agent")
    again = MatrixRL.load(tmp_path / "agent", env=WORLD.mdp)
    assert isinstance(again.problem.features.phi, TablePhi)
    same_histories(again.learn(5), own.learn(5))


def test_every_default_of_phi_equals_the_table(rng):
    own, table = OwnPhi(), TablePhi(WORLD.features.phi.table)
    weights, pairs, taken = rng.standard_normal((2, 4)), rng.integers(0, 36, (2, 7)), rng.random((2, 7))
    np.testing.assert_array_equal(own.table, table.table)
    np.testing.assert_array_equal(own.at(np.array([3, 0])), table.at(np.array([3, 0])))
    np.testing.assert_array_equal(own.dot(weights), table.dot(weights))
    assert own.max_norm_sq == table.max_norm_sq
    assert own.smallest_design_eigenvalue() == table.smallest_design_eigenvalue()
    np.testing.assert_array_equal(own.blocks().eigenvalues, table.blocks().eigenvalues)
    for phi in (own, table):
        phi.learned = phi.design(2, ridge=0.5)
        phi.learned.update(pairs, taken)
    np.testing.assert_array_equal(own.learned.width_sq, table.learned.width_sq)


def test_every_default_of_psi_equals_the_table(rng):
    own, table = OwnPsi(), TablePsi(WORLD.features.psi.table)
    values, moments = rng.standard_normal((2, 12)), rng.standard_normal((2, 3, 4))
    np.testing.assert_array_equal(own.table, table.table)
    for name in ("total", "dual_norm", "noise_scale", "c_psi", "c_psi_is_exact", "c_psi_max_norm"):
        np.testing.assert_array_equal(getattr(own.constants, name), getattr(table.constants, name), err_msg=name)
    np.testing.assert_array_equal(own.project(values), table.project(values))
    np.testing.assert_array_equal(own.solve_gram(moments), table.solve_gram(moments))
    np.testing.assert_array_equal(own.norms_sq(), table.norms_sq())


def test_dependent_features_of_an_own_psi_are_refused_or_inverted_on_their_span():
    class Doubled(OwnPsi):
        d_psi = 8

        def rows(self, states):
            half = super().rows(states)
            return np.concatenate([half, half], axis=-1)

    with pytest.raises(InvalidInput, match="linearly independent"):
        MatrixRL(WORLD.mdp, psi=Doubled())
    Doubled.pseudo = True
    assert MatrixRL(WORLD.mdp, psi=Doubled(), seed=0).learn(3).n_episodes == 3


def test_mistakes_of_an_own_map_are_named():
    class NoSize(Phi):
        n_states, n_actions = 12, 3

        def rows(self, pairs):
            return np.ones((*np.shape(pairs), 2))

    with pytest.raises(InvalidInput, match=r"phi\.d must be a whole number"):
        MatrixRL(WORLD.mdp, phi=NoSize())
    NoSize.d = 3
    with pytest.raises(InvalidInput, match=r"phi\.rows must have shape \(36, 3\)"):
        MatrixRL(WORLD.mdp, phi=NoSize())
    with pytest.raises(InvalidInput, match="phi must be a feature map"):
        Features(None, OwnPsi())
    with pytest.raises(InvalidInput, match="psi must be a feature map"):
        Features(OwnPhi(), None)
    with pytest.raises(TypeError, match=r"abstract method '?rows"):
        Phi()
