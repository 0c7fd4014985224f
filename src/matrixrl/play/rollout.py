"""Episodes of an algorithm: of many replicas on a known MDP, or of one replica in a Gymnasium environment."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding as gym_seeding
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from numpy.typing import NDArray

from matrixrl.algorithms import Algorithm
from matrixrl.checks import fail, flag, real_numbers, shown, shown_element
from matrixrl.core.greedy import best_among
from matrixrl.errors import ProtocolError
from matrixrl.problems import FiniteMDP, MDPEnv, Problem
from matrixrl.problems.gym_tables import current_mask
from matrixrl.random_streams import stream_from_array, stream_seed, stream_to_array
from matrixrl.records import BoolArray, Plan, Steps

__all__ = [
    "EnvWorld",
    "Finished",
    "GivenPlan",
    "TableWorld",
    "Trajectory",
    "check_first_state",
    "first_observation",
    "kept",
    "play_in_env",
    "refuse_truncation",
]


class GivenPlan(Plan):
    """A plan with the actions of a policy that a user gives, from which no episode departs."""


class Trajectory:
    """One episode of one replica while it is played: its plan, and the steps so far.

    The engine, or the application outside, asks `planned` and `choose` for an action and reports steps with `add`.

    Args:
        algorithm: The algorithm.
        plan: Its plan for the episode.

    Attributes:
        plan: The plan as it is now; some algorithms revise it during an episode.
        off_plan: Whether an action was not that of the plan.
        states: States before each step.
        actions: Actions, as the task counts them.
        rewards: Rewards in the environment's unit.
        next_states: States after each step.
        terminated: Whether the environment ended the episode with the last step.
        outcomes: Outcomes of the steps of a problem with known dynamics; None for each step of another one.
    """

    __slots__ = (
        *("_algorithm", "actions", "next_states", "off_plan", "outcomes", "plan", "rewards", "states"),
        "terminated",
    )

    def __init__(self, algorithm: Algorithm, plan: Any) -> None:
        self._algorithm, self.plan = algorithm, plan
        self.off_plan = self.terminated = False
        self.states: list[Any] = []
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.next_states: list[Any] = []
        self.outcomes: list[int | None] = []

    @property
    def is_finished(self) -> bool:
        """Whether no further step can follow."""
        return self.terminated or len(self.actions) >= self._algorithm.problem.task.horizon

    def planned(self, state: Any, *, explore: bool = True) -> int:
        """Return the action of the plan in the state of the next step, as the task counts them."""
        return int(self._algorithm.act(self.plan, len(self.actions), np.asarray(state)[None], explore=explore)[0])

    def choose(self, state: Any, planned: int, among: BoolArray | None, *, explore: bool = True) -> int:
        """Return the planned action, or that with the largest Q of the plan among some (A,), if it is none of them."""
        if among is None or among[planned]:
            return planned
        if isinstance(self.plan, GivenPlan):
            self._refuse_forbidden(state, planned, among)
        stage, horizon = len(self.actions), self._algorithm.problem.task.horizon
        q = self._algorithm.action_values(self.plan, stage, np.asarray(state)[None], explore=explore)
        return int(best_among(q, among, horizon)[0])

    def _refuse_forbidden(self, state: Any, planned: int, among: BoolArray) -> NoReturn:
        problem, stage = self._algorithm.problem, len(self.actions)
        own = problem.env_actions(among)
        rule = (
            f"must take actions that are allowed: one of {own} in {problem.place(state, stage)}, as was reported there"
        )
        fail("policy", rule, shown_element(problem.env_action(planned)), "Give a policy that takes allowed actions.")

    def append(
        self, state: Any, action: int, reward: float, following: Any, ended: bool, outcome: int | None = None
    ) -> None:
        """Append one step."""
        self.states.append(state)
        self.actions.append(action)
        self.rewards.append(reward)
        self.next_states.append(following)
        self.outcomes.append(outcome)
        self.terminated = ended

    def add(
        self,
        state: Any,
        action: int,
        reward: float,
        following: Any,
        ended: bool,
        outcome: int | None = None,
        *,
        planned: int | None,
        explore: bool = True,
    ) -> None:
        """Append one step that was just played, where the plan had an action, and let the algorithm revise the plan."""
        self.off_plan |= action != planned
        self.append(state, action, reward, following, ended, outcome)
        if explore and self._algorithm.revised is not None and not self.is_finished:
            self.plan = self._algorithm.revised(self.plan, self.steps)

    def steps(self, since: int = 0) -> Steps:
        """Return the steps as a batch of one replica.

        Args:
            since: Number of the first step to return; −1 is the last one.
        """
        actions = np.array(self.actions[since:])[None]
        ended = np.zeros(actions.shape, dtype=np.bool_)
        ended[0, -1] = self.terminated
        return Steps.of(
            np.array(self.states[since:])[None],
            actions,
            np.array(self.rewards[since:])[None],
            np.array(self.next_states[since:])[None],
            ended,
            outcomes=np.array(self.outcomes[since:])[None] if self.outcomes and None not in self.outcomes else None,
        )


class Finished(NamedTuple):
    """An episode that was played, to be learned from."""

    plan: Any  # at its end: some algorithms revise plans
    steps: Steps  # (B, k)
    off_plan: bool = False  # whether an action was not that of the plan
    every_gap: bool = False  # whether any step may have a gap: it explored for a certificate, or its policy was given
    is_drawn: bool = False  # whether the agent's own MDP drew the first state
    certificate: Any = None  # what the engine was given to certify the plan with, if anything
    first_plan: Any = None  # at its begin
    given: Any = None  # (H, S) policy that was given before it began, if one was


class SeededWorld:
    """Where an algorithm plays; it owns the randomness of the problem."""

    streams: Sequence[np.random.Generator]

    def mark(self) -> list[Mapping[str, Any]]:
        """Return the state of every stream."""
        return [stream.bit_generator.state for stream in self.streams]

    def rewind(self, mark: list[Mapping[str, Any]]) -> None:
        """Go back to what `mark` returned."""
        for stream, state in zip(self.streams, mark, strict=True):
            stream.bit_generator.state = state

    def to_array(self) -> NDArray[Any]:
        """Return the state of every stream: (B, 6)."""
        return np.array([stream_to_array(stream) for stream in self.streams], dtype=np.uint64).reshape(-1, 6)

    def from_array(self, array: NDArray[Any]) -> None:
        """Take the states that `to_array` returned."""
        self.rewind([stream_from_array(words).bit_generator.state for words in array])


class TableWorld(SeededWorld):
    """A known MDP, simulated for B replicas side by side.

    One uniform number for each step and one for the first state are drawn before an episode, as `MDPEnv` does.
    """

    def __init__(self, mdp: FiniteMDP, seeds: Sequence[int]) -> None:
        self._mdp = mdp
        self.streams = [gym_seeding.np_random(stream_seed(seed, "env"))[0] for seed in seeds]

    def play(self, algorithm: Algorithm, plan: Any) -> Finished:
        """Play one episode in every replica."""
        uniforms = np.stack([stream.random(self._mdp.draws_per_episode) for stream in self.streams])
        return Finished(plan, self._mdp.rollout(uniforms, partial(algorithm.act, plan)), is_drawn=True)


class EnvWorld(SeededWorld):
    """A Gymnasium environment, played by one replica.

    An environment that does nothing but play the known MDP of the problem is played as a table, without `env.step`.

    Attributes:
        is_seeded: Whether the environment has got its seed, with the first episode.
        running: The episode that is played or was played last in `env.step`; None before its first action.
    """

    def __init__(self, problem: Problem, seed: int) -> None:
        assert problem.env is not None
        self._problem, self._env, self._seed = problem, problem.env, seed
        self.is_seeded = False
        own = self._env.unwrapped
        self._draws_starts = isinstance(own, MDPEnv) and type(own).reset is MDPEnv.reset
        self._mdp = problem.mdp if _only_plays(problem, self._env) else None
        self.running: Trajectory | None = None

    def play(self, algorithm: Algorithm, plan: Any) -> Finished:
        """Play one episode."""
        self.running = None
        seed = None if self.is_seeded else stream_seed(self._seed, "env")
        own = vars(self._env.unwrapped)  # a user may have replaced a method since the last episode
        if self._mdp is not None and algorithm.revised is None and "step" not in own and "reset" not in own:
            if seed is not None:
                self._env.unwrapped.np_random = gym_seeding.np_random(seed)[0]
                self.is_seeded = True
            uniforms = self._env.unwrapped.np_random.random(self._mdp.draws_per_episode)  # as `MDPEnv.reset` draws them
            steps = self._mdp.rollout(uniforms[None], partial(algorithm.act, plan))
            has_end = self._mdp.task.end_state is not None
            played = steps.cut(int(steps.taken.sum())) if has_end else steps
            return Finished(plan, played, is_drawn=self._draws_starts)
        obs, info = first_observation(self._env, seed)
        self.is_seeded = True
        check_first_state(self._problem, self._problem.state("obs", self._problem.from_env(obs)))
        self.running = running = Trajectory(algorithm, plan)
        play_in_env(algorithm, running, self._env, obs, info, self._current_mask)
        return Finished(running.plan, running.steps(), running.off_plan, is_drawn=self._draws_starts)

    @cached_property
    def _current_mask(self) -> Callable[[], Any] | None:
        return current_mask(self._env)

    @property
    def streams(self) -> Sequence[np.random.Generator]:  # type: ignore[override]
        """The environment's stream; none before the first episode."""
        return [self._env.unwrapped.np_random] if self.is_seeded else []

    def rewind(self, mark: list[Mapping[str, Any]]) -> None:
        """Go back to what `mark` returned, perhaps to before the environment was seeded."""
        self.is_seeded = bool(mark)
        super().rewind(mark)


