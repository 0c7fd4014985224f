"""The task: everything about a finite episodic problem except its transition law P."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from matrixrl.checks import distributions, fail, fits_memory, flag, index, integer, number, shaped, shown, within
from matrixrl.features import Features, one_hot
from matrixrl.problems.masks import allowed_like, filled_rewards, refuse_forbidden
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["Task", "checked_range"]

_LARGEST_PLAN = 10**9


class Task:
    """A finite episodic problem without its transition law P: the information that an agent has.

    Args:
        reward: (S, A) Expected rewards, in the environment's unit; None if they are not known and are learned.
        horizon: Number of steps H of an episode.
        n_states: Number of states S; needed if `reward` is None.
        n_actions: Number of actions A; needed if `reward` is None.
        reward_range: Lower and upper bound (low, high) of the rewards. The algorithms use the unit reward
            (r - low) / (high - low) in [0, 1].
        start: First state of an episode, or the distribution (S,) of first states; stored as a distribution.
        end_state: Absorbing state that represents the end of an episode, or None if there is none among the S states.
        may_terminate: Whether episodes may end early although none of the S states represents the end. An end state
            with the number S is then added; it is never observed, and features may leave it out.
        features: Features φ and ψ; one-hot by default. If the last state is the end state, they may leave it out.
        allowed: (S, A) Whether an action is allowed in a state, or a function of the state that returns its allowed
            actions (their numbers, or A booleans); all actions by default. The reward of an action that is not allowed
            is not used and may be NaN; it is stored as the smallest reward. Nothing is chosen in the end state, where
            all actions count as allowed.

    Attributes:
        reward: (S, A) Expected rewards; a placeholder that nothing depends on if `knows_reward` is False.
        knows_reward: Whether rewards were given.
        end_is_added: Whether the end state is one that the library added.
        allowed: (S, A) Allowed actions; None if every action is allowed in every state.

    Raises:
        InvalidInput: A reward is not finite or outside its range, a state allows no action, or another argument is
            invalid.

    >>> task = Task(reward=[[0.0, 1.0], [0.5, 0.0]], horizon=3)
    >>> task.n_states, task.n_actions, task.unit_reward.shape
    (2, 2, (2, 2))
    >>> Task(n_states=10, n_actions=3, horizon=20).knows_reward
    False
    """

    def __init__(
        self,
        reward: ArrayLike | None = None,
        horizon: int | None = None,
        *,
        n_states: int | None = None,
        n_actions: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        start: ArrayLike = 0,
        end_state: int | None = None,
        may_terminate: bool = False,
        features: Features | None = None,
        allowed: Any = None,
    ) -> None:
        self.reward_range = low, high = checked_range(reward_range)
        self.knows_reward = reward is not None
        if reward is None:
            reward = _placeholders(n_states, n_actions, min(max(0.0, low), high))
        self.allowed: BoolArray | None = None
        if allowed is not None:
            table = allowed_like(reward, allowed, end_state)
            reward = filled_rewards(reward, table, low, end_state)
            if end_state is not None:
                table[end_state] = True
            self.allowed = None if table.all() else table
        self.reward = shaped(
            "reward",
            reward,
            (None, None),
            remedy="Give reward[s, a], shape (S, A).",
            if_not_finite="Remove or replace those entries, or pass allowed=… if those actions are not allowed.",
        )
        _check_counts(self.reward.shape, n_states, n_actions)
        self.horizon = integer("horizon", horizon, low=1, remedy="Give the number of steps in an episode.")
        within("reward", self.reward, low, high, remedy="Declare reward_range=(low, high) to cover them.")
        self.start = _checked_start(start, self.n_states)
        self.end_state = None
        self.end_is_added = flag("may_terminate", may_terminate)
        if self.end_is_added:
            if end_state is not None:
                fail("end_state", "must be left out if the end state is added", end_state, "Pass one of the two.")
            end_state = self.n_states
            self.reward = np.vstack([self.reward, np.zeros((1, self.n_actions))])
            if self.allowed is not None:
                self.allowed = np.vstack([self.allowed, np.ones((1, self.n_actions), dtype=np.bool_)])
            self.start = np.append(self.start, 0.0)
        if end_state is not None:
            self.end_state = index("end_state", end_state, size=self.n_states, remedy="Give a state.")
            if not low <= 0.0 <= high:
                fail(
                    "reward_range",
                    "must contain 0 if episodes can end early (the reward of the end state is 0)",
                    self.reward_range,
                    "Declare a range that contains 0.",
                )
            if (self.reward[self.end_state] != 0.0).any():
                fail(
                    "end_state",
                    "must earn 0 for every action",
                    f"{self.reward[self.end_state].tolist()}",
                    "Set the rewards of the end state to 0.",
                )
        if self.horizon * self.n_states > _LARGEST_PLAN:
            fail(
                "horizon",
                f"times the number of states must not exceed {_LARGEST_PLAN:g} (a plan stores a value for each)",
                f"{self.horizon} × {self.n_states}",
                "Shorten the episode.",
            )
        if not isinstance(features, (Features, type(None))):
            fail("features", "must be matrixrl.Features", type(features).__name__, "Wrap phi and psi in Features.")
        given = one_hot(self.n_states, self.n_actions) if features is None else features
        self.features = given.cover(self.n_states, self.n_actions, self.end_state, self.end_words)

    @property
    def n_states(self) -> int:
        """Number of states S, including the end state."""
        return int(self.reward.shape[0])

    @property
    def n_actions(self) -> int:
        """Number of actions A."""
        return int(self.reward.shape[1])

    @property
    def n_observed(self) -> int:
        """Number of states that can be observed: all but an end state that the library added."""
        return self.n_states - self.end_is_added

    @property
    def end_words(self) -> str | None:
        """The end state in words, for messages; None if features cannot leave it out, as it is not the last state."""
        if self.end_state is None or self.end_state != self.n_states - 1:
            return None
        added = ", which the library added" if self.end_is_added else ""
        return f"the end state, number {self.end_state}{added}: episodes that terminate go there, and earn 0"

    @property
    def n_pairs(self) -> int:
        """Number of allowed pairs of a state and an action, those of the end state included."""
        return self.n_states * self.n_actions if self.allowed is None else int(np.count_nonzero(self.allowed))

    def restricted(self, allowed: BoolArray) -> Task:
        """Return the same task with some allowed actions, a table (S, A), for a task that allows all actions."""
        task = Task(
            self.reward if self.knows_reward else None,
            self.horizon,
            n_states=self.n_states,
            n_actions=self.n_actions,
            reward_range=self.reward_range,
            start=self.start,
            end_state=self.end_state,
            features=self.features,
            allowed=allowed,
        )
        task.end_is_added = self.end_is_added
        return task

    def check_actions(self, name: str, states: IntArray, actions: IntArray) -> None:
        """Refuse actions that are not allowed in their states; arrays of equal shape.

        Args:
            name: Name of the actions in the message.
            states: States.
            actions: Actions.
        """
        if self.allowed is not None:
            refuse_forbidden(name, self.allowed, states, actions)

    @property
    def unit(self) -> float:
        """Size of one unit of unit reward in the environment's unit: high - low."""
        return self.reward_range[1] - self.reward_range[0]

    @property
    def unit_reward(self) -> FloatArray:
        """Expected rewards (S, A) mapped to [0, 1]."""
        mapped: FloatArray = (self.reward - self.reward_range[0]) / self.unit
        return mapped

    def to_own_unit(self, values: FloatArray) -> FloatArray:
        """Convert values of whole episodes of H steps from unit reward to the environment's unit; any shape."""
        own: FloatArray = values * self.unit + self.horizon * self.reward_range[0]
        return own


