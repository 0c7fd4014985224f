"""Bounds on expected next values and on rewards from counts, for B replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from matrixrl.compilation import loop_array
from matrixrl.core.backup import Frame, ValueBounds
from matrixrl.core.likelihood.kl_ball import extreme_means
from matrixrl.core.likelihood.radii import log_mixture_gain, targeted_beta, top_beta
from matrixrl.features import OneHotPsi, Psi
from matrixrl.linalg import SeenRows
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["JointLaw", "LikelihoodBounds", "SuccessorLists", "reward_bounds"]


class SuccessorLists(NamedTuple):
    """The declared possible next states of K groups, each of which has at least one."""

    firsts: IntArray  # (K,) Position of the first one of each group
    states: IntArray  # (E,) Next states, ascending for each group

    @property
    def lengths(self) -> IntArray:
        """Number of possible next states of each group (K,)."""
        return np.diff(self.firsts, append=len(self.states))


@dataclass(frozen=True, slots=True)
class JointLaw:
    """The empirical joint law of reward and next state of each group, where rewards are learned.

    Attributes:
        seen: Groups with data; an outcome is that of the law times the number of levels plus level.
        levels: (B, L) Unit reward of each level.
        epsilon: (R,) Radius ε of each group with data, valid for r + V*.
        top: (R,) Radius ε at ν = 1 + max V alone, or None.
        is_less: Whether its bounds are never larger than the sum of a bound on the next value and one on the reward.
    """

    seen: SeenRows
    levels: FloatArray
    epsilon: FloatArray
    top: FloatArray | None = None
    is_less: bool = False


@dataclass(eq=False, slots=True)
class LikelihoodBounds(ValueBounds):
    """Empirical laws of groups of pairs, with the radii around them, from which bounds on Q are computed.

    Attributes:
        psi: Features of the outcomes of the laws: ΨᵀV has the value of each.
        groups: (A, S) Group of each pair.
        n_groups: Number of groups K.
        n_replicas: Number of replicas B.
        seen: Groups with data, and the laws p̂ of their outcomes.
        upper: (R,) Radius ε for upper bounds on V*; it may hold for V* only.
        top: (R,) Radius ε for upper bounds on V* at ν = max V alone, or None.
        lower: (R,) Radius ε for lower bounds, which holds for all values.
        most: (A, S) or (B, A, S) Upper bounds on unit rewards.
        least: (A, S) or (B, A, S) Lower bounds on unit rewards.
        joint: Joint law of reward and next state; None if rewards are known.
        empty: (B,) Number of groups whose pairs cannot share a law (misspecification alarm), and one more if data
            refuted what is declared.
        successors: Declared possible next states of each group; None if all are possible.
        learned_part: (A, S) Smallest unit reward of each pair, and (K,) width of what is learned of those of a group;
            None if all is learned.
    """

    psi: Psi
    groups: IntArray
    n_groups: int
    n_replicas: int
    seen: SeenRows
    upper: FloatArray
    top: FloatArray | None
    lower: FloatArray
    most: FloatArray
    least: FloatArray
    joint: JointLaw | None
    empty: IntArray
    successors: SuccessorLists | None = None
    learned_part: tuple[FloatArray, FloatArray] | None = None
    is_normalised = True  # bounds are means of values, so they are inside the range of the values

    def q(self, values: FloatArray | None, *, sign: float = 1.0) -> FloatArray:
        reward = self.most if sign > 0 else self.least
        if values is None and self.joint is None:
            return np.broadcast_to(reward, (self.n_replicas, *reward.shape[-2:])).copy()
        if values is None:
            values = np.zeros((self.n_replicas, self.psi.n_states))
        values = self.psi.project(values)
        epsilon, top = (self.upper, self.top) if sign > 0 else (self.lower, None)
        q: FloatArray = self._means(self.seen, values, epsilon, sign, top)[:, self.groups] + reward
        if sign > 0 and self.joint is not None:  # the mean of r + V
            np.minimum(q, self._joint_means(self.joint, values), out=q)
        return q

    def _joint_means(self, joint: JointLaw, values: FloatArray) -> FloatArray:
        """Return the largest means of r + V under the joint laws: (B, A, S)."""
        if self.learned_part is None:
            totals = (values[:, :, None] + joint.levels[:, None, :]).reshape(self.n_replicas, -1)
            np.nan_to_num(totals, copy=False, nan=-np.inf)  # unused levels were never seen
            return self._means(joint.seen, totals, joint.epsilon, 1.0, joint.top)[:, self.groups]
        (least, widths), seen = self.learned_part, joint.seen
        replica, row = (array[seen.places] for array in np.divmod(seen.ids, self.n_groups))
        outcomes, level = np.divmod(seen.outcomes, joint.levels.shape[1])
        totals = values[replica, outcomes] + widths[row] * joint.levels[replica, level]
        ends = self._extremes(values, 1.0) + np.tile(widths, self.n_replicas)
        return self._extreme_means(seen, totals, ends, joint.epsilon, 1.0, joint.top)[:, self.groups] + least

    def bound(self, values: FloatArray, *, sign: float = 1.0) -> FloatArray:
        """Return bounds on the expected next value that hold for any values, at the radius β_D on both sides."""
        return self._means(self.seen, self.psi.project(values), self.lower, sign)[:, self.groups]

    def widths(self, values: FloatArray, frame: Frame, at: tuple[IntArray, IntArray, IntArray, IntArray]) -> FloatArray:
        if self.successors is not None:
            return ValueBounds.widths(self, values, frame, at)
        replicas, stages, actions, states = at
        later = np.where(stages < frame.horizon - 1, frame.discount, 0.0)[:, None]
        rows, ids = replicas * self.n_groups + self.groups[actions, states], self.seen.ids
        known = np.flatnonzero(np.isin(rows, ids))
        places = np.searchsorted(ids, rows[known])
        seen, following = self.seen.repeated(places, known), self.psi.project(later * values[replicas, stages + 1])
        entries, radii = following[known[seen.places], seen.outcomes], self.lower[places]
        most, least = following.max(axis=1), following.min(axis=1)
        width = most - least
        highest, lowest = (
            extreme_means(seen, entries, end[known], radii, s) for end, s in ((most, 1.0), (least, -1.0))
        )
        width[known] = highest - lowest
        shape = self.n_replicas, *self.groups.shape
        upper, lower = (np.broadcast_to(one, shape)[replicas, actions, states] for one in (self.most, self.least))
        widths: FloatArray = width + (upper - lower)
        return widths

    def restricted(self, pairs: BoolArray) -> LikelihoodBounds:
        """Return the same bounds with the laws of some pairs (B, A, S) alone."""
        replicas, actions, states = np.nonzero(pairs)
        wanted = np.isin(self.seen.ids, replicas * self.n_groups + self.groups[actions, states])
        seen = self.seen.only(self.seen.ids[wanted])
        top = None if self.top is None else self.top[wanted]
        return replace(self, seen=seen, upper=self.upper[wanted], top=top, lower=self.lower[wanted])

    def compiled_backup(self, sign: float = 1.0) -> Callable[..., None] | None:
        """Return the compiled backup, which knows lists of next states; None for latent ones or what is declared."""
        if not isinstance(self.psi, OneHotPsi) or self.successors is not None or self.learned_part is not None:
            return None
        from matrixrl.core.compiled import likelihood  # imports numba, which takes half a second

        law = self.as_lists(self.seen, *((self.upper, self.top) if sign > 0 else (self.lower, None)))
        joint, is_less = self._no_lists(), False
        if self.joint is not None and sign > 0:
            paid = np.nan_to_num(self.joint.levels, nan=-1.0)
            joint = self.as_lists(self.joint.seen, self.joint.epsilon, self.joint.top, paid)
            is_less = self.joint.is_less
        return partial(likelihood.fill_plan, sign, law, joint, is_less, self.groups.ravel())

    def compiled_policy_backup(self, sign: float = -1.0) -> Callable[..., None] | None:
        if not isinstance(self.psi, OneHotPsi) or self.successors is not None:
            return None
        from matrixrl.core.compiled import likelihood

        side = self.most if sign > 0.0 else self.least
        reward = np.broadcast_to(side, (self.n_replicas, *self.groups.shape)).reshape(self.n_replicas, -1)
        law = self.as_lists(self.seen, self.lower)
        return partial(likelihood.policy_values, sign, law, self.groups.ravel(), loop_array(reward))

    def as_lists(
        self, seen: SeenRows, epsilon: FloatArray, top: FloatArray | None = None, paid: FloatArray | None = None
    ) -> tuple[Any, ...]:
        """Return the laws of all groups as the compiled backup takes them; -1 marks unused levels of `paid` (B, L)."""
        firsts = np.zeros(self.n_replicas * self.n_groups, dtype=np.int64)
        lasts, radii = firsts.copy(), np.ones(len(firsts))
        firsts[seen.ids], lasts[seen.ids] = seen.firsts, seen.firsts + seen.lengths
        radii[seen.ids] = epsilon
        at_top = np.full(len(firsts), np.inf)
        if top is not None:
            at_top[seen.ids] = top
        states, extras = seen.outcomes, np.zeros(0)
        if paid is not None:
            states, level = np.divmod(seen.outcomes, paid.shape[1])
            extras = paid[(seen.ids // self.n_groups)[seen.places], level]
        shape, levels = (self.n_replicas, self.n_groups), np.zeros((self.n_replicas, 1)) if paid is None else paid
        lists = firsts.reshape(shape), lasts.reshape(shape), seen.shares, states.astype(np.uint32), extras
        return *lists, radii.reshape(shape), at_top.reshape(shape), seen.outcomes, levels

    def _no_lists(self) -> tuple[Any, ...]:
        n, nothing, states, codes = self.n_replicas, np.zeros(0), np.zeros(0, np.uint32), np.zeros(0, np.int64)
        none, no_radii = np.zeros((n, 0), dtype=np.int64), np.zeros((n, 0))
        return none, none, nothing, states, nothing, no_radii, no_radii, codes, np.zeros((n, 1))

    def _means(
        self, seen: SeenRows, values: FloatArray, epsilon: FloatArray, sign: float, top: FloatArray | None = None
    ) -> FloatArray:
        """Return the extreme means of values (B, n outcomes) of all groups (B, K): the extreme value without data."""
        entries = values[(seen.ids // self.n_groups)[seen.places], seen.outcomes]
        return self._extreme_means(seen, entries, self._extremes(values, sign), epsilon, sign, top)

    def _extremes(self, values: FloatArray, sign: float) -> FloatArray:
        """Return the extreme possible value of every group: (B·K,)."""
        extreme = np.maximum if sign > 0 else np.minimum
        if self.successors is None:
            return np.repeat(extreme.reduce(values, axis=1), self.n_groups)
        # over the levels of rewards
        of_states = extreme.reduce(values.reshape(self.n_replicas, self.psi.d_psi, -1), axis=2)
        return extreme.reduceat(of_states[:, self.successors.states], self.successors.firsts, axis=1).ravel()

    def _extreme_means(
        self, seen: SeenRows, entries: FloatArray, bounds: FloatArray, epsilon: FloatArray, sign: float, top: Any
    ) -> FloatArray:
        """Return the extreme means of the values of seen outcomes, in place of the extreme values (B·K,): (B, K)."""
        ends = bounds[seen.ids]
        if self.successors is not None and len(ends):  # data outside, which raise the alarm, count
            extreme = np.maximum if sign > 0 else np.minimum
            ends = extreme(ends, extreme.reduceat(entries, seen.firsts))
        bounds[seen.ids] = extreme_means(seen, entries, ends, epsilon, sign, top)
        return bounds.reshape(self.n_replicas, self.n_groups)


def reward_bounds(
    totals: FloatArray, sums: FloatArray, log_events: float | None, scale: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return upper and lower bounds on the mean reward of every row, each of the shape of `totals`.

    A reward r counts as 1 with weight r and as 0 with weight 1 − r, which can only loosen the bound (docs/proofs.md,
    section 9). Rows without data are bounded by 1 and 0. `log_events` is ln(number of rows / δ), δ of one side; None
    stands for the tuned radius, which is not proven.
    """
    rows = np.flatnonzero(totals)
    n, paid = totals.ravel()[rows], np.clip(sums.ravel()[rows] / totals.ravel()[rows], 0.0, 1.0)
    times = np.stack([1.0 - paid, paid], axis=1).ravel()
    codes = (2 * rows[:, None] + np.arange(2)).ravel()
    seen = SeenRows(codes[times > 0.0], times[times > 0.0], 2)
    if log_events is None:
        epsilon, top = scale * log_mixture_gain(n) / n, None
    else:
        epsilon, top = scale * targeted_beta(n, log_events) / n, scale * top_beta(log_events) / n
    bounds = []
    for sign, end in ((1.0, 1.0), (-1.0, 0.0)):
        side = np.full(totals.size, end)
        side[rows] = extreme_means(seen, seen.outcomes.astype(np.float64), np.full(len(rows), end), epsilon, sign, top)
        bounds.append(side.reshape(totals.shape))
    return bounds[0], bounds[1]
