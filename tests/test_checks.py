from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from matrixrl import checks
from matrixrl.checks import choice, index, integer, number, shaped
from matrixrl.errors import InvalidInput, MatrixRLError, UnknownName
from matrixrl.random_streams import generator, seed_list, stream_seed


def test_every_error_is_of_one_family_and_also_the_builtin_people_expect():
    with pytest.raises(ValueError, match="low") as caught:
        number("low", "three", remedy="Give a number.")
    assert isinstance(caught.value, MatrixRLError)


@pytest.mark.parametrize("value", [True, "3", 2.0, None, np.float64(1)])
def test_whole_numbers_only(value):
    with pytest.raises(InvalidInput, match="whole number"):
        integer("n", value, low=1, remedy="x")


def test_numpy_integers_and_scalars_are_welcome():
    assert integer("n", np.int32(3), low=1, remedy="x") == 3
    assert index("obs", np.array(2), size=3, remedy="x") == 2


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 2.0])
def test_numbers_stay_in_their_range(value):
    with pytest.raises(InvalidInput, match=r"\[0, 1\]"):
        number("p", value, low=0.0, high=1.0, remedy="x")


def test_unknown_names_get_a_suggestion_only_if_one_is_near():
    with pytest.raises(UnknownName, match="Did you mean 'theorem'"):
        choice("radius", "theorm", ["theorem", "constant"])
    with pytest.raises(UnknownName, match="Pick one"):
        choice("radius", "zzzz", ["theorem", "constant"])


def test_ragged_arrays_are_named():
    with pytest.raises(InvalidInput, match="phi must be an array of numbers"):
        shaped("phi", [[1, 2], [3]], (None, None), remedy="x")


def test_streams_are_independent_and_repeatable():
    draws = {name: generator(5, name).random(4).tolist() for name in ("env", "agent", "ties", "sampling")}
    assert len({tuple(d) for d in draws.values()}) == 4
    assert generator(5, "env").random(4).tolist() == draws["env"]
    assert stream_seed(5, "env") != stream_seed(6, "env")


def test_seed_list():
    assert seed_list(3, 2) == [3, 4]
    with pytest.raises(InvalidInput, match="seeds must be at least 1"):
        seed_list(0, 0)
    with pytest.raises(InvalidInput, match="seed must be at least 0"):
        seed_list(-1, 1)


def test_of_many_names_only_the_nearest_are_shown():
    names = [f"name-{i}" for i in range(100)]
    with pytest.raises(InvalidInput, match=r"x must be one of 100 names.*'nam-7'\. Did"):
        choice("x", "nam-7", names)


@pytest.mark.parametrize("depth", [0, 1, 5])
def test_a_warning_points_at_the_line_of_the_user_however_deep_the_library_is(depth):
    code = """
def warn(depth):
    if depth:
        return warn(depth - 1)
    warnings.warn("careful", stacklevel=checks.users_stacklevel())
"""
    names = {"warnings": warnings, "checks": checks}
    exec(compile(code, str(Path(checks.__file__).parent / "problems" / "deep.py"), "exec"), names)
    with pytest.warns(UserWarning, match="careful") as seen:
        names["warn"](depth)
    assert seen[0].filename == __file__
