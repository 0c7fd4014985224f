"""Compiled episodes of MatrixRL with likelihood sets on one-hot pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from matrixrl.algorithms.matrix_rl import IndicatorMatrixRL
from matrixrl.core.confidence import TIE_EXPLORATION
from matrixrl.problems import FiniteMDP
from matrixrl.records import BoolArray, FloatArray, IntArray, Plan
from matrixrl.simulate.compiled.player import CompiledPlayer

__all__ = ["LikelihoodPlayer", "why_not_lists"]

_REPEATED = 64  # visits and outcomes up to which parts of the radius are kept, because many pairs share them


def why_not_lists(algorithm: IndicatorMatrixRL) -> str | None:
    """Return why the loops do not fit an algorithm, or None if they do."""
    if algorithm.is_own:
        return f"{type(algorithm).__name__} may override methods that compiled episodes do not call"
    if algorithm.pair_counts is not None:
        return "pairs share groups"
    if algorithm.settings.doubling != "off":
        return "doubling is not compiled"
    if algorithm.settings.explore_for == "certificate":
        return "episodes that explore for a certificate are not compiled"
    return None


class LikelihoodPlayer(CompiledPlayer):
    """Plays MatrixRL with likelihood sets; the next states of a pair are lists that grow with what is seen."""

    def __init__(
        self, mdp: FiniteMDP, algorithm: IndicatorMatrixRL, regret: tuple[float, int] | None, *, certify: bool = False
    ) -> None:
        super().__init__(mdp, algorithm, regret, certify=certify)
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

    @property
    def _bounds(self) -> Any:
        """The module of the bounds that are kept up to date."""
        from matrixrl.simulate.compiled import likelihood_bounds

        return likelihood_bounds

    @property
    def _lists(self) -> Any:
        """The module of lists that grow."""
        from matrixrl.simulate.compiled import outcome_lists

        return outcome_lists

    def _play_in_loops(
        self, tie_break: FloatArray, uniforms: FloatArray, weight: float, *, certifies: bool, learns: bool, played: Any
    ) -> None:
        algorithm = self._algorithm
        if self._revision != algorithm.revision:
            self._take_over()
        self._revision = -1  # of lists that are being changed: after a failure they are made again
        known = self._known if learns else self._make_known(certifies=certifies)
        kept = self._kept if learns else self._new_kept()
        kept.n_plans[:] = 0
        at = np.zeros(2, dtype=np.int64)
        while not self._loops.play_episodes(
            tuple(self._world),
            tuple(known),
            tuple(self._law),
            tuple(self._joint),
            tuple(kept),
            tie_break,
            uniforms,
            weight,
            certifies,
            learns,
            algorithm.episode,
            at,
            tuple(played),
        ):
            self._law = self._lists.make_room(self._law, self._mdp.horizon, has_extras=False)
            self._joint = self._lists.make_room(self._joint, 2 * self._mdp.horizon, has_extras=True)
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
            due=np.ones(n, dtype=np.bool_),
            upper=np.zeros(n),
            regret=np.zeros(n),
            measured=np.zeros(n, dtype=np.bool_),
            n_plans=np.zeros(n, dtype=np.int64),
            growth=self._algorithm.settings.switch_growth,
        )

    def _take_over(self) -> None:
        """Copy what the algorithm has learned into lists that can grow."""
        algorithm = self._algorithm
        seen = algorithm.counts.seen
        self.refuse_impossible(seen.ids[seen.places] % algorithm.n_rows, seen.outcomes)
        self._law = self._lists.lists_of(algorithm.counts, algorithm.n_replicas, None)
        self._joint = self._lists.lists_of(algorithm.joint, algorithm.n_replicas, algorithm.levels.values)
        self._known = self._make_known(certifies=self._certify)
        self._kept = self._new_kept()
        kept = algorithm.kept_plan()
        if kept is not None:
            plan, visits = kept
            self._kept.policy[:], self._kept.values[:], self._kept.visits[:] = plan.policy, plan.values, visits
            self._kept.upper[:] = [float(np.dot(values[0], self._mdp.task.start)) for values in plan.values]
            grown: BoolArray = algorithm.has_grown(algorithm.sizes(), visits)
            self._kept.due[:] = grown.any(axis=1)

    def _make_known(self, *, certifies: bool) -> Any:
        """Return the data of the algorithm with the bounds that follow from them at the levels that are used."""
        algorithm, confidence = self._algorithm, self._algorithm.confidence
        n, n_pairs = algorithm.n_replicas, algorithm.n_rows
        parts, learns = confidence.parts, not confidence.known_reward
        own, functions = confidence.exploration**2, confidence.n_functions
        reward = np.tile(algorithm.unit_reward.ravel(), (n, 1))
        bounds = self._bounds
        levels = [bounds.AGENT, *[bounds.TIES] * self._prefers, *[bounds.PROVEN] * certifies]
        ones = np.ones((len(levels), n, n_pairs))
        paid = algorithm.levels.values
        known = bounds.Known(
            visits=algorithm.counts.totals().astype(np.int64),
            reward_sums=algorithm.reward_sums.copy(),
            paid=np.where(np.isnan(paid), -1.0, paid),
            ranks=np.argsort(paid, axis=1, kind="stable"),
            n_paid=np.isfinite(paid).sum(axis=1),
            levels=np.array(levels),
            scales=np.array([own, own * TIE_EXPLORATION**2, 1.0]),
            log_all=confidence.log_events(parts.all_functions),
            log_optimal=confidence.log_events(parts.optimal, functions) if confidence.targeted else math.inf,
            log_rewards=confidence.log_events(parts.rewards) if learns else math.inf,
            learns_reward=learns,
            tuned=confidence.tuned,
            priors=np.zeros((_REPEATED, _REPEATED, 4)),
            upper=ones,
            lower=np.ones((n, n_pairs if certifies else 0)),
            joint=ones.copy() if learns else ones[:, :, :0],
            top=ones.copy(),
            no_top=np.full((n, n_pairs), np.inf),
            most=ones.copy() if learns else np.tile(reward, (len(levels), 1, 1)),
            least=(np.zeros_like(reward) if learns else reward)[:, : n_pairs if certifies else 0],
            changed=np.zeros((n, n_pairs), dtype=np.int64),
            n_changed=np.zeros(n, dtype=np.int64),
            is_changed=np.zeros((n, n_pairs), dtype=np.bool_),
        )
        bounds.refresh_all(tuple(known), tuple(self._law), tuple(self._joint), self._mdp.n_states)
        self.forbid(known.most)
        return known

    def _give_back(self, n_episodes: int) -> None:
        """Copy what the loops have learned into the algorithm."""
        algorithm = self._algorithm
        paid, kept = self._known.paid, self._kept
        plan = None
        if kept.growth > 0.0:
            actions = kept.policy.astype(np.min_scalar_type(self._mdp.n_actions - 1))
            plan = Plan(actions, kept.values.copy(), np.zeros(len(kept.n_plans), dtype=np.int64))
        joint = None if algorithm.joint is None else self._lists.read_lists(self._joint, algorithm.joint)
        algorithm.take_counts(
            n_episodes,
            counts=self._lists.read_lists(self._law, algorithm.counts),
            joint=joint,
            levels=np.where(paid < 0.0, np.nan, paid),
            reward_sums=self._known.reward_sums.copy(),
            n_plans=kept.n_plans.copy(),
            kept=plan,
            kept_sizes=kept.visits.astype(np.float64),
        )
