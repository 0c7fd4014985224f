"""How an agent may go on: a copy of its algorithm plays on in a problem that is drawn from what was seen."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from matrixrl.algorithms.matrix_rl.budget import BudgetPlan
from matrixrl.core.models import CountModel
from matrixrl.core.start import Start
from matrixrl.errors import ProtocolError
from matrixrl.logs import StepLog
from matrixrl.records import FloatArray, IntArray, Steps

if TYPE_CHECKING:
    from matrixrl.algorithms.matrix_rl.algorithm import UCMatrixRL
    from matrixrl.algorithms.matrix_rl.certifier import MatrixRLCertifier

__all__ = ["Imagination", "ImaginedLaw", "ImaginedRun"]

_REWARD_STEPS = 64  # rewards are told apart by so many parts of their range
_GROWTH = 0.1  # least growth of the visits of a row at which a new plan is asked for, if the agent plans before each
_STAGES = 6  # whose widths are computed
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
            words = (
                f"forecasts of bounds from a model need its default set; {algorithm.settings.set} counts no outcomes"
            )
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
        """Return a run in a problem whose laws are drawn from what was seen (the Bayesian bootstrap, Rubin 1981).

        A pair of which nothing was seen has the law of one that was tried, in its state if there is one.
        """
        n_states, own = self.algorithm.task.n_states, self.rows.copy()
        tried = np.zeros(int(own.max()) + 1, dtype=np.bool_)
        tried[self.entry_rows] = True
        for pair in np.flatnonzero(~tried[own]):
            here = self.rows[pair % n_states :: n_states]
            own[pair] = rng.choice(here[tried[here]] if tried[here].any() else np.flatnonzero(tried))
        return ImaginedRun(self, ImaginedLaw(self, rng.gamma(self.counts) + 1e-300, own), rng)

    def estimate(self) -> ImaginedLaw:
        """Return the shares of what was seen; pairs of which nothing was seen lead nowhere."""
        return ImaginedLaw(self, self.counts, self.rows)


class ImaginedLaw:
    """What each pair leads to in an imagined problem, as a list of E outcomes with their chances.

    Args:
        of: What was seen.
        weights: Weight of each of its entries.
        rows: (A·S,) Row whose law each pair has.

    Attributes:
        pairs: (E,) Pairs, in ascending order.
        outcomes: (E,) Outcomes, or next states.
        rewards: (E,) Unit rewards; 0 where they are known.
        chances: (E,) Probabilities.
        table: (A·S, S) Transition probabilities.
    """

    def __init__(self, of: Imagination, weights: FloatArray, rows: IntArray) -> None:
        self._task, self._start = of.algorithm.task, of.start
        self._knows_reward = bool(of.algorithm.model.context.known_reward)
        n_rows = int(max(of.rows.max(), rows.max())) + 1
        shares = weights / np.bincount(of.entry_rows, weights, minlength=n_rows)[of.entry_rows]
        firsts = np.searchsorted(of.entry_rows, np.arange(n_rows + 1))
        lengths = np.diff(firsts)[rows]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(firsts[rows] - ends[:-1], lengths) + np.arange(ends[-1])
        self.pairs, self.chances = np.repeat(np.arange(len(rows)), lengths), shares[entries]
        self.outcomes, self.rewards = of.outcomes[entries], of.unit_rewards[entries]
        following, dynamics = self.outcomes, self._task.dynamics
        if dynamics is not None:
            following = dynamics.next_states.reshape(-1, dynamics.n_outcomes)[self.pairs, self.outcomes]
        self.table = csr_array((self.chances, following, ends), shape=(len(rows), self._task.n_states))

    def visits(self, table: NDArray[Any]) -> FloatArray:
        """Return how often a policy, (H, S) or (H, A, S), is expected in each pair at each stage: (H, A·S)."""
        task, at = self._task, self._start.copy()
        found = np.zeros((task.horizon, task.n_actions, task.n_states))
        for h in range(task.horizon):
            if task.end_state is not None:
                at[task.end_state] = 0.0
            if table.ndim == 2:
                found[h, table[h], np.arange(task.n_states)] = at
            else:
                found[h] = table[h] * at
            at = found[h].ravel() @ self.table
        return found.reshape(task.horizon, -1)

    def episodes(self, table: IntArray, n: int, rng: np.random.Generator) -> list[Steps]:
        """Return n episodes of a policy (H, S), with rewards in the environment's unit."""
        task, horizon = self._task, self._task.horizon
        so_far, ends = np.cumsum(self.chances), self.table.indptr
        states = np.zeros((horizon + 1, n), dtype=np.int64)
        states[0] = rng.choice(task.n_states, size=n, p=self._start / self._start.sum())
        rewards, own_rewards = np.zeros((horizon, n)), task.reward_range[0] + task.unit * self.rewards
        for h in range(horizon):
            actions = table[h, states[h]].astype(np.int64)
            pairs = actions * task.n_states + states[h]
            before = np.where(ends[pairs] > 0, so_far[ends[pairs] - 1], 0.0)
            found = np.searchsorted(so_far, before + rng.random(n), side="right")
            found = np.clip(found, ends[pairs], ends[pairs + 1] - 1)
            states[h + 1] = self.table.indices[found]
            if task.dynamics is not None:
                rewards[h] = task.dynamics.rewards[actions, states[h], self.outcomes[found]]
            else:
                rewards[h] = task.reward[states[h], actions] if self._knows_reward else own_rewards[found]
        return [self._episode(table, states[:, k], rewards[:, k]) for k in range(n)]

    def _episode(self, table: IntArray, states: IntArray, rewards: FloatArray) -> Steps:
        over = np.flatnonzero(states[1:] == (-1 if self._task.end_state is None else self._task.end_state))
        k = int(over[0]) + 1 if len(over) else len(rewards)
        ended = np.zeros(k, dtype=np.bool_)
        ended[-1] = len(over) > 0
        actions = table[np.arange(k), states[:k]].astype(np.int64)
        return Steps.of(*(one[None] for one in (states[:k], actions, rewards[:k], states[1 : k + 1], ended)))