def _only_plays(problem: Problem, env: gym.Env[Any, Any]) -> bool:
    """Say whether an environment does nothing but play the known MDP of a problem with numbered states."""
    while type(env) in (OrderEnforcing, PassiveEnvChecker):
        env = env.env  # type: ignore[attr-defined]
    if not isinstance(env, MDPEnv) or problem.kind != "finite" or problem.mdp is not env.mdp or env.render_mode:
        return False
    if env.mdp.allowed is not None:  # an algorithm need not know masks: it is then told which actions are allowed
        return False
    return type(env).reset is MDPEnv.reset and type(env).step is MDPEnv.step


def play_in_env(
    algorithm: Algorithm,
    running: Trajectory,
    env: gym.Env[Any, Any],
    obs: Any,
    info: Any,
    current_mask: Callable[[], Any] | None,
    *,
    explore: bool = True,
) -> None:
    """Play an episode that has no steps yet in an environment that was just reset.

    `explore=False` draws no random number and keeps the plan.
    """
    problem, masks, horizon = algorithm.problem, algorithm.masks, algorithm.problem.task.horizon
    state = problem.state("obs", problem.from_env(obs))
    for stage in range(horizon):
        among, planned = masks.among(state, stage, info, current_mask), running.planned(state, explore=explore)
        if among is None:  # a mask may have been reported after the plan was made
            among = masks.at(state, stage)
        action = running.choose(state, planned, among, explore=explore)
        next_obs, reward, terminated, truncated, info = _take_step(env, problem.to_env(problem.env_action(action)))
        following = problem.state("next_obs", problem.from_env(next_obs))
        earned = problem.reward(reward, state, action)
        after = problem.state_after_end(following) if terminated else following
        outcome = None
        if problem.task.dynamics is not None:
            reported = info.get("outcome") if isinstance(info, Mapping) else None
            outcome = problem.outcome(state, action, earned, after, reported)
        running.add(state, action, earned, after, terminated, outcome, planned=planned, explore=explore)
        if terminated:
            return
        if truncated and stage < horizon - 1:
            refuse_truncation(stage + 1, horizon)
        state = following
    masks.note_last(state, info)


