"""Spaces of Gymnasium as finite sets: which codec numbers them, or why they cannot be numbered."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from matrixrl.checks import fail, shown
from matrixrl.coding import ArrayCodec, Codec, DictCodec, DiscreteCodec, TupleCodec

__all__ = ["LARGEST_SPACE", "codec_of", "space_remedy"]

LARGEST_SPACE = 10**7
"""Largest number of states or actions that are numbered: plans and rewards have an entry for each of them."""

_DEEPEST = 8  # levels of Tuple and Dict inside each other, which the header of a file must hold
_MOST_PARTS = 4096  # entries of all arrays together, likewise
_FINITE = "Discrete, MultiDiscrete, MultiBinary, or a Tuple or Dict of them"


def codec_of(part: str, space: spaces.Space[Any]) -> Codec:
    """Return the codec of a finite space of states or actions.

    Args:
        part: "observation" or "action".
        space: Space of the environment.

    Raises:
        InvalidInput: The space, or a part of it that the message names, is not finite, or it has too many elements.

    >>> codec_of("observation", spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)])).size
    12
    """
    argument = f"{part}_space"
    codec = _codec(argument, part, space, space, depth=0)
    if len(codec.sizes) > _MOST_PARTS:
        fail(argument, f"must have at most {_MOST_PARTS:,} parts", f"{len(codec.sizes):,}", _too_many(part))
    if codec.size > LARGEST_SPACE:
        count = f"{codec.size:,}" if codec.size < 10**15 else f"about 10^{len(str(codec.size)) - 1}"
        rule = f"must have at most {LARGEST_SPACE:,} elements to be numbered"
        fail(argument, rule, f"{shown(space)}, with {count} elements", _too_many(part))
    return codec


def _too_many(part: str) -> str:
    if part == "action":
        return "Leave out or coarsen parts of it: gymnasium.wrappers.TransformAction."
    return (
        "Give features: a FunctionalTask takes φ and ψ as functions of observations. Or use a kernel: "
        "gymnasium.wrappers.FlattenObservation makes vectors for KernelMatrixRL. Or leave out or coarsen parts of it: "
        "gymnasium.wrappers.TransformObservation."
    )


def _codec(name: str, part: str, whole: spaces.Space[Any], space: Any, *, depth: int) -> Codec:
    """Return the codec of a space, which is a part of the space `whole`; `name` is its name in messages."""
    if depth > _DEEPEST:
        fail(name, f"must not have Tuple and Dict in more than {_DEEPEST} levels", shown(whole), "Flatten it.")
    if isinstance(space, spaces.Discrete):
        return DiscreteCodec(int(space.n), int(space.start))
    if isinstance(space, spaces.MultiBinary):
        return _arrays(space, np.full(space.shape, 2), np.zeros(space.shape, dtype=np.int64))
    if isinstance(space, spaces.MultiDiscrete):
        return _arrays(space, space.nvec, space.start)
    if isinstance(space, spaces.Tuple):
        inner = enumerate(space.spaces)
        return TupleCodec(tuple(_codec(f"{name}[{i}]", part, whole, one, depth=depth + 1) for i, one in inner))
    if isinstance(space, spaces.Dict):
        keys = tuple(space.spaces)
        for key in keys:
            if type(key) not in (str, int):
                fail(name, "must have texts or whole numbers as keys", shown(key), "Rename it.")
        parts = tuple(_codec(f"{name}[{k!r}]", part, whole, space.spaces[k], depth=depth + 1) for k in keys)
        return DictCodec(keys, parts)
    fail(name, f"must be finite: {_FINITE}", shown(space), space_remedy(part, whole))


def _arrays(space: spaces.Space[Any], counts: NDArray[Any], firsts: NDArray[Any]) -> ArrayCodec:
    return ArrayCodec(tuple(counts.ravel().tolist()), tuple(firsts.ravel().tolist()), counts.shape, str(space.dtype))


def space_remedy(part: str, space: spaces.Space[Any]) -> str:
    """Return the sentence that says how to make a space of states or actions one that agents can use.

    Args:
        part: "observation" or "action".
        space: Space that agents cannot use.

    >>> space_remedy("action", spaces.Box(-1.0, 1.0, (1,)))
    'Wrap it in matrixrl.envs.GridActions, which offers a grid of actions.'
    """
    if part == "action" and isinstance(space, spaces.Box):
        return "Wrap it in matrixrl.envs.GridActions, which offers a grid of actions."
    if part == "observation" and isinstance(space, (spaces.Dict, spaces.Tuple, spaces.Box)):
        return "Wrap it in gymnasium.wrappers.FlattenObservation, which gives vectors, for KernelMatrixRL."
    wrapper = f"gymnasium.wrappers.Transform{part.capitalize()}"
    return f"Number them with {wrapper}(env, function, gymnasium.spaces.Discrete(n))."
