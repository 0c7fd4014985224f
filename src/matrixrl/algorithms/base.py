"""The protocol that MatrixRL, the continuous algorithm and every baseline implement, batched over replicas."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.from_logs import LOGGED, FromLogs
from matrixrl.algorithms.outside_rewards import OUTSIDE, OutsideRewards, clipped, find_outside, wider_range
from matrixrl.algorithms.plug_ins import is_plug_in, refuse_forgotten, snapshot, unlike
from matrixrl.algorithms.possible import PROGRESS, Shapes, check_numbers, check_plans, check_progress, check_same_kind
from matrixrl.algorithms.startable import Configured
from matrixrl.checks import fail
from matrixrl.core.policy_bounds import PolicyIntervals
from matrixrl.core.start import START_SHARE, Start
from matrixrl.errors import ProtocolError
from matrixrl.interrupts import uninterrupted
from matrixrl.problems import ContinuousTask, Problem, Task
from matrixrl.problems.problem import Kind
from matrixrl.records import BoolArray, Bounds, FloatArray, IntArray, Steps
from matrixrl.seeding import Stream, Streams

__all__ = ["Algorithm", "Arrays"]

Arrays = dict[str, NDArray[Any]]


class Algorithm(FromLogs, Configured):
    """A learner for B independent replicas that share nothing but the problem.

    An algorithm is configured first, ``PSRL(preset="tuned")``, and `start` then returns a copy that plays one problem.
    A subclass implements `begin`, `make_plan`, `learn` and, to be saved, names its arrays in `learned_names`.

    Attributes:
        name: Name on the command line and in specs.
        kinds: Kinds of problems that it can learn.
        stream_names: Random streams that it draws from.
        learned_names: Attributes that hold what was learned, all arrays. A user's class that lacks one cannot be saved.
        list_names: Names of learned arrays that may have any length.
        revises: Whether `revised` may change the plan of an episode while it is played.
        widens: Whether `widen` can re-scale what was learned to a wider range of rewards.
        outside: Rewards outside the declared range that were learned from.
        may_be_infinite: Names of learned arrays in which infinity has a meaning.
        overlap_is_proven: Whether `guarantee` also holds for episodes that are planned before earlier ones were learned
            from.
        problem: The problem it was started on.
        seeds: One seed for each replica.
        streams: Its random generators.
        episode: Number of episodes that it learned from.
        n_plans: (B,) number of plans made.
        recipe: What it was made with that is no plain setting, as plain data: objects among the settings, and
            attributes of its own.
    """

    kinds: ClassVar[tuple[Kind, ...]] = ("finite",)
    stream_names: ClassVar[tuple[Stream, ...]] = ("agent", "ties")
    learned_names: ClassVar[tuple[str, ...]] = ()
    list_names: ClassVar[tuple[str, ...]] = ()
    revises: ClassVar[bool] = False
    widens: ClassVar[bool] = False
    may_be_infinite: ClassVar[tuple[str, ...]] = ()
    overlap_is_proven: ClassVar[bool] = False
    _changed: frozenset[str] | set[str] = frozenset()  # attributes that `learn` of a user's class was seen to change

    outside: OutsideRewards
    problem: Problem
    seeds: list[int]
    streams: Streams
    episode: int
    n_plans: IntArray
    recipe: dict[str, Any]

    @abstractmethod
    def begin(self) -> None:
        """Allocate what is learned; `problem`, `seeds` and `streams` are set."""

    @abstractmethod
    def make_plan(self) -> Any:
        """Return a new plan for all replicas.

        A plan is whatever the methods below take; its attribute `empty` (B,) counts the pairs whose confidence set is
        empty, which raises the misspecification alarm.
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

    @abstractmethod
    def plan_to_arrays(self, plan: Any) -> Arrays:
        """Return a plan of one replica as named arrays, for saving."""

    @abstractmethod
    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Any:
        """Return the plan that `plan_to_arrays` wrote, or raise if it does not fit the problem."""

    def form_for(self, problem: Problem) -> Algorithm:
        """Return itself, or a copy that knows whether it learns rewards."""
        if self.known_reward is not None:
            return self
        chosen = copy.copy(self)
        chosen.decide_rewards(problem)
        return chosen

    def start(self, problem: Problem, seeds: Sequence[int]) -> Algorithm:
        """Return a copy that is ready to play a problem, one replica for each seed."""
        started = copy.deepcopy(self)
        started.recipe = self._recipe()
        started._start(problem, seeds)
        return started

    def start_prepared(self, problem: Problem, seeds: Sequence[int]) -> Algorithm:
        """Start on a problem whose features are final, such as that of a saved agent."""
        return self.start(problem, seeds)

    def _start(self, problem: Problem, seeds: Sequence[int]) -> Self:
        self.decide_rewards(problem)
        self.check_problem(problem)
        self.problem, self.seeds = problem, list(seeds)
        self.streams = Streams(self.seeds, self.stream_names)
        self.episode = 0
        self.forget_logs()
        self.n_plans = np.zeros(len(self.seeds), dtype=np.int64)
        self.outside = OutsideRewards.none_of(problem)
        try:
            self.begin()
        except MemoryError as error:
            words = f"{problem.name} with {self.n_replicas} seed{'s' * (self.n_replicas > 1)} ({error})"
            problem.refuse_size(f"must fit in memory for {self.name}", words, self.smaller_remedy)
        return self

    @property
    def smaller_remedy(self) -> str:
        """Advice if the tables of this algorithm do not fit in memory."""
        return "Use fewer states, a shorter horizon, fewer seeds, or features that are fewer than the states."

    def check_problem(self, problem: Problem) -> None:
        """Refuse a kind of problem that the algorithm cannot learn."""
        if problem.kind not in self.kinds:
            words = {
                "finite": "numbered states",
                "functional": "functions of states",
                "continuous": "vectors as states",
            }
            wanted = " or ".join(words[kind] for kind in self.kinds)
            remedy = "KernelControl learns from vectors." if problem.kind == "continuous" else "Use MatrixRL."
            problem.refuse(f"must have {wanted} for {self.name}", remedy)
        if self.known_reward and not isinstance(problem.task, ContinuousTask) and not problem.task.knows_reward:
            rule = f"must be given to {self.name} with known_reward=True"
            fail("reward", rule, f"{problem.name} without rewards", "Pass known_reward=False to learn them.")
        if problem.reward_outside == "widen" and not self.widens:
            rule = f"must be 'error' or 'clip' for {self.name}, which cannot re-scale what it learned"
            remedy = "Use MatrixRL without columns and without a likelihood set, or KernelMatrixRL."
            fail("reward_outside", rule, "'widen'", remedy)

    def widen(self, low: float, high: float) -> None:
        """Use a wider range of rewards from now on, and re-scale what was learned; for algorithms that `widens`."""
        del low, high
        raise ProtocolError(f"{self.name} cannot widen the range of rewards")

    def rescaled_plan(self, plan: Any, before: tuple[float, float]) -> Any:
        """Return a plan that was made for another range of rewards in the units of the present one."""
        del before
        return plan

    @property
    def reward_words(self) -> str | None:
        """Why bounds do not hold as they are, as observed rewards say: some were outside the range; else None."""
        return self.outside.words(self.problem)

    @property
    def claim(self) -> Literal[True] | str:
        """`guarantee`, or why data or the environment withdrew it."""
        return self.reward_words or self.guarantee

    @property
    def charged_claim(self) -> Literal[True] | str:
        """`claim` about the regret bound to which the gaps of what is played are added; else why it does not hold."""
        return self.claim

    def charged_bound(self, n_episodes: int, *, delay: int = 0) -> float | None:
        """Return R(N), to which the gaps of what is played are added, in unit rewards; None if none is proven.

        Args:
            n_episodes: Number of episodes N.
            delay: Largest number of earlier episodes that a plan did not know of; 0 if no episodes overlap.
        """
        del n_episodes, delay
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

    def certificate_claim(self, alarmed: bool) -> Literal[True] | str:
        """`certificate_guarantee`, or why data or the environment withdrew it."""
        return self.reward_words or self.certificate_guarantee(alarmed)

    def allowed_at(self, state: Any, stage: int) -> BoolArray | None:
        """Return which actions (A,), counted from 0, a state allows at a stage, as far as it is known; None for all."""
        return self.problem.allowed_at(state, stage)

    def tell_mask(self, state: Any, mask: BoolArray) -> None:
        """Take note of the actions (A,) that are allowed in a state, as the environment reports while it is played."""
        del state, mask
        rule = f"must be given for {self.name}, which cannot learn masks while it plays"
        fail("allowed", rule, None, "Pass allowed=table (S, A), or allowed='all' to allow every action.")

    @property
    def reported_masks(self) -> object | None:
        """Masks that the environment reported so far, another object after each new one; None if there are none."""
        return None

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

    def as_learned(self, steps: Steps) -> Steps:
        """Return steps as `learn` will get them: rewards outside the range are clipped if the problem says so."""
        outside = find_outside(steps, self.problem) if self.problem.reward_outside == "clip" else None
        return steps if outside is None else clipped(steps, outside, self.problem)

    def _inside(self, steps: Steps) -> Steps:
        """Return steps whose rewards lie in the range, which `reward_outside` of the problem may clip or widen."""
        outside = find_outside(steps, self.problem)
        if outside is None:
            return steps
        if self.problem.reward_outside == "clip":
            steps = clipped(steps, outside, self.problem)
        else:
            self.widen(*wider_range(steps, outside, self.problem))
        self.outside = self.outside.plus(int(outside.sum()), self.episode + 1)
        return steps

    @property
    def has_policy_table(self) -> bool:
        """Whether `policy_table` can be asked where the MDP is known, so that exact regret can be measured."""
        return True

    @property
    def freezes_policies(self) -> bool:
        """Whether policies may be kept as tables, for bounds from their returns; not if that takes too long."""
        return True

    @property
    def n_replicas(self) -> int:
        """Number of replicas B."""
        return len(self.seeds)

    def n_features(self) -> list[int]:
        """Return the number of features φ in each replica."""
        return [self.problem.dimensions[0]] * self.n_replicas

    @property
    def guarantee(self) -> Literal[True] | str:
        """True if a regret bound is proven for these settings, else why not."""
        return f"{self.name} has no proof here"

    @property
    def assumptions(self) -> str:
        """Assumptions of `guarantee`, in words; empty if nothing is proven."""
        return ""

    def refutation(self) -> str | None:
        """Return why the assumptions of the proof are false where P and R are known, in words; else None."""
        return None

    def note_refutation(self, words: str) -> None:  # most algorithms claim nothing that could be refuted
        """Remember that the assumptions were refuted, by a saved agent that knew P and R."""

    @property
    def delta(self) -> float:
        """The probability with which bounds may fail, where there are any."""
        return float(getattr(self.settings, "delta", 0.0))

    @property
    def start_delta(self) -> float:
        """Part of δ for the distribution of first states where the problem does not declare it; else 0."""
        task = self.problem.task
        return START_SHARE * self.delta if isinstance(task, Task) and not task.start_is_declared else 0.0

    @property
    def model_delta(self) -> float:
        """Part of δ for everything else: transitions, rewards, returns."""
        return self.delta - self.start_delta

    def plan(self) -> Any:
        """Return the plan to play now."""
        plan = self.make_plan()
        self.n_plans = self.n_plans + 1
        return plan

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
                self.recall(plan)
            self._learn(self._inside(steps))
            self.episode += n_episodes

    def _learn(self, steps: Steps) -> None:
        """Learn, and note from time to time what `learn` of a user's class changes: all of it must be saved."""
        if self.episode.bit_count() > 1 or not is_plug_in(type(self)):
            self.learn(steps)
            return
        before = snapshot(self)
        self.learn(steps)
        self._changed = self._changed | unlike(self, before)

    def revised(self, plan: Any, steps: Callable[[int], Steps]) -> Any:
        """Return the plan for the rest of an episode after one more of its steps, if the algorithm `revises` plans.

        Args:
            plan: The plan that is played.
            steps: Function that returns the steps of the episode from a number on, as a batch of one replica; −1 is the
                last one.
        """
        del steps
        return plan

    def recall(self, plan: Any) -> None:  # most algorithms learn from steps alone
        """Take note of the plan that the steps to learn from were played with."""

    def advice(self) -> Any:
        """Return the plan that all data advise; no random stream moves, and nothing is remembered of it."""
        mark = self.mark()
        try:
            return self.make_plan()
        finally:
            self.rewind(mark)

    @property
    def certifies(self) -> bool:
        """Whether the algorithm can bound V* and the value of its policy."""
        return False

    def certify(self, plan: Any, start: Start | None = None) -> Bounds:
        """Bound V*(s0) from above and the value of a plan's policy from below.

        Args:
            plan: Its policy is the one that is bounded from below.
            start: Where episodes start; as the problem says by default.
        """
        del plan, start
        raise ProtocolError(f"{self.name} has no certificates; matrix-rl and kernel-matrix-rl on numbered states have")

    def safest_plan(self) -> Any:
        """Return the plan whose policy has the largest certified lower bound; what the data advise by default."""
        return self.advice()

    def estimated_plan(self) -> Any:
        """Return the plan that is greedy in the estimated model, without any bonus; ties to the lowest action."""
        raise ProtocolError(f"{self.name} has no estimated model; agent.policy is the policy that predict follows")

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

    def widths(self) -> FloatArray:
        """Return the width w of every pair, the norm of its φ in the inverse of A_n: (B, A, S)."""
        raise ProtocolError(f"{self.name} has no widths; matrix-rl on numbered states has")

    def bound_actions(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds on Q* in unit rewards, each (B, H, A, S), at the tightest proven radius.

        Those of an action that is not allowed are −∞.
        """
        raise ProtocolError(f"{self.name} has no bounds of single actions; matrix-rl on numbered states has")

    @property
    def purpose(self) -> str:
        """What episodes are played for: `regret` or `certificate`."""
        return "regret"

    def explore_for(self, purpose: str) -> None:
        """Play the next episodes to earn (`regret`) or to certify a policy (`certificate`)."""
        rule = f"must be left out for {self.name} on this problem"
        fail("explore_for", rule, repr(purpose), "Use MatrixRL with numbered states and without columns.")

    @property
    def returns_delta(self) -> float:
        """Part of δ for bounds from the returns of frozen policies; 0 if there are none."""
        return 0.0

    def certificate_guarantee(self, alarmed: bool) -> Literal[True] | str:
        """Return True if a certificate holds with probability 1 − δ, else why not."""
        del alarmed
        return f"{self.name} has no certificates"

    def alarm_words(self, first_alarm: str) -> str:
        """Return why nothing is proven after a misspecification alarm."""
        return f"{first_alarm}: the features cannot represent P (or a δ event)"

    def use_compiled(self, wanted: bool | None, n_episodes: int = 0) -> None:
        """Choose between compiled and NumPy plans.

        Args:
            wanted: True or False as requested; None decides by the number of episodes.
            n_episodes: Episodes that will be played.
        """
        del n_episodes
        if wanted:
            fail("compiled", "must be left out for an agent without compiled loops", self.name, "Leave it out.")

    @property
    def compiled(self) -> bool | None:
        """Request for compiled loops: True, False, or None to decide by the number of episodes."""
        return None

    def mark(self) -> tuple[Any, ...]:
        """Return everything that planning and acting change, to go back to; it costs little."""
        return self.streams.mark(), self.n_plans, self.planning_memory()

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Go back to what `mark` returned, so that an episode that was not finished leaves no trace."""
        streams, self.n_plans, memory = mark
        self.streams.rewind(streams)
        self.restore_planning_memory(memory)

    def planning_memory(self) -> Any:
        """Return what `make_plan` remembers; it is replaced by a new plan, never changed in place."""
        return None

    def restore_planning_memory(self, memory: Any) -> None:  # most plans remember nothing
        """Take back what `planning_memory` returned."""

    def state(self) -> Arrays:
        """Return everything that is needed to go on bit for bit, as named arrays.

        Raises:
            InvalidInput: `learn` of a user's class changes attributes that are not among `learned_names`.
        """
        state = self._own_state()
        if is_plug_in(type(self)) and not is_plug_in(type(self), "state"):
            refuse_forgotten(self, self._changed, state)
        return state

    def _own_state(self) -> Arrays:
        return {
            "episode": np.array(self.episode, dtype=np.int64),
            "n_plans": self.n_plans.copy(),
            "streams": self.streams.to_array(),
            **self.outside.arrays(self.problem),
            **self.logged_arrays(),
            **{name: array.copy() for name, array in self.learned().items()},
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state` of an algorithm with the same problem, settings and seeds returned.

        Raises:
            InvalidInput, ValueError: The arrays do not fit.
        """
        episode = check_progress(state, self.n_replicas)
        learned = {name: array for name, array in state.items() if name not in (*PROGRESS, OUTSIDE, LOGGED)}
        check_numbers(learned, self.may_be_infinite)
        self._restore_outside(state, episode)
        self.restore_logged(state.get(LOGGED), episode)
        check_plans(state["n_plans"], episode - self.logged_episodes)
        self.check_learned(learned, episode)
        self.streams.from_array(state["streams"])
        self.episode, self.n_plans = episode, state["n_plans"].copy()
        self.load_learned(learned)

    def _restore_outside(self, state: Mapping[str, NDArray[Any]], episode: int) -> None:
        """Take back the rewards outside the range that were counted, and the range that they widened."""
        outside, now = OutsideRewards.from_arrays(state, self.problem, episode, self.n_replicas)
        if (self.problem.task.reward_range or now) != now:
            self.widen(*now)  # what was learned follows
        self.outside = outside

    def learned_shapes(self, problem: Problem, n_replicas: int) -> Shapes | None:
        """Return the shapes of what `learned` returns, for `load` to compare before anything of their size is made.

        None leaves it to `restore`, which comes after the start.

        Args:
            problem: The problem to start on.
            n_replicas: Number of replicas B.
        """
        del problem, n_replicas
        return None

    def n_steps(self) -> FloatArray | None:
        """Return how many steps what was learned comes from, (B,), where that is known."""
        return None

    def learned(self) -> Arrays:
        """Return what was learned, as named arrays."""
        return {name: getattr(self, name) for name in self.learned_names}

    def check_learned(self, arrays: Arrays, episode: int) -> None:
        """Refuse arrays that `learned` could not have returned after so many episodes."""
        del episode
        check_same_kind(arrays, self.learned(), self.list_names)

    def load_learned(self, arrays: Arrays) -> None:
        """Take back what `learned` returned; the shapes were checked."""
        for name in self.learned_names:
            setattr(self, name, arrays[name].copy())
