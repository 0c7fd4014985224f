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
from matrixrl.core.likelihood.kl_ball import extreme_means
from matrixrl.core.likelihood.radii import SupportPriors, dirichlet_excess, targeted_beta, top_beta
from matrixrl.core.sets.likelihood import LikelihoodConfidence, LikelihoodSet
from matrixrl.errors import InvalidInput
from matrixrl.linalg import SeenRows
from matrixrl.records import FloatArray, IntArray

__all__ = ["PathConfidence", "PathRadii", "PathTable"]

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

    def of(self, seen: SeenRows) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the radius of upper bounds on V*, that at ν = max V alone, and that for all values: each (R,)."""
        n = seen.totals
        of_all = self._log_all + dirichlet_excess(seen, self._n_outcomes, self._priors)
        upper = np.minimum(of_all, targeted_beta(n, self._log_optimal))
        return self._scale * upper / n, self._scale * top_beta(self._log_optimal) / n, of_all / n


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
        self.radii = (np.inf, np.inf, np.inf)

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
        radii: (3, R) Their radii.
    """

    seen: SeenRows
    radii: FloatArray


class PathTable:
    """Upper values and counts of the states seen, in one replica; the memory is theirs alone.

    Args:
        frame: Horizon, sizes, allowed actions, end state and discount.
        radii: Radii of the pairs.
        rewards: Function of states (k,) that returns their unit rewards (k, A).
        most: Largest unit reward of any pair.

    Attributes:
        ceilings: (H+1,) What can still be earned at each stage by any state, γ^0 + γ^1 + … times `most`.
        slots: Number of each state seen, in the order in which they were seen.
        values: (H+1, capacity) Upper values of the states seen, by their numbers.
        n_episodes: Number of episodes that were learned from.
    """

    def __init__(self, frame: Frame, radii: PathRadii, rewards: Callable[[IntArray], FloatArray], most: float) -> None:
        self.frame, self._radii, self._rewards_of = frame, radii, rewards
        self.ceilings: FloatArray = np.append(most * frame.lefts(), 0.0)
        self.forget()

    def forget(self) -> None:
        """Start without data."""
        frame = self.frame
        self.slots: dict[int, int] = {}
        self.n_episodes = 0
        self._states: IntArray = np.zeros(_ROOM, dtype=np.int64)
        self._rewards: FloatArray = np.zeros((_ROOM, frame.n_actions))
        self.values: FloatArray = np.zeros((frame.horizon + 1, _ROOM))
        self._pairs: dict[int, _Pair] = {}
        if frame.end_state is not None:
            self._see(np.array([frame.end_state]))
            self.values[:-1, 0] = frame.end_values()

    @property
    def states(self) -> IntArray:
        """The states seen, by their numbers: (n,)."""
        return self._states[: len(self.slots)]

    @property
    def tops(self) -> FloatArray:
        """Upper bounds on the values of all states at each stage, seen or not: (H+1,)."""
        n = len(self.slots)
        tops: FloatArray = self.ceilings if n < self.frame.n_states else self.values[:, :n].max(axis=1)
        return tops

    def initial_values(self, rewards: FloatArray) -> FloatArray:
        """Return the values that states with rewards (k, A) start with: max_a r and what any later stage can earn."""
        q = rewards + self.frame.discount * self.ceilings[1:, None, None]
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
            self.values = np.append(self.values, np.zeros((self.frame.horizon + 1, more)), axis=1)
        if new:
            self.slots.update(zip(new, range(first, n), strict=True))
            self._states[first:n] = new
            self._rewards[first:n] = self._permitted_rewards(self._states[first:n])
            self.values[:, first:n] = self.initial_values(self._rewards[first:n])
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
            return _Rows(SeenRows(np.zeros(0, dtype=np.int64), np.zeros(0), 1), np.zeros((3, 0)))
        n_outcomes = max(len(self.slots), 1)
        codes = np.concatenate([row * n_outcomes + pair.outcomes for row, pair in found])
        times = np.concatenate([pair.times for _, pair in found])
        return _Rows(SeenRows(codes, times, n_outcomes), np.array([pair.radii for _, pair in found]).T)

    def _q(self, rewards: FloatArray, rows: _Rows, stages: IntArray, values: FloatArray, tops: FloatArray) -> FloatArray:
        """Return the upper bounds on Q of k states, each at its stage: (k, A)."""
        n_actions, gamma, seen = self.frame.n_actions, self.frame.discount, rows.seen
        bounds = np.repeat(gamma * tops[stages + 1], n_actions)
        places = seen.ids // n_actions
        following = gamma * values[stages[places][seen.places] + 1, seen.outcomes]
        upper, at_top, _ = rows.radii
        ends = bounds[seen.ids]
        bounds[seen.ids] = extreme_means(seen, following, ends, upper, 1.0, at_top)
        q = rewards + bounds.reshape(-1, n_actions)
        return np.where(self._has_action[stages, 0], q, -np.inf)

    def q(self, states: IntArray, stages: IntArray) -> FloatArray:
        """Return the upper bounds on Q of some states, each at its stage, from the values at hand: (k,) → (k, A)."""
        slots = np.array([self.slots.get(s, -1) for s in states.tolist()], dtype=np.int64)
        return self._q(self._permitted_rewards(states), self._rows(slots), stages, self.values, self.tops)

    def at(self, states: IntArray, stage: int) -> FloatArray:
        """Return the upper values of some states, seen or not, at a stage: (k,)."""
        values = self.initial_values(self._permitted_rewards(states))[stage]
        slots = np.array([self.slots.get(s, -1) for s in states.tolist()], dtype=np.int64)
        return np.where(slots >= 0, self.values[stage, slots], values)

    def learn(self, states: IntArray, actions: IntArray, next_states: IntArray) -> None:
        """Learn from the steps of an episode, each (k,), the first one at stage 0; values of its states only fall.

        First the values of the stages and states that were played fall to what the plan knew. Then all stages of these
        states are backed up with the new data, the last stage first. After 1, 2, 4, 8, … episodes all states seen are.
        """
        stages = np.arange(len(states))
        best = self.q(states, stages).max(axis=1, initial=-np.inf)
        # A state may be met before its next states: number both in the order of the steps.
        slots = self._see(np.stack([states, next_states], axis=1).ravel()).reshape(-1, 2)
        here, after = slots[:, 0], slots[:, 1]
        np.minimum.at(self.values, (stages, here), best)
        self._count(here, actions, after)
        self.n_episodes += 1
        if self.n_episodes & (self.n_episodes - 1):
            self.back_up(np.array(list(dict.fromkeys(here.tolist())), dtype=np.int64), self.values)
        else:
            self.back_up(np.arange(len(self.slots)), self.values)

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
        for pair, *of_pair in zip(pairs, *(one.tolist() for one in radii), strict=True):
            pair.radii = tuple(of_pair)

    def back_up(self, slots: IntArray, values: FloatArray) -> None:
        """Lower all stages of some states, given by their numbers (k,), to max_a Q; the last stage first.

        `values` (H+1, capacity) are those of the table, or a copy.
        """
        n, is_whole = len(self.slots), len(self.slots) == self.frame.n_states
        slots = slots[self._states[slots] != self.frame.end_state]
        chunks = [slots[first : first + _CHUNK] for first in range(0, len(slots), _CHUNK)]
        each = [(chunk, self._rows(chunk), self._rewards[chunk]) for chunk in chunks]
        tops = self.ceilings.copy()
        for h in reversed(range(self.frame.horizon)):
            if is_whole:
                tops[h + 1] = values[h + 1, :n].max()
            for chunk, rows, rewards in each:
                q = self._q(rewards, rows, np.full(len(chunk), h), values, tops)
                values[h, chunk] = np.minimum(values[h, chunk], q.max(axis=1))

    def swept(self) -> FloatArray:
        """Return the upper values after one more backup of all states seen: (H+1, capacity)."""
        values = self.values.copy()
        self.back_up(np.arange(len(self.slots)), values)
        return values

    def lower_values(self, policy: Callable[[FloatArray], IntArray]) -> FloatArray:
        """Return lower bounds (H+1, n) on the values of a policy in the states seen, at the radius for all values.

        The value of a state that was never seen is at least 0.

        Args:
            policy: Function of the upper bounds on Q (k, A) at a stage that returns the actions (k,).
        """
        frame, n, gamma = self.frame, len(self.slots), self.frame.discount
        low = np.zeros((frame.horizon + 1, n))
        slots, tops = np.arange(n), self.tops
        rows, rewards = self._rows(slots), self._rewards[:n]
        for h in reversed(range(frame.horizon)):
            actions = policy(self._q(rewards, rows, np.full(n, h), self.values, tops))
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
        """Return states, values and counts as named arrays, for saving."""
        n, numbers = len(self.slots), sorted(self._pairs)
        pairs = [self._pairs[number] for number in numbers]
        nothing = np.zeros(0, dtype=np.int64)
        return {
            "states": self.states.copy(),
            "values": self.values[:, :n].copy(),
            "pairs": np.repeat(np.array(numbers, dtype=np.int64), [len(pair.outcomes) for pair in pairs]),
            "next": np.concatenate([nothing, *(pair.outcomes for pair in pairs)]),
            "times": np.concatenate([np.zeros(0), *(pair.times for pair in pairs)]),
            "learned": np.array(self.n_episodes, dtype=np.int64),
        }

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned.

        Raises:
            InvalidInput: The arrays cannot be those of such a table.
        """
        states, values, pairs, following, times = (arrays[x] for x in ("states", "values", "pairs", "next", "times"))
        n, n_actions, n_states = len(states), self.frame.n_actions, self.frame.n_states
        self.forget()
        begins = states[: len(self.slots)].tolist() == list(self.slots)
        if not begins or len(set(states.tolist())) < n or not ((states >= 0) & (states < n_states)).all():
            raise InvalidInput("the states that were seen must be different states of this problem, an end state first")
        codes = pairs * max(n, 1) + following
        fits = len(pairs) == len(following) == len(times) and (np.diff(codes) > 0).all() and (times >= 1.0).all()
        if not fits or not ((pairs >= 0) & (pairs < n * n_actions) & (following >= 0) & (following < n)).all():
            raise InvalidInput("the counts must be those of pairs and next states that were seen, in ascending order")
        if values.shape != (self.frame.horizon + 1, n) or not ((values >= 0.0) & (values <= self.ceilings[:, None])).all():
            raise InvalidInput("the upper values must lie between 0 and what can still be earned")
        self._see(states)
        self.values[:, :n] = values
        self.n_episodes = int(arrays["learned"])
        numbers, firsts = np.unique(pairs, return_index=True)
        lists = (np.split(array, firsts[1:]) for array in (following, times))
        for number, *of_pair in zip(numbers.tolist(), *lists, strict=False):  # without data there is one empty part
            self._pairs[number] = _Pair(*(part.copy() for part in of_pair))
        self._refresh(sorted(self._pairs))
