"""Lower bounds on the values of frozen policies from what episodes earned (docs/proofs.md, section 11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.core.backup import Frame
from matrixrl.core.returns import MOST_FROZEN, N_LEVELS, frozen_policy_bounds, return_level
from matrixrl.errors import InvalidInput
from matrixrl.linalg import OutcomeCounts
from matrixrl.problems import Problem
from matrixrl.problems.discounting import total_weight
from matrixrl.records import IntArray, Steps

__all__ = ["FrozenReturns", "checked_policy", "is_chain"]

_LIVE = 3  # frozen policies that are still compared with what is played
_MOST_UNCOUNTED = 4096  # returns that are collected before they are counted together


class FrozenReturns:
    """What episodes earned up to the first action that is not that of a frozen policy.

    The policy of episodes 1, 2, 4, … is frozen. It was made before the steps of its episode, so that episode counts
    too. Episodes count whose first state was drawn from the start that certificates are about.

    Args:
        problem: The problem.
        delta: Probability with which any of the bounds may fail; 0 counts nothing.
    """

    def __init__(self, problem: Problem, delta: float) -> None:
        self._problem, self._delta = problem, delta
        self._frozen: dict[int, IntArray] = {}
        self._stacked: IntArray | None = None  # (j, H, S) the tables of the frozen policies
        self._levels = OutcomeCounts(1, MOST_FROZEN, N_LEVELS + 1)
        self._uncounted: list[tuple[int, int]] = []  # frozen policy and level of return of recent episodes

    @property
    def counts(self) -> bool:
        """Whether returns are counted."""
        return self._delta > 0.0 and self._problem.reward_outside != "widen"

    def observe(self, number: int, table: Callable[[], IntArray], steps: Steps, *, counts: bool) -> None:
        """Count what an episode earned for every frozen policy.

        Args:
            number: Number of the episode, counted from 1.
            table: Function that returns the policy (H, S) that the episode was begun with; only some are needed.
            steps: (1, k) Its steps.
            counts: Whether its return counts: its first state was drawn from the start, and every step begins in the
                state in which the one before it ended.
        """
        if not self.counts:
            return
        if number.bit_count() == 1:
            self._frozen[number.bit_length() - 1] = table()
            self._stacked = None
            if len(self._frozen) > _LIVE:
                del self._frozen[min(self._frozen)]
        if counts:
            if self._stacked is None:
                self._stacked = np.stack(list(self._frozen.values()))
            levels = [return_level(share) for share in self._followed(self._stacked, steps)]
            self._uncounted.extend(zip(self._frozen, levels, strict=True))
            if len(self._uncounted) > _MOST_UNCOUNTED:
                self._counted()

    def _followed(self, tables: IntArray, steps: Steps) -> list[float]:
        """Return the reward up to the first action that is not that of each table (j, H, S), as a share of the most."""
        task, states, actions = self._problem.finite_task, steps.states[0], steps.actions[0]
        n_steps, low = len(actions), task.reward_range[0]
        same = tables[:, np.arange(n_steps), states] == actions
        lengths = np.where(same.all(axis=1), n_steps, same.argmin(axis=1)).tolist()
        unit = np.clip((steps.rewards[0] - low) / task.unit, 0.0, 1.0)
        # The end state pays 0 in each of the steps that are left.
        left = task.steps_weight - total_weight(task.discount, n_steps)
        rest = left * (0.0 - low) / task.unit if steps.ended[0, -1] else 0.0
        totals = {
            length: float(task.returns(unit[:length])) + (rest if length == n_steps else 0.0) for length in set(lengths)
        }
        return [totals[length] / task.steps_weight for length in lengths]

    def _counted(self) -> OutcomeCounts:
        """Return the numbers of episodes of each frozen policy at each level of return."""
        if self._uncounted:
            rows, levels = np.array(self._uncounted, dtype=np.int64).T
            self._levels.add(rows[None], levels[None])
            self._uncounted = []
        return self._levels

    def permit(self, frame: Frame) -> None:
        """Replace actions that newer masks forbid by the lowest allowed ones.

        What was counted stays a lower bound: an action that is not allowed was never played, so no reward after it was
        counted, and the policy that replaces it was known when the other one was frozen, as masks are no random
        numbers (docs/proofs.md, section 11).
        """
        permitted = {number: frame.permitted(table) for number, table in self._frozen.items()}
        self._frozen, self._stacked = permitted, None

    def best(self) -> tuple[float, IntArray] | None:
        """Return the largest lower bound, in the environment's unit, and its policy (H, S); None without any."""
        seen, task = self._counted().seen, self._problem.finite_task
        if not self.counts or not len(seen.ids):
            return None
        bounds = dict(zip(seen.ids.tolist(), frozen_policy_bounds(seen, self._delta).tolist(), strict=True))
        number = max(self._frozen, key=lambda live: bounds.get(live, 0.0))
        lower = task.to_own_unit(np.array([bounds.get(number, 0.0) * task.steps_weight]))
        return float(lower[0]), self._frozen[number]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the tables and counts, for saving."""
        if not self._frozen:
            return {}
        return {"frozen": np.stack(list(self._frozen.values())), **self._counted().arrays()}

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_episodes: int) -> None:
        """Take back what `arrays` returned after so many episodes.

        Raises:
            InvalidInput: The returns cannot be those of the problem after so many episodes.
        """
        if not arrays:
            if n_episodes > 0:
                self._drop()  # they were dropped before
            return
        expected = {"frozen", "codes", "times"}
        if set(arrays) != expected or n_episodes == 0 or not self.counts:
            raise InvalidInput(f"the returns of frozen policies must have the arrays {sorted(expected)}")
        numbers = range(max(n_episodes.bit_length() - _LIVE, 0), n_episodes.bit_length())
        tables = checked_policy(self._problem, arrays["frozen"], 3)
        if len(tables) != len(numbers):
            raise InvalidInput(f"there must be {len(numbers)} frozen policies")
        self._levels.restore(arrays["codes"], arrays["times"])
        since = n_episodes + 1 - 2.0 ** np.arange(MOST_FROZEN)
        counted = self._levels.totals()[0]
        if (counted > np.maximum(since, 0.0)).any():
            raise InvalidInput("the returns of frozen policies must count the episodes since they were frozen")
        self._frozen, self._stacked = dict(zip(numbers, tables, strict=True)), None

    def _drop(self) -> None:
        """Count no returns from now on."""
        self._delta, self._frozen, self._stacked, self._uncounted = 0.0, {}, None, []
        self._levels = OutcomeCounts(1, MOST_FROZEN, N_LEVELS + 1)


def is_chain(steps: Steps) -> bool:
    """Return whether every step of an episode (1, k) begins in the state in which the one before it ended."""
    return bool((steps.states[0, 1:] == steps.next_states[0, :-1]).all())


def checked_policy(problem: Problem, table: NDArray[Any], n_axes: int) -> IntArray:
    """Return a copy of saved tables (…, H, S) of actions.

    Raises:
        InvalidInput: They do not fit the problem.
    """
    task = problem.finite_task
    fits = (
        table.ndim == n_axes
        and table.shape[-2:] == (task.horizon, task.n_states)
        and table.dtype.kind in "iu"
        and (not table.size or 0 <= table.min() <= table.max() < task.n_actions)
        and (task.allowed is None or bool(task.allowed[np.arange(task.n_states), table].all()))
        and (task.stages is None or np.array_equal(task.stages.inner_table(task.stages.own(table)), table))
    )
    if not fits:
        raise InvalidInput("a certified policy does not fit the problem")
    return table.copy()
