"""Tables of a user's step function: called once for each pair and outcome, checked, and asked again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, fits_memory, real_numbers, shown
from matrixrl.errors import InvalidInput
from matrixrl.progress import ProgressLines
from matrixrl.records import BoolArray, FloatArray, IntArray
from matrixrl.spaces import ArrayCodec, Codec, DiscreteCodec

__all__ = ["Tables", "arguments", "tabulate"]

_TOGETHER = 1 << 18  # calls whose arrays are formed together
_ASKED_AGAIN = 512
_REMEDY = "Return (next state, reward) or (next state, reward, terminated)."
_STAY = "Let every step lead to a state; actions that cannot be taken are left out with allowed=…."


class Tables(NamedTuple):
    """What a step function answers for P pairs and W outcomes.

    Attributes:
        next_states: (P, W) Numbers of the next states.
        rewards: (P, W) Rewards.
        ended: (P, W) Whether the episode terminates.
    """

    next_states: IntArray
    rewards: FloatArray
    ended: BoolArray


def tabulate(
    step: Callable[..., Any],
    pairs: tuple[IntArray, IntArray],
    outcomes: NDArray[Any],
    states: Codec,
    actions: Codec,
    *,
    vectorized: bool,
) -> Tables:
    """Return the tables of a step function for pairs of actions (P,) and states (P,), and outcomes (W,).

    Raises:
        InvalidInput: An answer is no next state and reward, or is another one when it is asked again.
    """
    n, width = len(pairs[0]), len(outcomes)
    fits_memory("outcomes", 4.0 * n * width, f"{n:,} pairs and {width:,} outcomes", remedy="Use fewer.")
    ask = _ask_together if vectorized else _ask_each
    following, rewards = np.empty(n * width, dtype=np.int32), np.empty(n * width)
    ended, progress = np.empty(n * width, dtype=np.bool_), ProgressLines("tabulating step")
    at_once = _TOGETHER if vectorized else 1 << 10
    for first in range(0, n * width, at_once):
        rows = np.arange(first, min(first + at_once, n * width))
        following[rows], rewards[rows], ended[rows] = ask(step, rows, pairs, outcomes, states, actions)
        progress.show(int(rows[-1]) + 1, n * width)
    # In another order, so that an answer that depends on earlier ones, on chance or on other entries is seen.
    some = np.unique(np.linspace(0, n * width - 1, _ASKED_AGAIN).astype(np.int64))[::-1]
    again = ask(step, some, pairs, outcomes, states, actions)
    differs = (again[0] != following[some]) | (again[1] != rewards[some]) | (again[2] != ended[some])
    if differs.any():
        at = int(np.argmax(differs))
        place = _place(int(some[at]), pairs, outcomes, states, actions)
        before = f"({shown(states.decode(int(following[some[at]])))}, {rewards[some[at]]:g})"
        now = f"({shown(states.decode(int(again[0][at])))}, {again[1][at]:g})"
        rule = "must depend on state, action and outcome alone"
        fail(place, rule, f"{before}, then {now} for the same question", "Make all chance the outcome.")
    shape = n, width
    return Tables(following.reshape(shape), rewards.reshape(shape), ended.reshape(shape))


def arguments(codec: Codec, numbers: IntArray) -> Any:
    """Return states or actions (n,) as a vectorized function takes them: (n,), or one array for each part, (p, n)."""
    if not isinstance(codec, (DiscreteCodec, ArrayCodec)) or len(codec.shape if codec.sizes[1:] else (0,)) != 1:
        remedy = "Pass vectorized=False, or number them."
        fail("vectorized", "must be False for states or actions that are no vectors", str(codec), remedy)
    cells = codec.cells(numbers)
    return cells[:, 0] if isinstance(codec, DiscreteCodec) else cells.T


def _place(row: int, pairs: Any, outcomes: NDArray[Any], states: Codec, actions: Codec) -> str:
    pair, w = divmod(row, len(outcomes))
    state, action = (shown(codec.decode(int(part[pair]))) for codec, part in ((states, pairs[1]), (actions, pairs[0])))
    return f"step(state={state}, action={action}, outcome={outcomes[w].item()})"


def _ask_each(
    step: Callable[..., Any], rows: IntArray, pairs: Any, outcomes: NDArray[Any], states: Codec, actions: Codec
) -> tuple[IntArray, FloatArray, BoolArray]:
    following, rewards = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
    ended, values = np.zeros(len(rows), dtype=np.bool_), outcomes.tolist()
    for i, row in enumerate(rows.tolist()):
        pair, w = divmod(row, len(values))
        s, a = int(pairs[1][pair]), int(pairs[0][pair])
        answer = step(states.decode(s), actions.decode(a), values[w])
        if not isinstance(answer, tuple) or len(answer) not in (2, 3):
            place = _place(row, pairs, outcomes, states, actions)
            fail(place, "must return a next state and a reward", shown(answer), _REMEDY)
        reward = real_numbers(answer[1])
        if reward.shape != () or not np.isfinite(reward):
            place = _place(row, pairs, outcomes, states, actions)
            fail(f"the reward of {place}", "must be a finite number", shown(answer[1]), _REMEDY)
        rewards[i] = reward
        if len(answer) == 3:
            if not isinstance(answer[2], (bool, np.bool_)):
                place = _place(row, pairs, outcomes, states, actions)
                fail(f"terminated of {place}", "must be True or False", shown(answer[2]), _REMEDY)
            ended[i] = answer[2]
        if ended[i]:
            following[i] = s  # what is observed then does not matter
            continue
        try:
            following[i] = states.encode("", answer[0], "")
        except InvalidInput:
            place = _place(row, pairs, outcomes, states, actions)
            states.encode(f"the next state of {place}", answer[0], _STAY)
    return following, rewards, ended


def _ask_together(
    step: Callable[..., Any], rows: IntArray, pairs: Any, outcomes: NDArray[Any], states: Codec, actions: Codec
) -> tuple[IntArray, FloatArray, BoolArray]:
    pair, w = np.divmod(rows, len(outcomes))
    answer = step(arguments(states, pairs[1][pair]), arguments(actions, pairs[0][pair]), outcomes[w])
    if not isinstance(answer, tuple) or len(answer) not in (2, 3):
        fail("step", "must return arrays of next states and rewards", shown(answer), _REMEDY)
    n_parts = len(states.sizes)
    given = [answer[0]] if isinstance(states, DiscreteCodec) else answer[0]
    has_parts = isinstance(given, (tuple, list)) or (isinstance(given, np.ndarray) and given.ndim > 0)
    if not has_parts or len(given) != n_parts:
        remedy = "Return one array of n entries for each part of a state."
        received = f"{len(given)}" if has_parts else shown(given)
        fail("the next states of step", f"must have {n_parts} parts", received, remedy)
    parts = [_entries("the next states of step", part, len(rows)) for part in given]
    rewards = _entries("the rewards of step", answer[1], len(rows))
    ended = np.zeros(len(rows), dtype=np.bool_)
    if len(answer) == 3:
        flags = np.broadcast_to(np.asarray(answer[2]), ended.shape)
        if flags.dtype != np.bool_:
            fail("terminated of step", "must be True or False", f"an array of {flags.dtype}", _REMEDY)
        ended = flags.copy()
    if not np.isfinite(rewards).all():
        at = int(np.argmax(~np.isfinite(rewards)))
        place = _place(int(rows[at]), pairs, outcomes, states, actions)
        fail(f"the reward of {place}", "must be a finite number", float(rewards[at]), _REMEDY)
    digits = []
    for number, cells in enumerate(parts):
        found, good = states.digits(number, cells)
        bad = ~good & ~ended
        if bad.any():
            at = int(np.argmax(bad))
            place = _place(int(rows[at]), pairs, outcomes, states, actions)
            name = states.names(f"the next state of {place}")[number]
            fail(name, states.rule(number), f"{cells[at]:g}", _STAY)
        digits.append(found)
    following = np.ravel_multi_index(tuple(digits), states.sizes)
    return np.where(ended, pairs[1][pair], following), rewards, ended


def _entries(name: str, given: Any, n: int) -> FloatArray:
    found = real_numbers(given)
    if found.shape not in ((), (n,)) or (found.shape == () and np.ndim(given)):
        rule = f"must be {n:,} numbers for as many states, actions and outcomes"
        fail(name, rule, f"shape {np.shape(given)}", "Return one entry for each, or pass vectorized=False.")
    return np.broadcast_to(found, (n,))
