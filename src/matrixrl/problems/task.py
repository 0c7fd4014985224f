"""The task: everything about a finite episodic problem except its transition law P."""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from matrixrl.checks import (
    choice,
    distributions,
    fail,
    fits_memory,
    flag,
    integer,
    number,
    real_numbers,
    shaped,
    shown,
    shown_element,
    within,
)
from matrixrl.display import Described
from matrixrl.errors import InvalidInput
from matrixrl.features import Features, one_hot
from matrixrl.problems.action_masks import read_masks, refuse_forbidden
from matrixrl.problems.reward_bounds import RewardBounds, overall_range, range_tables
from matrixrl.problems.stages import Stages, read_stages
from matrixrl.problems.structure import Structure, read_structure
from matrixrl.records import BoolArray, FloatArray, IntArray
from matrixrl.spaces import Codec, DiscreteCodec, NamesCodec, PartsCodec, read_space

if TYPE_CHECKING:
    from matrixrl.problems.dynamics import OutcomeTables

__all__ = [
    "EpisodicTask",
    "Kind",
    "Task",
    "checked_range",
    "effective_horizon",
    "read_start",
    "sure_start",
    "total_weight",
    "unless_numbers",
]

_LONGEST = 10**6  # steps of an episode


def checked_discount(value: object) -> float:
    """Return a factor γ with 0 < γ <= 1."""
    discount = number("discount", value, low=0.0, high=1.0, remedy="Give γ with 0 < γ <= 1; 1 discounts nothing.")
    if discount == 0.0:
        fail("discount", "must be above 0", 0.0, "Give a horizon of 1 if only the first reward counts.")
    return discount


def total_weight(discount: float, n_steps: int) -> float:
    """Return Σ γ^h over so many steps.

    >>> total_weight(1.0, 5), total_weight(0.5, 2)
    (5.0, 1.5)
    """
    if discount == 1.0:
        return float(n_steps)
    return -math.expm1(n_steps * math.log(discount)) / (1.0 - discount)


def effective_horizon(discount: float, accuracy: float = 0.01) -> int:
    """Return the smallest number of steps after which all later rewards weigh less than an accuracy.

    The rewards after H steps weigh γ^H/(1 − γ), which is a share γ^H of all; the result is the smallest H for which
    this share is at most `accuracy`. The value of a policy over H steps is then within `accuracy` times the largest
    possible value of its value over infinitely many steps, if rewards are at least 0.

    Args:
        discount: Factor γ with 0 < γ < 1.
        accuracy: Share of the largest possible value that may be cut off, strictly between 0 and 1.

    >>> effective_horizon(0.9, 0.01)
    44
    """
    gamma = checked_discount(discount)
    if gamma == 1.0:
        fail("discount", "must be below 1 to determine the number of steps", 1.0, "Give horizon=….")
    share = number("accuracy", accuracy, low=0.0, high=1.0, open_ends=True, remedy="Such as 0.01.")
    steps = math.ceil(math.log(share) / math.log(gamma))
    if steps > _LONGEST:
        fail("discount", f"must not need more than {_LONGEST:,} steps for the accuracy", gamma, "Give horizon=….")
    return max(steps, 1)


_LARGEST_PLAN = 10**9


Kind = Literal["finite", "functional", "continuous"]
"""States are numbered, or given as functions of a few of them, or vectors of a Gymnasium environment."""


