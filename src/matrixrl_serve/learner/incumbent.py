"""An upper bound on the value of a policy that is only known from what its episodes earned."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.core.returns import N_LEVELS, mean_lower_bounds, return_level
from matrixrl.linalg import OutcomeCounts
from matrixrl.problems.task import total_weight
from matrixrl.records import FloatArray
from matrixrl_serve.problem import ServedProblem
from matrixrl_serve.projection import Told

__all__ = ["IncumbentReturns"]


class IncumbentReturns:
    r"""Returns of episodes that the incumbent played, and a bound on its value from them.

    If the incumbent is one policy and every episode begins in the same state, a return has the mean \(V\) given the
    returns before it, so \(1 - X\) has the mean \(1 - V\), and a lower bound on that one is an upper bound on V. It
    holds for all numbers of episodes at once with probability 1 − δ (docs/proofs.md, section 11.2).
    """

    def __init__(self, problem: ServedProblem) -> None:
        self._problem = problem
        self._times: dict[int, int] = {}  # number of episodes at each level of 1 − X
        self.n_episodes = 0

    def observe(self, outcomes: list[Told | None]) -> None:
        """Count an episode in the order of the begins.

        Steps that were not reported count with the largest reward, so that the bound stays valid.

        Args:
            outcomes: Outcomes of its steps; None at the end for one that timed out.
        """
        task, file = self._problem.task, self._problem.file
        low, unit = task.reward_range[0], task.unit
        rewards = np.array([(file.default_reward or 0.0) if one is None else one.reward for one in outcomes])
        earned = float(task.returns(np.clip((rewards - low) / unit, 0.0, 1.0)))
        rest = task.steps_weight - total_weight(task.discount, len(rewards))
        last = outcomes[-1] if outcomes else None
        ended = bool(outcomes) and (last is None or last.terminated)
        earned += rest * (-low / unit if ended else 1.0)
        level = return_level(1.0 - earned / task.steps_weight)
        self._times[level] = self._times.get(level, 0) + 1
        self.n_episodes += 1

    def upper(self, delta: float) -> float:
        """Return the upper bound on the value, in the unit of the rewards.

        Args:
            delta: Probability with which it may ever fail.
        """
        task, least = self._problem.task, 0.0
        if self._times:
            counts = OutcomeCounts(1, 1, N_LEVELS + 1)
            levels = np.repeat(list(self._times), list(self._times.values()))
            counts.add(np.zeros((1, len(levels)), dtype=np.int64), levels[None])
            least = float(mean_lower_bounds(counts.seen, delta)[0])
        value: FloatArray = task.to_own_unit(np.array([(1.0 - least) * task.steps_weight + task.tail]))
        return float(value[0])

    def to_plain(self) -> dict[str, Any]:
        """Return the counts as plain data."""
        return {"times": sorted(self._times.items()), "n_episodes": self.n_episodes}

    def restore(self, data: dict[str, Any]) -> None:
        """Take back what `to_plain` returned."""
        self._times = {int(level): int(times) for level, times in data["times"]}
        self.n_episodes = data["n_episodes"]
