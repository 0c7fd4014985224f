"""Named random streams: one integer seed gives each part of a run its own independent generator."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, fits_memory, integer

__all__ = [
    "Stream",
    "Streams",
    "fresh_seed",
    "generator",
    "numbered_seed",
    "seed_list",
    "stream_from_array",
    "stream_seed",
    "stream_to_array",
]

Stream = Literal["env", "agent", "ties", "sampling", "problem"]
_STREAM_KEYS: dict[Stream, int] = {"env": 0, "agent": 1, "ties": 2, "sampling": 3, "problem": 4}
_WORD = (1 << 64) - 1
_NUMBERS_PER_SEED = 200  # of random generators, in numbers of 8 bytes
_WORDS = 6  # of a PCG64 state: two of 128 bits, a flag and a buffered number


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


def numbered_seed(seed: int, stream: Stream, number: int) -> int:
    """Return an integer of 62 bits derived from `seed` for the component with a number, apart from `stream_seed`.

    >>> numbered_seed(7, "env", 0) == numbered_seed(7, "env", 1)
    False
    """
    sequence = np.random.SeedSequence(entropy=seed, spawn_key=(_STREAM_KEYS[stream], number))
    return int(sequence.generate_state(1, np.uint64)[0]) >> 2


def fresh_seed() -> int:
    """Draw a seed from the operating system, for users who gave none; callers must record it."""
    return secrets.randbits(31)


def seed_list(seed: int, count: int) -> list[int]:
    """Return the `count` consecutive seeds that start at `seed`."""
    first = integer("seed", seed, low=0, remedy="Give a whole number such as 0.")
    n = integer("seeds", count, low=1, remedy="Give a number of seeds, or a list of them.")
    integer("seed", first + n - 1, low=0, remedy="Give a smaller first seed.")
    fits_memory("seeds", _NUMBERS_PER_SEED * n, f"{n:,} seeds", remedy="Play fewer seeds at a time.")
    return list(range(first, first + n))


def stream_to_array(rng: np.random.Generator) -> NDArray[np.uint64]:
    """Return the state of a PCG64 generator as six 64-bit words, for saving."""
    state: Any = rng.bit_generator.state
    if state.get("bit_generator") != "PCG64":
        fail("random stream", "must be of kind PCG64 to be saved", state.get("bit_generator"), "Use default_rng.")
    pair = state["state"]["state"], state["state"]["inc"]
    words = [word for x in pair for word in (x >> 64, x & _WORD)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], dtype=np.uint64)


def stream_from_array(words: NDArray[Any]) -> np.random.Generator:
    """Return a generator in the state that `stream_to_array` wrote; refuse anything else."""
    is_state = words.shape == (_WORDS,) and words.dtype == np.uint64
    high, low, inc_high, inc_low, flag, buffered = (int(word) for word in words) if is_state else (0,) * _WORDS
    if not inc_low & 1 or flag > 1 or buffered >= 1 << 32:  # the increment of PCG64 is odd
        fail("random state", "must be one that matrixrl saved", f"{words.dtype} {words.shape}", "Use an intact file.")
    rng = np.random.Generator(np.random.PCG64())
    state = {"state": high << 64 | low, "inc": inc_high << 64 | inc_low}
    rng.bit_generator.state = {"bit_generator": "PCG64", "state": state, "has_uint32": flag, "uinteger": buffered}
    return rng


class Streams:
    """The named generators of B replicas, one of each name for each seed.

    >>> streams = Streams([0, 1], ["ties"])
    >>> len(streams["ties"]), streams.to_array().shape
    (2, (2, 6))
    """

    def __init__(self, seeds: Sequence[int], names: Sequence[Stream]) -> None:
        self._by_name = {name: [generator(seed, name) for seed in seeds] for name in names}

    def __getitem__(self, name: Stream) -> list[np.random.Generator]:
        return self._by_name[name]

    @property
    def _all(self) -> list[np.random.Generator]:
        return [rng for rngs in self._by_name.values() for rng in rngs]

    def mark(self) -> list[Any]:
        """Return the states of all generators, to go back to."""
        return [rng.bit_generator.state for rng in self._all]

    def rewind(self, mark: Sequence[Any]) -> None:
        """Go back to the states that `mark` returned."""
        for rng, state in zip(self._all, mark, strict=True):
            rng.bit_generator.state = state

    def to_array(self) -> NDArray[np.uint64]:
        """Return the states of all generators, for saving: (names · B, 6)."""
        rows = [stream_to_array(rng) for rng in self._all]
        return np.stack(rows) if rows else np.empty((0, _WORDS), dtype=np.uint64)

    def from_array(self, array: NDArray[Any]) -> None:
        """Take the states that `to_array` returned; an array that is refused changes nothing."""
        if array.shape != (len(self._all), _WORDS):
            fail("streams", f"must have shape {(len(self._all), _WORDS)}", array.shape, "Use an intact file.")
        self.rewind([stream_from_array(words).bit_generator.state for words in array])
