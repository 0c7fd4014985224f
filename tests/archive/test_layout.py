"""The zip file of an archive is laid out in one way, whatever its digest says."""

from __future__ import annotations

import io

import numpy as np
import pytest

from hostile import (
    archive_of,
    header_member,
    many_overlaps,
    members_of,
    npy,
    overlapping_members,
    resealed,
    zip64_records,
)
from matrixrl import CheckpointError
from matrixrl.archive import FORMAT_VERSION, atomic_write, pack, unpack

KIND = "test"


@pytest.fixture
def data():
    return pack(KIND, {"library": "0"}, {"a": np.arange(6.0).reshape(2, 3), "b": np.array(3), "c": np.zeros((0, 2))})


def test_what_is_packed_is_unpacked(data):
    header, arrays = unpack(KIND, data, "it")
    assert header == {"format": KIND, "version": FORMAT_VERSION, "library": "0"}
    np.testing.assert_array_equal(arrays["a"], np.arange(6.0).reshape(2, 3))
    assert arrays["b"] == 3
    assert arrays["b"].shape == ()
    assert arrays["c"].shape == (0, 2)


def test_a_member_that_is_there_twice_is_refused(data):
    members = members_of(data)
    with pytest.raises(CheckpointError, match="twice"):
        unpack(KIND, archive_of([*members, members[-1]]), "it")


@pytest.mark.parametrize(
    "make_file", [overlapping_members, many_overlaps, zip64_records], ids=lambda make: make.__name__
)
def test_a_directory_that_lies_is_not_read(make_file, data):
    """Members are read one after the other, so none can be read twice, and each is what it was."""
    odd = make_file(data, np.random.default_rng(0), data)
    _, arrays = unpack(KIND, odd, "it")
    assert set(arrays) - {"extra"} == {"a", "b", "c"}
    np.testing.assert_array_equal(arrays["a"], np.arange(6.0).reshape(2, 3))


def test_bytes_between_members_are_refused(data):
    second = data.index(b"PK\x03\x04", 4)
    with pytest.raises(CheckpointError, match="belong to no array"):
        unpack(KIND, resealed(data[:second] + b"0" + data[second:]), "it")


def test_numpy_reads_an_archive(data):
    with np.load(io.BytesIO(data)) as file:
        np.testing.assert_array_equal(file["a"], np.arange(6.0).reshape(2, 3))


def test_what_follows_the_digest_is_refused(data):
    with pytest.raises(CheckpointError, match="changed after it was written"):
        unpack(KIND, data + b"0", "it")


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    """A link under any name that a temporary file could have is not followed, and nothing is left behind."""

    def fail(path):
        path.write_text("half")
        raise RuntimeError

    (tmp_path / "a").write_text("before")
    with pytest.raises(RuntimeError):
        atomic_write(tmp_path / "a", fail)
    assert (tmp_path / "a").read_text() == "before"
    assert atomic_write(tmp_path / "new" / "b.txt", lambda path: path.write_text("all")) == 3
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["a", "new", "b.txt"]


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.array([1j]), np.zeros(2, dtype="M8[s]"), np.array([None])], ids=str
)
def test_only_numbers_are_written(array):
    with pytest.raises(CheckpointError, match="an archive holds numbers"):
        pack(KIND, {}, {"a": array})


@pytest.mark.parametrize("order", [">f8", ">i4"])
def test_the_byte_order_of_another_machine_is_refused(order, data):
    members = [(name, npy(np.ones(3, dtype=order)) if name == "a.npy" else old) for name, old in members_of(data)]
    with pytest.raises(CheckpointError, match="which matrixrl never writes"):
        unpack(KIND, archive_of(members), "it")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"format": "test", "version": 13, "a": 1, "a": 2}', "occurs twice"),
        (b'{"format": "test", "version": 13, "a": NaN}', "not a number"),
        (b'{"format": "test", "version": 13, "a": ' + b"[" * 40 + b"]" * 40 + b"}", "levels"),
        (b"[" * 100_000, "damaged header"),
        (b'{"format": "test", "version": ' + b"1" * 5000 + b"}", "damaged header"),
        (b"\xff", "damaged header"),
    ],
    ids=["twice", "NaN", "deep", "deeper", "long number", "no text"],
)
def test_headers_that_json_would_take_or_fail_on_are_refused(text, words, data):
    members = [("header.npy", header_member(text)), *members_of(data)[1:]]
    with pytest.raises(CheckpointError, match=words):
        unpack(KIND, archive_of(members), "it")
