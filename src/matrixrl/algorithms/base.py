"""The one base of MatrixRL, the continuous algorithms and every baseline, batched over replicas."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.certifier import Certifier
from matrixrl.algorithms.claims import Claims
from matrixrl.algorithms.plug_ins import is_plug_in, refuse_forgotten
from matrixrl.archive import check_arrays
from matrixrl.checks import fail
from matrixrl.errors import InvalidInput, ProtocolError
from matrixrl.interrupts import uninterrupted
from matrixrl.logs import StepLog
from matrixrl.problems import ContinuousTask, Problem
from matrixrl.problems.action_masks import REPORTED_MASKS, TRIED, KnownMasks
from matrixrl.problems.problem import Kind
from matrixrl.random_streams import Stream, Streams
from matrixrl.records import FloatArray, Guarantee, IntArray, Steps
from matrixrl.references import code_of, describe
from matrixrl.settings import Settings, plain_value

__all__ = ["OPTIONAL", "Algorithm", "Arrays", "Logged", "OutsideRewards"]

Arrays = dict[str, NDArray[Any]]
_LOGGED, _OUTSIDE = "logged", "outside_rewards"  # names of saved arrays: the fields of the two records below
OPTIONAL = (REPORTED_MASKS, TRIED)
"""Arrays of a state that are not there from the start."""
_PROGRESS = ("episode", "n_plans", "streams", _LOGGED, _OUTSIDE, *OPTIONAL)  # arrays of every algorithm
_LEAST_MEMORY = 1 << 26  # bytes that any saved algorithm may take
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
        n_replicas: Number of replicas B.
        certifier: Its bounds on values and policies.
    """

    name: str = "own agent"
    kinds: ClassVar[tuple[Kind, ...]] = ("finite",)
    settings_class: ClassVar[type[Settings]] = Settings
    learned_names: ClassVar[tuple[str, ...]] = ()
    revised: ClassVar[Any] = None
    _stream_names: ClassVar[tuple[Stream, ...]] = ("agent", "ties")
    _memory_names: ClassVar[tuple[str, ...]] = ()  # attributes that a plan replaces and the next plan reads
    _claims_class: ClassVar[type[Claims]] = Claims
    _certifier_class: ClassVar[type[Certifier]] = Certifier
    _may_learn_masks: ClassVar[bool] = False
    has_policy_table: bool = True  # whether `policy_table` can be asked where the MDP is known
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
    n_replicas: int
    certifier: Certifier
    _outside: OutsideRewards
    made_with: dict[str, Any]  # what it was made with that is no plain setting, as plain data, and its class

    def __init__(self, **settings: Any) -> None:
        self.settings = self.settings_class.resolve(settings)

    def __repr__(self) -> str:
        defaults = {f.name: f.default for f in fields(self.settings)} if isinstance(self.settings, Settings) else {}
        given = {name: value for name, value in self.get_params().items() if value != defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all settings by name, as scikit-learn does: ``PSRL(**psrl.get_params())`` is the same algorithm.

        Args:
            deep: Without effect; settings are not nested.
        """
        del deep
        settings = self.settings
        return {name: getattr(settings, name) for name in settings.names()} if isinstance(settings, Settings) else {}

    def form_for(self, problem: Problem, n_episodes: int | None = None) -> Self:
        """Return a copy that is configured for a problem and not started.

        Args:
            problem: The problem, which decides about settings that were left to it.
            n_episodes: Number of episodes that will be played, for an algorithm that uses it and was not given it.

        Raises:
            InvalidInput: The algorithm cannot learn such a problem.
        """
        chosen = copy.copy(self)
        task = problem.task
        knows = isinstance(task, ContinuousTask) or task.knows_reward
        given = {"known_reward": knows, "n_episodes": n_episodes}
        missing = {name: value for name, value in given.items() if getattr(self.settings, name, 0) is None}
        if isinstance(self.settings, Settings) and missing:
            chosen.settings = replace(self.settings, **missing)
        chosen._check_problem(problem)
        if getattr(chosen.settings, "known_reward", True) and not knows:
            rule = f"must be given to {self.name} with known_reward=True"
            fail("reward", rule, f"{problem.name} without rewards", "Pass known_reward=False to learn them.")
        return chosen

    def _check_problem(self, problem: Problem) -> None:
        """Refuse a kind of problem that the algorithm cannot learn."""
        if problem.kind not in self.kinds:
            wanted = " or ".join(_KIND_WORDS[kind] for kind in self.kinds)
            remedy = "KernelControl learns from vectors." if problem.kind == "continuous" else "Use MatrixRL."
            problem.refuse(f"must have {wanted} for {self.name}", remedy)

    def start(
        self,
        problem: Problem,
        seeds: Sequence[int],
        *,
        n_episodes: int | None = None,
        saved: Mapping[str, NDArray[Any]] | None = None,
    ) -> Algorithm:
        """Return a copy that is ready to play a problem, one replica for each seed.

        Args:
            problem: The problem.
            seeds: One seed for each replica.
            n_episodes: Number of episodes that will be played, if it is known.
            saved: State that will be restored, of an algorithm whose features the problem has.

        Raises:
            InvalidInput: The algorithm cannot learn such a problem, or much more would be allocated than was saved.
        """
        chosen = self.form_for(problem, n_episodes)
        if saved is None:
            problem = chosen._with_features(problem)
        elif 8.0 * chosen._start_size(problem) > _LEAST_MEMORY + 16.0 * sum(one.nbytes for one in saved.values()):
            raise InvalidInput("its problem and settings are larger than what was learned in it")
        return chosen._started(problem, seeds)

    def _with_features(self, problem: Problem) -> Problem:
        """Return the problem with features of the algorithm's own, if it has any."""
        return problem

    def _started(self, problem: Problem, seeds: Sequence[int]) -> Algorithm:
        """Start a copy of an algorithm that is configured for the problem."""
        started = copy.deepcopy(self)
        started.made_with = self._make_recipe()
        started._unstarted = copy.deepcopy(self) if is_plug_in(type(self)) else None
        return started._start(problem, seeds)

    def _make_recipe(self) -> dict[str, Any]:
        """Return what a saved algorithm is compared with; before the start, as attributes change later."""
        own = vars(self)
        if "made_with" in own:
            return dict(own["made_with"])
        settings = own.get("settings")
        objects: dict[str, Any] = {}
        if isinstance(settings, Settings):
            left_out = getattr(settings, "IN_FEATURES", ())
            values = {name: getattr(settings, name) for name in settings.names() if name not in left_out}
            objects = {name: describe(value) for name, value in values.items() if plain_value(value) is not value}
        attributes = {name: describe(value) for name, value in own.items() if name != "settings"}
        return {"code": code_of(type(self)), "objects": objects, "attributes": attributes}

    def _start(self, problem: Problem, seeds: Sequence[int]) -> Self:
        self.problem, self.seeds = problem, list(seeds)
        self.n_replicas = len(self.seeds)
        self.streams = Streams(self.seeds, self._stream_names)
        self.episode, self.logged = 0, Logged()
        self.n_plans = np.zeros(self.n_replicas, dtype=np.int64)
        self._outside = OutsideRewards()
        self.claims, self.certifier = self._claims_class(self), self._certifier_class(self)
        self.masks = KnownMasks(problem, self._use_masks if self._may_learn_masks else None)
        try:
            self.begin()
        except MemoryError as error:
            words = f"{problem.name} with {self.n_replicas} seed{'s' * (self.n_replicas > 1)} ({error})"
            fail("problem", f"must fit in memory for {self.name}", words, self._smaller_remedy)
        return self

    def _use_masks(self) -> None:  # noqa: B027  # of algorithms that may learn masks
        """Plan with the actions that are allowed, as the environment reported just now."""

    @property
    def guarantee(self) -> Guarantee:
        """Whether a regret bound is proven for these settings."""
        return self.claims.guarantee

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

    def policy_table(self, plan: Any) -> IntArray:
        """Return the actions of a plan at every stage and state of a problem with numbered states: (B, H, S)."""
        table: IntArray = plan.policy
        return table

    @abstractmethod
    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Any:
        """Return the plan whose `arrays` were saved, or raise if it does not fit the problem."""

    def plan(self) -> Any:
        """Return the plan to play now."""
        plan = self.make_plan()
        self.n_plans = self.n_plans + 1
        return plan

    def begun(self, plan: Any) -> Any:
        """Return the plan that an episode is begun with, in place of one of `plan`, which several may share."""
        return plan

    def advice(self) -> Any:
        """Return the plan that all data advise; no random stream moves, and nothing is remembered of it."""
        undo = self.mark()
        try:
            return self.make_plan()
        finally:
            undo()

    def estimated_plan(self) -> Any:
        """Return the plan that is greedy in the estimated model, without any bonus; ties to the lowest action."""
        raise ProtocolError(f"{self.name} has no estimated model; agent.policy is the policy that it would play")

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

    def pass_over(self, steps: Steps) -> None:
        """Count an episode without learning from it, as its plan was made before data were forgotten."""
        with uninterrupted():
            self.masks.note(steps)
            self.episode += 1

    def _clipped(self, steps: Steps) -> tuple[Steps, int]:
        """Return steps whose rewards lie in the declared range, and the number of rewards that were clipped."""
        problem = self.problem
        if problem.reward_outside == "error" or problem.task.reward_range is None:
            return steps, 0  # rewards were checked one by one
        pairs = steps.states, steps.actions
        outside = steps.taken & ~problem.in_range(steps.rewards, *pairs)
        if not outside.any():
            return steps, 0
        rewards = np.where(outside, np.clip(steps.rewards, *problem.reward_limits(*pairs)), steps.rewards)
        return replace(steps, rewards=rewards), int(outside.sum())

    def _recall(self, plan: Any) -> None:  # noqa: B027  # most algorithms learn from steps alone
        """Take note of the plan that the steps to learn from were played with."""

    @property
    def steps_at_once(self) -> int:
        """Number of steps of several episodes that `learn` may be given in a row: more than 1 if it adds them up."""
        return 1

    def update_from_log(self, log: StepLog) -> None:
        """Learn from the episodes of a log, in their order; for one replica.

        An interrupt comes between two calls of `update`; `restore` then goes back to the state before.
        """
        log = replace(log, actions=self.problem.task.stages.inner(log.actions, log.stages))
        for part in log.parts(self.steps_at_once):
            self.update(part.steps(), self._plan_for_log(), n_episodes=part.n_episodes)
            self.logged = Logged(self.logged.episodes + part.n_episodes, self.logged.steps + part.n_steps)

    def _plan_for_log(self) -> Any:
        """Return the plan to take note of before logged steps are learned from; None if steps alone are used."""
        return None

    def use_compiled(self, wanted: bool | None, n_episodes: int | None = None) -> None:
        """Choose between compiled and NumPy plans.

        Args:
            wanted: True or False as requested; None decides by the number of episodes.
            n_episodes: Episodes that will be played, to decide now; None to decide as they are played.
        """
        del n_episodes
        if wanted:
            fail("compiled", "must be left out for an agent without compiled loops", self.name, "Leave it out.")

    def mark(self) -> Callable[[], None]:
        """Return a function that goes back to now, so that an episode that was not finished leaves no trace.

        It covers everything that planning, acting and masks change, and costs little.
        """
        streams, n_plans, reported = self.streams.mark(), self.n_plans, self.masks.reported
        memory = {name: getattr(self, name) for name in self._memory_names}

        def undo() -> None:
            self.streams.rewind(streams)
            self.n_plans = n_plans
            self.masks.take(reported)
            for name, value in memory.items():
                setattr(self, name, value)

        return undo

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

    def restore(self, state: Mapping[str, NDArray[Any]], *, from_file: bool = False) -> None:
        """Take back what `state` of an algorithm with the same problem, settings and seeds returned.

        Args:
            state: The named arrays.
            from_file: Whether names, shapes and types are compared with those of this algorithm, which just started.

        Raises:
            InvalidInput, ValueError: The arrays do not fit.
        """
        if from_file:
            self._check_state(state)
        episode, logged = int(state["episode"]), Logged(*state[_LOGGED].tolist())
        most = logged.episodes * self.problem.task.horizon
        if not 0 <= logged.episodes <= episode or not logged.episodes <= logged.steps <= most:
            raise InvalidInput(f"{_LOGGED} must count episodes that were learned from, and their steps")
        self._outside = OutsideRewards(*state[_OUTSIDE].tolist()) if _OUTSIDE in state else OutsideRewards()
        self.streams.from_array(state["streams"])
        self.episode, self.logged, self.n_plans = episode, logged, state["n_plans"].copy()
        self.masks.load_state_dict(state)  # before a plan that is kept, which new masks drop
        self.load_learned({name: array for name, array in state.items() if name not in _PROGRESS})

    def _check_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Refuse arrays of a file whose names, shapes or types are not those of this algorithm, which just started."""
        check_arrays(state, self.state(), optional=OPTIONAL)

    def _start_size(self, problem: Problem) -> float:
        """Return about how many numbers `start` allocates, where that is more than the problem itself has."""
        del problem
        return 0.0

    def learned(self) -> Arrays:
        """Return what was learned, as named arrays."""
        return {name: getattr(self, name) for name in self.learned_names}

    def load_learned(self, arrays: Arrays) -> None:
        """Take back what `learned` returned."""
        for name in self.learned_names:
            setattr(self, name, arrays[name].copy())