class EpisodicTask:
    """What tasks of all kinds have; the values here are those of tasks whose states are not numbered.

    Attributes:
        kind: Kind of the states.
        allowed: (S, A) Allowed actions; None if every action is allowed in every state.
        discount: Factor γ of each step.
        start_is_declared: Whether the first state, or the distribution of first states, is declared.
        state_shape: Shape of one state: () for a number, (p,) for a vector.
        dimensions: Number of features d and d_psi that a task of functions has; zeros for other kinds.
        dynamics: Next states and rewards as known functions of an outcome; None if they are not known.
        structure: What is declared of the unknown transition probabilities; None if nothing is.
        reward_bounds: Ranges of the rewards of single pairs; None if one range is declared for all.
    """

    kind: ClassVar[Kind]
    horizon: int
    n_actions: int
    reward_range: tuple[float, float] | None
    allowed: BoolArray | None = None
    discount: float = 1.0
    dynamics: OutcomeTables | None = None
    structure: Structure | None = None
    reward_bounds: RewardBounds | None = None
    start_is_declared: bool = False
    state_shape: tuple[int, ...] = ()
    dimensions: tuple[int, int] = (0, 0)

    @cached_property
    def stages(self) -> Stages:
        """Classes of stages that share their laws, and the numbers of their actions."""
        return Stages.one(self.horizon, self.n_actions)

    @property
    def n_own_actions(self) -> int:
        """Number of actions A that a user chooses from."""
        return self.stages.n_own

    @property
    def is_staged(self) -> bool:
        """Whether laws depend on the stage."""
        return self.stages.n_classes > 1

    @property
    def choices(self) -> IntArray:
        """First action of each stage, and the one after its last: (H, 2)."""
        return self.stages.choices

    @property
    def unit(self) -> float:
        """Size of one unit of unit reward in the environment's unit: high - low."""
        low, high = self.reward_range or (0.0, 1.0)
        return high - low

    @property
    def total_weight(self) -> float:
        """Sum Σ γ^h of the weights of the steps of an episode: H without a discount."""
        return float(self.horizon)

    @property
    def tail(self) -> float:
        """Weight of the steps of an endless episode that are cut off; 0 if it ends after H steps."""
        return 0.0

    def returns(self, rewards: FloatArray, first: int = 0) -> FloatArray:
        """Return Σ γ^h r_h of rewards (…, k) of the stages from `first` on: (…)."""
        if self.discount == 1.0:
            return np.asarray(rewards.sum(axis=-1))
        weights = self.discount ** np.arange(first, first + rewards.shape[-1])
        return np.asarray(rewards @ weights)


