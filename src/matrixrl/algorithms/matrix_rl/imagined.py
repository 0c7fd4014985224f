"""How an agent may go on: a copy of its algorithm plays on in a problem that is drawn from what was seen."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from matrixrl.algorithms.matrix_rl.budget import BudgetPlan
from matrixrl.core.models import CountModel
from matrixrl.core.start import Start
from matrixrl.errors import ProtocolError
from matrixrl.logs import StepLog
from matrixrl.records import FloatArray, IntArray

if TYPE_CHECKING:
    from matrixrl.algorithms.matrix_rl.algorithm import UCMatrixRL
    from matrixrl.algorithms.matrix_rl.certifier import MatrixRLCertifier

__all__ = ["Imagination", "ImaginedRun"]

_REWARD_STEPS = 64  # rewards are told apart by so many parts of their range
_GROWTH = 0.1  # least growth of the visits of a row at which a new plan is asked for, if the agent plans before each
_SHORTEST = 0.02  # of the episodes so far, that are imagined with one plan at least


class Imagination:
    """What was seen, as the counts that problems are drawn from.

    Args:
        algorithm: The algorithm, with one replica; it is not changed.
        log: All steps that it learned from.
    """

    def __init__(self, algorithm: UCMatrixRL, log: StepLog) -> None:
        model = algorithm.model
        if not isinstance(model, CountModel):
            words = f"forecasts of bounds from a model need its default set; {algorithm.settings.set} counts no outcomes"
            raise ProtocolError(words)
        task, self.algorithm = algorithm.task, algorithm
        self.rows = model.groups.ravel()
        inner = task.stages.inner(log.actions.astype(np.int64), log.stages)
        pairs = inner * task.n_states + log.states
        outcomes = (log.next_states if log.outcomes is None else log.outcomes).astype(np.int64)
        kept = outcomes >= 0
        levels = np.zeros(len(pairs), dtype=np.int64)
        if not model.context.known_reward:
            levels = np.rint(_REWARD_STEPS * np.clip(algorithm.to_unit(log.rewards), 0.0, 1.0)).astype(np.int64)
        n_outcomes = int(outcomes.max(initial=0)) + 1
        codes = (self.rows[pairs] * n_outcomes + outcomes) * (_REWARD_STEPS + 1) + levels
        found, counts = np.unique(codes[kept], return_counts=True)
        self.counts = counts.astype(np.float64)
        rest, level = np.divmod(found, _REWARD_STEPS + 1)
        self.entry_rows, self.outcomes = np.divmod(rest, n_outcomes)
        self.unit_rewards = level / _REWARD_STEPS
        firsts = np.asarray(log.states)[log.offsets[:-1][log.firsts == 0]]
        seen = np.bincount(firsts.astype(np.int64), minlength=task.n_states) / max(len(firsts), 1)
        self.start = task.start if task.start_is_declared or not len(firsts) else seen
        self.n_episodes = log.n_episodes

    def draw(self, rng: np.random.Generator) -> ImaginedRun:
        """Return a run in a problem whose laws are drawn from what was seen (the Bayesian bootstrap, Rubin 1981)."""
        n_rows = int(self.rows.max()) + 1
        weights = rng.gamma(self.counts) + 1e-300
        weights /= np.bincount(self.entry_rows, weights, minlength=n_rows)[self.entry_rows]
        firsts = np.searchsorted(self.entry_rows, np.arange(n_rows + 1))
        return ImaginedRun(self, weights, firsts, self._stand_ins(firsts, rng), rng)

    def _stand_ins(self, firsts: IntArray, rng: np.random.Generator) -> IntArray:
        """Return the row whose law each pair has: its own, or of one that was tried, in its state if there is one."""
        n_states, tried, own = self.algorithm.task.n_states, np.diff(firsts) > 0, self.rows.copy()
        known = np.flatnonzero(tried)
        for pair in np.flatnonzero(~tried[own]):
            here = self.rows[pair % n_states :: n_states]
            near = here[tried[here]]
            own[pair] = rng.choice(near if len(near) else known)
        return own


class ImaginedRun:
    """A copy of an algorithm that learns in one imagined problem, many episodes at a time.

    Within some episodes its plan does not change, and their steps are drawn together: how often each pair led to each
    outcome is a Poisson number around its mean.
    """

    def __init__(
        self, of: Imagination, weights: FloatArray, firsts: IntArray, rows: IntArray, rng: np.random.Generator
    ) -> None:
        shared = of.algorithm
        problem, features = shared.problem, shared.problem.features
        memo = {id(one): one for one in (problem, problem.task, features, getattr(features, "phi", None))}
        self._algorithm, self._rng, self._start = copy.deepcopy(shared, memo), rng, of.start
        self.n_episodes, self._before = of.n_episodes, of.n_episodes
        lengths = np.diff(firsts)[rows]
        self._ends = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(firsts[rows] - self._ends[:-1], lengths) + np.arange(self._ends[-1])
        self._pairs, self._chances = np.repeat(np.arange(len(rows)), lengths), weights[entries]
        self._outcomes, self._rewards = of.outcomes[entries], of.unit_rewards[entries]

    @property
    def certifier(self) -> MatrixRLCertifier:
        """Bounds from what was seen and imagined."""
        return self._algorithm.certifier

    def start(self, now: Start | None) -> Start | None:
        """Return an estimated start after the episodes that were imagined."""
        if now is None or now.radius is None:
            return now
        return replace(now, radius=now.radius * self._before / self.n_episodes)

    @cached_property
    def _law(self) -> csr_array:
        """The imagined transition probabilities: (A·S, S)."""
        task, dynamics = self._algorithm.task, self._algorithm.task.dynamics
        following = self._outcomes
        if dynamics is not None:
            following = dynamics.next_states.reshape(-1, dynamics.n_outcomes)[self._pairs, self._outcomes]
        n_pairs = task.n_states * task.n_actions
        return csr_array((self._chances, following, self._ends), shape=(n_pairs, task.n_states))

    def visits(self, table: NDArray[np.generic]) -> FloatArray:
        """Return how often a policy, (H, S) or (H, A, S), is expected in each pair at each stage: (H, A·S)."""
        task, at = self._algorithm.task, self._start
        found = np.zeros((task.horizon, task.n_actions, task.n_states))
        for h in range(task.horizon):
            at = at.copy()
            if task.end_state is not None:
                at[task.end_state] = 0.0
            if table.ndim == 2:
                found[h][table[h], np.arange(task.n_states)] = at
            else:
                found[h] = table[h] * at
            at = found[h].ravel() @ self._law
        return found.reshape(task.horizon, -1)

    def play(self, growth: float, given: list[tuple[NDArray[np.generic], float]] | None = None) -> int:
        """Play on by a growth of the number of episodes at most, and return the number of episodes that were played.

        Args:
            growth: Most growth.
            given: Policies that are played in place of the agent's plans, with their shares of the episodes.
        """
        algorithm, most = self._algorithm, max(int(growth * self.n_episodes), 1)
        if given is not None:
            visits = sum(share * self.visits(table) for table, share in given)
            self._learn(np.asarray(visits).sum(axis=0), most)
            return most
        plan = algorithm.plan()
        by_stage = self.visits(plan.policy[0])
        n = min(most, max(self._until_new_plan(by_stage.sum(axis=0)), int(_SHORTEST * self.n_episodes), 1))
        if isinstance(plan, BudgetPlan):
            self._settle(plan, by_stage, n)
        self._learn(by_stage.sum(axis=0), n)
        return n

    def _until_new_plan(self, visits: FloatArray) -> int:
        """Return in how many episodes some row is expected to grow so much that a new plan is due."""
        model = self._algorithm.model
        assert isinstance(model, CountModel)
        by_row = np.bincount(model.groups.ravel(), visits, minlength=model.n_rows)
        growth = max(self._algorithm.settings.switch_growth, _GROWTH)
        at = by_row > 0.0
        needed = np.maximum(growth * model.counts.totals()[0][at], 1.0) / by_row[at]
        return int(min(needed.min(initial=1e9), 1e9))

    def _settle(self, plan: BudgetPlan, by_stage: FloatArray, n: int) -> None:
        """Charge the budget with some episodes, and add the widths that they observe."""
        algorithm, budget = self._algorithm, self._algorithm.budget
        assert budget is not None
        frame, bounds = algorithm.frame, algorithm._charging_bounds()
        earned, lefts = 0.0, frame.lefts()
        for h in range(frame.horizon):
            following = None if h == frame.horizon - 1 else frame.discount * plan.values[:, h + 1]
            widths = (bounds.any_q(following) - bounds.any_q(following, sign=-1.0)).ravel()
            used = by_stage[h] > 0.0
            earned += frame.discount**h * float(by_stage[h][used] @ np.clip(widths[used], 0.0, lefts[h]))
        budget.charged = budget.charged + n * (plan.lack @ self._start)
        budget.earned = budget.earned + n * earned

    def _learn(self, visits: FloatArray, n: int) -> None:
        algorithm = self._algorithm
        times = self._rng.poisson(n * visits[self._pairs] * self._chances)
        at = np.flatnonzero(times)
        steps = (self._pairs, self._outcomes, self._rewards, times.astype(np.float64))
        for model in algorithm._models:
            model.update(*(array[at][None] for array in steps))
        algorithm.kept = algorithm.kept._replace(is_fresh=None)
        algorithm.episode += n
        self.n_episodes += n
