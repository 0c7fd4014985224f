"""What episodes of given policies earned: policies that were fixed before these episodes (docs/proofs.md, 11.5)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.archive import check_arrays
from matrixrl.core.returns import Returns, difference_bounds, statement_share
from matrixrl.errors import InvalidInput
from matrixrl.problems import Task
from matrixrl.records import FloatArray, IntArray, Steps

__all__ = ["SAVED", "GivenPolicy", "GivenReturns", "policy_digest", "stage_ranges", "value_range"]

_DIGEST = 32  # bytes of SHA-256
_SHAPES: dict[str, NDArray[Any]] = {
    "given_digests": np.empty((0, _DIGEST), dtype=np.uint8),
    "given_ranges": np.empty((0, 2)),
    "given_numbers": np.empty(0, dtype=np.int64),
    "given_returns": np.empty((0, 2)),
}
SAVED = tuple(_SHAPES)
"""Names of the arrays of `GivenReturns`."""

_SLACK = 1e-9  # rounding of values, as a share of their range


def policy_digest(table: IntArray, task: Task) -> bytes:
    """Return the SHA-256 of what a policy, (H, S) actions or (H, A, S) probabilities, does in the states of a task.

    Probabilities 0 and 1 are actions, and nothing is done in the end state.
    """
    if table.ndim == 3 and bool(((table == 0.0) | (table == 1.0)).all()):
        table = table.argmax(axis=1)
    plain = table.astype("<i8" if table.ndim == 2 else "<f8")  # a copy
    if task.end_state is not None:
        plain[..., task.end_state] = 0
    return hashlib.sha256(plain.tobytes()).digest()


def stage_ranges(task: Task, table: IntArray | None, *, knows_reward: bool) -> FloatArray:
    """Return the least and the most that a policy, (H, S), (H, A, S) or None for any, can earn at each stage: (H, 2).

    They are over all states; of expected rewards if these are known, else the ends of their ranges.
    """
    found = np.empty((task.horizon, 2))
    found[:] = task.reward_range
    if not knows_reward and task.reward_bounds is None:
        return found
    ends = (task.reward, task.reward) if knows_reward or task.reward_bounds is None else task.reward_bounds
    for h, (first, stop) in enumerate(task.choices.tolist()):
        if table is None:
            used = np.zeros(task.reward.shape, dtype=np.bool_)
            used[:, first:stop] = True if task.allowed is None else task.allowed[:, first:stop]
        elif table.ndim == 2:
            used = np.zeros(task.reward.shape, dtype=np.bool_)
            used[np.arange(task.n_states), table[h]] = True
        else:
            used = table[h].T > 0.0
        found[h] = ends[0][used].min(), ends[1][used].max()
    return found


def value_range(task: Task, table: IntArray | None, *, knows_reward: bool) -> tuple[float, float]:
    """Return what the value of a policy, or of any if it is None, is between without data, in the environment's unit.

    Steps that are cut off from endless episodes earn something in the range of rewards.
    """
    weighted = task.discount ** np.arange(task.horizon) @ stage_ranges(task, table, knows_reward=knows_reward)
    low, high = (weighted + task.tail * np.array(task.reward_range)).tolist()
    return low, high


class GivenPolicy:
    """A policy that was fixed before its episodes, and what they earned.

    From the first action on that it does not take, and after the last step of an episode that was ended early, an
    episode may have earned anything that is possible. Where rewards are known, it earns the expected ones of its pairs.

    Args:
        task: The task.
        table: (H, S) Inner actions, or (H, A, S) their probabilities.
        knows_reward: Whether rewards are known.
    """

    def __init__(self, task: Task, table: IntArray, *, knows_reward: bool) -> None:
        self._task, self._table, self._knows_reward = task, table, knows_reward
        self._weights = task.discount ** np.arange(task.horizon)
        self._ranges = stage_ranges(task, table, knows_reward=knows_reward)
        self.digest = policy_digest(table, task)

    def played(self, steps: Steps) -> tuple[float, float]:
        """Return numbers that the return of an episode (1, k) is between, in the environment's unit."""
        task, table, states = self._task, self._table, steps.states[0]
        n_steps = steps.actions.shape[1]
        stages = np.arange(n_steps)
        inner = task.stages.own(steps.actions[0].astype(np.int64)) + task.choices[:n_steps, 0]
        taken = table[stages, states] == inner if table.ndim == 2 else table[stages, inner, states] > 0.0
        taken[1:] &= states[1:] == steps.next_states[0, :-1]
        k = n_steps if taken.all() else int(taken.argmin())
        earned = task.reward[states[:k], inner[:k]] if self._knows_reward else steps.rewards[0, :k]
        first = task.horizon if k == n_steps and steps.ended[0, -1] else k  # the end state pays nothing
        low, high = (self._weights[:k] @ earned + self._weights[first:] @ self._ranges[first:]).tolist()
        return low, high