class Task(EpisodicTask, Described):
    """A finite episodic problem without its transition probabilities P: the information that an agent has.

    Args:
        reward: (S, A) Expected rewards, in the environment's unit, or (H, S, A) if they depend on the stage; None if
            they are not known and are learned.
        horizon: Number of steps H of an episode.
        n_states: Number of states S; needed if `reward` is None.
        n_actions: Number of actions A; needed if `reward` is None.
        states: Names of the states, in place of their numbers 0 … S − 1: a sequence of different texts, numbers or
            tuples; a range; or a dictionary of named parts, such as ``{"stock": range(26), "day": ["mon", "tue"]}``,
            whose states are tuples (stock, day), the last part counting fastest. Agents, logs, policies and messages
            then have these names; tables keep one row for each state, in this order.
        actions: Names of the actions, likewise.
        reward_range: Lower and upper bound (low, high) of the rewards. The algorithms use the unit reward
            (r - low) / (high - low) in [0, 1]. Either may be a table (S, A), or (H, S, A): if rewards are a known table
            plus a part in [0, 0.1] that is to be learned, give ``(known, known + 0.1)`` and no `reward`.
        start: First state of an episode, by its name if states have names, or the distribution (S,) of first states;
            stored as a distribution. If it is left out, the distribution of first states is not known, and certificates
            estimate it from the episodes.
        end_state: Absorbing state that represents the end of an episode, by its name if states have names, or None if
            there is none among the S states.
        may_terminate: Whether episodes may end early although none of the S states represents the end. An end state
            with the number S is then added; it is never observed, and features may leave it out.
        features: Features φ and ψ; one-hot by default. If the last state is the end state, they may leave it out.
        allowed: (S, A) Whether an action is allowed in a state, or a function of the state that returns its allowed
            actions (their numbers or names, or A booleans); all actions by default. The reward of an action that is not
            allowed is not used and may be NaN; it is stored as the smallest reward. Nothing is chosen in the end state,
            where all actions count as allowed. A table (H, S, A) depends on the stage.
        stage_dependent: Whether laws and rewards differ between stages, so that data are not shared: True for all
            stages, or the class of each stage, such as the days of a week: stages of one class share. By default it is
            True if rewards have an axis of stages.
        discount: Factor γ of each step: an episode is worth Σ γ^h r_h. Without a horizon, the problem goes on forever:
            an episode is cut after the number of steps that `accuracy` asks for, and V* is that of infinitely many.
        accuracy: Share of the largest possible value that may be cut off at the end of an episode, if the horizon is
            chosen by the discount.
        deterministic: Declare that the next state and the reward of each pair are always the same. Agents with
            likelihood sets rely on it; a second outcome raises the alarm and withdraws every guarantee.
        successors: Declare the possible next states: lists ``successors[s][a]``, or a mask (S, A, S) of booleans. A
            next state outside raises the alarm, likewise. If no pair leads to an end state that the library added,
            every pair may.

    Attributes:
        states: Names of the states that can be observed; None if they are numbered from 0.
        actions: Names of the actions; None if they are numbered from 0.
        reward: (S, A) Expected rewards; a placeholder that nothing depends on if `knows_reward` is False.
        n_actions: Number of actions A; of inner actions if laws depend on the stage.
        knows_reward: Whether rewards were given.
        start_is_declared: Whether a start was given; if not, `start` is a placeholder.
        end_is_added: Whether the end state is one that the library added.
        allowed: (S, A) Allowed actions; None if every action is allowed in every state.
        stages: Classes of stages that share their laws. Tables have one column for each inner action, as
            `problems.stages` describes.
        unused: (S, A) Pairs whose reward and law are not used, those that are not allowed; None if all are used.
        discount: Factor γ of each step.
        is_endless: Whether the horizon was chosen by the discount, so that values are those of infinitely many steps.

    Raises:
        InvalidInput: A reward is not finite or outside its range, a state allows no action, or another argument is
            invalid.

    >>> task = Task(reward=[[0.0, 1.0], [0.5, 0.0]], horizon=3)
    >>> task.n_states, task.n_actions, task.unit_reward.shape
    (2, 2, (2, 2))
    >>> Task(n_states=10, n_actions=3, horizon=20).knows_reward
    False
    >>> Task(states=["low", "mid", "high"], actions=["wait", "order"], horizon=10, start="mid")
    <Task: 3 states, 2 actions, 10 steps>
    """

    kind = "finite"

    def __init__(
        self,
        reward: ArrayLike | None = None,
        horizon: int | None = None,
        *,
        n_states: int | None = None,
        n_actions: int | None = None,
        states: Any = None,
        actions: Any = None,
        reward_range: tuple[ArrayLike, ArrayLike] = (0.0, 1.0),
        start: Any = None,
        end_state: Any = None,
        may_terminate: bool = False,
        features: Features | None = None,
        allowed: Any = None,
        stage_dependent: Any = None,
        discount: float = 1.0,
        accuracy: float = 0.01,
        deterministic: bool = False,
        successors: Any = None,
    ) -> None:
        ranges = range_tables(reward_range)
        self.reward_range: tuple[float, float] = checked_range(
            reward_range if ranges is None else overall_range(ranges)
        )
        low, high = self.reward_range
        self.knows_reward = reward is not None
        named = {"states": states, "actions": actions}
        codecs = {name: read_space(name, given) for name, given in named.items() if given is not None}
        self.states, self.actions = (unless_numbers(codecs.get(name)) for name in named)
        if reward is None:
            sizes = {"states": n_states, "actions": n_actions} | {name: codec.size for name, codec in codecs.items()}
            reward = _placeholders(sizes["states"], sizes["actions"], min(max(0.0, low), high))
        self.discount = checked_discount(discount)
        self.is_endless = horizon is None and self.discount < 1.0
        self.horizon = chosen_horizon(horizon, self.discount, accuracy)
        given = real_numbers(reward)
        if given.ndim not in (2, 3):
            given = _rewards_within("reward", reward, low, high)
        by_stage = given.ndim == 3 or (ranges is not None and 3 in (ranges[0].ndim, ranges[1].ndim))
        if by_stage and stage_dependent is None:
            stage_dependent = True
        _check_counts(given.shape[-2:], n_states, n_actions)
        _check_names(given.shape[-2:], codecs)
        numbers = self.states or DiscreteCodec(given.shape[-2])
        self.stages = stages = read_stages(stage_dependent, self.horizon, given.shape[-1])
        self._check_end_of_stages()
        tables = stages.by_class("reward", [reward] if given.ndim == 2 else list(given), "(S, A)")
        if end_state is not None:
            end_state = numbers.encode("end_state", end_state, "Give a state.")
        self.unused: BoolArray | None = None
        self.allowed: BoolArray | None = None
        if allowed is not None:
            table = self._masks(allowed, given.shape[-2], stages, end_state)
            self.unused = None if table.all() else ~table
            self.allowed = _without_end(table, end_state)
        parts = []
        for (name, block), one in zip(stages.named_blocks("reward"), tables, strict=True):
            if self.unused is not None and real_numbers(one).size:
                one = np.where(self.unused[:, block], low, real_numbers(one))
                if end_state is not None:
                    one[end_state, self.unused[end_state, block]] = 0.0
            parts.append(_rewards_within(name, one, low, high))
        self.reward = np.concatenate(parts, axis=1)
        self.n_actions = stages.n_inner
        self.reward_bounds = None
        if ranges is not None:
            self.reward_bounds = RewardBounds.read(ranges, stages, len(self.reward), self.unused, end_state)
            if self.knows_reward:
                self.reward_bounds.check(self.reward, self.unused)
        self.start_is_declared = start is not None
        self.start = sure_start(0, self.n_states) if start is None else read_start(start, numbers)
        self.end_state = None
        self.end_is_added = flag("may_terminate", may_terminate)
        if self.end_is_added:
            if end_state is not None:
                fail("end_state", "must be left out if the end state is added", end_state, "Pass one of the two.")
            end_state = self.n_states
            self.reward = np.vstack([self.reward, np.zeros((1, self.n_actions))])
            self.reward_bounds = None if self.reward_bounds is None else self.reward_bounds.with_end()
            if self.allowed is not None:
                self.allowed = np.vstack([self.allowed, np.ones((1, self.n_actions), dtype=np.bool_)])
            self.start = np.append(self.start, 0.0)
        if end_state is not None:
            self.end_state = end_state
            if self.reward_bounds is not None:  # the end state has a range of its own, 0
                low, high = self.reward_range = min(low, 0.0), max(high, 0.0)
            if not low <= 0.0 <= high:
                rule = "must contain 0 if episodes can end early (the reward of the end state is 0)"
                fail("reward_range", rule, self.reward_range, "Declare a range that contains 0.")
            paid = self.reward[self.end_state]
            if paid.any():
                fail("end_state", "must earn 0 for every action", paid.tolist(), "Set its rewards to 0.")
        if self.horizon * self.n_states > _LARGEST_PLAN:
            rule = f"times the number of states must not exceed {_LARGEST_PLAN:g} (a plan stores a value for each)"
            fail("horizon", rule, f"{self.horizon} × {self.n_states}", "Shorten the episode.")
        if not isinstance(features, (Features, type(None))):
            fail("features", "must be matrixrl.Features", type(features).__name__, "Wrap phi and psi in Features.")
        self.features = self.covering(one_hot(self.n_states, self.n_actions) if features is None else features)
        self.structure = read_structure(deterministic, successors, self)

    def _masks(self, allowed: Any, n_states: int, stages: Stages, end_state: int | None) -> BoolArray:
        """Return allowed actions as `read_masks` does, by the names of states and actions."""
        return read_masks(allowed, n_states, stages, end_state=end_state, states=self.states, actions=self.actions)

    @property
    def n_states(self) -> int:
        """Number of states S, including the end state."""
        return int(self.reward.shape[0])

    @property
    def total_weight(self) -> float:
        """Sum Σ γ^h of the weights of the steps of an episode: H without a discount, 1/(1 − γ) if it is endless."""
        return 1.0 / (1.0 - self.discount) if self.is_endless else total_weight(self.discount, self.horizon)

    @property
    def tail(self) -> float:
        """Weight of the steps of an endless episode that are cut off, γ^H/(1 − γ); 0 if it ends after H steps."""
        return self.discount**self.horizon / (1.0 - self.discount) if self.is_endless else 0.0

    def _check_end_of_stages(self) -> None:
        """Refuse laws that depend on the stage and go on forever: those of later stages are not known."""
        if self.is_endless and self.stages.n_classes > 1:
            rule = "must be left out of a problem that goes on forever"
            received = f"{self.stages.n_classes} classes of {self.horizon} stages"
            fail("stage_dependent", rule, received, "Give horizon=…, the number of stages.")

    def covering(self, features: Features) -> Features:
        """Return features of all states and inner actions, from those that may leave out the end state and classes."""
        spread = Features(self.stages.phi(features.phi), features.psi)
        return spread.cover(self.n_states, self.n_actions, self.end_state, self.end_words)

    @property
    def n_observed(self) -> int:
        """Number of states that can be observed: all but an end state that the library added."""
        return self.n_states - self.end_is_added

    @property
    def sizes_in_words(self) -> str:
        """Sizes, how laws depend on the stage, and how rewards are discounted."""
        end = " and the end state" * self.end_is_added
        words = f"{self.n_observed:,} states{end}, {self.n_own_actions:,} actions, {self.horizon:,} steps"
        count = self.stages.n_classes
        if count > 1:
            each = "at every stage" if count == self.horizon else f"in {count} classes of stages"
            words += f", laws of their own {each}"
        if self.discount < 1.0:
            words += f", discount {self.discount:g}"
        if self.is_endless:
            words += f" forever: the steps that are cut off weigh {self.discount**self.horizon:.2g} of all"
        return words

    def _words(self) -> str:
        return f"{type(self).__name__}: {self.sizes_in_words}"

    def _facts(self) -> dict[str, object]:
        low, high = self.reward_range
        starts = np.flatnonzero(self.start)
        first: object = self.shown_state(starts[0]) if len(starts) == 1 else f"one of {len(starts):,}, at random"
        each = "" if self.reward_bounds is None else ", with a range for each pair"
        facts: dict[str, object] = {
            "rewards": f"{low:g} to {high:g}{each}" + ("" if self.knows_reward else ", to be learned"),
            "first state": first if self.start_is_declared else "not declared",
        }
        if self.end_state is not None:
            facts["end state"] = self.shown_state(self.end_state)
        if self.allowed is not None:
            facts["allowed pairs"] = f"{self.n_pairs:,} of {self.allowed.size:,}"
        if self.structure is not None:
            facts["declared"] = self.structure.words
        return facts | {"features": self.features}

    def shown_state(self, state: Any) -> str:
        """Return a state as users have it, for messages; an end state that is not observed has its number only."""
        number = int(state)
        is_named = self.states is not None and number < self.states.size
        return shown_element(self.states.decode(number) if is_named else number)  # type: ignore[union-attr]

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

    def restricted(self, allowed: Any) -> Task:
        """Return the task with the allowed actions that are given, as `read_masks` reads them, or "all".

        None changes nothing, and a task with allowed actions of its own may not get others.
        """
        if allowed is None:
            return self
        if isinstance(allowed, str):
            choice("allowed", allowed, ["all"])
            table = None
        else:
            given = self._masks(allowed, self.n_states, self.stages, self.end_state)
            table = _without_end(given, self.end_state)
        if self.allowed is None and table is not None:
            changed = copy.copy(self)
            changed.allowed, changed.reward = table, np.where(table, self.reward, self.reward_range[0])
            return changed
        if self.allowed is not None and (table is None or not np.array_equal(table, self.allowed)):
            count = self.allowed.size if table is None else int(table.sum())
            rule = "cannot be changed on a problem that has its own"
            fail("allowed", rule, f"{count} pairs in place of {self.n_pairs}", "Build it with that value.")
        return self

    def declared(self, deterministic: Any, successors: Any) -> Task:
        """Return the task with the structure that is declared, as `Task` reads it; None changes nothing."""
        if deterministic is None and successors is None:
            return self
        if self.structure is not None:
            received = "deterministic" if successors is None else "successors"
            fail(received, "cannot be declared on a problem that declares its own", received, "Declare it once.")
        changed = copy.copy(self)
        changed.structure = read_structure(bool(deterministic), successors, self)
        return changed

    def staged(self, stage_dependent: Any) -> Task:
        """Return the task for agents that do not share data between classes of stages; None changes nothing.

        A task with classes of its own may not get others.
        """
        if stage_dependent is None:
            return self
        if self.dynamics is not None:
            rule = "must be left out for known dynamics, whose laws say what is shared"
            fail("stage_dependent", rule, shown(stage_dependent), "Make the stage a part of the state, and use laws=….")
        stages = read_stages(stage_dependent, self.horizon, self.n_own_actions)
        if self.stages.n_classes > 1 and not self.stages.same(stages):
            rule = "cannot be changed on a problem that has its own"
            fail("stage_dependent", rule, shown(stage_dependent), "Build it with that value.")
        if stages.n_classes == self.stages.n_classes:
            return self
        changed = copy.copy(self)
        changed.stages, changed.n_actions, changed.unused = stages, stages.n_inner, None
        changed._check_end_of_stages()
        changed.reward = np.tile(self.reward, (1, stages.n_classes))
        changed.allowed = None if self.allowed is None else np.tile(self.allowed, (1, stages.n_classes))
        if self.reward_bounds is not None:
            changed.reward_bounds = self.reward_bounds.repeated(stages.n_classes)
        changed.features = changed.covering(self.features)
        if self.structure is not None:
            changed.structure = self.structure.repeated(stages.n_classes, self.reward.size * self.n_states)
        return changed

    def check_actions(self, name: str, states: IntArray, actions: IntArray, stage: int | None = None) -> None:
        """Refuse actions that are not allowed in their states; inner ones, or those that users take at a stage."""
        if self.allowed is None:
            return
        if stage is None:
            refuse_forbidden(name, self.allowed, states, actions)
        else:
            allowed = self.allowed[:, self.stages.block(stage)]
            refuse_forbidden(name, allowed, states, actions, when=self.stages.when(stage))

    @property
    def unit_reward(self) -> FloatArray:
        """Expected rewards (S, A) mapped to [0, 1]."""
        mapped: FloatArray = (self.reward - self.reward_range[0]) / self.unit
        return mapped

    @property
    def mean_parts(self) -> FloatArray:
        """Means of what agents learn of rewards that they do not know, (S, A): unit rewards, or the parts of them."""
        if self.reward_bounds is None:
            return self.unit_reward
        return self.reward_bounds.parts(self.reward, *np.indices(self.reward.shape))

    @property
    def unit_reward_bounds(self) -> RewardBounds | None:
        """Ranges of the rewards of single pairs, mapped to [0, 1]; None if one range is declared for all."""
        return None if self.reward_bounds is None else self.reward_bounds.in_unit(self.reward_range[0], self.unit)

    @property
    def steps_weight(self) -> float:
        """Sum Σ γ^h of the weights of the H steps that are played."""
        return total_weight(self.discount, self.horizon)

    @property
    def timing(self) -> dict[str, Any]:
        """The options of `Task` and `from_gymnasium` that give other data the same stages and discount."""
        options: dict[str, Any] = {"horizon": None if self.is_endless else self.horizon}
        if self.stages.n_classes > 1:
            options["stage_dependent"] = self.stages.classes.tolist()
        if self.discount < 1.0:
            options["discount"] = self.discount
        if self.is_endless:
            options["accuracy"] = self.discount ** (self.horizon - 0.5)  # the middle of those with this horizon
        return options

    def to_own_unit(self, values: FloatArray) -> FloatArray:
        """Convert values of whole episodes from unit reward to the environment's unit; any shape."""
        own: FloatArray = values * self.unit + self.total_weight * self.reward_range[0]
        return own


