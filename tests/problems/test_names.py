"""Names have one number each, whatever they are, and what could be mistaken is refused in words."""

from __future__ import annotations

import enum
import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest

from matrixrl import FiniteMDP, InvalidInput, Task
from matrixrl.errors import UnknownName
from matrixrl.spaces import DiscreteCodec, NamesCodec, PartsCodec, cell_text, codec_from, name_text, read_space

DAYS = ["mon", "tue", "wed"]
GIVEN = {
    "texts": DAYS,
    "a tuple": tuple(DAYS),
    "NumPy texts": np.array(DAYS),
    "a column": pd.Series(DAYS),
    "categories": pd.Series(DAYS, dtype="category").cat.categories,
    "whole numbers": [10, 5, 20],
    "prices": [9.9, 14.9],
    "numbers and texts": [1, 2.5, "many"],
    "steps": range(0, 50, 5),
    "tuples": [("mon", 0), ("mon", 2), ("tue", 1)],
    "points": np.array([[0, 0], [1, 1], [0, 1]]),
    "texts of numbers": ["1", "2", "10"],
    "formulas": ["=1+1", "-5 %", "@home", "+", "a,b", 'say "x"', "é ≤ 3"],
    "parts": {"stock": range(4), "day": DAYS, "price": [9.9, "free"]},
    "counts": {"stock": 3, "open": 2},
}


class Colour(str, enum.Enum):  # noqa: UP042  # whose str() is another text
    """A text of a class of its own."""

    RED = "red"


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("as_objects", [False, True])
def test_every_name_has_the_number_that_it_is_decoded_from(given, as_objects):
    codec = read_space("states", given, as_objects=as_objects)
    elements = [codec.decode(number) for number in range(codec.size)]
    assert [codec.encode("state", element, "") for element in elements] == list(range(codec.size))
    again = codec_from(json.loads(json.dumps(codec.description())))
    assert again == codec
    assert [again.decode(number) for number in range(codec.size)] == elements
    assert list(map(type, elements)) == [type(again.decode(number)) for number in range(codec.size)]


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("text", [None, cell_text, name_text])
def test_cells_of_columns_are_found_again(given, text):
    """Also as the text that a CSV file has of them."""
    codec = read_space("states", given)
    columns = codec.columns(np.arange(codec.size), text)
    digits = np.unravel_index(np.arange(codec.size), codec.sizes)
    for part, column in enumerate(columns):
        leaf, _ = codec.leaf(part)
        if isinstance(leaf, NamesCodec):
            assert [leaf.find(cell) for cell in column.tolist()] == digits[part].tolist()
            assert [leaf.find(cell_text(cell)) for cell in column.tolist()] == digits[part].tolist()
        else:
            assert leaf.digits(0, column.astype(float))[0].tolist() == digits[part].tolist()


def test_parts_are_numbered_as_their_product():
    codec = read_space("states", {"stock": range(3), "day": DAYS})
    assert [codec.decode(number) for number in range(9)] == list(itertools.product(range(3), DAYS))
    assert codec.names("state") == ["state.stock", "state.day"]
    assert codec.encode("state", {"day": "tue", "stock": 2}, "") == codec.encode("state", [2, np.str_("tue")], "") == 7
    assert np.array_equal(codec.coordinates(), read_space("s", {"a": 3, "b": 3}).coordinates())


@pytest.mark.parametrize("given", [3, range(3), [0, 1, 2], np.arange(3)])
def test_numbers_from_0_are_no_names(given):
    assert read_space("states", given) == DiscreteCodec(3)
    assert Task(states=given, actions=2, horizon=2).states is None
    assert read_space("states", range(5, 8)) == read_space("states", [5, 6, 7]) == DiscreteCodec(3, first=5)


HOSTILE = [
    ([], "states must be a count of at least 1, names or parts; got []"),
    ("abc", "states must be a count of at least 1, names or parts; got 'abc'"),
    ({"b", "a"}, "states must be a count of at least 1, names or parts"),
    ({}, "states must be a count of at least 1, names or parts; got {}"),
    (0, "states must be a count of at least 1, names or parts; got 0"),
    (True, "states must be a count of at least 1, names or parts; got True"),
    (["a", "b", "a"], "states must be different names; got 'a' at 0 and 2"),
    ([1, 1.0], "states must be different names; got 1.0 at 0 and 1"),
    ([np.str_("a"), "a"], "states must be different names; got 'a' at 0 and 1"),
    (["1", 1], "states must be names that differ when they are written as text; got '1' and 1"),
    (["a", "a "], "states must be names that differ when they are written as text; got 'a' and 'a '"),
    (["=a", "'=a"], "states must be names that differ when they are written as text; got '=a' and \"'=a\""),
    ([("a", 1), "a, 1"], "states must be names that differ when they are written as text"),
    (["a", math.nan], "states[1] must be printable text of 1 to 100 characters, a finite number"),
    ([math.inf], "states[0] must be printable text"),
    ([10**16, 1], "states[0] must be printable text"),
    (["", "a"], "states[0] must be printable text of 1 to 100 characters"),
    (["a" * 101], "states[0] must be printable text of 1 to 100 characters"),
    (["\x1b[2J"], "states[0] must be printable text"),
    (["\udc80"], "states[0] must be printable text"),
    ([None, "a"], "states[0] must be printable text"),
    ([True, False], "states[0] must be printable text"),
    ([{"a": 1}], "states[0] must be printable text"),
    ([("a", ("b",))], "states[0] must be printable text"),
    ([pd.Timestamp("2026-11-19")], "states[0] must be printable text"),
    ({"day": []}, "states.day must be a count of at least 1, names or parts; got []"),
    ({"day": ["a", "a"]}, "states.day must be different names"),
    ({1: ["a"]}, "states must name its parts by printable texts"),
    ({"a": {"b": 2}}, "states.a must be a count of at least 1, names or parts"),
    ({"a": 4000, "b": 4000}, "states must be at most 10,000,000; got 16,000,000"),
    ([f"{i:098}" for i in range(40_000)], "states must have at most 3,145,728 bytes of names; got 40,000 names"),
]


