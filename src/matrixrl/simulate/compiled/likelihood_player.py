"""Compiled episodes of MatrixRL with likelihood sets on one-hot pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from matrixrl.algorithms.matrix_rl import IndicatorMatrixRL
from matrixrl.core.confidence import TIE_EXPLORATION
from matrixrl.linalg import OutcomeCounts
from matrixrl.problems import FiniteMDP
from matrixrl.records import FloatArray, IntArray, Plan
from matrixrl.simulate.compiled.player import CompiledPlayer

__all__ = ["LikelihoodPlayer", "why_not_lists"]


def why_not_lists(algorithm: IndicatorMatrixRL, mdp: FiniteMDP) -> str | None:
    """Return why the loops do not fit an algorithm, or None if they do."""
    if algorithm.is_own:
        return f"{type(algorithm).__name__} may override methods that compiled episodes do not call"
    if algorithm.pair_counts is not None:
        return "pairs share groups"
    if algorithm.settings.doubling != "off":
        return "doubling is not compiled"
    if algorithm.settings.explore_for == "certificate":
        return "episodes that explore for a certificate are not compiled"
    if not algorithm.settings.known_reward:
        paid = {0.0, 1.0} if mdp.noisy_rewards else {0.0, 1.0, *np.unique(mdp.task.unit_reward).tolist()}
        if len(paid) > algorithm.levels.n_levels:
            return "there are more different rewards than levels"
    return None


class LikelihoodPlayer(CompiledPlayer):
    """Plays MatrixRL with likelihood sets; the next states of a pair are lists with room for all that can follow."""

    def __init__(
        self, mdp: FiniteMDP, algorithm: IndicatorMatrixRL, optimal_value: float | None, *, certify: bool = False
    ) -> None:
        super().__init__(mdp, algorithm, optimal_value, certify=certify)
        self._algorithm = algorithm
        self._revision = -1
        self._known: Any = None
        self._law: Any = None
        self._joint: Any = None
        self._kept: Any = None

    @property
    def _loops(self) -> Any:
        """The compiled module; importing it takes half a second, compiling it the first time ten."""
        from matrixrl.simulate.compiled import likelihood_episodes

        return likelihood_episodes

    def _play_in_loops(
        self, tie_break: FloatArray, uniforms: FloatArray, weight: float, *, certifies: bool, learns: bool, played: Any
    ) -> None:
        algorithm = self._algorithm
        if self._revision != algorithm.revision:
            self._take_over()
        known, law, joint = tuple(self._known), tuple(self._law), tuple(self._joint)
        kept = self._kept if learns else self._new_kept()
        kept.n_plans[:] = 0
        self._loops.play_episodes(
            tuple(self._world),
            known,
            law,
            joint,
            tuple(kept),
            tie_break,
            uniforms,
            weight,
            certifies,
            learns,
            tuple(played),
        )
        if learns and tie_break.shape[1] > 0:
            self._give_back(tie_break.shape[1])
        self._revision = algorithm.revision

    def _rankings_used(self, count: int) -> IntArray:
        """Return how many rankings of actions each replica took: one for each plan."""
        del count
        used: IntArray = self._kept.n_plans
        return used

    def _new_kept(self) -> Any:
        """Return room for the plans that are being played, before the first of them."""
        task, n = self._mdp.task, self._algorithm.n_replicas
        return self._loops.Kept(
            policy=np.zeros((n, task.horizon, task.n_states), dtype=np.int32),
            values=np.zeros((n, task.horizon + 1, task.n_states)),
            visits=np.full((n, self._algorithm.n_rows), -1, dtype=np.int64),
            regret=np.zeros(n),
            measured=np.zeros(n, dtype=np.bool_),
            n_plans=np.zeros(n, dtype=np.int64),
            growth=self._algorithm.settings.switch_growth,
        )

    def _take_over(self) -> None:
        """Copy what the algorithm has learned into lists that can grow."""
        algorithm, confidence = self._algorithm, self._algorithm.confidence
        n_replicas, n_pairs = algorithm.n_replicas, algorithm.n_rows
        parts, learns = confidence.parts, not confidence.known_reward
        width = self._successors.states.shape[1]
        self._law = self._lists(algorithm.counts, width, 1)
        n_levels = algorithm.levels.n_levels
        self._joint = self._lists(algorithm.joint, 2 * width, n_levels)
        functions = max(confidence.horizon - confidence.known_reward, 1)
        own = confidence.exploration**2
        reward = np.tile(algorithm.unit_reward.ravel(), (n_replicas, 1))
        ones = np.ones((3, n_replicas, n_pairs))
        self._known = self._loops.Known(
            visits=algorithm.counts.totals().astype(np.int64),
            excess=algorithm.excess.copy(),
            reward_sums=algorithm.reward_sums.copy(),
            levels=np.where(np.isnan(algorithm.levels.values), -1.0, algorithm.levels.values),
            scales=np.array([own, own * TIE_EXPLORATION**2, 1.0]),
            log_all=confidence.log_events(parts.all_functions),
            log_optimal=confidence.log_events(parts.optimal, functions) if confidence.targeted else math.inf,
            log_rewards=confidence.log_events(parts.rewards) if learns else math.inf,
            learns_reward=learns,
            tuned=confidence.tuned,
            upper=ones.copy(),
            lower=ones[0].copy(),
            joint=ones.copy(),
            top=ones.copy(),
            no_top=np.full((n_replicas, n_pairs), np.inf),
            most=ones.copy() if learns else np.tile(reward, (3, 1, 1)),
            least=np.zeros_like(reward) if learns else reward,
        )
        self._loops.refresh_all(tuple(self._known), tuple(self._law), self._mdp.n_states)
        self.forbid(self._known.most)
        self._kept = self._new_kept()
        kept = algorithm.kept_plan()
        if kept is not None:
            plan, visits = kept
            self._kept.policy[:], self._kept.values[:], self._kept.visits[:] = plan.policy, plan.values, visits

    def _lists(self, counts: OutcomeCounts | None, width: int, n_levels: int) -> Any:
        """Return padded lists with room for `width` outcomes of each pair; none if there are no counts."""
        algorithm = self._algorithm
        n_lists = algorithm.n_replicas * algorithm.n_rows if counts is not None else 0
        shape = (algorithm.n_replicas, algorithm.n_rows if counts is not None else 0)
        firsts = (np.arange(n_lists) * width).reshape(shape)
        outcomes, states = np.zeros(n_lists * width, dtype=np.int64), np.zeros(n_lists * width, dtype=np.int64)
        times, shares = np.zeros(n_lists * width), np.zeros(n_lists * width)
        lasts = firsts.copy()
        paid = np.zeros(n_lists * width if n_levels > 1 else 0)
        if counts is not None and len(counts.seen.ids):
            seen = counts.seen
            replicas, pairs = np.divmod(seen.ids[seen.places], algorithm.n_rows)
            self.refuse_impossible(pairs, seen.outcomes // n_levels)
            places = firsts.ravel()[seen.ids][seen.places] + np.arange(len(seen.places)) - seen.firsts[seen.places]
            outcomes[places], states[places] = seen.outcomes, seen.outcomes // n_levels
            times[places], shares[places] = seen.times, seen.shares
            lasts.ravel()[seen.ids] += seen.lengths
            if n_levels > 1:
                paid[places] = algorithm.levels.values[replicas, seen.outcomes % n_levels]
        return self._loops.Laws(firsts, lasts, outcomes, states, paid, times, shares)

    def _give_back(self, n_episodes: int) -> None:
        """Copy what the loops have learned into the algorithm."""
        algorithm = self._algorithm
        levels, kept = self._known.levels, self._kept
        plan = None
        if kept.growth > 0.0:
            actions = kept.policy.astype(np.min_scalar_type(self._mdp.n_actions - 1))
            plan = Plan(actions, kept.values.copy(), np.zeros(len(kept.n_plans), dtype=np.int64))
        algorithm.take_counts(
            n_episodes,
            counts=self._read(self._law, algorithm.counts),
            joint=None if algorithm.joint is None else self._read(self._joint, algorithm.joint),
            levels=np.where(levels < 0.0, np.nan, levels),
            reward_sums=self._known.reward_sums.copy(),
            excess=self._known.excess.copy(),
            n_plans=kept.n_plans.copy(),
            kept=plan,
            kept_sizes=kept.visits.astype(np.float64),
        )

    def _read(self, law: Any, counts: OutcomeCounts) -> OutcomeCounts:
        lengths = (law.lasts - law.firsts).ravel()
        rows = np.repeat(np.arange(len(lengths)), lengths)
        places = law.firsts.ravel()[rows] + np.arange(len(rows)) - (np.cumsum(lengths) - lengths)[rows]
        read = OutcomeCounts(counts.n_replicas, counts.n_rows, counts.n_outcomes)
        read.restore(rows * counts.n_outcomes + law.outcomes[places], law.times[places])
        return read