def check_first_state(problem: Problem, state: Any) -> None:
    """Refuse a first state in which no episode of the problem begins."""
    if problem.kind != "finite" or (problem.mdp is None and not problem.task.start_is_declared):
        return
    start = problem.finite_task.start
    if start[state] > 0.0:
        return
    possible = np.flatnonzero(start)
    what = problem.shown_state(possible[0]) if len(possible) == 1 else f"one of {len(possible):,} states"
    source = "the declared start" if problem.task.start_is_declared else "the first state of resets of the environment"
    remedy = "Declare the start of this episode, start=…, or learn from its steps with learn_from."
    fail("obs", f"must be {what} at the first step ({source})", problem.shown_state(state), remedy)


def first_observation(env: gym.Env[Any, Any], seed: int | None) -> tuple[Any, Any]:
    """Reset an environment and return its first observation, as it was then, and the info."""
    answer: Any = env.reset(seed=seed)
    if not isinstance(answer, tuple) or len(answer) != 2:
        fail("env.reset", "must return (observation, info)", shown(answer), "Follow the interface of gymnasium.Env.")
    return kept(answer[0]), answer[1]


def _take_step(env: gym.Env[Any, Any], action: Any) -> tuple[Any, Any, bool, bool, Any]:
    """Take an action and return next observation, reward, terminated, truncated and info, checked where they can be."""
    answer: Any = env.step(action)
    if not isinstance(answer, tuple) or len(answer) != 5:
        rule = "must return (observation, reward, terminated, truncated, info)"
        fail("env.step", rule, shown(answer), "Follow the interface of gymnasium.Env.")
    next_obs, reward, terminated, truncated, info = answer
    if isinstance(reward, (bool, np.bool_)) or (isinstance(reward, np.ndarray) and reward.size == 1):
        numbers = real_numbers(reward).ravel()
        reward = float(numbers[0]) if len(numbers) else reward
    remedy = "env.step returns it."
    ended, cut = flag("terminated", terminated, remedy=remedy), flag("truncated", truncated, remedy=remedy)
    return kept(next_obs), reward, ended, cut, info


def refuse_truncation(n_steps: int, horizon: int) -> NoReturn:
    """Raise the error of an environment that truncates an episode before the horizon."""
    raise ProtocolError(
        f"the environment truncated an episode after {n_steps} steps, before the horizon of {horizon}; "
        "make it with a longer time limit or give a smaller horizon"
    )


def kept(obs: Any) -> Any:
    """Return an observation that the environment cannot change any more: some reuse one array or dictionary."""
    return copy.deepcopy(obs) if isinstance(obs, (np.ndarray, tuple, list, dict)) else obs
