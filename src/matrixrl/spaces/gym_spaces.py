"""Gymnasium spaces as codecs, and codecs as plain data, from which they are made again."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

import numpy as np
from gymnasium import spaces

from matrixrl.checks import fail, shown
from matrixrl.errors import InvalidInput
from matrixrl.spaces.codecs import LARGEST_SPACE, ArrayCodec, BoxCodec, Codec, DiscreteCodec, TupleCodec
from matrixrl.spaces.names import read_space

__all__ = ["BOUNDS", "codec_from", "codec_of", "control_codec", "space_remedy"]

_DEEPEST = 8  # levels of Tuple and Dict inside each other, which the header of a file must hold
_MOST_PARTS = 4096  # entries of all arrays together, likewise
_FINITE = "Discrete, MultiDiscrete, MultiBinary, or a Tuple or Dict of them"
BOUNDS = "Give them bounds: gymnasium.wrappers.TransformAction(env, lambda a: a, Box(-1.0, 1.0, …))."
"""What to do about continuous actions without bounds."""


def codec_of(part: str, space: spaces.Space[Any]) -> Codec:
    """Return the codec of a finite Gymnasium space; `part`, "observation" or "action", is named in messages.

    >>> codec_of("observation", spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)])).size
    12
    """
    argument = f"{part}_space"
    codec = _codec(argument, part, space, space, depth=0)
    if len(codec.sizes) > _MOST_PARTS:
        fail(argument, f"must have at most {_MOST_PARTS:,} parts", f"{len(codec.sizes):,}", space_remedy(part, space))
    if codec.size > LARGEST_SPACE:
        count = f"{codec.size:,}" if codec.size < 10**15 else f"about 10^{len(str(codec.size)) - 1}"
        rule = f"must have at most {LARGEST_SPACE:,} elements to be numbered"
        fail(argument, rule, f"{shown(space)}, with {count} elements", space_remedy(part, space))
    return codec


def control_codec(actions: spaces.Space[Any]) -> Codec:
    """Return the codec of discrete actions, or of continuous ones with bounds."""
    if not isinstance(actions, spaces.Box) or not np.issubdtype(actions.dtype, np.floating):
        return codec_of("action", actions)
    if not (np.isfinite(actions.low).all() and np.isfinite(actions.high).all()):
        fail("action_space", "must have bounds if actions are continuous", shown(actions), BOUNDS)
    dtype = "float32" if actions.dtype == np.float32 else "float64"
    codec = BoxCodec.of(actions.low.ravel().tolist(), actions.high.ravel().tolist(), actions.shape, dtype)
    if not codec.n_entries >= 1 or codec.levels < 3:
        rule = "must have 1 to 14 continuous numbers"
        fail("action_space", rule, shown(actions), "Leave out parts of it, or use deep RL.")
    return codec


def _codec(name: str, part: str, whole: spaces.Space[Any], space: Any, *, depth: int) -> Codec:
    """Return the codec of a space, which is a part of the space `whole`; `name` is its name in messages."""
    if depth > _DEEPEST:
        fail(name, f"must not have Tuple and Dict in more than {_DEEPEST} levels", shown(whole), "Flatten it.")
    if isinstance(space, spaces.Discrete):
        return DiscreteCodec(int(space.n), int(space.start))
    if isinstance(space, (spaces.MultiBinary, spaces.MultiDiscrete)):
        ranges = (space.nvec, space.start) if isinstance(space, spaces.MultiDiscrete) else (2, 0)
        counts, firsts = (tuple(np.broadcast_to(n, space.shape).ravel().tolist()) for n in ranges)
        return ArrayCodec(counts, firsts, space.shape, str(space.dtype))
    if isinstance(space, (spaces.Tuple, spaces.Dict)):
        items = dict(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else space.spaces
        for key in items:
            if type(key) not in (str, int):
                fail(name, "must have texts or whole numbers as keys", shown(key), "Rename it.")
        parts = tuple(_codec(f"{name}[{k!r}]", part, whole, one, depth=depth + 1) for k, one in items.items())
        return TupleCodec(parts, None if isinstance(space, spaces.Tuple) else tuple(items))
    fail(name, f"must be finite: {_FINITE}", shown(space), space_remedy(part, whole))


def space_remedy(part: str, space: spaces.Space[Any]) -> str:
    """Return the sentence that says how to make a space of states or actions one that agents can use.

    >>> space_remedy("action", spaces.Box(-1.0, 1.0, (1,)))
    'Wrap it in matrixrl.envs.GridActions, which offers a grid of actions.'
    """
    if part == "action" and isinstance(space, spaces.Box):
        return "Wrap it in matrixrl.envs.GridActions, which offers a grid of actions."
    wrapper = f"gymnasium.wrappers.Transform{part.capitalize()}"
    fewer = f"number fewer with {wrapper}(env, function, gymnasium.spaces.Discrete(n))."
    if part == "action":
        return f"Leave out or coarsen parts of it, or {fewer}"
    vectors = "Wrap it in gymnasium.wrappers.FlattenObservation, which gives vectors, for KernelMatrixRL"
    return f"{vectors}, give features with a FunctionalTask, or {fewer}"


def codec_from(data: Any) -> Codec:
    """Return the codec that `Codec.description` described, from a file that need not be trusted.

    The space is made again and read as any other, and must then have the same description.

    >>> str(codec_from(DiscreteCodec(4).description())), str(codec_from(read_space("states", ["a", 2.5]).description()))
    ('Discrete(4)', 'names a, 2.5')
    """
    try:
        if data["kind"] in ("names", "parts"):
            codec = _named_from(data)
        else:
            space = _space_from(data)
            codec = control_codec(space) if isinstance(space, spaces.Box) else codec_of("saved", space)
        same = json.dumps(codec.description(), sort_keys=True) == json.dumps(data, sort_keys=True)
    except (AssertionError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError, InvalidInput):
        same = False
    if not same:
        raise InvalidInput("a space must be described by its kind and its parts, as this version writes them")
    return codec


def _named_from(data: Any) -> Codec:
    """Return the names or named parts of a description; whatever is wrong with it raises some error."""
    if data["kind"] == "names":
        return read_space("saved", data["elements"])
    parts = dict(zip(data["keys"], map(codec_from, data["parts"]), strict=True))
    return read_space("saved", parts, as_objects=data["as_objects"] is True)


def _space_from(data: Any) -> spaces.Space[Any]:
    """Return the Gymnasium space of a description; whatever is wrong with it raises some error."""
    kind = data["kind"]
    if kind == "discrete":
        return spaces.Discrete(data["count"], start=data["first"])
    if kind == "array":
        counts, firsts = (np.array(data[name]).reshape(data["shape"]) for name in ("sizes", "firsts"))
        return spaces.MultiDiscrete(counts, dtype=np.dtype(data["dtype"]).type, start=firsts)
    if kind == "box":
        low, high = (np.array(data[name], dtype=data["dtype"]).reshape(data["shape"]) for name in ("low", "high"))
        return spaces.Box(low, high, dtype=np.dtype(data["dtype"]).type)
    parts, keys = [_space_from(part) for part in data["parts"]], data["keys"]
    return spaces.Tuple(parts) if keys is None else spaces.Dict(OrderedDict(zip(keys, parts, strict=True)))