class GivenReturns:
    """Returns of the episodes of each given policy; an episode counts for the one that was given before it began.

    Args:
        task: The task.
        knows_reward: Whether rewards are known.
    """

    def __init__(self, task: Task, *, knows_reward: bool) -> None:
        self._task, self._knows_reward = task, knows_reward
        self._ranges: dict[bytes, tuple[float, float]] = {}  # by digest, in the order in which they were given
        self._returns: dict[bytes, list[tuple[float, float]]] = {}
        self._last: tuple[Any, GivenPolicy] | None = None  # the table that was given last

    def __len__(self) -> int:
        return len(self._ranges)

    def policy(self, table: IntArray) -> GivenPolicy:
        """Return a given policy; the same table is not read again."""
        if self._last is None or self._last[0] is not table:
            self._last = table, GivenPolicy(self._task, table, knows_reward=self._knows_reward)
        return self._last[1]

    def add(self, table: IntArray, earned: Sequence[tuple[float, float]]) -> None:
        """Add what `GivenPolicy.played` returned for episodes of a given policy, in their order."""
        digest = self.policy(table).digest
        if digest not in self._ranges:
            self._ranges[digest] = value_range(self._task, table, knows_reward=self._knows_reward)
            self._returns[digest] = []
        self._returns[digest].extend(earned)

    def of(self, table: IntArray) -> tuple[int, Returns] | None:
        """Return the number of a given policy, counted from 1, and its returns; None if it was never given.

        What an endless episode may earn after its last step is part of the interval of each return.
        """
        digest = policy_digest(table, self._task)
        if digest not in self._ranges:
            return None
        low, high = (np.array(side) for side in zip(*self._returns[digest], strict=True))
        tail, (least, most) = self._task.tail, self._task.reward_range
        number = list(self._ranges).index(digest) + 1
        return number, Returns.of(low + tail * least, high + tail * most, *self._ranges[digest])

    def interval(self, table: IntArray, delta: float) -> tuple[float, float] | None:
        """Return an interval of the value of a given policy; None if it was never given.

        All intervals, and all of `difference`, hold together with probability 1 − δ, after any number of episodes.
        """
        found = self.of(table)
        return None if found is None else found[1].interval(delta * statement_share(found[0]))

    def difference(self, first: IntArray, second: IntArray, delta: float) -> tuple[float, float] | None:
        """Return an interval of the difference of the values of two given policies; None unless both were given."""
        one, other = self.of(first), self.of(second)
        if one is None or other is None or one[0] == other[0]:
            return None
        return difference_bounds(one[1], other[1], delta * statement_share(one[0], other[0]))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return digests, ranges and returns, for saving; nothing if no policy was given."""
        if not self._ranges:
            return {}
        returns = list(self._returns.values())
        values = (
            np.frombuffer(b"".join(self._ranges), dtype=np.uint8).reshape(-1, _DIGEST),
            np.array(list(self._ranges.values())),
            np.repeat(np.arange(len(returns)), [len(one) for one in returns]),
            np.concatenate([np.array(one) for one in returns]),
        )
        return dict(zip(SAVED, values, strict=True))

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned; refuse what it cannot have returned for the same task."""
        if not arrays:
            return
        check_arrays(arrays, _SHAPES)
        digests, ranges, numbers, returns = (arrays[name] for name in SAVED)
        fits = (
            len(digests) == len(ranges) == len({row.tobytes() for row in digests})
            and np.array_equal(np.unique(numbers), np.arange(len(digests)))
            and len(numbers) == len(returns)
            and all(bool((both[:, 0] <= both[:, 1]).all()) for both in (ranges, returns))
        )
        least, most = value_range(self._task, None, knows_reward=False)  # of any policy
        slack = _SLACK * (most - least)
        fits = fits and bool(((ranges >= least - slack) & (ranges <= most + slack)).all())
        if not fits:
            raise InvalidInput("the returns of given policies must be those of policies of the problem")
        for k, (digest, least_most) in enumerate(zip(digests, ranges.tolist(), strict=True)):
            self._ranges[digest.tobytes()] = tuple(least_most)
            self._returns[digest.tobytes()] = [tuple(row) for row in returns[numbers == k].tolist()]
