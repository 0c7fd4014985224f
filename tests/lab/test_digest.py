"""The digest of a store is one of its results: how the work was divided does not enter."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from experiments import SMALL, finished

from matrixrl_lab import Store
from matrixrl_lab.store import COLUMNS
from tolerances import ALGEBRA

SPEC = SMALL.replace(
    '[[agent]]\nname = "psrl"', '[[env]]\nname = "linear-mdp"\nsettings = { n_states = 40 }\n\n[[agent]]\nname = "psrl"'
)
PARTS = ((20, 2), (60, 2), (7, 2), (60, 1), (20, 3))  # block and batch


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Digest and numbers of the same experiment in different parts."""
    home, found = tmp_path_factory.mktemp("parts"), {}
    for block, batch in PARTS:
        folder = home / f"{block}-{batch}"
        digest = finished(folder, SPEC, block=block, batch=batch)
        with Store.open_to_read(folder) as store:
            cells = range(len(store.experiment.cells))
            numbers = {(cell, name): store.read(cell, name) for cell in cells for name in COLUMNS if name != "seconds"}
            found[block, batch] = digest, numbers, [run.outcome for run in store.runs()], store.experiment.hash
    return found


def same(first, second):
    """Return whether two stores have equal numbers, all bits of them."""
    return first[2] == second[2] and all(np.array_equal(first[1][key], second[1][key]) for key in first[1])


@pytest.mark.parametrize("block", [60, 7])
def test_blocks_do_not_change_a_bit_of_any_number_nor_the_digest(stores, block):
    whole, parts = stores[20, 2], stores[block, 2]
    assert whole[3] != parts[3], "the hash of the spec is another one"
    assert same(whole, parts)
    assert whole[0] == parts[0]


def test_two_stores_have_the_same_digest_exactly_if_they_have_the_same_numbers(stores):
    for first, second in itertools.combinations(stores.values(), 2):
        assert (first[0] == second[0]) == same(first, second)


@pytest.mark.parametrize("parts", [(60, 1), (20, 3)])
def test_batches_play_the_same_episodes_and_differ_in_the_rounding_of_sums_only(stores, parts):
    """Matrix products of other shapes add numbers in another order."""
    for key, numbers in stores[20, 2][1].items():
        other = stores[parts][1][key]
        if key[1] == "return":
            assert np.array_equal(numbers, other), key
        np.testing.assert_allclose(other, numbers, rtol=ALGEBRA, atol=ALGEBRA)


def test_names_do_not_enter_but_settings_do(tmp_path, stores):
    renamed = SPEC.replace('name = "small"', 'name = "other"').replace('title = "Small"', 'title = "Other"')
    renamed = renamed.replace('name = "random"', 'name = "random"\nid = "any"')
    assert finished(tmp_path / "renamed", renamed) == stores[20, 2][0]
    # random play does the same whatever it is told about its number of episodes
    told = SPEC.replace('name = "random"', 'name = "random"\nsettings = { n_episodes = 61 }')
    assert finished(tmp_path / "told", told) != stores[20, 2][0]
