"""Declarative settings: defaults, presets, checks, plain data and back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from matrixrl import InvalidInput, MatrixRL
from matrixrl.algorithms import ALGORITHMS, ContinuousSettings, MatrixRLSettings
from matrixrl.algorithms.matrix_rl.kernel import KernelSettings
from matrixrl.checks import fail
from matrixrl.core.radius import BlockRadius, ConstantRadius
from matrixrl.core.sets import NormalisedBall, PaperBall, ValueTargetedSet
from matrixrl.core.sets.balls import FrobeniusBall
from matrixrl.errors import UnknownName
from matrixrl.settings import Settings, describe_settings, flag, one_of, optional, plain_value, real, setting, whole
from named_agents import AGENTS


@dataclass(frozen=True)
class Example(Settings):
    preset: str = setting("slow", "Start from here.", one_of(("slow", "fast")))
    scale: float = setting(1.0, "A factor.", real(high=10.0))
    share: float = setting(0.5, "A probability.", real(high=1.0, open_ends=True))
    count: int = setting(3, "A number of things.", whole())
    limit: int | None = setting(None, "A limit, if any.", optional(whole(low=0)))
    is_on: bool = setting(True, "Whether it is on.", flag)
    anything: Any = setting(None, "An object.")

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {"slow": {}, "fast": {"scale": 5.0, "limit": 7}}

    def check_together(self) -> None:
        if self.limit is not None and self.limit > 100 * self.scale:
            fail("limit", "must not exceed 100 times scale", self.limit, "Lower it.")


@dataclass(frozen=True)
class Plain(Settings):
    scale: float = setting(1.0, "A factor.", real())


def test_defaults_presets_and_explicit_values():
    assert Example.resolve({}) == Example()
    fast = Example.resolve({"preset": "fast"})
    assert (fast.preset, fast.scale, fast.limit, fast.count) == ("fast", 5.0, 7, 3)
    mixed = Example.resolve({"preset": "fast", "scale": 2})
    assert (mixed.scale, mixed.limit) == (2.0, 7)
    assert type(mixed.scale) is float
    assert Plain.resolve({"scale": 4}).scale == 4.0


def test_none_means_not_given():
    assert Example.resolve({"preset": None, "scale": None, "anything": None}) == Example()
    assert Example.resolve({"preset": "fast", "limit": None}).limit == 7


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"skale": 1.0}, "agent setting must be one of preset, scale.*Did you mean 'scale'"),
        ({"preset": "fsat"}, "preset must be one of slow, fast.*Did you mean 'fast'"),
        ({"preset": 3}, "preset must be one of slow, fast"),
    ],
)
def test_unknown_names_get_a_suggestion(given, words):
    with pytest.raises(UnknownName, match=words):
        Example.resolve(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"scale": "big"}, "scale must be a number; got 'big'"),
        ({"scale": True}, "scale must be a number; got True"),
        ({"scale": float("nan")}, r"scale must be finite and in \[0, 10\]; got nan"),
        ({"scale": float("inf")}, "scale must be finite"),
        ({"scale": -0.1}, r"scale must be finite and in \[0, 10\]; got -0.1"),
        ({"scale": 10.1}, "scale must be finite and in"),
        ({"share": 0.0}, r"share must be finite and in \(0, 1\); got 0"),
        ({"share": 1}, r"share must be finite and in \(0, 1\)"),
        ({"count": 0}, "count must be at least 1; got 0"),
        ({"count": 2.0}, "count must be a whole number; got 2.0"),
        ({"count": True}, "count must be a whole number"),
        ({"limit": -1}, "limit must be at least 0"),
        ({"is_on": 1}, "is_on must be true or false; got 1"),
        ({"is_on": "yes"}, "is_on must be true or false"),
        ({"limit": 500}, "limit must not exceed 100 times scale; got 500. Lower it."),
    ],
)
def test_every_check_names_the_setting_and_what_came(given, words):
    with pytest.raises(InvalidInput, match=words):
        Example.resolve(given)
    with pytest.raises(InvalidInput, match=words):
        Example(**given)  # built directly it is checked as well


def test_numpy_numbers_become_plain_ones():
    found = Example.resolve({"scale": np.float32(0.5), "count": np.int64(4)})
    assert (type(found.scale), type(found.count)) == (float, int)
    assert json.loads(json.dumps(found.as_dict()))["count"] == 4


def test_settings_are_frozen_and_compare():
    found = Example.resolve({"scale": 2.0})
    with pytest.raises(FrozenInstanceError):
        found.scale = 3.0
    assert found == Example(scale=2.0) != Example(scale=3.0)


def test_plain_data_and_back():
    found = Example.resolve({"preset": "fast", "count": 9})
    data = json.loads(json.dumps(found.as_dict()))
    assert Example.from_dict(data) == found
    for odd in ({**data, "extra": 1}, {k: v for k, v in data.items() if k != "count"}, {}):
        with pytest.raises(InvalidInput, match="settings must be those of this version"):
            Example.from_dict(odd)
    with pytest.raises(InvalidInput, match="count must be at least 1"):
        Example.from_dict({**data, "count": 0})


class Silent:
    """An object whose representation is an address."""


@dataclass
class Speaking:
    size: int = 3


def test_objects_become_words():
    assert plain_value(Silent()) == f"{Silent.__module__}:Silent"
    assert plain_value(Speaking()) == "Speaking(size=3)"
    assert plain_value(Silent) == f"{Silent.__module__}:Silent"
    assert plain_value(lambda: 0) == "function"
    for value in ("text", 1, 1.5, True, None, [1, 2], (1, 2)):
        assert plain_value(value) is value
    assert Example(anything=Speaking()).as_dict()["anything"] == "Speaking(size=3)"


def test_sets_and_radii_are_names_or_objects():
    found = MatrixRLSettings.resolve({"set": FrobeniusBall(), "radius": ConstantRadius(beta=0.2)})
    assert type(found.make_set()) is type(found.set)
    assert found.make_radius().beta == 0.2
    assert found.as_dict()["radius"] == "matrixrl.core.radius:ConstantRadius"
    assert MatrixRLSettings.resolve({"radius": "constant", "beta": 0.3}).make_radius().beta == 0.3
    classes = MatrixRLSettings.resolve({"set": FrobeniusBall, "radius": ConstantRadius})
    assert type(classes.set) is FrobeniusBall
    assert type(classes.radius) is ConstantRadius
    for name, value in (("set", object), ("radius", 3.0), ("radius", FrobeniusBall)):
        with pytest.raises(UnknownName, match=f"{name} must be one of"):
            MatrixRLSettings.resolve({name: value})


def test_presets_of_the_library():
    assert MatrixRLSettings.resolve({}) == MatrixRLSettings.resolve({"preset": "budget"})
    assert (MatrixRLSettings.resolve({}).optimism_budget, MatrixRLSettings.resolve({}).switch_growth) == (1.25, 0.1)
    assert MatrixRLSettings.resolve({}).set == "tightest"
    tuned = MatrixRLSettings.resolve({"preset": "tuned"})
    assert (tuned.set, tuned.exploration) == ("tightest", 0.3)
    radius = tuned.exploration * math.sqrt(tuned.beta)  # of a ball: 0.45/6
    assert (radius, tuned.ridge) == (pytest.approx(0.075), pytest.approx(radius**2))
    assert MatrixRLSettings.resolve({"preset": "tuned", "exploration": 0.05}).exploration == 0.05
    assert ContinuousSettings.resolve({"preset": "tuned"}) == ContinuousSettings()
    with pytest.raises(InvalidInput, match="preset must be 'tuned' for vectors"):
        ContinuousSettings.resolve({"preset": "optimistic"})
    with pytest.raises(UnknownName, match="preset must be one of"):
        ContinuousSettings.resolve({"preset": "fast"})
    for kind in (MatrixRLSettings, ContinuousSettings, ALGORITHMS["psrl"].settings_class):
        for old, new in (("guaranteed", "optimistic"), ("practical", "tuned")):
            with pytest.raises(UnknownName, match=f"preset '{old}' is now called '{new}'"):
                kind.resolve({"preset": old})


CLASSES = [
    MatrixRLSettings,
    KernelSettings,
    ContinuousSettings,
    *(kind.settings_class for name, kind in ALGORITHMS.items() if name in AGENTS and hasattr(kind, "settings_class")),
]


@pytest.mark.parametrize("kind", list(dict.fromkeys(CLASSES)), ids=lambda kind: kind.__name__)
def test_every_class_of_settings_describes_itself_and_survives_the_round_trip(kind):
    rows = describe_settings(kind)
    assert [name for name, _, _ in rows] == kind.names()
    assert all(words.endswith(".") for _, _, words in rows), [n for n, _, w in rows if not w.endswith(".")]
    for preset in kind.PRESETS:
        if (kind, preset) == (ContinuousSettings, "optimistic"):
            continue
        found = kind.resolve({"preset": preset})
        assert found.preset == preset
        assert kind.from_dict(json.loads(json.dumps(found.as_dict()))) == found


@pytest.mark.parametrize(
    ("chosen", "name", "value"),
    [
        (PaperBall(), "radius", "self-normalised"),
        (PaperBall(), "c", 2.0),
        (NormalisedBall(ridge=0.5), "ridge", 2.0),
        (ValueTargetedSet(), "ridge", 2.0),
    ],
    ids=["radius", "c", "ridge", "counts"],
)
def test_a_setting_beside_a_set_that_has_its_own_is_refused(chosen, name, value):
    with pytest.raises(InvalidInput, match=f"{name} must be left out with the set"):
        MatrixRL("river-swim", seed=0, set=chosen, **{name: value})
    MatrixRL("river-swim", seed=0, set=chosen)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"beta": 3.0}, "beta"),
        ({"c": 2.0}, "c"),
        ({"radius": ConstantRadius(), "beta": 2.0}, "beta"),
        ({"radius": "theorem", "beta": 2.0}, "beta"),
        ({"preset": "paper", "beta": 2.0}, "beta"),
        ({"preset": "tuned", "c": 2.0}, "c"),
    ],
    ids=["beta", "c", "object", "theorem", "paper", "tuned"],
)
def test_a_constant_that_the_radius_does_not_use_is_refused(given, name):
    with pytest.raises(InvalidInput, match=f"^{name} must be left out with the radius .* Add radius="):
        MatrixRL("river-swim", seed=0, **given)


def test_a_constant_is_used_by_its_radius_or_is_that_of_the_preset():
    def radius_of(**given):
        return MatrixRL("river-swim", seed=0, **given).algorithm.model.confidence.radius

    assert radius_of(radius="constant", beta=2.0).beta == 2.0
    assert radius_of(preset="tuned", beta=0.1).beta == 0.1
    assert radius_of(preset="paper", c=2.0).c == 2.0
    assert radius_of(radius="log-det", c=2.0).c == 2.0
    MatrixRL("river-swim", seed=0, beta=1.0, c=1.0)
    MatrixRL("river-swim", seed=0, preset="tuned", radius="block")


def test_a_set_with_its_own_radius_keeps_it_under_every_preset():
    def started(preset, **given):
        algorithm = MatrixRL("river-swim", seed=0, preset=preset, set=NormalisedBall(**given)).algorithm
        return type(algorithm.model.confidence.radius), algorithm._set.ridge

    assert started("tuned", radius="block") == (BlockRadius, 0.005625)
    assert started("tuned", radius="block", ridge=1.0) == (BlockRadius, 1.0)
    assert started("tuned") == (ConstantRadius, 0.005625)
    assert started("optimistic", radius="block") == started("optimistic") == (BlockRadius, 1.0)