def chosen_horizon(horizon: Any, discount: float, accuracy: Any) -> int:
    """Return the number of steps of an episode: as given, or as a discount and an accuracy ask for."""
    share = number("accuracy", accuracy, low=0.0, high=1.0, open_ends=True, remedy="Such as 0.01.")
    if horizon is None and discount < 1.0:
        return effective_horizon(discount, share)
    return integer("horizon", horizon, low=1, remedy="Give the number of steps in an episode, or a discount below 1.")


def _rewards_within(name: str, reward: Any, low: float, high: float) -> FloatArray:
    """Return rewards (S, A) as an array of finite numbers of their range."""
    replace = "Remove or replace those entries, or pass allowed=… if those actions are not allowed."
    table = shaped(name, reward, (None, None), remedy="Give reward[s, a], shape (S, A).", if_not_finite=replace)
    return within(name, table, low, high, remedy="Declare reward_range=(low, high) to cover them.")


def checked_range(value: object, name: str = "reward_range") -> tuple[float, float]:
    """Return a range as two floats low < high, or raise `InvalidInput`."""
    remedy = f"Give {name}=(low, high) with low < high."
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        fail(name, "must be a pair of numbers", shown(value), remedy)
    low = number(f"{name} low", value[0], remedy=remedy)
    high = number(f"{name} high", value[1], remedy=remedy)
    if not low < high or high - low > 1e300:
        fail(name, "must have low < high, not farther apart than 1e300", (low, high), remedy)
    return low, high


