"""The zip file of an archive is laid out in one way, whatever its digest says."""

from __future__ import annotations

import io
import struct

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
from matrixrl.archive import pack, unpack
from matrixrl.archive.members import open_members
from matrixrl.archive.seal import SEAL_SIZE

KIND = "test"


@pytest.fixture
def data():
    return pack(KIND, {"library": "0"}, {"a": np.arange(6.0).reshape(2, 3), "b": np.array(3), "c": np.zeros((0, 2))})


def test_what_is_packed_is_unpacked(data):
    header, arrays = unpack(KIND, data, "it")
    assert header == {"format": KIND, "version": 9, "library": "0"}
    np.testing.assert_array_equal(arrays["a"], np.arange(6.0).reshape(2, 3))
    assert arrays["b"] == 3
    assert arrays["b"].shape == ()
    assert arrays["c"].shape == (0, 2)


def test_a_member_that_is_there_twice_is_refused(data):
    members = members_of(data)
    with pytest.raises(CheckpointError, match="twice"):
        unpack(KIND, archive_of([*members, members[-1]]), "it")


@pytest.mark.parametrize("make_file", [overlapping_members, many_overlaps], ids=["few", "many"])
def test_members_that_overlap_are_refused_by_their_places(make_file, data):
    """Before `zipfile` looks at them, which some versions of Python leave out."""
    odd = make_file(data, np.random.default_rng(0), data)
    with pytest.raises(CheckpointError, match=r"overlaps another member|twice"):
        open_members(io.BytesIO(odd), "it", comment_size=SEAL_SIZE)


def test_bytes_between_members_are_refused(data):
    """One member of the directory is left out, and its bytes stay."""
    end = data.rindex(b"PK\x05\x06")
    start = struct.unpack_from("<L", data, end + 16)[0]
    second, third = (
        data.index(b"PK\x01\x02", place) for place in (start + 1, data.index(b"PK\x01\x02", start + 1) + 1)
    )
    directory = data[start:second] + data[third:end]
    last = bytearray(data[end:])
    last[8:12] = struct.pack("<2H", 3, 3)
    last[12:16] = struct.pack("<L", len(directory))
    with pytest.raises(CheckpointError, match="bytes lie between"):
        unpack(KIND, resealed(data[:start] + directory + bytes(last)), "it")


def test_a_directory_of_another_length_than_it_declares_is_refused_before_it_is_read(data, monkeypatch):
    end = data.rindex(b"PK\x05\x06")
    start = struct.unpack_from("<L", data, end + 16)[0]
    more = data[start:end] * 1000
    last = bytearray(data[end:])
    last[12:16] = struct.pack("<L", len(more))
    monkeypatch.setattr("zipfile.ZipFile", None)
    with pytest.raises(CheckpointError, match="another number of members than the 4 that it declares"):
        open_members(io.BytesIO(data[:start] + more + bytes(last)), "it", comment_size=SEAL_SIZE)


def test_records_of_a_large_zip_file_are_refused_in_a_small_one(data):
    odd = zip64_records(data, np.random.default_rng(1), data)
    with pytest.raises(CheckpointError, match=r"large zip file, which it is not|a directory of"):
        unpack(KIND, odd, "it")


def test_a_large_archive_is_written_and_read_with_those_records(monkeypatch):
    monkeypatch.setattr("zipfile.ZIP64_LIMIT", 1000)
    monkeypatch.setattr("matrixrl.archive.members._LARGE", 1000)
    data = pack(KIND, {}, {"a": np.arange(500.0)})
    assert b"PK\x06\x07" in data
    np.testing.assert_array_equal(unpack(KIND, data, "it")[1]["a"], np.arange(500.0))


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
        (b'{"format": "test", "version": 9, "a": 1, "a": 2}', "occurs twice"),
        (b'{"format": "test", "version": 9, "a": NaN}', "not a number"),
        (b'{"format": "test", "version": 9, "a": ' + b"[" * 40 + b"]" * 40 + b"}", "levels"),
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
