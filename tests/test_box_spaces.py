"""Numbers of continuous actions: nearest grid points, bounds, and what files may say."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrixrl import InvalidInput
from matrixrl.spaces import BoxCodec, codec_from


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=4), st.floats(-5, 5), st.floats(0.1, 10))
def test_an_action_comes_back_within_half_a_grid_step(scaled, low, width):
    q = len(scaled)
    codec = BoxCodec.of([low] * q, [low + width] * q, (q,), "float64")
    action = low + 0.5 * (np.array(scaled) + 1.0) * width
    number = codec.encode("action", action, "Give an action.")
    back = codec.decode(number)
    assert codec.encode("action", back, "Give an action.") == number
    assert 0 <= number < codec.size <= 10**7
    assert np.abs(back - action).max() <= 0.5 * width / (codec.levels - 1) + 1e-9 * width
    np.testing.assert_array_equal(codec.nearest(codec.scaled(np.array([number]))), [number])


def test_the_middle_is_an_action_and_types_and_shapes_are_those_of_the_space():
    codec = BoxCodec.of([-2.0, 0.0], [2.0, 1.0], (2, 1), "float32")
    middle = codec.decode(codec.encode("action", [[0.0], [0.5]], "Give an action."))
    assert middle.dtype == np.float32
    np.testing.assert_array_equal(middle, [[0.0], [0.5]])
    assert codec_from(codec.description()) == codec


@pytest.mark.parametrize(
    ("value", "words"),
    [([0.0, 0.0], "shape"), ([np.nan], "finite"), (["a"], "finite"), ([2.1], r"action\[0\] must be in \[-2, 2\]")],
)
def test_what_is_no_action_is_refused(value, words):
    with pytest.raises(InvalidInput, match=words):
        BoxCodec.of([-2.0], [2.0], (1,), "float32").encode("action", value, "Give an action.")


@pytest.mark.parametrize(
    "change",
    [{"levels": 5}, {"low": []}, {"low": [3.0]}, {"dtype": "object"}, {"shape": [2]}, {"high": [float("inf")]}],
)
def test_a_damaged_description_is_refused(change):
    with pytest.raises(InvalidInput):
        codec_from({**BoxCodec.of([-2.0], [2.0], (1,), "float32").description(), **change})


def test_the_largest_action_is_an_element_of_the_space():
    space = gym.spaces.Box(np.array([-0.1]), np.array([0.3]), dtype=np.float64)
    codec = BoxCodec.of([-0.1], [0.3], (1,), "float64")
    assert all(space.contains(codec.decode(number)) for number in (0, 2048, codec.size - 1))
