from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from experiments import SMALL, experiment, finished

from matrixrl.errors import InvalidInput, StoreError
from matrixrl.play import run_seeds
from matrixrl_lab.report import write_report
from matrixrl_lab.spec import read_spec, work_out
from matrixrl_lab.store import Store
from matrixrl_lab.store.schema import FILE, LOCK


def block(rng, n_seeds=2, n=5):
    return {name: rng.random((n_seeds, n)) for name in ("regret", "return", "seconds")}


def test_what_is_written_is_read_back_bit_for_bit(tmp_path, rng):
    first, second = block(rng), block(rng)
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        store.write_block(1, (0, 1), 0, first, state=b"state", facts={"horizon": 3})
        store.write_block(1, (0, 1), 5, second, state=b"later")
    with Store.open_to_read(tmp_path / "s") as store:
        whole = np.hstack([first["regret"], second["regret"]])
        assert np.array_equal(store.read(1, "regret", [0, 1]), whole)
        assert store.read(1, "regret").shape == (3, 0), "the third seed has nothing yet"
        assert store.read(1, "upper", [0, 1]).shape == (2, 0), "no certificates were kept"
        assert store.state(1, 0) == (10, b"later")
        assert store.facts(1) == {"horizon": 3}
        statuses = {(row.cell, row.seed): (row.status, row.episodes) for row in store.runs()}
        assert statuses[1, 0] == ("running", 10)
        assert statuses[1, 2] == ("pending", 0)


def test_writing_a_block_again_changes_nothing(tmp_path, rng):
    one = block(rng)
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        store.write_block(0, (0, 1), 0, one, state=b"x")
        before = store.digest()
        store.write_block(0, (0, 1), 0, one, state=b"x")
        assert store.digest() == before
        assert np.array_equal(store.read(0, "regret", [0, 1]), one["regret"])


def test_the_digest_sees_every_number_but_wall_time(tmp_path, rng):
    one = block(rng)
    digests = []
    for i, change in enumerate(({}, {"seconds": rng.random((2, 5))}, {"return": one["return"] + 1e-16 + 1e-15})):
        with Store.create(tmp_path / str(i), experiment(tmp_path)) as store:
            store.write_block(0, (0, 1), 0, {**one, **change}, state=None)
            digests.append(store.digest())
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


def test_a_block_that_fails_half_way_is_not_there(tmp_path, rng):
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        before = store.digest()
        with pytest.raises(KeyError):
            store.write_block(0, (0, 99), 0, block(rng), state=b"x")
        assert store.digest() == before
        assert store.state(0, 0) is None


def test_a_full_disk_loses_nothing_that_was_stored(tmp_path, rng):
    one, huge = block(rng), block(rng, n=400_000)
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        store.write_block(0, (0, 1), 0, one, state=b"x")
        before = store.digest()
        store._db.execute(
            "PRAGMA max_page_count = 40"
        )  # SQLite's own limit: it says exactly what a full disk makes it say
        with pytest.raises(StoreError, match="the disk is full; nothing of this block was stored"):
            store.write_block(0, (0, 1), 5, huge, state=b"y")
        assert store.digest() == before
    with Store.open_to_write(tmp_path / "s") as store:
        store.write_block(0, (0, 1), 5, one, state=b"y")
        assert store.read(0, "regret", [0, 1]).shape == (2, 10)


def test_a_directory_that_cannot_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    with pytest.raises(StoreError, match="cannot write to"):
        Store.create(blocked / "s", experiment(tmp_path))


def test_two_writers_are_one_too_many(tmp_path):
    with Store.create(tmp_path / "s", experiment(tmp_path)):
        with pytest.raises(StoreError, match="being written by another process"):
            Store.open_to_write(tmp_path / "s")
        assert "being written by another process" in other_writer(tmp_path / "s")
        with Store.open_to_read(tmp_path / "s") as reader:
            assert len(reader.runs()) == 9
    with Store.open_to_write(tmp_path / "s") as store:
        assert len(store.runs()) == 9


def other_writer(folder):
    """Try to open a store for writing in another process; return what it says."""
    code = "import sys, pathlib, matrixrl_lab.store as s; s.Store.open_to_write(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_deleting_the_lock_lets_nobody_in(tmp_path, rng):
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        (tmp_path / "s" / LOCK).unlink()
        assert "being written by another process" in other_writer(tmp_path / "s")
        with pytest.raises(StoreError, match="being written by another process"):
            Store.open_to_write(tmp_path / "s")
        store.write_block(0, (0, 1), 0, block(rng), state=None)
    with Store.open_to_write(tmp_path / "s") as store:
        assert store.read(0, "regret", [0, 1]).shape == (2, 5), "the lock is released at the end"


def delete_file(folder):
    (folder / FILE).unlink()


def replace_file(folder):
    data = (folder / FILE).read_bytes()
    (folder / FILE).unlink()
    (folder / FILE).write_bytes(data)


def rename_folder(folder):
    folder.rename(folder.with_name("elsewhere"))


@pytest.mark.parametrize("lose", [delete_file, replace_file, rename_folder, shutil.rmtree])
def test_a_store_that_is_gone_is_an_error_and_not_a_result(tmp_path, rng, lose):
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        store.write_block(0, (0, 1), 0, block(rng), state=None)
        lose(tmp_path / "s")
        with pytest.raises(StoreError, match="deleted, moved or replaced while it was in use"):
            store.write_block(0, (0, 1), 5, block(rng), state=None)
        with pytest.raises(StoreError, match="deleted, moved or replaced while it was in use"):
            write_report(store, tmp_path / "s" / "report.html")
        assert not (tmp_path / "s" / "report.html").exists()