def _without_end(table: BoolArray, end_state: int | None) -> BoolArray | None:
    """Return the allowed actions (S, A), all of them in the end state; None if every pair is allowed."""
    if end_state is not None:
        table[end_state] = True
    return None if table.all() else table


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


def unless_numbers(codec: Codec | None) -> Codec | None:
    """Return the codec of names; None if they are the numbers from 0 on."""
    return None if isinstance(codec, DiscreteCodec) and codec.first == 0 else codec


def _check_names(shape: tuple[int, ...], codecs: dict[str, Codec]) -> None:
    """Refuse names that are not as many as the states and actions of the rewards."""
    for own, name in zip(shape, ("states", "actions"), strict=True):
        if name in codecs and codecs[name].size != own:
            remedy = "Give one for each, in the order of the tables."
            fail(name, f"must be {own}, as reward has shape {shape}", str(codecs[name].size), remedy)


def _check_counts(shape: tuple[int, ...], n_states: Any, n_actions: Any) -> None:
    """Refuse numbers of states and actions that are not those of the rewards."""
    for name, count, own in (("n_states", n_states, shape[0]), ("n_actions", n_actions, shape[1])):
        if count is not None and integer(name, count, low=1, remedy="Leave it out.") != own:
            fail(name, f"must be {own}, as reward has shape {shape}", count, "Leave it out.")


def read_start(start: Any, states: Codec) -> FloatArray:
    """Return the distribution of first states (S,) of a state, as it is observed, or of S probabilities."""
    remedy, shape = "Give a state or one probability for each state.", (states.size,)
    is_list = isinstance(start, (list, tuple)) or np.ndim(start) > 0
    is_law = is_list and (isinstance(states, DiscreteCodec) or (real_numbers(start).shape == shape and states.size > 1))
    if is_law and not (isinstance(start, tuple) and _is_named(states, start)):
        return distributions("start", shaped("start", start, shape, remedy=remedy))
    return sure_start(states.encode("start", start, remedy), states.size)


def _is_named(states: Codec, value: tuple[Any, ...]) -> bool:
    """Return whether a tuple of numbers is the name of a state."""
    if not isinstance(states, (NamesCodec, PartsCodec)):
        return False
    try:
        states.encode("start", value, "")
    except InvalidInput:
        return False
    return True


def sure_start(state: int, n_states: int) -> FloatArray:
    """Return the distribution (S,) of a first state that is always the same."""
    start = np.zeros(n_states)
    start[state] = 1.0
    return start
