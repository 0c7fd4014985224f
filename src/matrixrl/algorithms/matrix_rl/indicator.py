"""MatrixRL on indicator features: counts of next states and likelihood sets, for B replicas."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Algorithm, Arrays
from matrixrl.algorithms.matrix_rl.given_rewards import GivenRewards
from matrixrl.algorithms.matrix_rl.planner import FiniteMatrixRL
from matrixrl.algorithms.matrix_rl.reward_watch import WATCHED
from matrixrl.algorithms.matrix_rl.row_memo import RowMemo
from matrixrl.algorithms.matrix_rl.settings import OF_BALLS
from matrixrl.algorithms.possible import Shapes, check_range, check_steps, check_whole, impossible, plan_shapes
from matrixrl.checks import fail
from matrixrl.core import Level, ValueBounds
from matrixrl.core.likelihood import (
    LIKELIHOOD_SETS,
    LikelihoodConfidence,
    dirichlet_excess,
    likelihood_regret_bound,
    log_shared_law_ratio,
    reward_bounds,
)
from matrixrl.features import OneHotPsi, indicator_groups
from matrixrl.linalg import OutcomeCounts, RewardLevels
from matrixrl.problems import Problem
from matrixrl.records import BoolArray, FloatArray, IntArray, Plan, Steps

__all__ = ["IndicatorMatrixRL"]


class IndicatorMatrixRL(FiniteMatrixRL):
    """Optimism over likelihood sets: laws near the empirical ones of the groups of pairs (docs/proofs.md, section 9).

    Next states are kept as lists of those seen. `UCMatrixRL` starts this form for the sets `likelihood` and
    `value-targeted`.

    Attributes:
        counts: Counts of the next states of each group.
        pair_counts: Counts of the next states of each pair, for the alarm; None if every group is one pair.
        joint: Joint counts of next state and level of reward of each group, where the bound uses them; else None.
        levels: Levels of rewards.
        reward_sums: (B, K) Sums of the unit rewards of each group.
    """

    _confidence: LikelihoodConfidence | None = None
    list_names = (
        *FiniteMatrixRL.list_names,
        *(f"{name}_{part}" for name in ("next", "pair", "joint") for part in ("codes", "times")),
    )
    _memos: dict[Hashable, RowMemo]
    _visited: list[IntArray] | None  # rows with new data since the growth of data was last compared; None for any rows
    stage_cost = 8.0  # about seven steps of Newton's method on lists of outcomes
    data_names = ("counts", "pair_counts", "joint", "levels", "reward_sums", "_memos", "pair_visits", "pair_rewards")

    def start(self, problem: Problem, seeds: Sequence[int]) -> Algorithm:
        """Return a copy that is ready to play a problem with indicator features."""
        return Algorithm.start(self, problem, seeds)

    def begin(self) -> None:
        """Recognise the groups and start without data."""
        super().begin()
        self.groups = self._groups_of(self.problem)
        self._refuse_settings_of_balls()
        self.forget()

    def _make_confidence(self) -> LikelihoodConfidence:
        chosen = self.settings
        return LikelihoodConfidence.of(
            self.features,
            self.groups,
            horizon=self.task.horizon,
            end_state=self.task.end_state,
            delta=self.model_delta,
            exploration=chosen.exploration,
            known_reward=bool(chosen.known_reward),
            targeted=LIKELIHOOD_SETS[str(chosen.set)].targeted,
            tuned=chosen.preset == "practical",
            part=self.part,
            most_stages=self._most_stages(),
        )

    def _most_stages(self) -> int | None:
        """Return the largest number of stages at which a group is used; None if all stages share their laws."""
        stages = self.task.stages
        if stages is None:
            return None
        used = np.zeros((stages.n_classes, self.n_rows), dtype=np.bool_)
        for c in range(stages.n_classes):
            used[c, self.groups[c * stages.n_own : (c + 1) * stages.n_own]] = True
        return int((np.bincount(stages.classes) @ used).max())

    def _groups_of(self, problem: Problem) -> IntArray:
        """Return the group of each pair, (A, S)."""
        features, allowed = problem.features, problem.allowed_by_action
        one_hot = features is not None and isinstance(features.psi, OneHotPsi)
        groups = indicator_groups(features.phi, allowed) if features is not None and one_hot else None
        if groups is None:
            rule = (
                "must be a ball for these features: a likelihood set needs one feature for each pair or group of pairs"
            )
            fail("set", rule, repr(self.settings.set), "Use set='normalised', or one-hot features.")
        return groups

    def _refuse_settings_of_balls(self) -> None:
        """Refuse settings that the likelihood sets do not use, so that none is ignored."""
        chosen = self.settings
        expected = chosen.resolve({"preset": chosen.preset})
        for name in OF_BALLS:
            if getattr(chosen, name) != getattr(expected, name):
                rule = f"must be left out with the set {chosen.set!r}, which does not use it"
                fail(name, rule, repr(getattr(chosen, name)), "Leave it out; exploration=… scales the set.")

    @property
    def confidence(self) -> LikelihoodConfidence:
        """Set and parts of δ, for the actions that are allowed."""
        if self._confidence is None:
            self._confidence = self._make_confidence()
        return self._confidence

    def use_masks(self) -> None:
        """Plan with the actions that are allowed; the number of their groups follows when it is needed."""
        super().use_masks()
        self._confidence = None

    @property
    def returns_delta(self) -> float:
        """Part of δ for bounds from the returns of frozen policies."""
        return self.confidence.parts.returns * self.model_delta

    @property
    def n_rows(self) -> int:
        """Number of groups K, those of the end state included."""
        return int(self.groups.max()) + 1

    @property
    def numbers_per_step(self) -> int:
        """Number of numbers that `learn` makes of one step: steps are counted."""
        return 16

    def forget(self) -> None:
        """Start without data."""
        n, n_states = self.n_replicas, self.task.n_states
        self.counts = OutcomeCounts(n, self.n_rows, n_states)
        self.pair_counts = OutcomeCounts(n, self.groups.size, n_states) if self.n_rows < self.groups.size else None
        self.levels = RewardLevels(n)
        pays = self.confidence.targeted and not self.settings.known_reward
        self.joint = OutcomeCounts(n, self.n_rows, n_states * self.levels.n_levels) if pays else None
        self.reward_sums = np.zeros((n, self.n_rows))
        self._data_changed()
        self.forget_rewards()
        self.revision += 1

    def logdets(self) -> FloatArray:
        """Return ln det(A_n) of the design of these features, Σ ln(1 + n): (B,)."""
        total: FloatArray = np.log1p(self.counts.totals()).sum(axis=1)
        return total

    def widths(self) -> FloatArray:
        """Return the width 1/√(1 + n) of every pair, n the visits of its group: (B, A, S)."""
        by_group = 1.0 / np.sqrt(1.0 + self.counts.totals())
        by_pair: FloatArray = by_group[:, self.groups]
        return by_pair

    def sizes(self) -> FloatArray:
        """Return the number of visits of each group: (B, K)."""
        return self.counts.totals()

    def has_grown(self, sizes: FloatArray, kept: FloatArray) -> BoolArray:
        """Return which groups grew by 1 + κ since the last plan; a first visit counts."""
        grown: BoolArray = (sizes > kept) & (sizes >= kept * (1.0 + self.settings.switch_growth)) | (kept < 0.0)
        return grown

    def grew(self) -> BoolArray:
        """Return in which replicas some group grew by 1 + κ since the last plan; only groups visited since are read."""
        if self._visited is None or self._kept_sizes.ndim < 2:
            grown = super().grew()
        else:
            ids = np.concatenate([np.zeros(0, dtype=np.int64), *self._visited])
            grown = np.zeros(self.n_replicas, dtype=np.bool_)
            of_rows = self.has_grown(self.counts.totals_of(ids), self._kept_sizes.ravel()[ids])
            np.logical_or.at(grown, ids // self.n_rows, of_rows)
        self._visited = []
        return grown

    def restore_planning_memory(self, memory: tuple[Any, ...]) -> None:
        """Take back what `planning_memory` returned."""
        super().restore_planning_memory(memory)
        self._visited = None

    @property
    def excess(self) -> FloatArray:
        """`dirichlet_excess` of each group (B, K), computed where the counts changed since it was last read."""
        [values] = self._memo("excess", [0.0]).read(
            lambda ids: [dirichlet_excess(self.counts.seen.only(ids), self.counts.n_outcomes)]
        )
        return values.reshape(self.n_replicas, self.n_rows)

    def _bounded_rewards(self, log_events: float | None, scale: float) -> tuple[FloatArray, FloatArray]:
        """Return upper and lower bounds on the mean rewards of groups, each (B, K), computed where counts changed."""
        most, least = self._memo((log_events, scale), [1.0, 0.0]).read(
            lambda ids: reward_bounds(self.counts.totals_of(ids), self.reward_sums.ravel()[ids], log_events, scale)
        )
        shape = self.n_replicas, self.n_rows
        return most.reshape(shape), least.reshape(shape)

    def _memo(self, key: Hashable, fills: list[float]) -> RowMemo:
        if key not in self._memos:
            self._memos[key] = RowMemo(self.n_replicas * self.n_rows, fills, self.counts.seen.ids)
        return self._memos[key]

    def _data_changed(self) -> None:
        """Note that any counts may have changed."""
        self._memos = {}
        self._visited = None

    def beliefs(self, *levels: Level) -> list[ValueBounds]:
        """Return bounds on Q from the counts at hand."""
        joint = None if self.joint is None else (self.joint.seen, self.levels.values)
        contradicted = self.contradicted_groups()
        return [
            self.confidence.believe(
                self.counts,
                self.excess if self.confidence.needs_excess(level) else None,
                reward=self.unit_reward,
                bound_rewards=self._bounded_rewards,
                joint=joint,
                level=level,
                shares=self.clock.shares,
                empty=contradicted,
            )
            for level in levels
        ]

    def contradicted_groups(self) -> IntArray:
        """Return the number of groups whose pairs do not share a law, by the test of docs/proofs.md, 9.6: (B,)."""
        found = np.zeros(self.n_replicas, dtype=np.int64)
        if self.pair_counts is None or not len(self.counts.seen.ids):
            return found
        seen, pairs = self.counts.seen, self.pair_counts.seen
        replicas, pair = np.divmod(pairs.ids, self.groups.size)
        places = np.searchsorted(seen.ids, replicas * self.n_rows + self.groups.ravel()[pair])
        ratio = log_shared_law_ratio(pairs, places, seen, self.counts.n_outcomes)
        alarm = ratio > self.confidence.log_events(self.confidence.alarm_part, shares=self.clock.shares)
        np.add.at(found, seen.ids // self.n_rows, alarm)
        return found

    def _bound_before_data(self, n_episodes: int, delay: int) -> float | None:
        """Return the bound of docs/proofs.md, section 9.5, for played and logged episodes together."""
        return likelihood_regret_bound(
            self.confidence,
            n_episodes=n_episodes,
            switch_growth=self.settings.switch_growth,
            path_delta=self.delta,
            delay=delay,
        )

    def learn(self, steps: Steps) -> None:
        """Count the steps."""
        weights = steps.weights
        pairs = self.features.phi.pairs(steps.states, steps.actions)
        rows = self.groups.ravel()[pairs]
        self.counts.add(rows, steps.next_states, weights)
        if self.pair_counts is not None:
            self.pair_counts.add(pairs, steps.next_states, weights)
        if not self.settings.known_reward:
            unit = self.to_unit(steps.rewards)
            self._count_rewards(rows, steps, unit)
            self.watch_rewards(pairs, weights, unit * weights)
        self.given.add(steps)
        self._note_visits((self._replica[:, None] * self.n_rows + rows)[weights > 0.0])
        self.revision += 1

    def _count_rewards(self, rows: IntArray, steps: Steps, unit: FloatArray) -> None:
        weights, outcomes = steps.weights, steps.next_states * self.levels.n_levels
        if self.joint is not None:
            shares = self.levels.place(unit, weights > 0.0)
            self.joint.add(
                np.concatenate([rows, rows], axis=1),
                np.concatenate([outcomes + shares.below, outcomes + shares.above], axis=1),
                np.concatenate([weights * (1.0 - shares.weight), weights * shares.weight], axis=1),
            )
        self.reward_sums = self.reward_sums.copy()
        np.add.at(self.reward_sums, (self._replica[:, None], rows), unit * weights)

    def _note_visits(self, ids: IntArray) -> None:
        """Note that some rows have new data."""
        for memo in self._memos.values():
            memo.note(ids)
        if self._visited is not None and self.settings.switch_growth > 0.0:
            self._visited.append(ids)

    def take_counts(
        self,
        n_episodes: int,
        *,
        counts: OutcomeCounts,
        joint: OutcomeCounts | None,
        levels: FloatArray,
        reward_sums: FloatArray,
        n_plans: IntArray,
        kept: Plan | None = None,
        kept_sizes: FloatArray | None = None,
    ) -> None:
        """Take over what compiled loops learned from so many more episodes, and with rare switching their last plan."""
        self.counts, self.joint, self.reward_sums = counts, joint, reward_sums
        self.levels.values = levels
        self._data_changed()
        self.episode += n_episodes
        self.n_plans = self.n_plans + n_plans
        if kept is not None and kept_sizes is not None:
            self.kept, self._kept_sizes = kept, kept_sizes
        self.revision += 1

    def learned(self) -> Arrays:
        """Return the counts and, with rare switching, the plan that is being played."""
        arrays: Arrays = {f"next_{name}": array for name, array in self.counts.arrays().items()}
        if self.pair_counts is not None:
            arrays |= {f"pair_{name}": array for name, array in self.pair_counts.arrays().items()}
        if self.joint is not None:
            arrays |= {f"joint_{name}": array for name, array in self.joint.arrays().items()}
            arrays["levels"] = np.where(np.isnan(self.levels.values), -1.0, self.levels.values)
        if not self.settings.known_reward:
            arrays["reward_sums"] = self.reward_sums
        return arrays | self.watched_arrays() | self.kept_arrays()

    def check_learned(self, arrays: Arrays, episode: int) -> None:
        """Refuse arrays that could not have been learned in so many episodes."""
        super().check_learned(arrays, episode)
        made = self._read(arrays)
        if self.settings.doubling != "restart":
            for name, counts in made.items():
                check_steps(name, np.round(counts.totals().sum(axis=1)), episode, self.task.horizon)
        self.check_watched(arrays, episode)
        check_whole("next_times", arrays["next_times"])
        if "reward_sums" in arrays:
            check_range("reward_sums", arrays["reward_sums"], 0.0, made["next"].totals())
        if "joint" in made:
            self._check_joint(made["joint"], made["next"], arrays)
        if "pair" in made:
            check_whole("pair_times", arrays["pair_times"])
            replicas, pairs = np.divmod(made["pair"].seen.ids, self.groups.size)
            rows = (replicas * self.n_rows + self.groups.ravel()[pairs])[made["pair"].seen.places]
            codes = rows * self.task.n_states + made["pair"].seen.outcomes
            if not _same_counts(codes, arrays["pair_times"], made["next"]):
                impossible("pair_times", "must sum to the visits of the groups")

    def _check_joint(self, joint: OutcomeCounts, counts: OutcomeCounts, arrays: Arrays) -> None:
        """Refuse joint counts of next states and rewards that other next states or rewards would have."""
        levels = RewardLevels(self.n_replicas)
        levels.restore(np.where(arrays["levels"] < 0.0, np.nan, arrays["levels"]))
        seen = joint.seen
        states, level = np.divmod(seen.outcomes, levels.n_levels)
        rows = seen.ids[seen.places]
        if not _same_counts(rows * self.task.n_states + states, seen.times, counts):
            impossible("joint_times", "must sum to the visits")
        paid = levels.values[rows // self.n_rows, level]
        if np.isnan(paid).any():
            impossible("joint_codes", "must have levels of rewards that are used")
        sums = np.bincount(rows, paid * seen.times, minlength=arrays["reward_sums"].size)
        if not np.allclose(sums, arrays["reward_sums"].ravel(), rtol=1e-6, atol=1e-6):
            impossible("reward_sums", "must be the sums of the rewards of the joint counts")

    def _read(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, OutcomeCounts]:
        made = {}
        for name, mine in (("next", self.counts), ("pair", self.pair_counts), ("joint", self.joint)):
            if mine is not None:
                made[name] = OutcomeCounts(mine.n_replicas, mine.n_rows, mine.n_outcomes)
                made[name].restore(arrays[f"{name}_codes"], arrays[f"{name}_times"])
        return made

    def load_learned(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `learned` returned."""
        made = self._read(arrays)
        self.counts = made["next"]
        self.pair_counts, self.joint = made.get("pair"), made.get("joint")
        if self.joint is not None:
            self.levels.restore(np.where(arrays["levels"] < 0.0, np.nan, arrays["levels"]))
        if not self.settings.known_reward:
            self.reward_sums = arrays["reward_sums"].copy()
        self._data_changed()
        self.load_watched({name: array.copy() for name, array in arrays.items()})
        self.revision += 1
        self.load_kept(arrays)

    def kept_plan(self) -> tuple[Plan, FloatArray] | None:
        """Return the plan that is being played and the visits (B, K) it was made at; None before the first plan."""
        if self.settings.switch_growth == 0.0 or self.kept is None or self._kept_sizes.ndim < 2:
            return None
        return self.kept, self._kept_sizes

    def learned_shapes(self, problem: Problem, n_replicas: int) -> Shapes | None:
        """Return the shapes of the counts, which are lists of any length, and of the plan that is being played."""
        chosen, task, groups = self.settings, problem.finite_task, self._groups_of(problem)
        n_rows, shared = int(groups.max()) + 1, int(groups.max()) + 1 < groups.size
        joint = LIKELIHOOD_SETS[str(chosen.set)].targeted and not chosen.known_reward
        lists = {"next": True, "pair": shared, "joint": joint}
        shapes: Shapes = {f"{name}_{part}": (None,) for name in lists if lists[name] for part in ("codes", "times")}
        if joint:
            shapes["levels"] = RewardLevels(n_replicas).values.shape
        if chosen.known_reward:
            shapes |= GivenRewards.shapes(n_replicas)
        else:
            shapes["reward_sums"] = (n_replicas, n_rows)
            watched = (n_replicas, groups.size), (n_replicas, groups.size), (n_replicas,)
            shapes |= dict(zip(WATCHED, watched, strict=True)) if shared else {}
        if chosen.switch_growth > 0.0:
            shapes |= plan_shapes(n_replicas, task.horizon, task.n_states)
            shapes |= {"kept_empty": (n_replicas,), "kept_sizes": (n_replicas, n_rows)}
        return shapes

    def n_steps(self) -> FloatArray | None:
        """Return the number of steps, (B,), whose data were not forgotten."""
        return None if self.settings.doubling == "restart" else self.counts.totals().sum(axis=1)


def _same_counts(codes: IntArray, times: FloatArray, counts: OutcomeCounts) -> bool:
    """Say whether numbers of outcomes, summed by their codes, are those of other counts."""
    found, places = np.unique(codes, return_inverse=True)
    mine = counts.arrays()
    return np.array_equal(found, mine["codes"]) and np.allclose(np.bincount(places, times), mine["times"], rtol=1e-9)
