"""The file of a log that is deleted, replaced, moved or damaged: nothing that is lost is acknowledged or served."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from pathlib import Path

import httpx
import numpy as np
import pytest
from processes import SHOP, end, run, start, until
from worlds_of_service import direct, play, shop

from matrixrl.errors import InvalidInput, MatrixRLError, StoreError
from matrixrl_serve import Service, replay
from matrixrl_serve.http.server import serve
from matrixrl_serve.log import EventLog
from matrixrl_serve.problem import ProblemFile


def delete(folder, _):
    (folder / "log.db").unlink()


def replace_by_older(folder, older):
    shutil.copy(older, folder / "new")
    (folder / "new").replace(folder / "log.db")


def replace_by_copy(folder, _):
    replace_by_older(folder, folder / "log.db")  # as large as before: only another file


def overwrite_by_older(folder, older):
    shutil.copyfile(older, folder / "log.db")


def move(folder, _):
    folder.rename(folder.with_name("moved"))


def delete_wal(folder, _):
    (folder / "log.db-wal").unlink()


@pytest.mark.parametrize("harm", [delete, replace_by_older, replace_by_copy, overwrite_by_older, move, delete_wal])
def test_nothing_is_acknowledged_once_the_file_is_not_in_its_place(harm, tmp_path):
    folder = tmp_path / "data"
    with Service(shop(), folder, learning=False) as service:
        with sqlite3.connect(tmp_path / "older.db") as older, sqlite3.connect(folder / "log.db") as now:
            now.backup(older)
        older.close()
        for _ in range(60):
            play(direct(service), np.random.default_rng(0))
        now.execute("PRAGMA wal_checkpoint(FULL)")  # the file grows only now
        now.close()
        service.run(lambda: service.decisions.open("local"))
        harm(folder, tmp_path / "older.db")
        for _ in range(2):
            with pytest.raises(StoreError, match="while it was in use"):
                service.run(lambda: service.decisions.open("local"))
        assert "while it was in use" in str(service.writer.error)


def test_a_directory_that_is_moved_back_is_served_again_and_nothing_is_lost(tmp_path):
    problem = tmp_path / "shop.toml"
    problem.write_text(SHOP)
    folder, moved = tmp_path / "data", tmp_path / "moved"
    process, url = start(folder, problem=problem)
    try:
        with httpx.Client(base_url=url, timeout=30.0) as web:
            assert web.post("/v1/episodes", json={"episode": "before"}).status_code == 200
            folder.rename(moved)
            until(lambda: web.get("/health").status_code == 503)  # also if nobody asks
            assert web.post("/v1/episodes", json={"episode": "during"}).status_code == 503
            moved.rename(folder)
            until(lambda: web.get("/health").status_code == 200)
            assert web.post("/v1/episodes", json={"episode": "during", "key": "k"}).json()["repeated"] is False
    finally:
        end(process)
    assert replay(folder).difference is None
    log = EventLog(folder)
    assert [event.episode for event in log.read() if event.kind == "opened"] == ["before", "during"]
    log.close()


def test_only_the_owner_reads_the_log(tmp_path):
    with Service(shop(), tmp_path / "data", learning=False):
        for path in (tmp_path / "data").glob("log.db*"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


DAMAGES = {
    "text of a body": ("body", "7"),
    "body that is no JSON": ("body", "{"),
    "bytes as a body": ("body", b"\xff"),
    "bytes as a kind": ("kind", b"\xff"),
    "unknown kind": ("kind", "x"),
    "text as a time": ("at", "soon"),
    "other actor": ("actor", "nobody"),
    "bytes as a digest": ("digest", b"\x00"),
    "number as an episode": ("episode", 3.5),
}


@pytest.mark.parametrize("seq", [1, 2, 5])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_log_is_neither_served_nor_replayed(damage, seq, tmp_path):
    with Service(shop(), tmp_path, learning=False) as service:
        play(direct(service), np.random.default_rng(0))  # and a checkpoint beyond the damage at the end
    column, value = DAMAGES[damage]
    with sqlite3.connect(tmp_path / "log.db") as database:
        database.execute(f"UPDATE events SET {column} = ? WHERE seq = ?", (value, seq))
    database.close()
    for use in (lambda: Service(None, tmp_path, learning=False), lambda: replay(tmp_path)):
        with pytest.raises(StoreError, match=r"damaged|holds no service") as caught:
            use()
        assert "\n" not in str(caught.value)
    for command in ("check", "replay"):
        found = run(command, tmp_path)
        assert found.exit_code != 0
        assert isinstance(found.exception, MatrixRLError)


def test_bytes_that_changed_on_disk_give_errors_of_the_library(tmp_path):
    """Each of 150 logs has one byte of its file flipped: it is refused in one line, or nothing that counts changed."""
    with Service(shop(), tmp_path / "whole", learning=False) as service:
        for _ in range(3):
            play(direct(service), np.random.default_rng(0))
    whole, rng, refused = (tmp_path / "whole" / "log.db").read_bytes(), np.random.default_rng(0), []
    for _ in range(150):
        data = bytearray(whole)
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        folder = tmp_path / "damaged"
        folder.mkdir()
        (folder / "log.db").write_bytes(data)
        try:
            assert replay(folder).difference is None
        except StoreError as error:
            refused.append(str(error))
        shutil.rmtree(folder)
    assert len(refused) > 10
    assert not any("\n" in words for words in refused)


def test_a_start_that_is_refused_leaves_nothing_behind(tmp_path):
    folder = tmp_path / "data"
    with pytest.raises(StoreError, match="give a problem file"):
        Service(None, folder)
    with pytest.raises(InvalidInput, match="horizon"):
        Service(ProblemFile(states=2, actions=2), folder)
    with pytest.raises(InvalidInput, match="as long as there is no token"):
        serve(shop(), folder, host="0.0.0.0", port=0)
    with Service(shop(), tmp_path / "other", learning=False), pytest.raises(MatrixRLError, match="--port"):
        serve(shop(), folder, port=70_000)
    assert not folder.exists()
    folder.mkdir()
    EventLog(folder).close()
    assert "holds no service" in str(run("check", folder).exception)


def _open_files(folder):
    """Return the files below a directory that this process has open."""
    places = (os.path.realpath(path) for path in Path("/proc/self/fd").iterdir())
    return [place for place in places if place.startswith(str(folder))]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not list open files")
def test_nothing_stays_open(tmp_path):
    with Service(shop(), tmp_path, learning=False) as service:
        play(direct(service), np.random.default_rng(0))
        with pytest.raises(StoreError, match="being written"):
            Service(None, tmp_path, learning=False)
    replay(tmp_path)
    with pytest.raises(StoreError, match="another problem"):
        Service(shop(horizon=4), tmp_path, learning=False)
    (tmp_path / "log.db").write_bytes(b"no database" * 100)
    with pytest.raises(StoreError, match="cannot be used"):
        EventLog(tmp_path)
    assert not _open_files(tmp_path)
