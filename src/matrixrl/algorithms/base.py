"""The one base of MatrixRL, the continuous algorithms and every baseline, batched over replicas."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.claims import Claims
from matrixrl.algorithms.plug_ins import is_plug_in, refuse_forgotten
from matrixrl.archive import check_arrays
from matrixrl.checks import fail
from matrixrl.core.policy_bounds import PolicyIntervals
from matrixrl.core.start import Start
from matrixrl.errors import InvalidInput, ProtocolError
from matrixrl.interrupts import uninterrupted
from matrixrl.logs import StepLog
from matrixrl.problems import ContinuousTask, Problem
from matrixrl.problems.action_masks import REPORTED_MASKS, TRIED, KnownMasks
from matrixrl.problems.problem import Kind
from matrixrl.random_streams import Stream, Streams
from matrixrl.records import Bounds, FloatArray, Guarantee, IntArray, Steps
from matrixrl.references import describe
from matrixrl.settings import Settings, describe_settings, plain_value

__all__ = ["OPTIONAL", "Algorithm", "Arrays", "Logged", "OutsideRewards"]

Arrays = dict[str, NDArray[Any]]
_LOGGED, _OUTSIDE = "logged", "outside_rewards"  # names of saved arrays: the fields of the two records below
OPTIONAL = (REPORTED_MASKS, TRIED)
"""Arrays of a state that are not there from the start."""
_PROGRESS = ("episode", "n_plans", "streams", _LOGGED, _OUTSIDE, *OPTIONAL)  # arrays of every algorithm
_KIND_WORDS = {"finite": "numbered states", "functional": "functions of states", "continuous": "vectors as states"}


class Logged(NamedTuple):
    """Number of episodes that were learned from and not played, and of their steps."""

    episodes: int = 0
    steps: int = 0


class OutsideRewards(NamedTuple):
    """Number of rewards outside the declared range that were learned from, and episode of the first, counted from 1."""

    total: int = 0
    first_episode: int = 0


class Algorithm(ABC):
    """A learner for B independent replicas that share nothing but the problem.

    An algorithm is configured first, ``PSRL(preset="tuned")``, and `start` then returns a copy that plays one problem.
    A subclass implements `begin`, `make_plan`, `learn` and, to be saved, names its arrays in `learned_names`.

    Attributes:
        name: Name on the command line and in specs.
        kinds: Kinds of problems that it can learn.
        settings_class: Declaration of its settings.
        settings: Its settings.
        learned_names: Attributes that hold what was learned, all arrays. A user's class with others that change is not
            saved.
        revised: None, or a method (plan, steps) → plan for the rest of an episode, called after each of its steps;
            ``steps(i)`` returns those from number i on as a batch of one replica, −1 is the last one.
        compiled: Request for compiled loops: True, False, or None to decide by the number of episodes.
        problem: The problem it was started on.
        seeds: One seed for each replica.
        streams: Its random generators.
        episode: Number of episodes that it learned from.
        logged: How many of them were not played, and their steps.
        n_plans: (B,) number of plans made.
        claims: What is proven about it.
        masks: Which actions are allowed, as far as it is known.
        recipe: What it was made with that is no plain setting, as plain data: objects among the settings, and
            attributes of its own.
    """

    name: ClassVar[str] = "own agent"
    kinds: ClassVar[tuple[Kind, ...]] = ("finite",)
    settings_class: ClassVar[type[Settings]] = Settings
    learned_names: ClassVar[tuple[str, ...]] = ()
    revised: ClassVar[Any] = None
    _stream_names: ClassVar[tuple[Stream, ...]] = ("agent", "ties")
    _memory_names: ClassVar[tuple[str, ...]] = ()  # attributes that a plan replaces and the next plan reads
    _claims_class: ClassVar[type[Claims]] = Claims
    _smaller_remedy: ClassVar[str] = (
        "Use fewer states, a shorter horizon, fewer seeds, or features that are fewer than the states."
    )
    _unstarted: Algorithm | None = None  # a user's algorithm as it was configured

    settings: Any = None
    compiled: bool | None = None
    problem: Problem
    seeds: list[int]
    streams: Streams
    episode: int
    logged: Logged
    n_plans: IntArray
    claims: Claims
    masks: KnownMasks
    _outside: OutsideRewards
    recipe: dict[str, Any]

    def __init__(self, **settings: Any) -> None:
        self.settings = self.settings_class.resolve(settings)

    def __repr__(self) -> str:
        settings = self.settings
        if not isinstance(settings, Settings):
            return f"{type(self).__name__}()"
        given = [
            f"{name}={getattr(settings, name)!r}"
            for name, value, _ in describe_settings(type(settings))
            if getattr(settings, name) != value
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all settings by name, as scikit-learn does: ``PSRL(**psrl.get_params())`` is the same algorithm.

        Args:
            deep: Without effect; settings are not nested.
        """
        del deep
        settings = self.settings
        return {name: getattr(settings, name) for name in settings.names()} if isinstance(settings, Settings) else {}

    @property
    def known_reward(self) -> bool | None:
        """Whether the agent is given the rewards; None if it learns them only where the problem has none."""
        given = getattr(self.settings, "known_reward", True)
        return None if given is None else bool(given)

    def announce(self, n_episodes: int) -> None:
        """Set the setting `n_episodes`, if there is one and it was not given."""
        settings = self.settings
        if isinstance(settings, Settings) and "n_episodes" in settings.names() and settings.n_episodes is None:  # type: ignore[attr-defined]
            self.settings = replace(settings, n_episodes=n_episodes)  # type: ignore[call-arg]

    def form_for(self, problem: Problem) -> Algorithm:
        """Return itself, or a copy that knows whether it learns rewards."""
        if self.known_reward is not None:
            return self
        chosen = copy.copy(self)
        chosen._decide_rewards(problem)
        return chosen

    def _decide_rewards(self, problem: Problem) -> None:
        """Replace the setting `known_reward`, if it was left to the problem, by whether the problem has rewards."""
        if self.known_reward is None:
            knows = isinstance(problem.task, ContinuousTask) or problem.task.knows_reward
            self.settings = replace(self.settings, known_reward=knows)

    def check_problem(self, problem: Problem) -> None:
        """Refuse a kind of problem that the algorithm cannot learn."""
        if problem.kind not in self.kinds:
            wanted = " or ".join(_KIND_WORDS[kind] for kind in self.kinds)
            remedy = "KernelControl learns from vectors." if problem.kind == "continuous" else "Use MatrixRL."
            problem.refuse(f"must have {wanted} for {self.name}", remedy)
        if self.known_reward and not isinstance(problem.task, ContinuousTask) and not problem.task.knows_reward:
            rule = f"must be given to {self.name} with known_reward=True"
            fail("reward", rule, f"{problem.name} without rewards", "Pass known_reward=False to learn them.")

    def start(self, problem: Problem, seeds: Sequence[int]) -> Algorithm:
        """Return a copy that is ready to play a problem, one replica for each seed."""
        started = copy.deepcopy(self)
        started.recipe = self._recipe()
        started._unstarted = copy.deepcopy(self) if is_plug_in(type(self)) else None
        started._start(problem, seeds)
        return started

    def start_prepared(self, problem: Problem, seeds: Sequence[int]) -> Algorithm:
        """Start on a problem whose features are final, such as that of a saved agent."""
        return self.start(problem, seeds)

    def _recipe(self) -> dict[str, Any]:
        """Return what a saved algorithm is compared with; before the start, as attributes change later."""
        own = vars(self)
        if "recipe" in own:
            return dict(own["recipe"])
        settings = own.get("settings")
        objects: dict[str, Any] = {}
        if isinstance(settings, Settings):
            left_out = getattr(settings, "IN_FEATURES", ())
            values = {name: getattr(settings, name) for name in settings.names() if name not in left_out}
            objects = {name: describe(value) for name, value in values.items() if plain_value(value) is not value}
        attributes = {name: describe(value) for name, value in own.items() if name != "settings"}
        return {"objects": objects, "attributes": attributes}

    def _start(self, problem: Problem, seeds: Sequence[int]) -> Self:
        self._decide_rewards(problem)
        self.check_problem(problem)
        self.problem, self.seeds = problem, list(seeds)
        self.streams = Streams(self.seeds, self._stream_names)
        self.episode, self.logged = 0, Logged()
        self.n_plans = np.zeros(len(self.seeds), dtype=np.int64)
        self._outside = OutsideRewards()
        self.claims = self._claims_class(self)
        self.masks = self._make_masks()
        try:
            self.begin()
        except MemoryError as error:
            words = f"{problem.name} with {self.n_replicas} seed{'s' * (self.n_replicas > 1)} ({error})"
            fail("problem", f"must fit in memory for {self.name}", words, self._smaller_remedy)
        return self

    def _make_masks(self) -> KnownMasks:
        """Return the masks of an algorithm that cannot learn them while it plays."""
        return KnownMasks(self.problem, None)

    @property
    def n_replicas(self) -> int:
        """Number of replicas B."""
        return len(self.seeds)

    def n_features(self) -> list[int]:
        """Return the number of features φ in each replica."""
        return [self.problem.dimensions[0]] * self.n_replicas

    @property
    def guarantee(self) -> Guarantee:
        """Whether a regret bound is proven for these settings."""
        return Guarantee(False, f"{self.name} has no proof here")

    @abstractmethod
    def begin(self) -> None:
        """Allocate what is learned; `problem`, `seeds` and `streams` are set."""

    @abstractmethod
    def make_plan(self) -> Any:
        """Return a new plan for all replicas.

        A plan is whatever the methods below take. Its attribute `empty` (B,) counts the pairs whose confidence set is
        empty, which raises the misspecification alarm. Its method `arrays` returns a plan of one replica as named
        arrays, for saving.
        """

    @abstractmethod
    def learn(self, steps: Steps) -> None:
        """Learn from the steps of one episode in each replica."""

    @abstractmethod
    def act(self, plan: Any, stage: int, states: NDArray[Any], *, explore: bool = True) -> IntArray:
        """Return the actions of a plan at one stage: states (B, …) → (B,).

        Args:
            plan: What `plan` or `advice` returned.
            stage: h, counted from 0.
            states: One state for each replica.
            explore: False draws no random number.
        """

    @abstractmethod
    def upper(self, plan: Any, first_states: NDArray[Any] | None = None) -> FloatArray:
        """Return what a plan expects an episode to be worth, in the environment's unit: (B,).

        Args:
            plan: The plan.
            first_states: (B, …) where the episode starts; as the problem says by default.
        """

    @abstractmethod
    def policy_table(self, plan: Any) -> IntArray:
        """Return the actions of a plan at every stage and state of a problem with numbered states: (B, H, S)."""

    @property
    def has_policy_table(self) -> bool:
        """Whether `policy_table` can be asked where the MDP is known, so that exact regret can be measured."""
        return True

    @abstractmethod
    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Any:
        """Return the plan whose `arrays` were saved, or raise if it does not fit the problem."""

    def plan(self) -> Any:
        """Return the plan to play now."""
        plan = self.make_plan()
        self.n_plans = self.n_plans + 1
        return plan

    def advice(self) -> Any:
        """Return the plan that all data advise; no random stream moves, and nothing is remembered of it."""
        mark = self.mark()
        try:
            return self.make_plan()
        finally:
            self.rewind(mark)

    def safest_plan(self) -> Any:
        """Return the plan whose policy has the largest certified lower bound; what the data advise by default."""
        return self.advice()

    def estimated_plan(self) -> Any:
        """Return the plan that is greedy in the estimated model, without any bonus; ties to the lowest action."""
        raise ProtocolError(f"{self.name} has no estimated model; agent.policy is the policy that it would play")

    def permitted(self, plan: Any) -> Any:
        """Return a plan without actions that are known not to be allowed: a mask may be newer than the plan."""
        return plan

    def action_values(self, plan: Any, stage: int, states: NDArray[Any], *, explore: bool = True) -> FloatArray:
        """Return Q of all actions at a stage: states (B, …) → (B, A).

        It is asked for if the action of the plan is not allowed just now.

        Args:
            plan: What `plan` or `advice` returned.
            stage: h, counted from 0.
            states: One state for each replica.
            explore: False draws no random number.
        """
        del plan, stage, states, explore
        raise ProtocolError(f"{self.name} has no Q, so it cannot choose among some of the actions")

    def update(self, steps: Steps, plan: Any = None, *, n_episodes: int = 1) -> None:
        """Learn from one episode in each replica.

        Args:
            steps: What was observed.
            plan: The plan that was played, where it may not be the last one: several episodes can be open at once.
            n_episodes: Number of episodes whose steps these are, one after the other; more than one only if
                `steps_at_once` allows it.
        """
        with uninterrupted():
            if plan is not None:
                self._recall(plan)
            inside, count = self._clipped(steps)
            if count:
                before = self._outside
                self._outside = OutsideRewards(before.total + count, before.first_episode or self.episode + 1)
            self.learn(inside)
            self.masks.note(steps)
            self.episode += n_episodes

    def _clipped(self, steps: Steps) -> tuple[Steps, int]:
        """Return steps whose rewards lie in the declared range, and the number of rewards that were clipped."""
        problem = self.problem
        if problem.reward_outside == "error" or problem.task.reward_range is None:
            return steps, 0  # rewards were checked one by one
        outside = steps.taken & ~problem.in_range(steps.rewards)
        if not outside.any():
            return steps, 0
        rewards = np.where(outside, np.clip(steps.rewards, *problem.task.reward_range), steps.rewards)
        return replace(steps, rewards=rewards), int(outside.sum())

    def _recall(self, plan: Any) -> None:  # noqa: B027  # most algorithms learn from steps alone
        """Take note of the plan that the steps to learn from were played with."""

    @property
    def steps_at_once(self) -> int:
        """Number of steps of several episodes that `learn` may be given in a row; 1 if it needs each episode alone.

        An algorithm may take many steps at once if it adds them up, whatever their stages and whatever was planned.
        """
        return 1

    def update_from_log(self, log: StepLog) -> None:
        """Learn from the episodes of a log, in their order; for one replica.

        An interrupt comes between two calls of `update`; `restore` then goes back to the state before.
        """
        log = replace(log, actions=self.problem.inner_number(log.actions, log.stages))
        for part in log.parts(self.steps_at_once):
            self.update(part.steps(), self._plan_for_log(), n_episodes=part.n_episodes)
            self.logged = Logged(self.logged.episodes + part.n_episodes, self.logged.steps + part.n_steps)

    def _plan_for_log(self) -> Any:
        """Return the plan to take note of before logged steps are learned from; None if steps alone are used."""
        return None

    def gaps(self, plan: Any, steps: Steps, *, every: bool = False) -> FloatArray | None:
        """Return by how much played steps fell short of a plan's optimistic values, in the environment's unit: (B,).

        It is asked for before the steps are learned from. None if the proof is about the algorithm's own actions only.

        Args:
            plan: The plan that the episode was begun with.
            steps: Steps of one episode in each replica.
            every: Whether actions of the plan may fall short too.
        """
        del plan, steps, every
        return None

    def certify(self, plan: Any, start: Start | None = None) -> Bounds:
        """Bound V*(s0) from above and the value of a plan's policy from below.

        Args:
            plan: Its policy is the one that is bounded from below.
            start: Where episodes start; as the problem says by default.
        """
        del plan, start
        raise ProtocolError(f"{self.name} has no certificates; matrix-rl and kernel-matrix-rl on numbered states have")

    def bound_policies(self, first: NDArray[Any], second: NDArray[Any], start: Start | None = None) -> PolicyIntervals:
        """Bound V(s0) of two given policies, and the difference of the first and the second, from both sides.

        Args:
            first: (B, H, S) Actions, or (B, H, A, S) probabilities of actions.
            second: Likewise, of the other policy.
            start: Where episodes start; as the problem says by default.
        """
        del first, second, start
        raise ProtocolError(
            f"{self.name} cannot bound given policies on this problem; matrix-rl and kernel-matrix-rl can, on numbered "
            "states and without sampled columns"
        )

    def bound_actions(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds on Q* in unit rewards, each (B, H, A, S), at the tightest proven radius.

        Those of an action that is not allowed are −∞.
        """
        raise ProtocolError(f"{self.name} has no bounds of single actions; matrix-rl on numbered states has")

    @property
    def purpose(self) -> str:
        """What episodes are played for: to earn (`regret`) or to certify a policy (`certificate`)."""
        return "regret"

    @purpose.setter
    def purpose(self, purpose: str) -> None:
        rule = f"must be left out for {self.name} on this problem"
        fail("explore_for", rule, repr(purpose), "Use MatrixRL with numbered states and without columns.")

    def use_compiled(self, wanted: bool | None, n_episodes: int | None = None) -> None:
        """Choose between compiled and NumPy plans.

        Args:
            wanted: True or False as requested; None decides by the number of episodes.
            n_episodes: Episodes that will be played, to decide now; None to decide as they are played.
        """
        del n_episodes
        if wanted:
            fail("compiled", "must be left out for an agent without compiled loops", self.name, "Leave it out.")

    def mark(self) -> tuple[Any, ...]:
        """Return everything that planning, acting and masks change, to go back to; it costs little."""
        memory = [getattr(self, name) for name in self._memory_names]
        return self.streams.mark(), self.n_plans, self.masks.reported, memory

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Go back to what `mark` returned, so that an episode that was not finished leaves no trace."""
        streams, self.n_plans, reported, memory = mark
        self.streams.rewind(streams)
        self.masks.take(reported)
        for name, value in zip(self._memory_names, memory, strict=True):
            setattr(self, name, value)

    def state(self) -> Arrays:
        """Return everything that is needed to go on bit for bit, as named arrays.

        Raises:
            InvalidInput: Attributes of a user's class would be lost, as they are not among `learned_names`.
        """
        state: Arrays = {
            "episode": np.array(self.episode, dtype=np.int64),
            "n_plans": self.n_plans.copy(),
            "streams": self.streams.to_array(),
            _LOGGED: np.array(self.logged, dtype=np.int64),
            **self.masks.state_dict(),
            **{name: array.copy() for name, array in self.learned().items()},
        }
        if self.problem.reward_outside != "error":
            state[_OUTSIDE] = np.array(self._outside, dtype=np.int64)
        if self._unstarted is not None and not is_plug_in(type(self), "state"):
            refuse_forgotten(self, self._unstarted, state)
        return state

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state` of an algorithm with the same problem, settings and seeds returned.

        Raises:
            InvalidInput, ValueError: The arrays do not fit.
        """
        episode, logged = int(state["episode"]), Logged(*state[_LOGGED].tolist())
        most = logged.episodes * self.problem.task.horizon
        if not 0 <= logged.episodes <= episode or not logged.episodes <= logged.steps <= most:
            raise InvalidInput(f"{_LOGGED} must count episodes that were learned from, and their steps")
        self._outside = OutsideRewards(*state[_OUTSIDE].tolist()) if _OUTSIDE in state else OutsideRewards()
        self.streams.from_array(state["streams"])
        self.episode, self.logged, self.n_plans = episode, logged, state["n_plans"].copy()
        self.masks.load_state_dict(state)  # before a plan that is kept, which new masks drop
        self.load_learned({name: array for name, array in state.items() if name not in _PROGRESS})

    def check_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Refuse arrays of a file whose names, shapes or types are not those of this algorithm, which just started.

        Raises:
            InvalidInput: The arrays do not fit.
        """
        check_arrays(state, self.state(), optional=OPTIONAL)

    def start_size(self, problem: Problem) -> float:
        """Return about how many numbers `start` allocates, where that is more than the problem itself has.

        A file whose arrays are much smaller than that is refused before the start.
        """
        del problem
        return 0.0

    def learned(self) -> Arrays:
        """Return what was learned, as named arrays."""
        return {name: getattr(self, name) for name in self.learned_names}

    def load_learned(self, arrays: Arrays) -> None:
        """Take back what `learned` returned."""
        for name in self.learned_names:
            setattr(self, name, arrays[name].copy())
