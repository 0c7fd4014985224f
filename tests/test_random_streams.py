"""Named random streams, and their states as arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrixrl import InvalidInput
from matrixrl.random_streams import (
    Streams,
    fresh_seed,
    generator,
    seed_list,
    stream_from_array,
    stream_seed,
    stream_to_array,
)

NAMES = ("env", "agent", "ties", "sampling", "problem")


def test_streams_of_one_seed_differ_and_repeat():
    first = {name: generator(7, name).random(4).tolist() for name in NAMES}
    assert first == {name: generator(7, name).random(4).tolist() for name in NAMES}
    assert len({tuple(numbers) for numbers in first.values()}) == len(NAMES)
    assert len({stream_seed(7, name) for name in NAMES}) == len(NAMES)
    assert first["env"] != generator(8, "env").random(4).tolist()


def test_seeds_are_checked():
    assert seed_list(3, 4) == [3, 4, 5, 6]
    assert 0 <= fresh_seed() < 2**31
    for call in (lambda: generator(-1, "env"), lambda: stream_seed(1.5, "env"), lambda: seed_list(0, 0)):
        with pytest.raises(InvalidInput, match="seed"):
            call()


@given(st.integers(0, 2**64), st.integers(0, 300), st.booleans())
def test_an_array_holds_a_stream_bit_for_bit(seed, draws, is_odd):
    """Also the half of a 64-bit number that waits for the next 32-bit draw."""
    rng = np.random.default_rng(seed)
    rng.random(draws)
    rng.integers(0, 2**20, size=3 if is_odd else 2, dtype=np.uint32)
    assert rng.bit_generator.state["has_uint32"] == int(is_odd)
    words = stream_to_array(rng)
    assert (words.shape, words.dtype) == ((6,), np.uint64)
    again = stream_from_array(words)
    assert again.bit_generator.state == rng.bit_generator.state
    np.testing.assert_array_equal(
        again.integers(0, 2**20, size=5, dtype=np.uint32), rng.integers(0, 2**20, size=5, dtype=np.uint32)
    )
    np.testing.assert_array_equal(again.standard_normal(5), rng.standard_normal(5))


def test_other_generators_are_refused():
    with pytest.raises(InvalidInput, match="random stream must be of kind PCG64"):
        stream_to_array(np.random.Generator(np.random.MT19937(0)))


def words_with(**changes):
    words = stream_to_array(np.random.default_rng(0))
    for position, value in changes.items():
        words[int(position[1:])] = value
    return words


@pytest.mark.parametrize(
    "words",
    [
        np.zeros(6, dtype=np.uint64),
        words_with(w3=2),  # an even increment is no PCG64
        words_with(w4=2),  # a flag that is neither 0 nor 1
        words_with(w5=2**32),  # a buffered number of more than 32 bits
        words_with()[:5],
        words_with()[None],
        words_with().astype(np.float64),
        words_with().astype(np.int64),
        words_with() > 0,
    ],
    ids=["zeros", "even", "flag", "buffer", "short", "row", "float", "signed", "bool"],
)
def test_hostile_arrays_are_refused(words):
    with pytest.raises(InvalidInput, match="random state must be one"):
        stream_from_array(words)


def test_streams_of_replicas_are_those_of_each_seed_alone():
    together = Streams([3, 9], ["agent", "ties"])
    for b, seed in enumerate((3, 9)):
        for name in ("agent", "ties"):
            assert together[name][b].random() == generator(seed, name).random()


def drawn(streams):
    return [[rng.random() for rng in streams[name]] for name in ("agent", "ties")]


def test_streams_go_back_to_a_mark_and_through_an_array():
    streams = Streams([0, 1, 2], ["agent", "ties"])
    streams["ties"][1].integers(0, 9, size=3, dtype=np.uint32)
    mark, array = streams.mark(), streams.to_array()
    assert array.shape == (6, 6)
    first = drawn(streams)
    streams.rewind(mark)
    assert drawn(streams) == first
    other = Streams([7, 8, 9], ["agent", "ties"])
    other.from_array(array)
    assert other.mark() == mark
    assert drawn(other) == first


def test_an_array_that_is_refused_changes_no_stream():
    streams = Streams([0, 1], ["agent", "ties"])
    mark, array = streams.mark(), Streams([5, 6], ["agent", "ties"]).to_array()
    broken = array.copy()
    broken[-1] = 0
    for odd in (broken, array[:3], array[:, :5], array.ravel(), array.astype(np.float64)):
        with pytest.raises(InvalidInput, match=r"streams must have shape \(4, 6\)|random state must be one"):
            streams.from_array(odd)
        assert streams.mark() == mark


def test_an_algorithm_without_streams_has_an_empty_array():
    none = Streams([0, 1], [])
    assert none.to_array().shape == (0, 6)
    none.from_array(none.to_array())
