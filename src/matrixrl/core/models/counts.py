"""Counts of next states with likelihood sets around their laws, for indicator features (docs/proofs.md, section 9)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail
from matrixrl.core.backup import ValueBounds
from matrixrl.core.confidence import FACTORS, Clock, Level
from matrixrl.core.likelihood.bounds import JointLaw, LikelihoodBounds, reward_bounds
from matrixrl.core.likelihood.radii import (
    log_mixture_gain,
    log_shared_law_ratio,
    targeted_beta,
    top_beta,
)
from matrixrl.core.models.base import Model, ModelContext
from matrixrl.core.models.structure import DeclaredLaws
from matrixrl.core.sets import LikelihoodConfidence, LikelihoodSet
from matrixrl.features import AllowedPart, LatentPsi, OneHotPsi, indicator_groups, latent_psi
from matrixrl.linalg import OutcomeCounts, RewardLevels, SeenRows
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["CountModel", "RowMemo"]

_SAME_WIDTH = 1e-9  # difference of the widths of ranges of unit rewards that is rounding


class RowMemo:
    """Numbers of every row, computed again where counts changed; `fills` are those of rows without data.

    >>> memo = RowMemo(3, [0.0], ids=np.array([1]))
    >>> memo.read(lambda ids: [10.0 * ids])
    [array([ 0., 10.,  0.])]
    """

    def __init__(self, n_rows: int, fills: Sequence[float], ids: IntArray) -> None:
        self._arrays = [np.full(n_rows, fill) for fill in fills]
        self._changed = [ids] if len(ids) else []

    def note(self, ids: IntArray) -> None:
        """Note that the counts of some rows changed; rows may be repeated."""
        self._changed.append(ids)

    def read(self, compute: Callable[[IntArray], Sequence[FloatArray]]) -> list[FloatArray]:
        """Return the numbers of all rows, from a function of ascending rows with data; given arrays do not change."""
        if self._changed:
            ids = np.unique(np.concatenate(self._changed))
            arrays = [array.copy() for array in self._arrays]
            for array, computed in zip(arrays, compute(ids), strict=True):
                array[ids] = computed
            self._arrays, self._changed = arrays, []
        return self._arrays


class CountModel(Model):
    """Counts of the next states of groups of pairs, with likelihood sets around their laws (docs/proofs.md, section 9).

    Next states are kept as lists of those seen. Where ψ says that some states are observations of one latent state,
    latent next states are counted (section 9.7).

    Args:
        likelihood_set: Confidence set.
        context: Problem and agent, with indicator features.

    Attributes:
        groups: (A, S) Group of each pair; pairs of a group share a law.
        n_rows: Number of groups K, those of the end state included.
        psi: Features of the outcomes that are counted: next states, or latent ones.
        counts: Counts of the outcomes of each group.
        pair_counts: Counts of the next states of each pair, for the alarm; None if every group is one pair, and every
            outcome one state.
        joint: Joint counts of outcome and level of reward of each group, where the bound uses them; else None.
        levels: Levels of rewards.
        reward_sums: (B, K) Sums of the unit rewards of each group.
        declared: What is declared of the laws; None if nothing is.
    """

    stage_cost = 8.0  # about seven steps of Newton's method on lists of outcomes
    _confidence: LikelihoodConfidence | None = None
    _memos: dict[Hashable, RowMemo]
    _visited: list[IntArray] | None  # rows with new data since no row had grown; None for any rows

    def __init__(self, likelihood_set: LikelihoodSet, context: ModelContext) -> None:
        super().__init__(context)
        self.likelihood_set = likelihood_set
        self.groups, self.psi = self._counted()
        self.n_rows = int(self.groups.max()) + 1
        declared = context.structure
        self.declared = None if declared is None else DeclaredLaws(declared, context, self.groups, self.psi)
        self.forget()

    def _counted(self) -> tuple[IntArray, LatentPsi | OneHotPsi]:
        """Return the group of each pair (A, S), and the features of the outcomes that are counted."""
        features = self.context.features
        groups = indicator_groups(features.phi, self.context.allowed)
        if groups is None:
            rule = (
                "must be a ball for these features: a likelihood set needs one feature for each pair or group of pairs"
            )
            fail("set", rule, repr(self.likelihood_set.name), "Use set='normalised', or one-hot features.")
        return groups, latent_psi(features.psi)

    @property
    def confidence(self) -> LikelihoodConfidence:
        if self._confidence is None:
            lists = None if self.declared is None else self.declared.successors
            sizes = self.groups, self.psi.d_psi, None if lists is None else lists.lengths
            self._confidence = LikelihoodConfidence(self.likelihood_set, self.context, *sizes)
        return self._confidence

    def forget(self) -> None:
        n, n_outcomes = self.context.n_replicas, self.psi.d_psi
        self.counts = OutcomeCounts(n, self.n_rows, n_outcomes)
        watched = self.n_rows < self.groups.size or isinstance(self.psi, LatentPsi)
        self.pair_counts = OutcomeCounts(n, self.groups.size, self.psi.n_states) if watched else None
        self.levels = RewardLevels(n)
        pays = self.likelihood_set.targeted and not self.context.known_reward
        self.joint = OutcomeCounts(n, self.n_rows, n_outcomes * self.levels.n_levels) if pays else None
        self.reward_sums = np.zeros((n, self.n_rows))
        self._data_changed()

    def update(self, pairs: IntArray, next_states: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        rows, outcomes, counted = self.observed(pairs, next_states, weights)
        self.counts.add(rows, outcomes, counted)
        if self.pair_counts is not None:
            self.pair_counts.add(pairs, next_states, weights)
        replica = np.arange(self.context.n_replicas)[:, None]
        if not self.context.known_reward:
            self._count_rewards(rows, outcomes, rewards, weights)
            self.reward_sums = self.reward_sums.copy()
            np.add.at(self.reward_sums, (replica, rows), rewards * weights)
        if self.declared is not None:
            self.declared.watch(pairs, next_states, rewards, weights > 0.0, self)
        ids = (replica * self.n_rows + rows)[counted > 0.0]
        for memo in self._memos.values():
            memo.note(ids)
        if self._visited is not None and self.context.switch_growth > 0.0:
            self._visited.append(ids)
        self.revision += 1

    def observed(
        self, pairs: IntArray, outcomes: IntArray, weights: FloatArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the rows in which steps (B, T) count, the outcomes that are counted there, and weights: (B, n)."""
        latent = self.psi.latent[outcomes] if isinstance(self.psi, LatentPsi) else outcomes
        return self.groups.ravel()[pairs], latent, weights

    def _compared(self) -> SeenRows:
        """Return the counts of groups that are those of their pairs added up, for the alarm."""
        return self.counts.seen

    def _count_rewards(self, rows: IntArray, outcomes: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Count outcomes together with rewards, each shared between the two levels around it."""
        if self.joint is None:
            return
        (below, above, share), first = self.levels.place(rewards, weights > 0.0), outcomes * self.levels.n_levels
        self.joint.add(
            np.concatenate([rows, rows], axis=1),
            np.concatenate([first + below, first + above], axis=1),
            np.concatenate([weights * (1.0 - share), weights * share], axis=1),
        )

    def bounds(self, clock: Clock, *levels: Level) -> list[ValueBounds]:
        contradicted = self._contradicted_groups(clock)
        return [self._with_values(self._bounds(level, clock.shares, contradicted)) for level in levels]

    def _with_values(self, law: LikelihoodBounds) -> ValueBounds:
        """Return bounds on Q from the laws of groups."""
        return law

    def _bounds(self, level: Level, shares: int, contradicted: IntArray) -> LikelihoodBounds:
        """Return bounds on Q at a level, for data that have one of so many shares of δ."""
        confidence, seen, known_reward = self.confidence, self.counts.seen, self.context.known_reward
        n, parts = seen.totals, confidence.parts
        scale = FACTORS[level] ** 2 * (1.0 if level in ("proven", "actions", "tuned") else confidence.exploration**2)
        if confidence.deterministic:
            scale = 0.0  # a group that was visited is known (docs/proofs.md, section 9.9)
        is_tuned = level == "tuned" or (confidence.tuned and level not in ("proven", "actions"))
        lower = np.full(len(n), np.inf if scale > 0.0 else 0.0)  # the centre of the set has no radius
        if not is_tuned or level == "estimate":  # else plans need the number of visits alone
            log_events = confidence.log_events(parts.all_functions, shares)
            lower = scale * (log_events + self.excess.ravel()[seen.ids]) / n
        upper, targeted, top = lower, None, None
        if confidence.targeted and not is_tuned:  # V*_2 … V*_H; with learned rewards r + V*_2 … r + V*_{H+1}
            log_events = confidence.log_targets(shares, every_action=level == "actions")
            targeted, top = scale * targeted_beta(n, log_events) / n, scale * top_beta(log_events) / n
        if is_tuned:
            upper = scale * log_mixture_gain(n) / n
            targeted = upper if confidence.targeted else None
        if known_reward and targeted is not None:
            upper = np.minimum(upper, targeted)
        most = least = self.context.unit_reward
        law, learned = None, self._learned_part
        if not known_reward:
            log_rewards = None if is_tuned else confidence.log_events(parts.rewards, shares)
            most, least = (side[:, self.groups] for side in self._bounded_rewards(log_rewards, scale))
            if learned is not None:
                most, least = (learned[0] + learned[1][self.groups] * side for side in (most, least))
            if targeted is not None and self.joint is not None:
                law = JointLaw(self.joint.seen, self.levels.values, targeted, top, is_less=is_tuned)
        return LikelihoodBounds(
            psi=self.psi,
            groups=self.groups,
            n_groups=self.n_rows,
            n_replicas=self.context.n_replicas,
            seen=seen,
            upper=upper,
            top=top if known_reward else None,
            lower=lower,
            most=most,
            least=least,
            joint=law,
            empty=contradicted,
            successors=None if self.declared is None else self.declared.successors,
            learned_part=learned,
        )

    @cached_property
    def _learned_part(self) -> tuple[FloatArray, FloatArray] | None:
        """Smallest unit rewards (A, S), and the width of what is learned of the rewards of each group (K,)."""
        if self.context.learned_part is None:
            return None
        least, width = self.context.learned_part
        widths, now = np.zeros(self.n_rows), self.context
        used = np.ones(width.shape, dtype=np.bool_) if now.allowed is None else now.allowed.copy()
        if now.end_state is not None:
            used[:, now.end_state] = False
        np.maximum.at(widths, self.groups[used], width[used])
        if np.abs(widths[self.groups] - width)[used].max(initial=0.0) > _SAME_WIDTH:
            rule = "must be equally wide for all pairs of one feature, as they share what is learned"
            fail("reward_range", rule, "different widths", "Split the feature.")
        return least, widths

    @property
    def excess(self) -> FloatArray:
        """`LikelihoodSet.excess` of each group (B, K), computed where the counts changed since it was last read."""
        [values] = self._memo("excess", [0.0]).read(lambda ids: [self._excess_of(self.counts.seen.only(ids))])
        return values.reshape(self.context.n_replicas, self.n_rows)

    def _excess_of(self, seen: SeenRows) -> FloatArray:
        """Return `LikelihoodSet.excess` of rows with data; those that refute what is declared have more outcomes."""
        return self.likelihood_set.excess(seen, max(self.confidence.n_outcomes, int(seen.lengths.max(initial=0))))

    @property
    def is_refuted(self) -> BoolArray:
        return super().is_refuted if self.declared is None else self.declared.is_refuted

    def _bounded_rewards(self, log_events: float | None, scale: float) -> tuple[FloatArray, FloatArray]:
        """Return upper and lower bounds on the mean rewards of groups, each (B, K), computed where counts changed."""
        most, least = self._memo((log_events, scale), [1.0, 0.0]).read(
            lambda ids: reward_bounds(self.counts.totals_of(ids), self.reward_sums.ravel()[ids], log_events, scale)
        )
        shape = self.context.n_replicas, self.n_rows
        return most.reshape(shape), least.reshape(shape)

    def _memo(self, key: Hashable, fills: list[float]) -> RowMemo:
        if key not in self._memos:
            self._memos[key] = RowMemo(self.context.n_replicas * self.n_rows, fills, self.counts.seen.ids)
        return self._memos[key]

    def _data_changed(self) -> None:
        """Note that any counts may have changed."""
        self._memos, self._visited = {}, None
        self.revision += 1

    def _contradicted_groups(self, clock: Clock) -> IntArray:
        """Return the number of groups without a shared law (docs/proofs.md, 9.6), and one if data refuted 9.9: (B,)."""
        found = self.is_refuted.astype(np.int64)
        if self.pair_counts is None or not len(self.counts.seen.ids):
            return found
        seen, pairs, confidence = self._compared(), self.pair_counts.seen, self.confidence
        replicas, pair = np.divmod(pairs.ids, self.groups.size)
        places = np.searchsorted(seen.ids, replicas * self.n_rows + self.groups.ravel()[pair])
        ratio = log_shared_law_ratio(pairs, places, seen, self.pair_counts.n_outcomes)
        if isinstance(self.psi, LatentPsi):  # the law within a latent state is known
            known = pairs.sums(pairs.times * np.log(self.psi.chances[pairs.outcomes]))
            ratio -= np.bincount(places, known, minlength=len(ratio))
        alarm = ratio > confidence.log_events(confidence.alarm_part, clock.shares)
        np.add.at(found, seen.ids // self.n_rows, alarm)
        return found

    def use_masks(self, part: AllowedPart, allowed: BoolArray | None) -> None:
        super().use_masks(part, allowed)
        if self.declared is not None:  # pairs that do not exist say nothing of the law of their group
            assert self.context.structure is not None
            refuted = self.declared.refuted
            self.declared = DeclaredLaws(self.context.structure, self.context, self.groups, self.psi)
            self.declared.refuted = refuted

    def size(self) -> FloatArray:
        """Return the number of visits of each group: (B, K)."""
        return self.counts.totals()

    def logdets(self) -> FloatArray:
        """Return ln det(A_n) of the design of these features, Σ ln(1 + n): (B,)."""
        total: FloatArray = np.log1p(self.counts.totals()).sum(axis=1)
        return total

    def has_grown(self, sizes: FloatArray, kept: FloatArray) -> BoolArray:
        """Return which groups grew by 1 + κ since the last plan; a first visit counts."""
        growth = 1.0 + self.context.switch_growth
        grown: BoolArray = (sizes > kept) & (sizes >= kept * growth) | (kept < 0.0)
        return grown

    def grew(self, kept: FloatArray) -> BoolArray:
        """Return in which replicas some group grew by 1 + κ since the last plan; only groups visited since are read."""
        if self._visited is None or kept.ndim < 2:
            grown = super().grew(kept)
        else:
            ids = np.concatenate([np.zeros(0, dtype=np.int64), *self._visited])
            grown = np.zeros(self.context.n_replicas, dtype=np.bool_)
            of_rows = self.has_grown(self.counts.totals_of(ids), kept.ravel()[ids])
            np.logical_or.at(grown, ids // self.n_rows, of_rows)
        # After growth all rows are compared again: the plan that is then made may be undone, or kept by none.
        self._visited = None if grown.any() else []
        return grown

    def widths(self) -> FloatArray:
        """Return the width 1/√(1 + n) of every pair, n the visits of its group: (B, A, S)."""
        by_pair: FloatArray = (1.0 / np.sqrt(1.0 + self.counts.totals()))[:, self.groups]
        return by_pair

    def take(
        self, counts: OutcomeCounts, joint: OutcomeCounts | None, levels: FloatArray, reward_sums: FloatArray
    ) -> None:
        """Take over the data of compiled loops in place of the data at hand."""
        self.counts, self.joint, self.reward_sums = counts, joint, reward_sums
        self.levels.values = levels
        self._data_changed()

    def state_dict(self) -> dict[str, NDArray[Any]]:
        lists = {"next": self.counts, "pair": self.pair_counts, "joint": self.joint}
        arrays: dict[str, NDArray[Any]] = {
            f"{name}_{part}": array
            for name, counts in lists.items()
            if counts is not None
            for part, array in counts.arrays().items()
        }
        if self.joint is not None:
            arrays["levels"] = np.where(np.isnan(self.levels.values), -1.0, self.levels.values)
        if self.declared is not None:
            arrays["refuted"] = self.declared.refuted
        return arrays if self.context.known_reward else arrays | {"reward_sums": self.reward_sums}

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.forget()
        for name, counts in (("next", self.counts), ("pair", self.pair_counts), ("joint", self.joint)):
            if counts is not None:
                counts.restore(arrays[f"{name}_codes"], arrays[f"{name}_times"])
        if self.joint is not None:
            self.levels.values = np.where(arrays["levels"] < 0.0, np.nan, arrays["levels"])
        if not self.context.known_reward:
            self.reward_sums = arrays["reward_sums"].copy()
        if self.declared is not None:
            self.declared.load_refuted(arrays)
        self._data_changed()