def test_experiments_are_never_mixed(tmp_path):
    with Store.create(tmp_path / "s", experiment(tmp_path)):
        pass
    with pytest.raises(StoreError, match="already holds this experiment; continue with matrixrl resume"):
        Store.create(tmp_path / "s", experiment(tmp_path))
    with pytest.raises(StoreError, match="holds another experiment"):
        Store.create(tmp_path / "s", experiment(tmp_path, episodes=61))


def test_what_a_removed_store_left_behind_does_no_harm(tmp_path, rng):
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        store.write_block(0, (0, 1), 0, block(rng), state=b"x")
        wal = (tmp_path / "s" / f"{FILE}-wal").read_bytes()
    (tmp_path / "s" / FILE).unlink()
    (tmp_path / "s" / f"{FILE}-wal").write_bytes(wal)
    with Store.create(tmp_path / "s", experiment(tmp_path, episodes=61)) as store:
        assert store._db.query("PRAGMA integrity_check") == [("ok",)]
        assert all(row.episodes == 0 for row in store.runs())


def test_a_reader_sees_one_moment(tmp_path, rng):
    with Store.create(tmp_path / "s", experiment(tmp_path)) as writer:
        writer.write_block(0, (0, 1), 0, block(rng), state=None)
        with Store.open_to_read(tmp_path / "s") as reader:
            with reader.reading():
                before = reader.read(0, "regret", [0, 1])
                writer.write_block(0, (0, 1), 5, block(rng), state=None)
                assert reader.read(0, "return", [0, 1]).shape == before.shape == (2, 5)
            assert reader.read(0, "return", [0, 1]).shape == (2, 10)


def test_alarms_are_counted_once(tmp_path, rng):
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        for _ in range(2):
            store.write_block(0, (0, 1), 0, block(rng), state=None, alarms=[3, 0])
        store.write_block(0, (0, 1), 5, block(rng), state=None, alarms=[1, 0])
        assert [row.alarms for row in store.runs()[:3]] == [4, 0, 0]


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(StoreError, match="holds no results"):
        Store.open_to_read(tmp_path)
    (tmp_path / FILE).write_text("hello")
    with pytest.raises(StoreError, match="damaged or not a store"):
        Store.open_to_read(tmp_path)
    (tmp_path / FILE).unlink()
    with sqlite3.connect(tmp_path / FILE) as other:
        other.execute("CREATE TABLE other (x)")
    other.close()
    with pytest.raises(StoreError, match="damaged or not a store"):
        Store.open_to_read(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE meta SET value = '99' WHERE key = 'format'", "has format 99, newer than the 4 .* upgrade"),
        (
            "UPDATE meta SET value = '1' WHERE key = 'format'",
            "has format 1, older than the 4 that this matrixrl reads; .* run the experiment again",
        ),
        ("UPDATE meta SET value = 'x' WHERE key = 'format'", "has format x"),
        ("UPDATE meta SET value = '{' WHERE key = 'experiment'", "is damaged"),
        ("UPDATE meta SET value = 'abc' WHERE key = 'hash'", "does not have its checksum"),
        ("DELETE FROM meta WHERE key = 'experiment'", "has no experiment"),
    ],
)
def test_a_store_that_is_older_newer_or_damaged_is_refused(tmp_path, change, message):
    with Store.create(tmp_path / "s", experiment(tmp_path)):
        pass
    with sqlite3.connect(tmp_path / "s" / FILE) as changed:
        changed.execute(change)
    changed.close()
    with pytest.raises(StoreError, match=message):
        Store.open_to_write(tmp_path / "s")


def test_reasons_may_have_any_characters(tmp_path):
    """SQLite stores UTF-8, which has no lone surrogates; paths of files may have them."""
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        store.fail(0, (0,), "no file \ud800 φ")
        assert store.runs()[0].reason == "no file \\ud800 φ"


def test_a_block_must_begin_where_its_runs_end(tmp_path, rng):
    with Store.create(tmp_path / "s", experiment(tmp_path)) as store:
        store.write_block(0, (0, 1), 0, block(rng), state=None)
        before = store.digest()
        with pytest.raises(StoreError, match="seed 0 has 5 episodes, the block begins at 10"):
            store.write_block(0, (0, 1), 10, block(rng), state=None)
        assert store.digest() == before


def test_a_reader_cannot_write_and_asks_for_known_series_only(tmp_path, rng):
    finished(tmp_path / "s", episodes=20)
    with Store.open_to_read(tmp_path / "s") as store:
        with pytest.raises(StoreError, match="opened to read only"):
            store.write_block(0, (0, 1), 0, block(rng), state=None)
        with pytest.raises(InvalidInput, match="series must be one of"):
            store.read(0, "rewards")


def test_rows_are_those_of_a_plain_run(tmp_path):
    finished(tmp_path / "s", SMALL)
    expected = run_seeds(
        "river-swim",
        n_episodes=60,
        seeds=3,
        env_settings={"n_states": 4, "horizon": 6},
        preset="tuned",
        agent="matrix-rl",
    )
    with Store.open_to_read(tmp_path / "s") as store:
        assert np.allclose(store.read(0, "regret"), expected.regret, atol=1e-9)
        assert np.allclose(store.read(0, "return"), expected.returns, atol=1e-9)
        assert store.source == SMALL
        assert store.versions["numpy"] == np.__version__
        assert store.experiment == work_out(read_spec(tmp_path / "s" / "spec.toml"))
