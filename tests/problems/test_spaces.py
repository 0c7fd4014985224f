"""Every element of a finite space has one number, and every number one element."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from matrixrl.errors import InvalidInput
from matrixrl.problems.task import read_start
from matrixrl.spaces import LARGEST_SPACE, ArrayCodec, DiscreteCodec, TupleCodec, codec_from, codec_of

QUIET = settings(max_examples=80, deadline=None, derandomize=True, database=None)
STARTS = st.integers(-3, 3)


def arrays(shape):
    entries = math.prod(shape)
    counts = st.lists(st.integers(1, 3), min_size=entries, max_size=entries)
    firsts = st.lists(STARTS, min_size=entries, max_size=entries)
    kinds = st.sampled_from([np.int8, np.int32, np.int64])
    return st.builds(
        lambda n, k, kind: spaces.MultiDiscrete(np.reshape(n, shape), dtype=kind, start=np.reshape(k, shape)),
        counts,
        firsts,
        kinds,
    )


LEAVES = st.one_of(
    st.builds(lambda n, k: spaces.Discrete(n, start=k), st.integers(1, 4), STARTS),
    st.sampled_from([(1,), (3,), (2, 2)]).flatmap(arrays),
    st.sampled_from([1, 3, (2, 1)]).map(spaces.MultiBinary),
)
SPACES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(spaces.Tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3).map(spaces.Dict),
    ),
    max_leaves=3,
)


def elements(space):
    """Return all elements of a space by its own definition, in the order in which the last part changes first."""
    if isinstance(space, spaces.Discrete):
        return list(range(int(space.start), int(space.start + space.n)))
    if isinstance(space, spaces.MultiBinary):
        return [np.reshape(x, space.shape) for x in itertools.product((0, 1), repeat=math.prod(space.shape))]
    if isinstance(space, spaces.MultiDiscrete):
        ranges = [range(k, k + n) for k, n in zip(space.start.ravel(), space.nvec.ravel(), strict=True)]
        return [np.reshape(x, space.shape) for x in itertools.product(*ranges)]
    if isinstance(space, spaces.Tuple):
        return list(itertools.product(*map(elements, space.spaces)))
    combined = itertools.product(*map(elements, space.spaces.values()))
    return [dict(zip(space.spaces, parts, strict=True)) for parts in combined]


def same(one, other):
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(same, one, other))
    return np.array_equal(one, other)


@QUIET
@given(space=SPACES, seed=st.integers(0, 2**31))
def test_every_element_has_a_number_and_every_number_an_element(space, seed):
    codec, all_elements = codec_of("observation", space), elements(space)
    assert codec.size == len(all_elements)
    for number, element in enumerate(all_elements):
        assert codec.encode("obs", element, "…") == number
        assert same(codec.decode(number), element)
        assert space.contains(codec.decode(number))
    space.seed(seed)
    for _ in range(5):
        drawn = space.sample()
        assert same(codec.decode(codec.encode("obs", drawn, "…")), drawn)


@QUIET
@given(space=SPACES)
def test_a_codec_is_the_same_after_it_was_written_and_read(space):
    codec = codec_of("action", space)
    assert codec_from(json.loads(json.dumps(codec.description()))) == codec
    assert codec.coordinates().shape[0] == codec.size


def test_numbers_are_those_of_numpy():
    space = spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 0], [-2, 7]])
    codec = codec_of("observation", space)
    for obs in (space.sample() for _ in range(20)):
        digits = (obs - space.start).ravel()
        assert codec.encode("obs", obs, "…") == np.ravel_multi_index(digits, space.nvec.ravel())


def test_coordinates_have_one_axis_for_each_part():
    codec = codec_of("observation", spaces.Tuple([spaces.Discrete(3, start=5), spaces.MultiBinary(2)]))
    points = codec.coordinates()
    assert points.shape == (12, 3)
    assert points[codec.encode("obs", (6, [0, 1]), "…")].tolist() == [0.0, -1.0, 1.0]
    assert len(np.unique(points, axis=0)) == 12


NESTED = spaces.Dict(
    {
        "stock": spaces.MultiDiscrete([4, 3], start=[0, 1]),
        "day": spaces.Tuple([spaces.Discrete(7, start=1), spaces.Discrete(2)]),
    }
)


@pytest.mark.parametrize(
    ("obs", "words"),
    [
        ({"stock": [4, 1], "day": (1, 0)}, r"obs\['stock'\]\[0\] must be in 0 … 3; got 4"),
        ({"stock": [0, 0], "day": (1, 0)}, r"obs\['stock'\]\[1\] must be in 1 … 3; got 0"),
        ({"stock": [0, 1], "day": (0, 0)}, r"obs\['day'\]\[0\] must be in 1 … 7; got 0"),
        ({"stock": [0, 1], "day": (1, 2)}, r"obs\['day'\]\[1\] must be in 0 … 1; got 2"),
        ({"stock": [0, 1], "day": (1.0, 0)}, r"obs\['day'\]\[0\] must be a whole number; got 1\.0"),
        ({"stock": [0, 1], "day": (True, 0)}, r"obs\['day'\]\[0\] must be a whole number; got True"),
        ({"stock": [0, 1], "day": (1,)}, r"obs\['day'\] must be a tuple of 2 parts; got \(1,\)"),
        ({"stock": [0.5, 1], "day": (1, 0)}, r"obs\['stock'\] must be whole numbers of shape \(2,\); got \[0\.5, 1\]"),
        ({"stock": [[0, 1], [1]], "day": (1, 0)}, r"obs\['stock'\] must be whole numbers of shape \(2,\)"),
        ({"stock": [0, 1, 1], "day": (1, 0)}, r"obs\['stock'\] must be whole numbers of shape \(2,\)"),
        ({"stock": [0, 1]}, r"obs must have the keys 'day', 'stock'; got the keys \['stock'\]"),
        ({"stock": [0, 1], "days": (1, 0)}, r"obs must have the keys 'day', 'stock'; got the keys"),
        ({"stock": [0, 1], "day": (1, 0), "x": 0}, r"obs must have the keys"),
        (3, r"obs must be a dictionary with the keys 'day', 'stock'; got 3\. Give a state"),
    ],
)
def test_a_bad_element_is_refused_by_the_name_of_its_part(obs, words):
    with pytest.raises(InvalidInput, match=words):
        codec_of("observation", NESTED).encode("obs", obs, "Give a state.")


def test_forms_in_which_elements_often_come():
    codec = codec_of("observation", NESTED)
    number = codec.encode("obs", {"day": (3, 1), "stock": np.array([2, 1])}, "…")
    for obs in (
        {"stock": (2, 1), "day": [3, 1]},
        {"stock": np.array([2, 1], dtype=np.uint8), "day": np.array([3, 1])},
        {"day": (np.int64(3), True), "stock": [np.int32(2), 1]},  # Discrete(2) is often a flag
        {"day": (np.array(3), np.bool_(True)), "stock": [2, 1]},
    ):
        assert codec.encode("obs", obs, "…") == number
    binary = codec_of("observation", spaces.MultiBinary(3))
    assert binary.encode("obs", [True, False, True], "…") == binary.encode("obs", np.array([1, 0, 1]), "…") == 5


def test_what_decode_returns_belongs_to_the_caller():
    codec = codec_of("action", spaces.Dict({"a": spaces.MultiDiscrete([2, 2])}))
    first = codec.decode(3)
    first["a"][:] = 0
    assert codec.decode(3)["a"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (
            spaces.MultiDiscrete([10] * 8),
            r"observation_space must have at most 10,000,000 elements.*100,000,000 elements",
        ),
        (
            spaces.MultiBinary(300),
            r"got MultiBinary\(300\), with about 10\^90 elements.*KernelMatrixRL.*FunctionalTask",
        ),
        (spaces.Discrete(LARGEST_SPACE + 1), "with 10,000,001 elements"),
        (spaces.MultiDiscrete([1] * 5000), "must have at most 4,096 parts; got 5,000"),
        (spaces.Box(0, 1, (2,)), r"observation_space must be finite: Discrete, .*Box.*FlattenObservation"),
        (spaces.Tuple([spaces.Discrete(2), spaces.Text(3)]), r"observation_space\[1\] must be finite.*got Text"),
        (
            spaces.Dict({"a": spaces.Dict({"b": spaces.Box(0, 1, (2,))})}),
            r"observation_space\['a'\]\['b'\] must be finite",
        ),
        (spaces.Dict({1.5: spaces.Discrete(2)}), "observation_space must have texts or whole numbers as keys; got 1.5"),
    ],
)
def test_spaces_that_cannot_be_numbered(space, words):
    with pytest.raises(InvalidInput, match=words):
        codec_of("observation", space)


def test_a_space_that_is_too_deep_is_refused():
    space = spaces.Discrete(2)
    for _ in range(8):
        space = spaces.Tuple([space])
    assert codec_of("action", space).decode(1) == ((((((((1,),),),),),),),)
    with pytest.raises(InvalidInput, match="more than 8 levels"):
        codec_of("action", spaces.Tuple([space]))


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"kind": "discrete"},
        {"kind": ["discrete"], "count": 2, "first": 0},
        {"kind": "discrete", "count": 0, "first": 0},
        {"kind": "discrete", "count": True, "first": 0},
        {"kind": "discrete", "count": 2, "first": 2**70},
        {"kind": "discrete", "count": 2, "first": 0, "more": 1},
        {"kind": "array", "sizes": [2], "firsts": [0], "shape": [2], "dtype": "int64"},
        {"kind": "array", "sizes": [2], "firsts": [0, 0], "shape": [1], "dtype": "int64"},
        {"kind": "array", "sizes": [2], "firsts": [0], "shape": [1], "dtype": "object"},
        {"kind": "array", "sizes": [2], "firsts": [0], "shape": [1], "dtype": 3},
        {"kind": "array", "sizes": [200], "firsts": [0], "shape": [1], "dtype": "int8"},
        {"kind": "array", "sizes": [2], "firsts": [0], "shape": [-1, -1], "dtype": "int8"},
        {"kind": "tuple", "parts": {}, "keys": None},
        {"kind": "tuple", "parts": [3], "keys": None},
        {"kind": "tuple", "keys": ["a", "a"], "parts": [DiscreteCodec(2).description()] * 2},
        {"kind": "tuple", "keys": [["a"]], "parts": [DiscreteCodec(2).description()]},
        {"kind": "tuple", "keys": ["a"], "parts": []},
    ],
    ids=str,
)
def test_descriptions_that_nobody_wrote_are_refused(data):
    with pytest.raises(InvalidInput):
        codec_from(data)


def test_codecs_are_equal_if_they_number_the_same_elements():
    assert DiscreteCodec(3) == DiscreteCodec(3) != DiscreteCodec(3, first=1)
    assert TupleCodec((DiscreteCodec(2), DiscreteCodec(3))) != TupleCodec((DiscreteCodec(3), DiscreteCodec(2)))
    assert TupleCodec((DiscreteCodec(2),), ("a",)) != TupleCodec((DiscreteCodec(2),), ("b",))
    assert ArrayCodec((2, 3), (0, 0), (2,)) != ArrayCodec((2, 3), (0, 1), (2,))
    texts = [str(codec_of("observation", NESTED)), str(codec_of("action", spaces.Discrete(3, start=2)))]
    assert texts == [
        "Dict('day': Tuple(Discrete(7, start=1), Discrete(2)), 'stock': MultiDiscrete([4, 3], start=[0, 1]))",
        "Discrete(3, start=2)",
    ]


def test_a_first_state_may_have_parts_of_different_shapes_and_be_one_of_very_many():
    states = codec_of("observation", spaces.Tuple([spaces.Discrete(2), spaces.MultiDiscrete([2, 2])]))
    assert np.flatnonzero(read_start((1, [0, 1]), states)).tolist() == [5]
    assert read_start([0.0] * 7 + [1.0], states).tolist() == [0.0] * 7 + [1.0]
    assert np.flatnonzero(read_start(7, DiscreteCodec(10**6))).tolist() == [7]
