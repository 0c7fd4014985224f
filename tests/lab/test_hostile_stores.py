"""Damaged and hand-edited stores: readers print the same result or one message, and never another result.

A small part of ``benchmarks/hostile_stores.py``, which damages 300 files.
"""

from __future__ import annotations

import numpy as np
import pytest

from hostile_stores import (
    DAMAGES,
    EDITS,
    FOREIGN,
    READERS,
    REFUSED,
    SAME,
    SILENT,
    edit,
    hostile,
    make_stores,
    outcome,
    wanted_of,
)
from matrixrl.errors import StoreError
from matrixrl_lab.experiments import play
from matrixrl_lab.store import Store
from matrixrl_lab.store.schema import FILE


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    return make_stores(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def wanted(stores):
    return wanted_of(stores)


@pytest.mark.slow
def test_damaged_files_are_refused_or_give_the_same(stores, wanted, tmp_path):
    for kind, base, folder in hostile(stores, 2 * len(DAMAGES), tmp_path, seed=1):
        if not kind.startswith("edit: "):
            for name, read in READERS.items():
                what, words = outcome(read, folder, wanted[base, name])
                assert what not in (SILENT, FOREIGN), (kind, base, name, words)


@pytest.mark.parametrize("reader", ["show", "export"])
def test_every_flipped_byte_of_a_result_is_found(stores, wanted, tmp_path, reader):
    """Flip bytes inside the numbers of blocks: SQLite itself notices none of them."""
    data = (stores["finished"] / FILE).read_bytes()
    with Store.open_to_read(stores["finished"]) as store:
        places = [data.index(store.read(0, name)[0, :10].tobytes()) for name in ("regret", "return", "lower")]
    folder = tmp_path / "s"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for place in places:
        changed = bytearray(data)
        changed[place + int(rng.integers(80))] ^= 1
        (folder / FILE).write_bytes(changed)
        what, words = outcome(READERS[reader], folder, wanted["finished", reader])
        assert what == REFUSED
        assert "does not have its checksum" in words


NOT_NEEDED = {
    "states deleted": "as for a state that was too large to store, the run begins anew",
    "table states dropped": "a finished experiment has no states",
}


@pytest.mark.parametrize("name", EDITS)
def test_hand_edited_stores_are_refused(stores, wanted, tmp_path, name):
    """`show` reads everything that is printed, `resume` also the states."""
    base, reader = ("stopped", "resume") if name.startswith("states") else ("finished", "show")
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / FILE).write_bytes((stores[base] / FILE).read_bytes())
    assert edit(folder, EDITS[name])
    what, words = outcome(READERS[reader], folder, wanted[base, reader])
    if name in NOT_NEEDED:
        assert what == SAME
        return
    assert what == REFUSED, words
    assert FILE in words
    assert "\n" not in words


def test_a_damaged_state_is_refused_before_anything_is_played(stores, tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / FILE).write_bytes((stores["stopped"] / FILE).read_bytes())
    assert edit(folder, EDITS["states of another episode"])
    with Store.open_to_write(folder) as store:
        before = store.digest()
        with pytest.raises(StoreError, match="states does not have its checksum"):
            play(store, on="serial")
        assert store.digest() == before
