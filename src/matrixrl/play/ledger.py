"""The ledger of certificates: the best bounds of each replica so far, which all hold on one event.

docs/proofs.md, sections 6.1 (first states) and 11 (the best bounds, and bounds from returns).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms import Algorithm
from matrixrl.algorithms.registry import known_reward
from matrixrl.archive import check_arrays, check_entries
from matrixrl.certificates import Certificate
from matrixrl.checks import fail
from matrixrl.core.backup import Frame
from matrixrl.core.returns import MOST_FROZEN, N_LEVELS, frozen_policy_bounds, return_level
from matrixrl.core.start import START_SHARE, Start, estimated_start, log_start_ratio
from matrixrl.display import printable
from matrixrl.errors import InvalidInput
from matrixrl.features import OneHotPhi
from matrixrl.linalg import OutcomeCounts
from matrixrl.play.given_policies import SAVED, GivenReturns
from matrixrl.problems import Problem
from matrixrl.problems.task import total_weight
from matrixrl.records import BoolArray, Bounds, FloatArray, Guarantee, IntArray, Steps

__all__ = ["CONTRADICTION", "CertificateLedger", "CertifiedPolicy", "FrozenReturns", "contradictory", "knows_reward"]

CONTRADICTION = "the bounds contradict each other: the assumptions are false (or a δ event)"
"""Words for an upper bound that is below a lower bound."""
_ROUNDING = 1e-9  # relative, of bounds that are compared
_LIVE = 3  # frozen policies that are still compared with what is played
_MOST_UNCOUNTED = 4096  # returns that are collected before they are counted together
_WORDS = ("doubts", "contradiction", "start_doubt")
_BEST, _FIRST, _FROZEN = "best", "first_states", ("frozen", "codes", "times")
_NONE = type(None)
_ENTRIES = {
    **dict.fromkeys(("least_upper", "lower"), (float, _NONE)),
    **dict.fromkeys(("basis", *_WORDS), (str, _NONE)),
}


class CertifiedPolicy(NamedTuple):
    """A policy with a certified lower bound."""

    lower: float  # Lower bound on its value, in the environment's unit
    table: IntArray  # (H, S) Its actions
    basis: str  # What the bound comes from, `model` or `returns`


def contradictory(*, upper: float, lower: float) -> bool:
    """Return whether an upper bound is below a lower bound by more than rounding."""
    return upper < lower - _ROUNDING * (1.0 + abs(upper) + abs(lower))


def knows_reward(algorithm: Algorithm) -> bool:
    """Return whether a started algorithm on numbered states knows the expected rewards."""
    return known_reward(algorithm) is not False and algorithm.problem.finite_task.knows_reward


class CertificateLedger:
    """The least upper bounds on V* of B replicas, and for an agent (B = 1) the policy with the largest lower bound.

    All bounds are about one start, the declared one or the distribution of first states, so the best ones stay valid.
    If the problem declares no start, an agent counts all first states, and certificates are about the distribution that
    they come from. If it declares a random one, those are counted that the agent's own MDP did not draw, and compared
    with it.

    Args:
        algorithm: The algorithm, started.

    Attributes:
        least_upper: (B,) Least certified upper bound on V*(s0), in the environment's unit; infinite before the first.
        alarmed: (B,) Whether the misspecification alarm was raised in an episode of a simulation.
        best: The policy of an agent with the largest certified lower bound.
        returns: What its frozen policies earned.
        given: What episodes of given policies earned; None if states are not numbered.
        doubts: Why the returns of all episodes say nothing about the start, or None if they do.
        contradiction: Words, if bounds of an agent contradicted each other at some time.
        start_doubt: Why first states do not come from one distribution, or not from the declared one; else None.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        problem = self._problem = algorithm.problem
        self._algorithm, self._start_delta = algorithm, START_SHARE * algorithm.claims.run_delta
        self.least_upper: FloatArray = np.full(algorithm.n_replicas, np.inf)
        self.alarmed: BoolArray = np.zeros(algorithm.n_replicas, dtype=np.bool_)
        self.best: CertifiedPolicy | None = None
        self.returns = FrozenReturns(problem, algorithm.claims.returns_delta)
        self.given: GivenReturns | None = None
        if problem.kind == "finite":
            self.given = GivenReturns(problem.finite_task, knows_reward=knows_reward(algorithm))
        self.doubts: str | None = None
        self.contradiction: str | None = None
        self.start_doubt: str | None = None
        self._first_states: IntArray = np.zeros(problem.n_observed, dtype=np.int64)
        self._estimate: Start | None = None

    def note_uppers(self, upper: FloatArray) -> FloatArray:
        """Take note of upper bounds (B, n) of consecutive episodes, and return the least ones so far: (B, n)."""
        least = np.minimum.accumulate(np.concatenate([self.least_upper[:, None], upper], axis=1), axis=1)[:, 1:]
        self.least_upper = least[:, -1].copy()
        return least

    def final_certificates(self, bounds: Bounds) -> list[Certificate]:
        """Return the certificate of each replica, with the least upper bound so far."""
        algorithm, found = self._algorithm, []
        least = np.minimum(bounds.upper, self.least_upper)
        crossed = least < bounds.lower - _ROUNDING * (1.0 + np.abs(bounds.lower))
        bounds = bounds._replace(upper=np.maximum(least, bounds.lower))
        for b in range(len(least)):
            claim = algorithm.claims.certificate(bool(bounds.empty[b]) or bool(self.alarmed[b]))
            claim = claim and Guarantee.unless(CONTRADICTION if crossed[b] else None)
            found.append(Certificate.of(bounds, b, algorithm.claims.delta, claim, self._problem.start_words))
        return found

    @property
    def is_estimated(self) -> bool:
        """Whether the start of certificates is estimated from first states."""
        return self._problem.kind == "finite" and not self._problem.task.start_is_declared

    @property
    def first_states(self) -> IntArray:
        """Counts of first states, from which a start that is not declared is estimated; a copy."""
        return self._first_states.copy()

    @property
    def counts_first_states(self) -> bool:
        """Whether first states were counted."""
        return bool(self._first_states.any())

    def start(self, parts: int = 1) -> tuple[Start | None, str]:
        """Return what certificates are about, None for the start that the problem declares, and its words.

        Args:
            parts: Number of equal parts of δ of which an estimated start has one.

        Raises:
            InvalidInput: No start is declared, and states are not numbered.
        """
        if self.is_estimated:
            if parts > 1:
                estimate = estimated_start(self._first_states, self._start_delta / parts)
                return estimate, estimate.words
            if self._estimate is None:
                self._estimate = estimated_start(self._first_states, self._start_delta)
            return self._estimate, self._estimate.words
        if not self._problem.task.start_is_declared:
            remedy = "Make the FunctionalTask with start=…, or name a state: certificate(start=…)."
            fail("start", "must be known to bound the value of an episode", None, remedy)
        return None, self._problem.start_words

    def named_start(self, state: Any) -> tuple[Start, str]:
        """Return the start in a state that a user names, as it is observed, and its words."""
        problem = self._problem
        own = problem.state("start", state)
        words = f"state {problem.shown_state(own) if problem.kind == 'finite' else np.asarray(own).tolist()}"
        return Start.at(own, words), words

    def observe(
        self, number: int, table: Callable[[], IntArray] | None, steps: Steps, *, is_drawn: bool, given: Any = None
    ) -> None:
        """Take note of a finished episode of an agent, counted from 1.

        `table` returns the policy (H, S) that it was begun with, `is_drawn` says whether the agent's own MDP drew its
        first state from the declared start, and `given` is the policy that was given before it began, if one was.
        """
        if given is not None and self.given is not None:
            self.given.add(given, [self.given.policy(given).played(steps)])
        is_chain = bool((steps.states[0, 1:] == steps.next_states[0, :-1]).all())
        if self.doubts is None and not is_chain:
            self.doubts = "a step did not begin in the state in which the one before it ended"
        if self.doubts is None and steps.actions.shape[1] < self._problem.task.horizon and not steps.ended[0, -1]:
            self.doubts = "an episode was ended before its last step"
        is_random = self._problem.has_random_start
        if table is not None:
            self.returns.observe(number, table, steps, counts=is_chain and (is_drawn or not is_random))
        if self.is_estimated:
            self.count_first_states(steps.states[:, 0])
        elif is_random and not is_drawn:
            self.test_first_states(steps.states[:, 0])

    def count_first_states(self, states: NDArray[Any]) -> None:
        """Count first states (m,), those of logged episodes among them."""
        counts = np.bincount(states.astype(np.int64), minlength=len(self._first_states))
        self._first_states, self._estimate = self._first_states + counts, None

    def test_first_states(self, states: NDArray[Any]) -> None:
        """Count first states (m,) that the library did not draw, and note it if they contradict the declared start."""
        self.count_first_states(states)
        start = self._problem.finite_task.start[: len(self._first_states)]
        possible = start > 0.0
        ratio = log_start_ratio(self._first_states[possible], start[possible])
        if self._start_delta > 0.0 and ratio > math.log(1.0 / self._start_delta):
            self.note_start_doubt("first states contradict the declared start: it is false (or a δ event)")

    def note_start_doubt(self, words: str) -> None:
        """Withdraw for good what depends on how first states are drawn; the first reason is kept."""
        self.start_doubt = self.start_doubt or words

    def contradict(self, *, upper: float, lower: float) -> None:
        """Note it if an upper bound is below a lower bound by more than rounding; it is never taken back."""
        if contradictory(upper=upper, lower=lower):
            self.contradiction = CONTRADICTION

    def note(self, upper: float, policy: CertifiedPolicy | None) -> None:
        """Take note of a certificate of an agent."""
        self.least_upper = np.minimum(self.least_upper, upper)
        self._offer(policy)

    def note_returns(self) -> None:
        """Take the best policy by its returns, if its bound is larger than the one at hand."""
        found = self.returns.best()
        self._offer(None if found is None else CertifiedPolicy(*found, "returns"))

    def _offer(self, policy: CertifiedPolicy | None) -> None:
        if policy is not None and (self.best is None or policy.lower > self.best.lower):
            self.best = policy
        if self.best is not None:
            self.contradict(upper=float(self.least_upper[0]), lower=self.best.lower)

    def tighten(self, table: IntArray | None, interval: tuple[float, float]) -> tuple[float, float]:
        """Return an interval of the value of a policy (H, S), or None for a random one, cut to what was certified."""
        lower, upper = interval
        if np.isinf(self.least_upper[0]):
            return interval
        if self.best is not None and table is not None and np.array_equal(self.best.table, table):
            lower = max(lower, self.best.lower)
        return lower, min(upper, float(self.least_upper[0]))

    def permit(self, frame: Frame) -> None:
        """Forget what newer masks make wrong: a best policy with an action that is not allowed, and contradictions.

        With one-hot φ the least upper bound stays: it was for more actions, of which those that are left are a part.
        With others, pairs that do not exist may have made the bound on the norm of the core too small, and with it the
        radius of every bound from the model, lower ones too (docs/proofs.md, 13). Bounds from returns have no radius.
        """
        features = self._problem.features
        if features is None or not isinstance(features.phi, OneHotPhi):
            self.least_upper = np.full_like(self.least_upper, np.inf)
            if self.best is not None and self.best.basis != "returns":
                self.best = None
        if self.best is not None and not frame.permits(self.best.table):
            self.best = None
        self.returns.permit(frame)
        self.contradiction = None  # a lower bound may have been that of actions that are not allowed

    def header(self) -> dict[str, Any]:
        """Return the numbers and words as plain data, for saving."""
        best, least = self.best, float(self.least_upper[0])
        return {
            "least_upper": None if math.isinf(least) else least,
            "lower": None if best is None else best.lower,
            "basis": None if best is None else best.basis,
            **{name: getattr(self, name) for name in _WORDS},
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the tables and counts, for saving."""
        best = {} if self.best is None else {_BEST: self.best.table}
        given = {} if self.given is None else self.given.arrays()
        return {_FIRST: self._first_states, **best, **self.returns.arrays(), **given}

    def restore(self, header: Any, arrays: Mapping[str, NDArray[Any]], n_episodes: int) -> None:
        """Take back what `header` and `arrays` returned after so many episodes.

        Raises:
            InvalidInput: They are not those of a ledger of the problem.
        """
        check_entries("the certified bounds", header, _ENTRIES)
        check_arrays(arrays, {_FIRST: self._first_states}, optional=(_BEST, *_FROZEN, *SAVED))
        least, lower, basis = (header[name] for name in ("least_upper", "lower", "basis"))
        if (lower is None) != (_BEST not in arrays) or basis not in (None, "model", "returns"):
            raise InvalidInput("the best policy must have a table, a lower bound and a basis")
        best = (
            None if lower is None else CertifiedPolicy(lower, _checked_policy(self._problem, arrays[_BEST], 2), basis)
        )
        self.returns.restore({name: arrays[name] for name in _FROZEN if name in arrays}, n_episodes)
        given = {name: arrays[name] for name in SAVED if name in arrays}
        if self.given is not None:
            self.given.restore(given)
        elif given:
            raise InvalidInput("there must be no returns of given policies where states are not numbered")
        for name in _WORDS:
            setattr(self, name, None if header[name] is None else printable(header[name]))
        self.least_upper[0], self.best = np.inf if least is None else least, best
        self._first_states, self._estimate = arrays[_FIRST].copy(), None


class FrozenReturns:
    """What episodes earned up to the first action that is not that of a frozen policy.

    The policy of episodes 1, 2, 4, … is frozen. It was made before the steps of its episode, so that episode counts
    too. Episodes count whose first state was drawn from the start that certificates are about.

    Args:
        problem: The problem.
        delta: Probability with which any of the bounds may fail; 0 counts nothing.
    """

    def __init__(self, problem: Problem, delta: float) -> None:
        self._problem, self._delta = problem, delta
        self._frozen: dict[int, IntArray] = {}
        self._stacked: IntArray | None = None  # (j, H, S) the tables of the frozen policies
        self._levels = OutcomeCounts(1, MOST_FROZEN, N_LEVELS + 1)
        self._uncounted: list[tuple[int, int]] = []  # frozen policy and level of return of recent episodes

    def observe(self, number: int, table: Callable[[], IntArray], steps: Steps, *, counts: bool) -> None:
        """Count what an episode, counted from 1, earned for every frozen policy.

        `table` returns the policy (H, S) that it was begun with. Its return counts if its first state was drawn from
        the start, and every step begins in the state in which the one before it ended.
        """
        if self._delta <= 0.0:
            return
        if number.bit_count() == 1:
            self._frozen[number.bit_length() - 1] = table()
            self._stacked = None
            if len(self._frozen) > _LIVE:
                del self._frozen[min(self._frozen)]
        if counts:
            if self._stacked is None:
                self._stacked = np.stack(list(self._frozen.values()))
            levels = [return_level(share) for share in self._followed(self._stacked, steps)]
            self._uncounted.extend(zip(self._frozen, levels, strict=True))
            if len(self._uncounted) > _MOST_UNCOUNTED:
                self._counted()

    def imagine(self, number: int, table: IntArray, episodes: Sequence[Steps], times: float) -> None:
        """Count imagined episodes of a policy (H, S), each some times; `number` is that of the last of them."""
        newest = number.bit_length() - 1
        if newest not in self._frozen:
            self._frozen[newest] = table
            if len(self._frozen) > _LIVE:
                del self._frozen[min(self._frozen)]
        stacked, counted = np.stack(list(self._frozen.values())), self._counted()
        levels = [return_level(share) for steps in episodes for share in self._followed(stacked, steps)]
        rows = np.tile(list(self._frozen), len(episodes))
        counted.add(rows[None], np.array(levels)[None], np.full((1, len(rows)), times))

    def _followed(self, tables: IntArray, steps: Steps) -> list[float]:
        """Return the reward up to the first action that is not that of each table (j, H, S), as a share of the most."""
        task, states, actions = self._problem.finite_task, steps.states[0], steps.actions[0]
        n_steps, low, unit, most = len(actions), task.reward_range[0], task.unit, task.steps_weight
        same = tables[:, np.arange(n_steps), states] == actions
        lengths = np.where(same.all(axis=1), n_steps, same.argmin(axis=1)).tolist()
        earned = np.clip((steps.rewards[0] - low) / unit, 0.0, 1.0)
        # The end state pays 0 in each of the steps that are left.
        rest = (most - total_weight(task.discount, n_steps)) * (0.0 - low) / unit if steps.ended[0, -1] else 0.0
        totals = {
            length: float(task.returns(earned[:length])) + (rest if length == n_steps else 0.0)
            for length in set(lengths)
        }
        return [totals[length] / most for length in lengths]

    def _counted(self) -> OutcomeCounts:
        """Return the numbers of episodes of each frozen policy at each level of return."""
        if self._uncounted:
            rows, levels = np.array(self._uncounted, dtype=np.int64).T
            self._levels.add(rows[None], levels[None])
            self._uncounted = []
        return self._levels

    def lower(self, table: IntArray, delta: float) -> float | None:
        """Return the largest lower bound of the frozen policies that are a table (H, S); None if there is none.

        `delta` is the probability with which any bound of any frozen policy may fail.
        """
        seen = self._counted().seen
        same = [number for number, frozen in self._frozen.items() if np.array_equal(frozen, table)]
        places = np.flatnonzero(np.isin(seen.ids, same))
        if not len(places) or delta <= 0.0:
            return None
        bound, task = float(frozen_policy_bounds(seen, delta)[places].max()), self._problem.finite_task
        return float(task.to_own_unit(np.array(bound * task.steps_weight)))

    def permit(self, frame: Frame) -> None:
        """Replace actions that newer masks forbid by the lowest allowed ones.

        What was counted stays a lower bound: an action that is not allowed was never played, so no reward after it was
        counted, and the policy that replaces it was known when the other one was frozen, as masks are no random
        numbers (docs/proofs.md, section 11).
        """
        permitted = {number: frame.permitted(table) for number, table in self._frozen.items()}
        self._frozen, self._stacked = permitted, None

    def best(self) -> tuple[float, IntArray] | None:
        """Return the largest lower bound, in the environment's unit, and its policy (H, S); None without any."""
        seen, task = self._counted().seen, self._problem.finite_task
        if self._delta <= 0.0 or not len(seen.ids):
            return None
        bounds = dict(zip(seen.ids.tolist(), frozen_policy_bounds(seen, self._delta).tolist(), strict=True))
        number = max(self._frozen, key=lambda live: bounds.get(live, 0.0))
        lower = task.to_own_unit(np.array([bounds.get(number, 0.0) * task.steps_weight]))
        return float(lower[0]), self._frozen[number]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the tables and counts, for saving."""
        if not self._frozen:
            return {}
        return {"frozen": np.stack(list(self._frozen.values())), **self._counted().arrays()}

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_episodes: int) -> None:
        """Take back what `arrays` returned after so many episodes.

        Raises:
            InvalidInput: The returns cannot be those of the problem after so many episodes.
        """
        if not arrays:
            if n_episodes > 0:  # nothing was counted before, so nothing is counted from now on
                self.__init__(self._problem, 0.0)  # type: ignore[misc]
            return
        if self._delta <= 0.0:
            raise InvalidInput("there must be no returns of frozen policies where none are counted")
        numbers = range(max(n_episodes.bit_length() - _LIVE, 0), n_episodes.bit_length())
        tables = _checked_policy(self._problem, arrays["frozen"], 3)
        if len(tables) != len(numbers):
            raise InvalidInput(f"there must be {len(numbers)} frozen policies")
        self._levels.restore(arrays["codes"], arrays["times"])
        self._frozen, self._stacked = dict(zip(numbers, tables, strict=True)), None


def _checked_policy(problem: Problem, table: NDArray[Any], n_axes: int) -> IntArray:
    """Return a copy of saved tables (…, H, S) of actions; refuse those that do not fit the problem."""
    task = problem.finite_task
    fits = (
        table.ndim == n_axes
        and table.shape[-2:] == (task.horizon, task.n_states)
        and table.dtype.kind in "iu"
        and bool(((task.choices[:, :1] <= table) & (table < task.choices[:, 1:])).all())
        and (task.allowed is None or bool(task.allowed[np.arange(task.n_states), table].all()))
    )
    if not fits:
        raise InvalidInput("a certified policy does not fit the problem")
    return table.copy()
