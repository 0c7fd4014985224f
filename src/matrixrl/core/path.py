"""Planning on the path: upper values of the states seen, lowered along what is played (docs/proofs.md, section 9.8).

The value of a stage and a state starts at what can still be earned there, and falls to max_a Q whenever the state is
backed up. It stays above V* for any order of backups, so an episode costs its own states only, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matrixrl.core.backup import Frame
from matrixrl.core.confidence import TUNED_EXPLORATION
from matrixrl.core.likelihood.kl_ball import extreme_means
from matrixrl.core.likelihood.radii import SupportPriors, dirichlet_excess, log_mixture_gain, targeted_beta, top_beta
from matrixrl.core.sets.likelihood import LikelihoodConfidence, LikelihoodSet
from matrixrl.errors import InvalidInput
from matrixrl.linalg import SeenRows
from matrixrl.records import FloatArray, IntArray

__all__ = ["BestRewards", "PathConfidence", "PathRadii", "PathTable"]

_CHUNK = 1 << 12  # states that are backed up together
_ROOM = 64  # states that a new table has room for


class PathConfidence(LikelihoodConfidence):
    """The likelihood set of an agent whose features are one-hot, from sizes alone: nothing is as large as S·A.

    Args:
        chosen: Confidence set.
        frame: Horizon and sizes.
        delta: Probability δ with which any of the bounds may fail.
        exploration: Factor of √β.
    """

    def __init__(self, chosen: LikelihoodSet, frame: Frame, *, delta: float, exploration: float) -> None:
        self.n_outcomes, self.targeted, self.tuned = frame.n_states, chosen.targeted, chosen.tuned
        self._claim, self._has_own_radius = chosen.guarantee, type(chosen).excess is not LikelihoodSet.excess
        self.horizon, self.delta, self.exploration = frame.horizon, delta, exploration
        self.known_reward, self._frame = True, frame
        self.n_groups = max(self._sizes(0, frame.n_actions)[1], 1)

    def _sizes(self, first: int, stop: int) -> tuple[int, int]:
        """Return the numbers of states with one of some actions, and of pairs, whose law is not known."""
        frame = self._frame
        if frame.allowed is None:
            n_states = frame.n_states - (frame.end_state is not None)
            return n_states, (stop - first) * n_states
        allowed = frame.allowed[first:stop].copy()
        if frame.end_state is not None:
            allowed[:, frame.end_state] = False
        return int(allowed.any(axis=0).sum()), int(np.count_nonzero(allowed))

    @cached_property
    def n_targets(self) -> tuple[int, int]:
        stages, times = np.unique(self._frame.choices[: self.horizon - 1], axis=0, return_counts=True)
        each = [(n * np.array(self._sizes(*stage))).tolist() for stage, n in zip(stages, times.tolist(), strict=True)]
        optimal, every = (sum(sizes) for sizes in zip(*each, strict=True)) if each else (0, 0)
        return max(optimal, 1), max(every, 1)

    @property
    def watches_rewards(self) -> bool:
        return False


class PathRadii:
    """The radii of pairs, from their counts: those of `CountModel` with known rewards, pair by pair.

    Args:
        confidence: Set and shares of δ.
    """

    def __init__(self, confidence: LikelihoodConfidence) -> None:
        self._scale, self._n_outcomes = confidence.exploration**2, confidence.n_outcomes
        self._log_all = confidence.log_events(confidence.parts.all_functions)
        self._log_optimal = confidence.log_targets() if confidence.targeted else np.inf
        self._priors = SupportPriors(confidence.n_outcomes)

    def of(self, seen: SeenRows) -> FloatArray:
        """Return four radii of each pair: (4, R).

        They are that of upper bounds on V*, that at ν = max V alone, that for all values, and the tuned one.
        """
        n = seen.totals
        of_all = self._log_all + dirichlet_excess(seen, self._n_outcomes, self._priors)
        upper = np.minimum(of_all, targeted_beta(n, self._log_optimal))
        at_top = np.full(len(n), top_beta(self._log_optimal))
        radii = [self._scale * upper, self._scale * at_top, of_all, TUNED_EXPLORATION**2 * log_mixture_gain(n)]
        return np.stack(radii) / n


class BestRewards:
    """The largest unit rewards of states, which bound what states that were never seen are worth.

    Args:
        rewards: (S,) Largest unit reward of each state, or (1,) of all of them.

    Attributes:
        most: The largest of them.
        order: (S,) States, that with the largest reward first; empty if the rewards of states are not known.
    """

    def __init__(self, rewards: FloatArray) -> None:
        self.rewards, self.most = rewards, float(rewards.max())
        self.order: IntArray = np.argsort(-rewards, kind="stable") if len(rewards) > 1 else np.zeros(0, dtype=np.int64)


class _Pair:
    """Outcomes of a pair in ascending order, how often each was seen, and the radii that follow.

    Attributes:
        outcomes: (k,) Numbers of the next states.
        times: (k,) Their counts.
        radii: Those of `PathRadii.of`.
    """

    __slots__ = ("outcomes", "radii", "times")

    def __init__(self, outcomes: IntArray, times: FloatArray) -> None:
        self.outcomes, self.times = outcomes, times
        self.radii: tuple[float, ...] = ()

    def add(self, outcome: int) -> None:
        """Count an outcome."""
        place = int(np.searchsorted(self.outcomes, outcome))
        if place < len(self.outcomes) and self.outcomes[place] == outcome:
            self.times[place] += 1.0
        else:
            self.outcomes, self.times = np.insert(self.outcomes, place, outcome), np.insert(self.times, place, 1.0)


class _Rows(NamedTuple):
    """The visited pairs of k states.

    Attributes:
        seen: Their laws; a row is the place of the state times A plus the action.
        radii: (4, R) Their radii.
    """

    seen: SeenRows
    radii: FloatArray


class PathTable:
    """Upper values and counts of the states seen, in one replica; the memory is theirs alone.

    Args:
        frame: Horizon, sizes, allowed actions, end state and discount.
        radii: Radii of the pairs.
        rewards: Function of states (k,) that returns their unit rewards (k, A).
        best: Largest unit reward of each state, or of all states in one number.
        alpha: α of the optimism budget; with 0 the table has no tuned values and no accounts of it.

    Attributes:
        ceilings: (H+1,) What can still be earned at each stage by any state, γ^0 + γ^1 + … times the largest reward.
        tops: (H+1,) Upper bounds on the upper values of all states, seen or not, and on the tuned ones.
        slots: Number of each state seen, in the order in which they were seen.
        values: (H+1, capacity) Upper values of the states seen, by their numbers.
        tuned: (H+1, capacity) Values of the tuned plan, which may rise and are no bounds; (H+1, 0) without a budget.
        charged: Λ: Σ of the gaps of the tuned episodes that were learned from.
        earned: Ω: Σ of the widths of the bounds at the pairs that were played; of a tuned episode at most its gaps / α.
        n_episodes: Number of episodes that were learned from.
    """

    def __init__(
        self,
        frame: Frame,
        radii: PathRadii,
        rewards: Callable[[IntArray], FloatArray],
        best: BestRewards,
        *,
        alpha: float = 0.0,
    ) -> None:
        self.frame, self._radii, self._rewards_of, self._alpha = frame, radii, rewards, alpha
        self._best, self._has_budget = best, alpha > 0.0
        self.ceilings: FloatArray = np.append(best.most * frame.lefts(), 0.0)
        self.forget()

    def forget(self) -> None:
        """Start without data."""
        frame = self.frame
        self.slots: dict[int, int] = {}
        self.n_episodes = self._n_backed_up = self._n_best_seen = 0
        self.tops = [self.ceilings] * (1 + self._has_budget)
        self._states: IntArray = np.zeros(_ROOM, dtype=np.int64)
        self._rewards: FloatArray = np.zeros((_ROOM, frame.n_actions))
        self.values: FloatArray = np.zeros((frame.horizon + 1, _ROOM))
        self.tuned: FloatArray = np.zeros((frame.horizon + 1, _ROOM if self._has_budget else 0))
        self.charged = self.earned = 0.0
        self._pairs: dict[int, _Pair] = {}
        if frame.end_state is not None:
            self._see(np.array([frame.end_state]))
            for values in self._tables:
                values[:-1, 0] = frame.end_values()

    @property
    def _tables(self) -> list[FloatArray]:
        return [self.values, self.tuned] if self._has_budget else [self.values]

    @property
    def states(self) -> IntArray:
        """The states seen, by their numbers: (n,)."""
        return self._states[: len(self.slots)]

    def _best_unseen(self) -> float:
        """Return the largest unit reward of states that were not seen; −∞ if there are none."""
        if len(self.slots) == self.frame.n_states:
            return -np.inf
        order = self._best.order
        if not len(order):
            return self._best.most
        while int(order[self._n_best_seen]) in self.slots:
            self._n_best_seen += 1
        return float(self._best.rewards[order[self._n_best_seen]])

    def _top(self, h: int, values: FloatArray, after: float, unseen: float) -> float:
        """Return an upper bound on the values of all states at a stage; `after` is that of the next stage."""
        bound = min(unseen + self.frame.discount * after, float(self.ceilings[h]))
        return bound if bound >= self.ceilings[h] else max(bound, float(values[h, : len(self.slots)].max(initial=0.0)))

    @property
    def lows(self) -> FloatArray:
        """Lower bounds on the upper values of all states at each stage: (H+1,)."""
        n = len(self.slots)
        unseen = np.append(self.frame.discount * self.tops[0][1:], 0.0)
        lows: FloatArray = self.values[:, :n].min(axis=1, initial=np.inf)
        return lows if n == self.frame.n_states else np.minimum(lows, unseen)

    def initial_values(self, rewards: FloatArray, *, is_tuned: bool = False) -> FloatArray:
        """Return the values that states with rewards (k, A) start with: max_a r and what any later stage is worth."""
        q = rewards + self.frame.discount * self.tops[is_tuned][1:, None, None]
        best: FloatArray = np.where(self._has_action, q, -np.inf).max(axis=2)
        return np.concatenate([np.minimum(best, self.ceilings[:-1, None]), np.zeros((1, len(rewards)))])

    @property
    def _has_action(self) -> NDArray[np.bool_]:
        """Which actions each stage has: (H, 1, A)."""
        actions, choices = np.arange(self.frame.n_actions), self.frame.choices[:, None, :, None]
        return (choices[:, :, 0] <= actions) & (actions < choices[:, :, 1])

    def _see(self, states: IntArray) -> IntArray:
        """Return the numbers of states (k,); new ones get the next numbers."""
        new = [s for s in dict.fromkeys(states.tolist()) if s not in self.slots]
        first, n = len(self.slots), len(self.slots) + len(new)
        if n > len(self._states):
            more = max(n, 2 * len(self._states)) - len(self._states)
            self._states = np.append(self._states, np.zeros(more, dtype=np.int64))
            self._rewards = np.append(self._rewards, np.zeros((more, self.frame.n_actions)), axis=0)
            room = np.zeros((self.frame.horizon + 1, more))
            self.values = np.append(self.values, room, axis=1)
            self.tuned = np.append(self.tuned, room, axis=1) if self._has_budget else self.tuned
        if new:
            self.slots.update(zip(new, range(first, n), strict=True))
            self._states[first:n] = new
            self._rewards[first:n] = self._permitted_rewards(self._states[first:n])
            for i, values in enumerate(self._tables):
                values[:, first:n] = self.initial_values(self._rewards[first:n], is_tuned=i == 1)
        return np.array([self.slots[s] for s in states.tolist()], dtype=np.int64)

    def _permitted_rewards(self, states: IntArray) -> FloatArray:
        """Return unit rewards (k, A), −∞ of actions that are not allowed."""
        rewards, allowed = self._rewards_of(states), self.frame.allowed
        return rewards if allowed is None else np.where(allowed[:, states].T, rewards, -np.inf)

    def _rows(self, slots: IntArray) -> _Rows:
        """Return the visited pairs of states given by their numbers (k,); −1 stands for one that was never seen."""
        n_actions = self.frame.n_actions
        found = [
            (place * n_actions + a, pair)
            for place, slot in enumerate(slots.tolist())
            for a in range(n_actions)
            if (pair := self._pairs.get(slot * n_actions + a)) is not None and slot >= 0
        ]
        if not found:
            return _Rows(SeenRows(np.zeros(0, dtype=np.int64), np.zeros(0), 1), np.zeros((4, 0)))
        n_outcomes = max(len(self.slots), 1)
        codes = np.concatenate([row * n_outcomes + pair.outcomes for row, pair in found])
        times = np.concatenate([pair.times for _, pair in found])
        return _Rows(SeenRows(codes, times, n_outcomes), np.array([pair.radii for _, pair in found]).T)

    def _q(
        self,
        rewards: FloatArray,
        rows: _Rows,
        stages: IntArray,
        values: FloatArray,
        tops: FloatArray,
        *,
        is_tuned: bool = False,
    ) -> FloatArray:
        """Return the upper bounds on Q of k states, each at its stage, or Q of the tuned plan: (k, A)."""
        n_actions, gamma, seen = self.frame.n_actions, self.frame.discount, rows.seen
        bounds = np.repeat(gamma * tops[stages + 1], n_actions)
        places = seen.ids // n_actions
        following = gamma * values[stages[places][seen.places] + 1, seen.outcomes]
        upper, at_top, _, of_tuned = rows.radii
        radii = (of_tuned, None) if is_tuned else (upper, at_top)
        bounds[seen.ids] = extreme_means(seen, following, bounds[seen.ids], radii[0], 1.0, radii[1])
        q = rewards + bounds.reshape(-1, n_actions)
        return np.where(self._has_action[stages, 0], q, -np.inf)

    def q(self, states: IntArray, stages: IntArray, *, is_tuned: bool = False) -> FloatArray:
        """Return the upper bounds on Q of some states, each at its stage, or Q of the tuned plan: (k,) → (k, A)."""
        values, rows = self.tuned if is_tuned else self.values, self._rows(self.numbers(states))
        return self._q(self._permitted_rewards(states), rows, stages, values, self.tops[is_tuned], is_tuned=is_tuned)

    def numbers(self, states: IntArray) -> IntArray:
        """Return the numbers of states, −1 of one that was never seen: (k,)."""
        return np.array([self.slots.get(s, -1) for s in states.tolist()], dtype=np.int64)

    def gaps(self, states: IntArray, actions: IntArray) -> FloatArray:
        """Return by how much Q of played actions is below the value that the table has once Q was looked at: (k,)."""
        stages = np.arange(len(states))
        q = self.q(states, stages)
        values = np.minimum(self.at(states, stages), q.max(axis=1, initial=-np.inf))
        gaps: FloatArray = np.maximum(values - np.maximum(q[stages, actions], 0.0), 0.0)
        return gaps

    def widths(self, states: IntArray, actions: IntArray) -> FloatArray:
        """Return U − L, the bounds for all values on what follows the steps of an episode: (k,)."""
        stages, gamma, n_actions = np.arange(len(states)), self.frame.discount, self.frame.n_actions
        rows = self._rows(self.numbers(states))
        at = stages * n_actions + actions
        high, low = gamma * self.tops[0][stages + 1], gamma * self.lows[stages + 1]
        played = np.isin(rows.seen.ids, at)
        seen = rows.seen.only(rows.seen.ids[played])
        places = seen.ids // n_actions
        following = gamma * self.values[places[seen.places] + 1, seen.outcomes]
        found = high - low
        ends = [
            extreme_means(seen, following, e[places], rows.radii[2, played], s) for e, s in ((high, 1.0), (low, -1.0))
        ]
        found[places] = ends[0] - ends[1]
        widths: FloatArray = np.clip(found, 0.0, self.frame.lefts()[: len(states)])
        return widths

    def at(self, states: IntArray, stages: IntArray | int) -> FloatArray:
        """Return the upper values of some states (k,), seen or not, at a stage, or each at its own (k,): (k,)."""
        values, slots = self.initial_values(self._permitted_rewards(states)), self.numbers(states)
        found: FloatArray = np.where(slots >= 0, self.values[stages, slots], values[stages, np.arange(len(states))])
        return found

    def learn(self, states: IntArray, actions: IntArray, next_states: IntArray, *, is_tuned: bool = False) -> None:
        """Learn from the steps of an episode, each (k,), the first one at stage 0; values of its states only fall.

        First the values of the stages and states that were played fall to what the plan knew. Then all stages of these
        states are backed up with the new data, the last stage first. Once as many states were backed up as were seen,
        all of these are, which at most doubles the time. An episode of the tuned plan is charged with its gaps.
        """
        stages = np.arange(len(states))
        if self._has_budget:
            weights = self.frame.discount**stages
            widths = float(weights @ self.widths(states, actions))
            charge = float(weights @ self.gaps(states, actions)) if is_tuned else 0.0
            self.charged += charge
            self.earned += min(widths, charge / self._alpha) if is_tuned else widths
        best = self.q(states, stages).max(axis=1, initial=-np.inf)
        # A state may be met before its next states: number both in the order of the steps.
        slots = self._see(np.stack([states, next_states], axis=1).ravel()).reshape(-1, 2)
        here, after = slots[:, 0], slots[:, 1]
        np.minimum.at(self.values, (stages, here), best)
        self._count(here, actions, after)
        self.n_episodes += 1
        chosen = np.array(list(dict.fromkeys(here.tolist())), dtype=np.int64)
        self._n_backed_up += len(chosen)
        if self._n_backed_up >= len(self.slots):
            chosen, self._n_backed_up = np.arange(len(self.slots)), 0
        self.tops = [self.back_up(chosen, values, is_tuned=i == 1) for i, values in enumerate(self._tables)]

    def _count(self, slots: IntArray, actions: IntArray, following: IntArray) -> None:
        """Count steps, and bring the radii of their pairs up to date."""
        numbers = (slots * self.frame.n_actions + actions).tolist()
        for number, outcome in zip(numbers, following.tolist(), strict=True):
            if number not in self._pairs:
                self._pairs[number] = _Pair(np.zeros(0, dtype=np.int64), np.zeros(0))
            self._pairs[number].add(outcome)
        self._refresh(sorted(set(numbers)))

    def _refresh(self, numbers: list[int]) -> None:
        """Compute the radii of pairs anew."""
        if not numbers:
            return
        pairs, n_outcomes = [self._pairs[number] for number in numbers], max(len(self.slots), 1)
        codes = np.concatenate([i * n_outcomes + pair.outcomes for i, pair in enumerate(pairs)])
        radii = self._radii.of(SeenRows(codes, np.concatenate([pair.times for pair in pairs]), n_outcomes))
        for pair, of_pair in zip(pairs, radii.T.tolist(), strict=True):
            pair.radii = tuple(of_pair)

    def back_up(self, slots: IntArray, values: FloatArray, *, is_tuned: bool = False) -> FloatArray:
        """Lower all stages of some states, given by their numbers (k,), to max_a Q; the last stage first.

        `values` (H+1, capacity) are those of the table, or a copy. Tuned values become max_a Q, also if that is larger.
        Returns the new `tops` (H+1,).
        """
        unseen = self._best_unseen()
        slots = slots[self._states[slots] != self.frame.end_state]
        chunks = [slots[first : first + _CHUNK] for first in range(0, len(slots), _CHUNK)]
        each = [(chunk, self._rows(chunk), self._rewards[chunk]) for chunk in chunks]
        tops = self.ceilings.copy()
        for h in reversed(range(self.frame.horizon)):
            for chunk, rows, rewards in each:
                q = self._q(rewards, rows, np.full(len(chunk), h), values, tops, is_tuned=is_tuned).max(axis=1)
                values[h, chunk] = np.minimum(self.ceilings[h] if is_tuned else values[h, chunk], q)
            tops[h] = self._top(h, values, tops[h + 1], unseen)
        return tops

    def swept(self) -> FloatArray:
        """Return the upper values after one more backup of all states seen: (H+1, capacity)."""
        values = self.values.copy()
        self.back_up(np.arange(len(self.slots)), values)
        return values

    def lower_values(self, policy: Callable[[FloatArray], IntArray], *, is_tuned: bool = False) -> FloatArray:
        """Return lower bounds (H+1, n) on the values of a policy in the states seen, at the radius for all values.

        The value of a state that was never seen is at least 0.

        Args:
            policy: Function of Q (k, A) at a stage that returns the actions (k,).
            is_tuned: Whether that Q is of the tuned plan.
        """
        frame, n, gamma = self.frame, len(self.slots), self.frame.discount
        low = np.zeros((frame.horizon + 1, n))
        values, slots = self.tuned if is_tuned else self.values, np.arange(n)
        tops = self.tops[is_tuned]
        rows, rewards = self._rows(slots), self._rewards[:n]
        for h in reversed(range(frame.horizon)):
            actions = policy(self._q(rewards, rows, np.full(n, h), values, tops, is_tuned=is_tuned))
            least = gamma * (low[h + 1].min() if n == frame.n_states else 0.0)
            bounds, seen = np.full(n * frame.n_actions, least), rows.seen
            following, ends = gamma * low[h + 1, seen.outcomes], np.full(len(seen.ids), least)
            bounds[seen.ids] = extreme_means(seen, following, ends, rows.radii[2], -1.0)
            at = slots * frame.n_actions + actions
            low[h] = np.clip(rewards[slots, actions] + bounds[at], 0.0, self.ceilings[h])
            if frame.end_state is not None:
                low[h, self.slots[frame.end_state]] = frame.end_values()[h]
        return low

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return states, values, counts and the accounts of the budget as named arrays, for saving."""
        n, numbers = len(self.slots), sorted(self._pairs)
        pairs = [self._pairs[number] for number in numbers]
        nothing = np.zeros(0, dtype=np.int64)
        return {
            "states": self.states.copy(),
            "values": self.values[:, :n].copy(),
            "pairs": np.repeat(np.array(numbers, dtype=np.int64), [len(pair.outcomes) for pair in pairs]),
            "next": np.concatenate([nothing, *(pair.outcomes for pair in pairs)]),
            "times": np.concatenate([np.zeros(0), *(pair.times for pair in pairs)]),
            "learned": np.array([self.n_episodes, self._n_backed_up], dtype=np.int64),
            "tuned": self.tuned[:, :n].copy(),
            "budget": np.array([self.charged, self.earned]),
        }

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned.

        Raises:
            InvalidInput: The arrays cannot be those of such a table.
        """
        states, values, pairs, following, times = (arrays[x] for x in ("states", "values", "pairs", "next", "times"))
        tuned, budget = arrays["tuned"], arrays["budget"]
        n, n_actions, n_states = len(states), self.frame.n_actions, self.frame.n_states
        self.forget()
        begins = states[: len(self.slots)].tolist() == list(self.slots)
        if not begins or len(set(states.tolist())) < n or not ((states >= 0) & (states < n_states)).all():
            raise InvalidInput("the states that were seen must be different states of this problem, an end state first")
        codes = pairs * max(n, 1) + following
        fits = len(pairs) == len(following) == len(times) and (np.diff(codes) > 0).all() and (times >= 1.0).all()
        if not fits or not ((pairs >= 0) & (pairs < n * n_actions) & (following >= 0) & (following < n)).all():
            raise InvalidInput("the counts must be those of pairs and next states that were seen, in ascending order")
        if tuned.shape[1] != self._has_budget * n or (budget < 0.0).any():
            raise InvalidInput("the budget must have tuned values of all states seen, and accounts of at least 0")
        for one in (values, tuned):
            room = self.ceilings[:, None] * (1.0 + 1e-12)
            if one.shape[0] != len(room) or not ((one >= 0.0) & (one <= room)).all():
                raise InvalidInput("values must lie between 0 and what can still be earned")
        self._see(states)
        self.values[:, :n], self.tuned[:, : tuned.shape[1]] = values, tuned
        self.charged, self.earned = budget.tolist()
        self.n_episodes, self._n_backed_up = arrays["learned"].tolist()
        unseen = self._best_unseen()
        for i, one in enumerate(self._tables if self.n_episodes else ()):
            self.tops[i] = self.ceilings.copy()
            for h in reversed(range(self.frame.horizon)):
                self.tops[i][h] = self._top(h, one, self.tops[i][h + 1], unseen)
        numbers, firsts = np.unique(pairs, return_index=True)
        lists = (np.split(array, firsts[1:]) for array in (following, times))
        for number, *of_pair in zip(numbers.tolist(), *lists, strict=False):  # without data there is one empty part
            self._pairs[number] = _Pair(*(part.copy() for part in of_pair))
        self._refresh(sorted(self._pairs))
