"""Indicator features are recognised from tables and from feature maps, and nothing else is taken for them."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl.features import OneHotPhi, Phi, TablePhi, indicator_groups


def aggregation() -> np.ndarray:
    """Six states in three cells, two actions: (S, A, d) with d = 6."""
    table = np.zeros((6, 2, 6))
    for s in range(6):
        for a in range(2):
            table[s, a, 3 * a + s // 2] = 1.0
    return table


def test_state_aggregation_from_a_table():
    groups = indicator_groups(TablePhi(aggregation()))
    np.testing.assert_array_equal(groups, [[0, 0, 1, 1, 2, 2], [3, 3, 4, 4, 5, 5]])


def test_post_decision_states_from_a_feature_map():
    class Stock(Phi):
        """The law depends on stock plus order alone."""

        n_states, n_actions, d = 5, 3, 7

        def rows(self, pairs):
            states, actions = self.states_and_actions(pairs)
            return np.eye(7)[states + actions]

    np.testing.assert_array_equal(indicator_groups(Stock()), np.arange(5) + np.arange(3)[:, None])


def test_one_hot_pairs_are_their_own_groups():
    table = TablePhi(OneHotPhi(3, 2).table)
    np.testing.assert_array_equal(indicator_groups(table), indicator_groups(OneHotPhi(3, 2)))


def test_features_that_no_pair_has_are_no_groups():
    table = np.concatenate([np.zeros((6, 2, 3)), aggregation()], axis=2)
    assert indicator_groups(TablePhi(table)).max() == 5


def test_the_size_of_an_indicator_does_not_matter():
    assert indicator_groups(TablePhi(0.5 * aggregation())) is not None


def change(table: np.ndarray, index: tuple[int, int, int], value: float) -> np.ndarray:
    table = table.copy()
    table[index] = value
    return table


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(change(aggregation(), (0, 0, 5), 1e-9), id="two features"),
        pytest.param(change(aggregation(), (0, 0, 0), 0.5), id="two sizes in a group"),
        pytest.param(np.random.default_rng(0).random((6, 2, 6)), id="dense"),
    ],
)
def test_other_features_are_not_taken_for_indicators(table):
    assert indicator_groups(TablePhi(table)) is None


def test_large_feature_maps_are_read_in_chunks():
    groups = indicator_groups(TablePhi(np.eye(3000).reshape(1500, 2, 3000)))
    assert len(np.unique(groups)) == 3000