@pytest.mark.parametrize(("given", "words"), HOSTILE)
def test_names_that_could_be_mistaken_are_refused_in_words(given, words):
    with pytest.raises(InvalidInput) as refused:
        Task(states=given, actions=2, horizon=2)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("names", "value", "words"),
    [
        (DAYS, "teu", "obs must be one of mon, tue, wed; got 'teu'. Did you mean 'tue'?"),
        (DAYS, 1, "obs must be one of mon, tue, wed; got 1. Give one of the names."),
        (DAYS, True, "got True"),
        (DAYS, {"a": 1}, "got {'a': 1}"),
        (DAYS, [["mon"]], "got [['mon']]"),
        (DAYS, math.nan, "got nan"),
        (["1", "2"], 1, "got 1. Give it as '1'."),
        ([1, 5], "5", "got '5'. Give it as 5."),
        ([1, 5], True, "got True"),
        ([f"n{i}" for i in range(100)], "x", "must be one of the 100 names n0, n1, n2, n3, n4, n5, n6, n7, …; got 'x'"),
        ({"stock": 3, "day": DAYS}, (1, "sun"), "obs.day must be one of mon, tue, wed; got 'sun'"),
        ({"stock": 3, "day": DAYS}, (3, "mon"), "obs.stock must be in 0 … 2; got 3"),
        ({"stock": 3, "day": DAYS}, {"stock": 1}, "obs must be a tuple (stock, day); got {'stock': 1}"),
        ({"stock": 3, "day": DAYS}, "mon", "obs must be a tuple (stock, day); got 'mon'"),
    ],
)
def test_what_is_no_name_is_refused(names, value, words):
    with pytest.raises(InvalidInput) as refused:
        read_space("states", names).encode("obs", value, "Read the manual.")
    assert words in str(refused.value)
    assert refused.value.argument in ("obs", "obs.stock", "obs.day")


def test_texts_of_other_classes_are_texts():
    codec = read_space("states", [Colour.RED, np.str_("blue")])
    assert codec.elements == ("red", "blue")
    assert {type(name) for name in codec.elements} == {str}
    assert codec.encode("obs", Colour.RED, "") == 0


def test_a_hundred_thousand_names():
    names = [f"shop {i}" for i in range(10**5)]
    codec = read_space("states", names)
    assert codec.encode("obs", "shop 77777", "") == 77777
    assert codec_from(codec.description()) == codec
    with pytest.raises(UnknownName) as refused:
        codec.encode("obs", "shop", "")
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "damage",
    [
        {"elements": ["a", "a"]},
        {"elements": [None]},
        {"elements": "ab"},
        {"elements": [0, 1]},
        {"kind": "parts", "parts": [{"kind": "names", "elements": ["a"]}], "keys": ["x"], "as_objects": 1},
        {"kind": "parts", "parts": [{"kind": "names", "elements": ["a"]}] * 2, "keys": ["x", "x"], "as_objects": True},
    ],
)
def test_descriptions_that_nobody_wrote_are_refused(damage):
    with pytest.raises(InvalidInput, match="must be described by its kind"):
        codec_from({"kind": "names", **damage})


def test_tasks_are_given_by_names():
    reward = np.array([[0.0, 0.1], [0.2, 0.3], [0.4, 0.5]])
    task = Task(
        reward,
        horizon=4,
        states=DAYS,
        actions=["rest", "work"],
        start="tue",
        allowed=lambda day: ["rest"] if day == "wed" else ["rest", "work"],
    )
    assert task.start.tolist() == [0.0, 1.0, 0.0]
    assert task.allowed.tolist() == [[True, True], [True, True], [True, False]]
    assert "'tue'" in task._repr_html_().replace("&#x27;", "'")
    assert Task(reward, 4, states=DAYS, start=[0.5, 0.5, 0.0]).start.tolist() == [0.5, 0.5, 0.0]
    pairs = {"states": [(0, 1), (1, 0)], "actions": 2, "horizon": 2}
    assert Task(**pairs, start=(1, 0)).start.tolist() == [0.0, 1.0]
    assert Task(**pairs, start=[1, 0]).start.tolist() == [1.0, 0.0]
    assert Task(**pairs, start=(0.5, 0.5)).start.tolist() == [0.5, 0.5]
    parts = Task(reward, 4, states={"row": 1, "day": DAYS}, start=(0, "wed"))
    assert parts.start.tolist() == [0.0, 0.0, 1.0]
    assert isinstance(parts.states, PartsCodec)
    closed = np.eye(3)[:, None, :].repeat(2, axis=1)
    mdp = FiniteMDP(closed, np.zeros((3, 2)), 4, states=DAYS, start="tue", end_state="wed")
    assert (mdp.task.end_state, mdp.task.start_is_declared) == (2, True)
    with pytest.raises(InvalidInput, match="end_state must be one of mon, tue, wed; got 2"):
        Task(np.zeros((3, 2)), 4, states=DAYS, end_state=2)
    with pytest.raises(InvalidInput, match="actions must be 2, as reward has shape"):
        Task(reward, 4, actions=DAYS)
    with pytest.raises(InvalidInput, match="n_states must be 3, as reward has shape"):
        Task(states=DAYS, n_states=4, actions=2, horizon=4)