def checked_range(value: object) -> tuple[float, float]:
    """Return `reward_range` as two floats low < high, or raise `InvalidInput`."""
    remedy = "Give reward_range=(low, high) with low < high."
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        fail("reward_range", "must be a pair of numbers", shown(value), remedy)
    low = number("reward_range low", value[0], remedy=remedy)
    high = number("reward_range high", value[1], remedy=remedy)
    if not low < high or high - low > 1e300:
        fail("reward_range", "must have low < high, not farther apart than 1e300", (low, high), remedy)
    return low, high


def _placeholders(n_states: Any, n_actions: Any, value: float) -> FloatArray:
    """Return a table (S, A) in place of rewards that are not known."""
    remedy = "Give reward[s, a], shape (S, A)."
    if n_states is None or n_actions is None:
        fail("reward", "must be given, or n_states and n_actions if rewards are learned", None, remedy)
    shape = (
        integer("n_states", n_states, low=1, remedy="Give the number of states."),
        integer("n_actions", n_actions, low=1, remedy="Give the number of actions."),
    )
    words = f"{shape[0]:,} states and {shape[1]:,} actions"
    fits_memory("n_states", float(shape[0]) * float(shape[1]), words, remedy="Use a FunctionalTask.")
    return np.full(shape, value)


def _check_counts(shape: tuple[int, ...], n_states: Any, n_actions: Any) -> None:
    """Refuse numbers of states and actions that are not those of the rewards."""
    for name, count, own in (("n_states", n_states, shape[0]), ("n_actions", n_actions, shape[1])):
        if count is not None and integer(name, count, low=1, remedy="Leave it out.") != own:
            fail(name, f"must be {own}, as reward has shape {shape}", count, "Leave it out.")


def _checked_start(start: Any, n_states: int) -> FloatArray:
    """Return the distribution (S,) of the first state."""
    if isinstance(start, (int, np.integer)) or (isinstance(start, np.ndarray) and start.ndim == 0):
        chosen = index("start", start, size=n_states, remedy="Give a state or a distribution.")
        start = np.zeros(n_states)
        start[chosen] = 1.0
    given = shaped("start", start, (n_states,), remedy="Give a state or one probability for each state.")
    return distributions("start", given)
