"""Ranges of the rewards of single pairs: what is known of rewards that are learned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matrixrl.checks import fail, real_numbers, shown
from matrixrl.problems.stages import Stages
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["RewardBounds", "overall_range", "range_tables"]

_REMEDY = "Give reward_range=(low, high), each a number or an array of shape (S, A), such as (known, known + 1.0)."


def range_tables(value: Any) -> tuple[FloatArray, FloatArray] | None:
    """Return the smallest and the largest reward of each pair; None if the range is a pair of numbers, or no range."""
    if not isinstance(value, (tuple, list)) or len(value) != 2 or not any(np.ndim(side) for side in value):
        return None
    low, high = (real_numbers(side) for side in value)
    for side in (low, high):
        if side.ndim not in (0, 2, 3):
            fail("reward_range", "must have tables reward_range[0][s, a]", f"shape {side.shape}", _REMEDY)
    return low, high


def overall_range(tables: tuple[FloatArray, FloatArray]) -> tuple[float, float]:
    """Return the smallest and the largest number of both tables; others than numbers are refused with their pairs."""
    finite = np.concatenate([side[np.isfinite(side)] for side in tables])
    for side, table in zip(("low", "high"), tables, strict=True):
        if not np.isfinite(table).any():
            fail("reward_range", "must be finite", f"no finite number in {side}", _REMEDY)
    if finite.min() == finite.max():
        rule = "must leave something to learn: a low that is less than high for some pair"
        fail("reward_range", rule, "none", "Give reward=… if all rewards are known.")
    return float(finite.min()), float(finite.max())


class RewardBounds(NamedTuple):
    """Smallest and largest reward of each pair, each (S, A): rewards are low + part · (high − low).

    What is learned of a reward is the mean of its part, a number in [0, 1]. So what is learned of rewards that are the
    sum of a known table g and a remainder in [a, b], whose bounds are g + a and g + b, is the remainder.
    """

    low: FloatArray
    high: FloatArray

    @classmethod
    def read(
        cls, tables: tuple[FloatArray, FloatArray], stages: Stages, n_states: int, unused: BoolArray | None, end: Any
    ) -> RewardBounds:
        """Return the bounds of inner actions from tables that users give, which may leave out an end state.

        Args:
            tables: Both sides, each a number, (S, A), or (H, S, A) if rewards depend on the stage.
            stages: Classes of stages.
            n_states: Number of states S.
            unused: (S, A) Pairs whose rewards are not used; None if all are.
            end: End state, which earns 0; None if there is none.
        """
        sides, shape = [], (n_states, stages.n_own)
        for side in tables:
            items = [side] if side.ndim < 3 else list(side)
            whole = []
            for table in stages.by_class("reward_range", items, "(S, A)"):
                if end == n_states - 1 and table.shape == (end, shape[1]):
                    table = np.vstack([table, np.zeros((1, shape[1]))])
                if table.shape not in ((), shape):
                    fail("reward_range", f"must have tables of shape {shape}", f"shape {table.shape}", _REMEDY)
                whole.append(np.broadcast_to(table, shape))
            sides.append(np.concatenate(whole, axis=1))
        if unused is not None:
            sides = [np.where(unused, overall_range(tables)[0], side) for side in sides]
        if end is not None:
            for side in sides:
                side[end] = 0.0
        found = cls(*sides)
        wrong = np.argwhere(~(np.isfinite(found.low) & np.isfinite(found.high) & (found.low <= found.high)))
        if len(wrong):
            s, a = wrong[0].tolist()
            received = f"({found.low[s, a]:g}, {found.high[s, a]:g}) for state {s}, action {stages.own(a)}"
            fail("reward_range", "must be finite, with low <= high for every pair", received, _REMEDY)
        return found

    def repeated(self, times: int) -> RewardBounds:
        """Return the bounds of so many classes of stages, from those of one."""
        return RewardBounds(*(np.tile(side, (1, times)) for side in self))

    def with_end(self) -> RewardBounds:
        """Return the bounds with one more state, which earns 0."""
        return RewardBounds(*(np.vstack([side, np.zeros((1, side.shape[1]))]) for side in self))

    def check(self, reward: FloatArray, unused: BoolArray | None) -> None:
        """Refuse expected rewards (S, A) outside."""
        outside = (reward < self.low) | (reward > self.high)
        wrong = np.argwhere(outside if unused is None else outside & ~unused)
        if len(wrong):
            s, a = wrong[0].tolist()
            rule = f"must lie in reward_range of its pair, [{self.low[s, a]:g}, {self.high[s, a]:g}]"
            fail("reward", rule, f"reward[{s}, {a}] = {shown(float(reward[s, a]))}", "Correct one of them.")

    def in_unit(self, low: float, unit: float) -> RewardBounds:
        """Return the bounds in unit rewards (r − low) / unit."""
        return RewardBounds(*(np.clip((side - low) / unit, 0.0, 1.0) for side in self))

    def parts(self, rewards: FloatArray, states: IntArray, actions: IntArray) -> FloatArray:
        """Return the learned parts of rewards, in [0, 1]; 0 where nothing is to be learned. All shapes are equal."""
        low = self.low[states, actions]
        width = self.high[states, actions] - low
        parts = np.clip((rewards - low) / np.where(width > 0.0, width, 1.0), 0.0, 1.0)
        # the subtraction loses digits, and equal rewards must stay equal to be counted together
        return np.asarray(np.round(np.where(width > 0.0, parts, 0.0), 12), dtype=np.float64)
