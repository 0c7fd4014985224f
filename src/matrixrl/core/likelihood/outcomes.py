"""Bounds on Q from counts of the outcomes of known dynamics, for B replicas (docs/proofs.md, section 19)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from matrixrl.compilation import loop_array
from matrixrl.core.backup import Frame, PolicyBounds, ValueBounds
from matrixrl.core.likelihood.bounds import LikelihoodBounds
from matrixrl.core.likelihood.kl_ball import extreme_means
from matrixrl.linalg import SeenRows
from matrixrl.problems import OutcomeTables
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["OutcomeBounds"]

_FIRST, _SECOND, _DIFFERENCE = range(3)  # as in `PolicyBounds`
_MOST_TOGETHER = 1 << 22  # pairs of states times outcomes of a stage that are compared


class _Together(NamedTuple):
    """Pairs of states in which two policies are at a stage, if both had the same outcomes so far.

    Attributes:
        codes: (n,) Numbers x·S + y of the pairs, ascending.
        first: (n,) State x of the first policy.
        second: (n,) State y of the second policy.
        shares: (n,) Whether one outcome may serve both; the other entries are of those pairs.
        law: (m,) Its law.
        following: (m, W) Numbers of the pairs after it.
        reward: (m, W) Difference of the unit rewards.
    """

    codes: IntArray
    first: IntArray
    second: IntArray
    shares: BoolArray
    law: IntArray
    following: IntArray
    reward: FloatArray


class OutcomeBounds(ValueBounds):
    r"""Bounds on \(\sum_w p(w)\,(g(s, a, w) + V(f(s, a, w)))\) over the laws p that counts of outcomes leave possible.

    Args:
        dynamics: The functions f and g, with unit rewards.
        law: Laws of the groups, with the radii around them; its outcomes are those of the dynamics.
        wanted: (B, A, S) Pairs whose bounds are needed; all if None.
    """

    is_normalised = True  # a mean of values in their range is in their range

    def __init__(self, dynamics: OutcomeTables, law: LikelihoodBounds, wanted: BoolArray | None = None) -> None:
        self.dynamics, self.law, self._wanted = dynamics, law, wanted
        self.n_replicas, self.empty = law.n_replicas, law.empty
        # What rewards may be without their outcomes; no bound is computed from them.
        self.most, self.least = np.ones(dynamics.laws.shape), np.zeros(dynamics.laws.shape)

    def q(self, values: FloatArray | None, *, sign: float = 1.0) -> FloatArray:
        law = self.law
        return self._means(values, sign, *((law.upper, law.top) if sign > 0 else (law.lower, None)), with_reward=True)

    def any_q(self, values: FloatArray | None, *, sign: float = 1.0, clip: bool = False) -> FloatArray:
        del clip  # a mean of values is in their range
        return self._means(values, sign, self.law.lower, None, with_reward=True)

    def bound(self, values: FloatArray, *, sign: float = 1.0) -> FloatArray:
        """Return bounds on the expected next value that hold for any values, at the radius β_D on both sides."""
        return self._means(values, sign, self.law.lower, None, with_reward=False)

    def restricted(self, pairs: BoolArray) -> OutcomeBounds:
        """Return the same bounds for some pairs (B, A, S); those of others are 0."""
        return OutcomeBounds(self.dynamics, self.law, pairs)

    def widths(self, values: FloatArray, frame: Frame, at: tuple[IntArray, IntArray, IntArray, IntArray]) -> FloatArray:
        dynamics, (replica, stage, action, state) = self.dynamics, at
        rows, places = self._rows_of(replica, dynamics.groups[action, state])
        following = dynamics.next_states[action, state]
        later = np.where(stage < frame.horizon - 1, frame.discount, 0.0)[:, None]
        worth = dynamics.rewards[action, state] + later * values[replica[:, None], stage[:, None] + 1, following]
        sides = [self._extremes(worth, rows, sign, self.law.lower[places], None) for sign in (1.0, -1.0)]
        return sides[0] - sides[1]

    def _rows_of(self, replica: IntArray, laws: IntArray) -> tuple[SeenRows, IntArray]:
        """Return the laws with data of rows (n,), by the numbers of the rows, and their places among the laws seen."""
        law = self.law
        place = np.full(self.n_replicas * law.n_groups, -1)
        place[law.seen.ids] = np.arange(len(law.seen.ids))
        places = place[replica * law.n_groups + laws]
        known = np.flatnonzero(places >= 0)
        return law.seen.repeated(places[known], known), places[known]

    @staticmethod
    def _extremes(
        worth: FloatArray, rows: SeenRows, sign: float, epsilon: FloatArray, top: FloatArray | None
    ) -> FloatArray:
        """Return the extreme means (n,) of the worth of outcomes (n, W): its extreme entry where a law has no data."""
        means: FloatArray = worth.max(axis=1) if sign > 0 else worth.min(axis=1)
        entries = worth[rows.ids[rows.places], rows.outcomes]
        means[rows.ids] = extreme_means(rows, entries, means[rows.ids], epsilon, sign, top)
        return means

    @cached_property
    def _rows(self) -> tuple[IntArray, SeenRows, IntArray]:
        """Wanted pairs (n,) as numbers b·A·S + pair, the laws of those whose law has data, and the places of these.

        A row has the number of its pair among those that are wanted.
        """
        n_pairs = self.dynamics.laws.size
        ids = np.arange(self.n_replicas * n_pairs)
        if self._wanted is not None:
            ids = np.flatnonzero(np.broadcast_to(self._wanted, (self.n_replicas, *self.dynamics.laws.shape)))
        replica, pair = np.divmod(ids, n_pairs)
        return ids, *self._rows_of(replica, self.dynamics.groups.ravel()[pair])

    def _means(
        self, values: FloatArray | None, sign: float, epsilon: FloatArray, top: FloatArray | None, *, with_reward: bool
    ) -> FloatArray:
        """Return the extreme means of all pairs (B, A, S): the extreme value of any outcome where a law has no data."""
        dynamics, (ids, rows, places) = self.dynamics, self._rows
        replica, pair = np.divmod(ids, dynamics.laws.size)
        worth: FloatArray = np.zeros((len(ids), dynamics.n_outcomes))
        if values is not None:
            worth = values[replica[:, None], dynamics.next_states.reshape(-1, dynamics.n_outcomes)[pair]]
        if with_reward:
            worth = worth + dynamics.rewards.reshape(-1, dynamics.n_outcomes)[pair]
        found = np.zeros((self.n_replicas, *dynamics.laws.shape))
        of_top = None if top is None else top[places]
        found.reshape(-1)[ids] = self._extremes(worth, rows, sign, epsilon[places], of_top)
        return found

    def tightened(
        self, found: PolicyBounds, first: IntArray | FloatArray, second: IntArray | FloatArray, frame: Frame
    ) -> PolicyBounds:
        """Tighten the difference of two tables of actions (B, H, S) by playing both with the same outcomes.

        Two states are compared where both actions share a law, or the outcome of one of them does not matter. These are
        equal states and those that are reached from them, and none if they are too many.
        """
        if first.ndim != 3 or second.ndim != 3:
            return found
        for b in range(self.n_replicas):
            reached = self._reached(first[b], second[b], frame)
            if reached is not None:
                for side, sign in ((found.lower, -1.0), (found.upper, 1.0)):
                    other = found.lower if sign > 0 else found.upper
                    apart = side[_FIRST, b], other[_SECOND, b]
                    self._couple(b, reached, apart, frame, sign, out=side[_DIFFERENCE, b])
        return found

    def _reached(self, first: IntArray, second: IntArray, frame: Frame) -> list[_Together] | None:
        """Return the pairs of states of every stage that are compared; None if they are too many."""
        dynamics, n, found = self.dynamics, frame.n_states, []
        equal = np.arange(n) * (n + 1)
        codes = equal
        for h in range(frame.horizon):
            x, y = np.divmod(codes, n)
            pairs = (first[h, x].astype(np.int64), x), (second[h, y].astype(np.int64), y)
            law, shares = dynamics.shared(*pairs)
            if len(codes) * dynamics.n_outcomes > _MOST_TOGETHER:
                return None
            following = dynamics.next_states[pairs[0]].astype(np.int64) * n + dynamics.next_states[pairs[1]]
            reward = dynamics.rewards[pairs[0]] - dynamics.rewards[pairs[1]]
            found.append(_Together(codes, x, y, shares, law[shares], following[shares], reward[shares]))
            codes = np.union1d(equal, following[shares])
        return found

    def _couple(
        self,
        b: int,
        reached: list[_Together],
        apart: tuple[FloatArray, FloatArray],
        frame: Frame,
        sign: float,
        out: Any,
    ) -> None:
        """Tighten bounds `out` (H + 1, S) on the difference of replica b, from those (H + 1, S) of both policies."""
        law, later, codes = self.law, np.zeros(0), np.zeros(0, dtype=np.int64)
        place = np.full(law.n_groups, -1)
        own = law.seen.ids // law.n_groups == b
        place[law.seen.ids[own] % law.n_groups] = np.flatnonzero(own)
        for h in reversed(range(frame.horizon)):
            at = reached[h]
            worth = at.reward
            if h < frame.horizon - 1 and len(worth):
                worth = worth + frame.discount * later[np.searchsorted(codes, at.following)]
            together = worth.max(axis=1, initial=-np.inf) if sign > 0 else worth.min(axis=1, initial=np.inf)
            places = place[at.law]
            known = np.flatnonzero(places >= 0)
            rows = law.seen.repeated(places[known], known)
            entries, epsilon = worth[rows.ids[rows.places], rows.outcomes], law.lower[places[known]]
            together[known] = extreme_means(rows, entries, together[known], epsilon, sign)
            bounds = apart[0][h, at.first] - apart[1][h, at.second]
            tighter = np.minimum if sign > 0 else np.maximum
            bounds[at.shares] = tighter(bounds[at.shares], together)
            later, codes = bounds, at.codes
            equal = at.first == at.second
            out[h, at.first[equal]] = tighter(out[h, at.first[equal]], bounds[equal])

    def compiled_backup(self, sign: float = 1.0) -> Callable[..., None] | None:
        from matrixrl.core.compiled import outcomes  # imports numba, which takes half a second

        law = self.law
        lists = law.as_lists(law.seen, *((law.upper, law.top) if sign > 0 else (law.lower, None)))
        return partial(outcomes.fill_plan, sign, lists, *self._tables)

    def compiled_policy_backup(self, sign: float = -1.0) -> Callable[..., None] | None:
        from matrixrl.core.compiled import outcomes

        return partial(outcomes.policy_values, sign, self.law.as_lists(self.law.seen, self.law.lower), *self._tables)

    @property
    def _tables(self) -> tuple[IntArray, FloatArray, IntArray]:
        """Next states and unit rewards (A·S, W), and laws (A·S,), as compiled loops take them."""
        n_pairs = self.dynamics.laws.size
        following = loop_array(self.dynamics.next_states.reshape(n_pairs, -1))
        return following, loop_array(self.dynamics.rewards.reshape(n_pairs, -1)), self.dynamics.groups.ravel()
