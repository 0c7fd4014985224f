"""Named random streams: one integer seed gives each part of a run its own independent generator."""

from __future__ import annotations

import secrets
from typing import Any, Literal

import numpy as np

from matrixrl.checks import fail, integer

__all__ = ["Stream", "fresh_seed", "generator", "restore", "seed_list", "state_of", "stream_seed"]

Stream = Literal["env", "agent", "ties", "sampling", "problem"]
_STREAM_KEYS: dict[Stream, int] = {"env": 0, "agent": 1, "ties": 2, "sampling": 3, "problem": 4}


def _sequence(seed: int, stream: Stream) -> np.random.SeedSequence:
    seed = integer("seed", seed, low=0, remedy="Give a whole number such as 0.")
    return np.random.SeedSequence(entropy=seed, spawn_key=(_STREAM_KEYS[stream],))


def generator(seed: int, stream: Stream) -> np.random.Generator:
    """Return the generator of one named stream of `seed`.

    >>> a, b = generator(7, "env"), generator(7, "ties")
    >>> bool(a.random() == b.random())
    False
    """
    return np.random.Generator(np.random.PCG64(_sequence(seed, stream)))


def stream_seed(seed: int, stream: Stream) -> int:
    """Return an integer derived from `seed` for a component that only takes integers (`env.reset`)."""
    return int(_sequence(seed, stream).generate_state(1, np.uint32)[0])


def fresh_seed() -> int:
    """Draw a seed from the operating system, for users who gave none; callers must record it."""
    return secrets.randbits(31)


def seed_list(seed: int, count: int) -> list[int]:
    """Return the `count` consecutive seeds that start at `seed`."""
    first = integer("seed", seed, low=0, remedy="Give a whole number such as 0.")
    n = integer("seeds", count, low=1, remedy="Ask for at least one seed.")
    return list(range(first, first + n))


def state_of(rng: np.random.Generator) -> dict[str, Any]:
    """Return the generator's state as plain JSON data."""
    return dict(rng.bit_generator.state)


def restore(rng: np.random.Generator, state: object) -> None:
    """Put `rng` into a state that `state_of` returned; refuse anything else."""
    try:
        rng.bit_generator.state = state  # type: ignore[assignment]
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        fail(
            "random state",
            "must be one that matrixrl saved",
            f"something else ({error})",
            "Use an intact checkpoint.",
        )