class ImaginedRun:
    """A copy of an algorithm that learns in one imagined problem, many episodes at a time.

    Within some episodes its plan does not change, and their steps are drawn together: how often each pair led to each
    outcome is a Poisson number around its mean.
    """

    def __init__(self, of: Imagination, law: ImaginedLaw, rng: np.random.Generator) -> None:
        shared = of.algorithm
        problem, features = shared.problem, shared.problem.features
        memo = {id(one): one for one in (problem, problem.task, features, getattr(features, "phi", None))}
        self._algorithm, self._law, self._rng, self._start = copy.deepcopy(shared, memo), law, rng, of.start
        self.n_episodes, self._before = of.n_episodes, of.n_episodes

    @property
    def certifier(self) -> MatrixRLCertifier:
        """Bounds from what was seen and imagined."""
        return self._algorithm.certifier

    def start(self, now: Start | None) -> Start | None:
        """Return an estimated start after the episodes that were imagined."""
        if now is None or now.radius is None:
            return now
        return replace(now, radius=now.radius * self._before / self.n_episodes)

    def play(self, growth: float) -> tuple[IntArray, int]:
        """Play on with one plan, by a growth of the number of episodes at most; return its policy and how often."""
        algorithm, most = self._algorithm, max(int(growth * self.n_episodes), 1)
        plan = algorithm.plan()
        by_stage = self._law.visits(plan.policy[0])
        n = min(most, max(self._until_new_plan(by_stage.sum(axis=0)), int(_SHORTEST * self.n_episodes), 1))
        if isinstance(plan, BudgetPlan):
            self._settle(plan, by_stage, n)
        self._learn(by_stage.sum(axis=0), n)
        return plan.policy[0], n

    def episodes(self, table: IntArray, n: int) -> list[Steps]:
        """Return n episodes of a policy (H, S), from which nothing is learned."""
        return self._law.episodes(table, n, self._rng)

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
        used = bounds.restricted((by_stage.sum(axis=0) > 0.0).reshape(1, frame.n_actions, frame.n_states))
        earned, lefts = 0.0, frame.lefts()
        for part in np.array_split(np.arange(frame.horizon), min(frame.horizon, _STAGES)):
            h = int(part[len(part) // 2])  # its widths stand for those of the part
            following = None if h == frame.horizon - 1 else frame.discount * plan.values[:, h + 1]
            widths = (used.any_q(following) - used.any_q(following, sign=-1.0)).ravel()
            times = (frame.discount**part) @ by_stage[part]
            earned += float(times[times > 0.0] @ np.clip(widths[times > 0.0], 0.0, lefts[h]))
        budget.charged = budget.charged + n * (plan.lack @ self._start)
        budget.earned = budget.earned + n * earned

    def _learn(self, visits: FloatArray, n: int) -> None:
        algorithm = self._algorithm
        law = self._law
        times = self._rng.poisson(n * visits[law.pairs] * law.chances)
        at = np.flatnonzero(times)
        pairs, outcomes, rewards, weights = (
            law.pairs[at],
            law.outcomes[at],
            law.rewards[at],
            times[at].astype(np.float64),
        )
        for model in algorithm._models:
            model.update(pairs[None], outcomes[None], rewards[None], weights[None])
        algorithm.kept = algorithm.kept._replace(is_fresh=None)
        algorithm.episode += n
        self.n_episodes += n
