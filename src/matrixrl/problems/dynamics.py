"""Known dynamics, unknown noise: next state and reward are known functions of state, action and a random outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from matrixrl.checks import distributions, fail, flag, function, indices, integer, real_numbers, shaped, shown
from matrixrl.errors import InvalidInput
from matrixrl.problems.action_masks import read_masks
from matrixrl.problems.finite import FiniteMDP, MDPEnv
from matrixrl.problems.partitions import Partitions, partitions
from matrixrl.problems.stages import Stages
from matrixrl.problems.tabulation import Tables, arguments, tabulate
from matrixrl.problems.task import Task, checked_range, read_start
from matrixrl.problems.transitions import cumulative, invert
from matrixrl.records import BoolArray, FloatArray, IntArray
from matrixrl.spaces import Codec, codec_of, read_space
from matrixrl.tolerances import EQUAL_REWARDS

__all__ = ["KnownDynamics", "OutcomeMDP", "OutcomeTables"]

_WHOLE = 2.0**53  # beyond it, floats skip whole numbers
_NUMBERS = 1 << 22  # comparisons that are made together
SAME_REWARD = 1e-6
"""Share of the range of rewards within which an observed reward is that of an outcome."""


@dataclass(frozen=True, eq=False)
class OutcomeTables:
    """Next state and reward of every state, action and outcome, and which pairs share the law of their outcome.

    Attributes:
        outcomes: (W,) Value of each outcome.
        next_states: (A, S, W) Next states.
        rewards: (A, S, W) Rewards, in the environment's unit.
        laws: (A, S) Law of the outcome of each pair, from 0 to K − 1.
        is_censored: Whether nothing is seen of an outcome but next state and reward.
    """

    outcomes: NDArray[Any]
    next_states: IntArray
    rewards: FloatArray
    laws: IntArray
    is_censored: bool = False

    LIKE: ClassVar[dict[str, NDArray[Any]]] = {
        "outcomes": np.empty(0),
        "outcome_states": np.empty((0, 0, 0), dtype=np.int32),
        "outcome_rewards": np.empty((0, 0, 0)),
        "outcome_laws": np.empty((0, 0), dtype=np.int64),
        "outcome_is_censored": np.empty(0, dtype=np.bool_),
    }
    """Names, types and numbers of axes of the arrays of `arrays`."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all tables as named arrays, for saving."""
        tables = self.outcomes.astype(np.float64), self.next_states, self.rewards, self.laws
        return dict(zip(self.LIKE, (*tables, np.array([self.is_censored])), strict=True))

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], n_states: int, n_actions: int, reward_range: tuple[float, float]
    ) -> OutcomeTables:
        """Return what `arrays` of a problem of these sizes returned, or raise `InvalidInput`."""
        outcomes, following, rewards, laws, is_censored = (arrays[name] for name in cls.LIKE)
        low, high = reward_range
        fits = (
            following.shape == rewards.shape == (n_actions, n_states, len(outcomes))
            and laws.shape == (n_actions, n_states)
            and bool(((following >= 0) & (following < n_states)).all())
            and bool(((rewards >= low) & (rewards <= high)).all())
            and bool(((laws >= 0) & (laws < laws.size)).all())
        )
        if not fits or not len(outcomes) or is_censored.shape != (1,):
            raise InvalidInput("the tables of known dynamics must fit the states, actions and rewards")
        return cls(_outcomes(outcomes), following, rewards, laws, bool(is_censored[0]))

    @property
    def n_outcomes(self) -> int:
        """Number of outcomes W."""
        return len(self.outcomes)

    @property
    def n_laws(self) -> int:
        """Number of laws K."""
        return int(self.laws.max()) + 1

    @cached_property
    def partitions(self) -> Partitions:
        """The outcomes that look alike in each pair, where outcomes are censored."""
        return partitions(self.next_states, self.rewards, self.laws)

    @property
    def groups(self) -> IntArray:
        """(A, S) Group of each pair, whose pairs share counts: its law, unless outcomes are censored."""
        return self.partitions.groups if self.is_censored else self.laws

    def shared(self, first: tuple[IntArray, IntArray], second: tuple[IntArray, IntArray]) -> tuple[IntArray, BoolArray]:
        """Return the group whose counts serve both of two pairs (n,) of actions and states, and whether there is one.

        It may be any group where neither pair depends on its outcome.
        """
        groups, matters = (self.groups[first], self.groups[second]), (self.matters[first], self.matters[second])
        serves = (groups[0] == groups[1], groups[0] == groups[1])
        if self.is_censored:
            table = self.partitions.serves
            serves = table[groups], table[groups[1], groups[0]]
        found = np.where(matters[0] & (serves[0] | ~matters[1]), groups[0], groups[1])
        return found, serves[0] | serves[1] | ~matters[0] | ~matters[1]

    @cached_property
    def matters(self) -> BoolArray:
        """(A, S) Whether the next state or the reward of a pair depends on its outcome."""
        differs = (self.next_states != self.next_states[..., :1]) | (self.rewards != self.rewards[..., :1])
        found: BoolArray = differs.any(axis=2)
        return found

    def fits(self, steps: tuple[Any, ...], slack: float) -> BoolArray:
        """Return which outcomes explain steps, given as in `find`: (n, W)."""
        states, actions, rewards, next_states = steps
        close = np.abs(self.rewards[actions, states] - rewards[:, None]) <= slack
        found: BoolArray = close & (self.next_states[actions, states] == next_states[:, None])
        return found

    def find(self, steps: tuple[Any, ...], reported: IntArray, slack: float) -> IntArray:
        """Return the outcomes of steps (n,); −1 if it was not reported and does not matter, −2 if none is found.

        Of censored outcomes it is the smallest one that looks like it, whether it was reported or not.

        Args:
            steps: States, actions, rewards and next states, each (n,).
            reported: (n,) Outcomes that were reported, −1 where none was.
            slack: Largest difference of an observed reward from that of an outcome.
        """
        found, at_once = np.full(len(reported), -1), max(1, _NUMBERS // self.n_outcomes)
        for first in range(0, len(reported), at_once):
            part = slice(first, first + at_once)
            fits, known = self.fits(tuple(array[part] for array in steps), slack), reported[part]
            is_reported = (known >= 0) & fits[np.arange(len(fits)), known]
            is_unique = (known < 0) & (fits.sum(axis=1) == 1)
            is_idle = (known < 0) & fits.all(axis=1) & ~self.matters[steps[1][part], steps[0][part]]
            if self.is_censored:
                cells = self.partitions.cells[self.groups[steps[1][part], steps[0][part]]]
                alike = np.where(fits, cells, -1)
                smallest = np.where(fits, cells, self.n_outcomes).min(axis=1)
                is_unique = (known < 0) & (smallest == alike.max(axis=1))
                known = np.where(is_reported, cells[np.arange(len(cells)), known], known)
                fits = np.arange(self.n_outcomes) == smallest[:, None]
            found[part] = np.where(is_reported, known, np.where(is_unique, fits.argmax(axis=1), -2))
            found[part][is_idle & (~is_unique | self.is_censored)] = -1
        return found

    def number(self, value: Any) -> int:
        """Return the number of an outcome that is reported by its value, or refuse it."""
        given = real_numbers(value)
        places: IntArray = np.flatnonzero(self.outcomes == given) if given.shape == () else np.empty(0)
        if len(places) != 1:
            few = ", ".join(map(str, self.outcomes[:6].tolist())) + ", …" * (self.n_outcomes > 6)
            rule = f"must be one of the {self.n_outcomes} outcomes {few}"
            fail("outcome", rule, shown(value), "List it in outcomes.")
        return int(places[0])


class KnownDynamics(Task):
    r"""A problem whose next state and reward are known functions of state, action and a random outcome.

    \(s' = f(s, a, w)\) and \(r = g(s, a, w)\) are known; the outcome w of a step, such as the demand of a day, is drawn
    from one of K laws, which are not known. Pairs of a state and an action that share a law share their data, and what
    is learned from one pair serves all of them (docs/proofs.md, section 19). The outcome of a step is found from its
    next state and reward where only one outcome leads there; else it must be reported: ``observe(…, outcome=…)``, a
    column `outcome` of a log, or ``info["outcome"]`` of an environment.

    Args:
        step: Function (state, action, outcome) → (next state, reward) or (next state, reward, terminated). It is called
            once for every state, allowed action and outcome, and a few times more to see that it answers the same.
        outcomes: Values of the outcomes, different numbers, or how many there are: 0, 1, ….
        n_states: Number of states S; or `states`, one of the two.
        states: Number of values of each part of a state, ``(26, 7)``, names of the states or of their parts,
            ``{"stock": range(26), "day": ["mon", "tue"]}``, or a finite Gymnasium space. `env` has numbers for names.
        n_actions: Number of actions A; or `actions`, one of the two.
        actions: As `states`.
        horizon: Number of steps H of an episode; None if a discount chooses it, as in `Task`.
        start: First state of an episode, or one probability for each state, as in `Task`; with `law`, 0 by default.
        laws: Number of the law, 0 … K − 1, of the outcome of each pair: an array (S, A), or (S,) if it does not depend
            on the action, or a function (state, action) → number. By default all pairs share one law.
        law: Probabilities of the outcomes (K, W), or a function of the number of a law that returns them (W,), to
            simulate and to measure regret; agents never see them. If they are given, `mdp` and `make_env` are there.
        allowed: (S, A) Whether an action is allowed in a state, or a function of the state, as in `Task`. `step` is not
            called for actions that are not allowed.
        reward_range: Lower and upper bound of the rewards; by default the smallest and the largest of `step`.
        discount: Factor γ of each step, as in `Task`.
        accuracy: Accuracy of a horizon that the discount chooses, as in `Task`.
        vectorized: Whether `step` takes arrays: of n states (or one array for each part of a state), n actions and n
            outcomes, and returns arrays of n entries. A function `laws` is then called in the same way.
        env: Environment that `learn` plays in, if it is not simulated from `law`.
        censored: Whether next state and reward are all that is seen of an outcome, such as a demand that exceeds the
            stock when nobody counts lost sales. Outcomes need not be reported then, and a reported one is used no
            further; without it, outcomes that next state and reward do not tell must be reported.

    Attributes:
        dynamics: The tables of `step`.
        mdp: The `FiniteMDP` of the given `law`, or None.

    Raises:
        InvalidInput: `step` leaves the states, answers differently when it is asked again, or an argument is invalid.

    >>> shop = KnownDynamics(
    ...     lambda stock, order, demand: (max(stock + order - demand, 0), 4.0 * min(demand, stock + order) - 2 * order),
    ...     outcomes=4, n_states=6, n_actions=3, horizon=7, start=0, allowed=lambda stock: range(min(3, 6 - stock)),
    ... )
    >>> shop.dynamics.n_laws, shop.reward_range, shop.transition(2, 1, 3)
    (1, (-4.0, 12.0), (0, 10.0, False))
    """

    states: Codec
    actions: Codec

    def __init__(
        self,
        step: Callable[..., Any],
        *,
        outcomes: int | Sequence[float] | ArrayLike,
        n_states: int | None = None,
        states: Any = None,
        n_actions: int | None = None,
        actions: Any = None,
        horizon: int | None = None,
        start: Any = None,
        laws: Any = None,
        law: Any = None,
        allowed: Any = None,
        reward_range: tuple[float, float] | None = None,
        discount: float = 1.0,
        accuracy: float = 0.01,
        vectorized: bool = False,
        env: gym.Env[Any, Any] | None = None,
        censored: bool = False,
    ) -> None:
        function("step", step, of=3, remedy="Give step(state, action, outcome) -> (next state, reward).")
        flag("vectorized", vectorized)
        flag("censored", censored)
        if env is not None and not isinstance(env, gym.Env):
            fail("env", "must be a Gymnasium environment", type(env).__name__, "Leave it out for ask and tell.")
        if env is not None and law is not None:
            fail("law", "must be left out with env, in which episodes are played", shown(law), "Give one of the two.")
        observation_space, own_states = _space("n_states", n_states, "states", states)
        action_space, own_actions = _space("n_actions", n_actions, "actions", actions)
        self.gym_spaces = observation_space, action_space
        self.env = env
        values = _outcomes(outcomes)
        n, width = own_states.size, own_actions.size
        mask = None
        if allowed is not None:
            mask = read_masks(allowed, n, Stages.one(1, width), states=own_states, actions=own_actions)
        a, s = np.nonzero(np.ones((width, n), dtype=np.bool_) if mask is None else mask.T)
        pairs = a, s
        tables = tabulate(step, pairs, values, own_states, own_actions, vectorized=vectorized)
        of_laws = _laws(laws, pairs, own_states, own_actions, vectorized=vectorized)
        may_terminate = bool(tables.ended.any())
        if start is not None or law is not None:
            start = read_start(own_states.decode(0) if start is None else start, own_states)
        super().__init__(
            None,
            horizon,
            n_states=n,
            n_actions=width,
            reward_range=_range(tables, may_terminate) if reward_range is None else checked_range(reward_range),
            start=start,
            may_terminate=may_terminate,
            allowed=mask,
            discount=discount,
            accuracy=accuracy,
        )
        self.states, self.actions = own_states, own_actions
        low, high = self.reward_range
        outside = (tables.rewards < low) | (tables.rewards > high)
        if outside.any():
            received = f"{tables.rewards[outside][0]:g} in step"
            fail("reward_range", "must contain every reward", received, "Leave it out, or declare a larger range.")
        self.dynamics: OutcomeTables = self._filled(values, pairs, tables, of_laws, is_censored=censored)
        if censored:
            _ = self.dynamics.partitions  # fail now if there are too many
        self.mdp: OutcomeMDP | None = None if law is None else OutcomeMDP(self, _law_table(law, self.dynamics))

    def _filled(
        self, values: NDArray[Any], pairs: Any, tables: Tables, of_laws: IntArray, *, is_censored: bool
    ) -> OutcomeTables:
        """Return the dynamics of all pairs: those that are not allowed, and the end state, stay and earn what is known.

        The reward of a pair that is not allowed is the smallest one, and that of the end state is 0.
        """
        shape = self.n_actions, self.n_states, len(values)
        following = np.broadcast_to(np.arange(self.n_states, dtype=np.int32)[:, None], shape).copy()
        rewards, laws = np.full(shape, self.reward_range[0]), np.zeros(shape[:2], dtype=np.int64)
        following[pairs] = tables.next_states
        rewards[pairs] = _without_rounding(tables.rewards)
        laws[:, : len(of_laws[0])] = of_laws
        if self.end_state is not None:
            following[pairs] = np.where(tables.ended, self.end_state, tables.next_states)
            rewards[:, self.end_state] = 0.0
        return OutcomeTables(values, following, rewards, laws, is_censored)

    def transition(self, state: Any, action: Any, outcome: Any) -> tuple[Any, float, bool]:
        """Return next state, reward and whether the episode terminates, as `step` has them, from the tables.

        The next state after a termination is the state itself.
        """
        s = self.states.encode("state", state, "Give a state of the problem.")
        a = self.actions.encode("action", action, "Give an action of the problem.")
        w = self.dynamics.number(outcome)
        following, reward = int(self.dynamics.next_states[a, s, w]), float(self.dynamics.rewards[a, s, w])
        ended = following == self.end_state
        return self.states.decode(s if ended else following), reward, ended

    def make_env(self) -> gym.Env[Any, Any]:
        """Return a new Gymnasium environment that plays the given `law`; ``info["outcome"]`` has each outcome."""
        if self.mdp is None:
            fail("law", "must be given to simulate", None, "Build KnownDynamics with law=….")
        return MDPEnv(self.mdp)

    def _facts(self) -> dict[str, object]:
        found = {"outcomes": self.dynamics.n_outcomes, "laws": self.dynamics.n_laws}
        facts = super()._facts() | {name: f"{count:,}" for name, count in found.items()}
        low, high = self.reward_range
        if self.dynamics.is_censored:
            facts["outcomes"] = f"{facts['outcomes']}, seen through next state and reward alone"
        return facts | {"rewards": f"{low:g} to {high:g}, known for each outcome"}


class OutcomeMDP(FiniteMDP):
    """The MDP of known dynamics and a given law: episodes draw outcomes, and rewards are those of the outcomes.

    Its `task` is that of an agent that knows the expected rewards and not the dynamics.

    Args:
        known: The problem.
        law: (K, W) Probabilities of the outcomes.
    """

    def __init__(self, known: KnownDynamics, law: FloatArray) -> None:
        dynamics, n, width = known.dynamics, known.n_states, known.n_actions
        chances = law[dynamics.laws]  # (A, S, W)
        row = np.arange(n)[None, :, None] * width + np.arange(width)[:, None, None]
        rows = np.broadcast_to(row, chances.shape).ravel()
        entries = (chances.ravel(), (rows, dynamics.next_states.ravel()))
        table = sparse.csr_array(sparse.coo_array(entries, shape=(n * width, n)))
        super().__init__(
            table,
            np.clip((chances * dynamics.rewards).sum(axis=2).T, *known.reward_range),
            **known.timing,
            reward_range=known.reward_range,
            start=known.start,
            end_state=known.end_state,
            allowed=known.allowed,
        )
        self.task.end_is_added = known.end_is_added  # it is not observed
        self.dynamics, self.law, self._spaces, self._cdf = dynamics, law, known.gym_spaces, cumulative(law)

    @property
    def gym_spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        return self._spaces

    def outcome_value(self, number: int) -> Any:
        return self.dynamics.outcomes[number].item()

    def _draw(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> IntArray:
        shape = np.shape(states)
        laws = self.dynamics.laws[actions, states].ravel()
        return invert(self._cdf, laws, np.ravel(uniforms)).reshape(shape)

    def transition(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> tuple[IntArray, IntArray]:
        outcomes = self._draw(states, actions, uniforms)
        return self.dynamics.next_states[actions, states, outcomes].astype(np.int64), outcomes

    def earn(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> FloatArray:
        """Return the rewards of the outcomes that the same numbers select for the next states."""
        earned: FloatArray = self.dynamics.rewards[actions, states, self._draw(states, actions, uniforms)]
        return earned


def _space(of_count: str, count: Any, argument: str, given: Any) -> tuple[spaces.Space[Any], Codec]:
    """Return the space of states or actions in an environment, and their codec."""
    if (count is None) == (given is None):
        received = "neither" if count is None else "both"
        fail(of_count, f"or {argument} must be given, one of the two", received, f"Give {of_count}=….")
    if isinstance(given, Mapping) or (
        isinstance(given, (tuple, list)) and any(isinstance(one, (str, tuple)) for one in given)
    ):
        codec = read_space(argument, given)
        return spaces.Discrete(codec.size), codec
    if count is not None:
        space: spaces.Space[Any] = spaces.Discrete(integer(of_count, count, low=1, remedy="Give a number."))
    elif isinstance(given, spaces.Space):
        space = given
    else:
        remedy = "Such as (26, 7), a list of names, or a finite Gymnasium space."
        if not isinstance(given, (tuple, list)) or not given:
            fail(argument, "must be the number of values of each part, names, or a space", shown(given), remedy)
        space = spaces.MultiDiscrete([integer(argument, size, low=1, remedy=remedy) for size in given])
    return space, codec_of("observation" if argument == "states" else "action", space)


def _outcomes(given: Any) -> NDArray[Any]:
    """Return the values of the outcomes: (W,)."""
    remedy = "Give their number, or a list of different numbers."
    if not isinstance(given, (list, tuple, range)) and np.ndim(given) == 0:
        return np.arange(integer("outcomes", given, low=1, remedy=remedy))
    values = shaped("outcomes", list(given) if isinstance(given, range) else given, (None,), remedy=remedy)
    if len(np.unique(values)) < len(values):
        fail("outcomes", "must be different", shown(given), remedy)
    is_whole = (values == np.rint(values)) & (np.abs(values) <= _WHOLE)
    return values.astype(np.int64) if is_whole.all() else values


def _laws(given: Any, pairs: Any, states: Codec, actions: Codec, *, vectorized: bool) -> IntArray:
    """Return the number of the law of each pair (A, S); `pairs` are the actions and the states of those allowed.

    The numbers that an array has for pairs that are not allowed say how many laws there are, and nothing else.
    """
    remedy = "Number them 0 … K − 1: an array (S, A) or (S,), or a function (state, action) -> number."
    laws = np.zeros((actions.size, states.size), dtype=np.int64)
    if given is None:
        return laws
    if callable(given):
        called = function("laws", given, of=2, remedy=remedy)
        if vectorized:
            answer = called(*(arguments(codec, part) for codec, part in ((states, pairs[1]), (actions, pairs[0]))))
            found = np.broadcast_to(np.asarray(answer), pairs[0].shape)
        else:
            each = zip(pairs[1].tolist(), pairs[0].tolist(), strict=True)
            found = np.array([called(states.decode(s), actions.decode(a)) for s, a in each])
    else:
        table = _table("laws", given, remedy)
        if table.shape == (states.size,):
            table = np.broadcast_to(table[:, None], (states.size, actions.size))
        if table.shape != (states.size, actions.size):
            fail("laws", f"must have shape {(states.size, actions.size)}", f"shape {table.shape}", remedy)
        found = table[pairs[1], pairs[0]]
        if table.dtype.kind in "iu":
            np.copyto(laws, table.T, where=(table.T >= 0) & (len(found) > table.T))
    laws[pairs] = indices("laws", found, size=len(pairs[0]), remedy=remedy)
    return laws


def _table(name: str, given: Any, remedy: str) -> NDArray[Any]:
    """Return an array of what was given, or refuse rows of different lengths."""
    try:
        return np.asarray(given)
    except ValueError:
        fail(name, "must have rows of equal length", shown(given), remedy)


def _law_table(given: Any, dynamics: OutcomeTables) -> FloatArray:
    """Return the probabilities of the outcomes of each law: (K, W)."""
    n_laws, remedy = dynamics.n_laws, "Give one row of probabilities for each law that laws=… has."
    if callable(given):
        called = function("law", given, of=1, remedy=remedy)
        given = [called(number) for number in range(n_laws)]
    elif n_laws == 1 and _table("law", given, remedy).ndim == 1:
        given = [given]
    return distributions("law", shaped("law", given, (n_laws, dynamics.n_outcomes), remedy=remedy))


def _without_rounding(rewards: FloatArray) -> FloatArray:
    """Return rewards (P, W) with one number for outcomes of a pair whose rewards differ by rounding errors alone."""
    order = np.argsort(rewards, axis=1, kind="stable")
    found = np.take_along_axis(rewards, order, axis=1)
    same = np.diff(found, axis=1, prepend=-np.inf) <= EQUAL_REWARDS * np.abs(rewards).max()
    first = np.maximum.accumulate(np.where(same, 0, np.arange(found.shape[1])), axis=1)
    np.put_along_axis(found, order, np.take_along_axis(found.copy(), first, axis=1), axis=1)
    return found


def _range(tables: Tables, may_terminate: bool) -> tuple[float, float]:
    """Return the smallest and the largest reward; with 0, if episodes can end early."""
    low, high = float(tables.rewards.min()), float(tables.rewards.max())
    if may_terminate:
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high if high > low else low + 1.0
