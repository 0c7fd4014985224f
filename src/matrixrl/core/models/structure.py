"""Declared structure of the laws of B replicas, and what data say against it (docs/proofs.md, section 9.9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, shown_element
from matrixrl.core.likelihood.bounds import SuccessorLists
from matrixrl.core.models.base import ModelContext
from matrixrl.errors import InvalidInput
from matrixrl.features import LatentPsi, OneHotPsi
from matrixrl.problems import Problem, Structure
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["DeclaredLaws"]

_SAME_REWARD = 1e-7  # difference of a unit reward from the mean of all, up to which they count as the same
_OUTSIDE, _SECOND_STATE, _SECOND_REWARD = range(3)


class DeclaredLaws:
    """What is declared of the laws of groups of pairs, and whether data refuted it.

    Args:
        structure: What is declared of the pairs.
        context: Problem and agent.
        groups: (A, S) Group of each pair.
        psi: Features of the outcomes that are counted, which must be the next states.

    Attributes:
        deterministic: Whether the next state and the reward of each group are always the same.
        successors: Possible next states of each group; None if all are possible.
        refuted: (B, 4) First pair that refuted it, how, and two states, or a reward and the mean one; −1 if none did.
    """

    def __init__(
        self, structure: Structure, context: ModelContext, groups: IntArray, psi: LatentPsi | OneHotPsi
    ) -> None:
        if isinstance(psi, LatentPsi):
            rule = "must tell all states apart if deterministic or successors are declared"
            fail("psi", rule, "parallel rows of some states", "Leave out one of them.")
        self.deterministic, self._groups, self._n_states = structure.deterministic, groups, psi.n_states
        self._learns_reward, self._codes = not context.known_reward, structure.codes
        self._part, self._n_own = context.learned_part, int(np.diff(context.choices[0])[0])
        self.successors = self._lists(context.allowed) if len(structure.codes) else None
        self.refuted = np.full((context.n_replicas, 4), -1.0)

    def _lists(self, allowed: BoolArray | None) -> SuccessorLists:
        """Return the next states that all pairs of a group may have: they share one law."""
        n, groups = self._n_states, self._groups.ravel()
        used = np.ones(len(groups), dtype=np.bool_) if allowed is None else allowed.ravel()
        n_pairs, pairs = np.bincount(groups[used]), self._codes // n
        listed, times = np.unique((groups[pairs] * n + self._codes % n)[used[pairs]], return_counts=True)
        shared = listed[times == n_pairs[listed // n]]
        missing = np.setdiff1d(np.flatnonzero(n_pairs), shared // n)
        if len(missing):
            a, s = np.argwhere(self._groups == missing[0])[0].tolist()
            a %= self._n_own
            rule = "must have a next state that all pairs of one feature share, as they have one law"
            fail("successors", rule, f"none for those of state {s} and action {a}", "Split the feature.")
        numbers = np.arange(groups.max() + 1)
        shared = np.union1d(shared, np.setdiff1d(numbers, groups[used]) * n)  # groups that nothing visits
        return SuccessorLists(np.searchsorted(shared, numbers * n), shared % n)

    @property
    def is_refuted(self) -> BoolArray:
        """Whether data refuted what is declared: (B,)."""
        found: BoolArray = self.refuted[:, 0] >= 0.0
        return found

    def watch(self, pairs: IntArray, next_states: IntArray, rewards: FloatArray, taken: BoolArray, model: Any) -> None:
        """Compare steps (B, T), which the model has learned from, with what is declared."""
        found: list[tuple[int, NDArray[Any], Any, Any]] = []
        if self.successors is not None:
            is_outside = ~np.isin(pairs * self._n_states + next_states, self._codes)
            found.append((_OUTSIDE, is_outside, next_states, next_states))
        if self.deterministic:
            seen, ids = model.counts.seen, np.arange(len(pairs))[:, None] * model.n_rows + self._groups.ravel()[pairs]
            place = np.minimum(np.searchsorted(seen.ids, ids), len(seen.ids) - 1)
            first, last = seen.firsts[place], seen.firsts[place] + seen.lengths[place] - 1
            found.append((_SECOND_STATE, first < last, seen.outcomes[first], seen.outcomes[last]))
            mean = model.reward_sums.ravel()[ids] / seen.totals[place]
            distance = np.abs(rewards - mean) * self._learns_reward
            both = [rewards, mean]
            if self._part is not None:
                both = [self._part[0].ravel()[pairs] + self._part[1].ravel()[pairs] * one for one in both]
            found.append((_SECOND_REWARD, distance * (distance > _SAME_REWARD), *both))
        for kind, differs, one, other in found:
            for b in np.flatnonzero((differs * taken).any(axis=1) & ~self.is_refuted).tolist():
                t = int((differs * taken)[b].argmax())
                self.refuted = self.refuted.copy()
                self.refuted[b] = pairs[b, t], kind, one[b, t], other[b, t]

    def words(self, problem: Problem) -> str | None:
        """Return why nothing is proven any more; None if nothing was refuted."""
        if not self.is_refuted.any():
            return None
        pair, kind, *both = self.refuted[self.is_refuted][0].tolist()
        action, state = divmod(int(pair), self._n_states)
        name = f"pair (state {problem.shown_state(state)}, action {shown_element(problem.env_action(action))})"
        if kind == _SECOND_REWARD:
            one, mean = (f"{problem.finite_task.reward_range[0] + problem.task.unit * r:.6g}" for r in both)
            return f"deterministic=True is refuted: {name} earned {one}, and {mean} on average"
        one, other = (problem.shown_state(s) for s in both)
        if kind == _OUTSIDE:
            return f"the declared successors are refuted: {name} led to state {other}"
        return f"deterministic=True is refuted: {name} led to state {one} and to state {other}"

    def load_refuted(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back `refuted` of saved arrays."""
        refuted, most = arrays["refuted"], max(self._n_states, 2)
        if not ((refuted >= -1.0) & (refuted < [self._groups.size, 3, most, most])).all():
            raise InvalidInput("what refuted the declared structure must be a pair of this problem")
        self.refuted = refuted.copy()
