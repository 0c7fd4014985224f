"""An episode that is being played: its plan, and what was observed of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from matrixrl.algorithms import Algorithm
from matrixrl.algorithms.registry import known_reward
from matrixrl.certificates import Certificate
from matrixrl.checks import fail, flag, integer, number
from matrixrl.errors import ProtocolError
from matrixrl.history import Episode
from matrixrl.play.rollout import Trajectory, check_first_state
from matrixrl.problems import FunctionalTask, Task
from matrixrl.problems.action_masks import action_list
from matrixrl.records import BoolArray, IntArray

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["Advised", "OpenEpisode"]

_CLOSED = "{} was called on an episode that was ended or abandoned; begin another one"


class Advised(NamedTuple):
    """The last answer of an episode."""

    stage: int  # Stage of the question
    state: Any  # State of the question, as plain numbers
    action: int  # Answer, as the task counts actions
    planned: int  # Action of the plan, which is the answer unless it was not allowed just then
    # Actions that the answer was chosen from; None for all that are allowed in the state
    among: tuple[int, ...] | None = None
    now: float | None = None  # Time of the question


class _Step(NamedTuple):
    """One step: state, action, reward in the environment's unit, next state, whether it terminated."""

    state: Any
    action: int
    reward: float
    following: Any
    ended: bool
    outcome: int | None = None  # of a problem with known dynamics


class OpenEpisode:
    """One episode between `Agent.begin_episode` and its end; many may be open at once over one model.

    Attributes:
        data: Its plan, and the steps that were observed.
        number: Number of the episode, counted from 0 in the order in which the agent began them; `Agent.episode` finds
            an open episode by it, also after `Agent.load`.
        record: Record of the episode once it was learned from, else None.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", seed=0)
    >>> episode = agent.begin_episode()
    >>> action = episode.act(0)
    >>> episode.observe(0, action, 0.0, 1)
    >>> episode.stage
    1
    """

    __slots__ = (
        "__weakref__",
        "_advised",
        "_agent",
        "_certificate",
        "_given",
        "_is_certifying",
        "_life",
        "_planned_after",
        "_timed_out",
        "data",
        "number",
        "record",
    )

    def __init__(
        self, agent: Agent, plan: Any, number: int = 0, planned_after: int = 0, given: IntArray | None = None
    ) -> None:
        self.number, self._given = number, given
        self._agent = agent
        self._planned_after = planned_after  # number of episodes that were learned from when it was begun
        self.data = Trajectory(agent.algorithm, plan)
        self._timed_out = False
        self._certificate: Certificate | None = None
        self._is_certifying = agent.algorithm.certifier.purpose == "certificate"  # its plan need not be greedy
        self.record: Episode | None = None
        self._advised: Advised | None = None
        self._life: Literal["open", "waiting", "closed"] = "open"

    def __repr__(self) -> str:
        return f"<OpenEpisode {self.number} of {self._agent.name}, stage {self.stage}, {self._life}>"

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm that advises."""
        return self._agent.algorithm

    @property
    def stage(self) -> int:
        """Number of steps that were observed."""
        return len(self.data.actions)

    @property
    def is_open(self) -> bool:
        """Whether the episode was neither ended nor abandoned."""
        return self._life == "open"

    @property
    def is_waiting(self) -> bool:
        """Whether the episode was ended and waits to be learned from until those begun before it are closed."""
        return self._life == "waiting"

    @property
    def is_finished(self) -> bool:
        """Whether no further step can be observed."""
        return self.data.is_finished

    def act(self, obs: Any, *, allowed: Any = None, now: float | None = None) -> Any:
        """Return the action to play now (YW19 Algorithm 1, line 9); the same question gets the same answer.

        The action is one of the environment's own space: a number, or an array, a tuple or a dictionary of numbers.

        Args:
            obs: Observation.
            allowed: Actions that are allowed just now, if they are fewer than those that the problem allows: a list of
                their numbers, or A booleans; an array of the numbers 0 and 1 of two actions could be either and is
                refused. The answer is the best of them by the plan's Q, which is computed again from the data at hand
                if the plan does not keep it. What it is expected to lose against the best action is added to the regret
                bound (`Agent.bound`); certificates hold for any data.
            now: Time of the question in a unit of your choice, for `Agent.time_out_after`; left out, the step never
                times out by that rule. If a question is asked again, its first time counts.
        """
        self._check_unfinished("act")
        problem = self._agent.problem
        state = self._state(obs)
        asked = None if now is None else number("now", now, remedy="Give a time as a number.")
        among = None if allowed is None else self.algorithm.masks.narrower(state, self.stage, allowed)
        return problem.env_action(self._answer(state, among, asked))

    def note_answer(self, obs: Any, action: Any, *, allowed: Any = None) -> None:
        """Take note of an answer that was given from a copy of the plan, as if `act` had been called here.

        Args:
            obs: Observation.
            action: The answer.
            allowed: As in `act`.
        """
        self._check_unfinished("note_answer")
        problem = self._agent.problem
        state, chosen = self._state(obs), problem.action("action", action, self.stage)
        self.algorithm.masks.check_action(state, self.stage, chosen)
        among = None if allowed is None else self.algorithm.masks.narrower(state, self.stage, allowed)
        if among is not None and not among[chosen]:
            fail("action", "must be one of those that were allowed", action, "Give the action that was answered.")
        asked = None if among is None else tuple(action_list(among))
        self._advised = self._planned(state, explore=False)._replace(action=chosen, among=asked)

    def observe(
        self,
        obs: Any,
        action: Any,
        reward: float,
        next_obs: Any,
        terminated: bool = False,
        *,
        outcome: Any = None,
        step: int | None = None,
    ) -> None:
        """Add one step; the action need not be the one that was advised: its gap is added to `Agent.bound`.

        Args:
            obs: Observation before the step.
            action: Action that was played.
            reward: Reward, in the environment's unit.
            next_obs: Observation after the step.
            terminated: Whether the environment ended the episode with this step.
            outcome: Outcome of the step, of a problem with known dynamics; it may be left out where it follows from
                the reward and the observation after the step.
            step: Number of the step, counted from 0, for reports that may arrive twice: a step that was observed before
                with the same content is ignored, and one with another content is refused.
        """
        if step is None:
            self._check_unfinished("observe")
        number = self.stage if step is None else step
        reported = self._checked(obs, action, reward, next_obs, terminated, outcome, number)
        if step is not None:
            if self._is_repeated(step, reported):
                return
            self._check_unfinished("observe")
        self.data.add(*reported, planned=self._planned(reported.state, explore=False).planned)

    def end(self) -> Episode | None:
        """Learn from the episode (Algorithm 1, lines 11 and 12) and return its record.

        Returns:
            The record, or None if the episode waits for episodes that were begun before it (`Agent` with
            ``late_episodes="wait"``); `record` has it later.
        """
        self._check_open("end")
        if self.stage == 0:
            raise ProtocolError("the episode was ended before any step was observed; abandon it instead")
        return self._agent._queue.close(self)

    def time_out(self, reward: float | None = None) -> Episode | None:
        """End the episode because no outcome came for the action that was asked for last.

        The time-out is an outcome that was observed: the step pays `reward` and leads to the end state. What is proven
        is proven for the problem in which steps may time out (docs/proofs.md, section 3).

        Args:
            reward: Reward of the step that timed out, which must be given where rewards are learned: it is learned
                too. Where they are known, it is the known one.

        Returns:
            As `end`.
        """
        self._check_unfinished("time_out")
        step, asked = self._timed_out_step(reward), self._question
        assert asked is not None  # else there is no step that could time out
        self.data.add(*step, planned=asked.planned)
        self._timed_out = True
        return self._agent._queue.time_out(self)

    def abandon(self, *, outcome_may_be_known: bool = False, start_may_be_known: bool = False) -> None:
        """Forget the episode: nothing is learned from it.

        Nothing is proven any more if steps of it were observed, because the decision to leave them out may depend on
        them (docs/proofs.md, section 3). Nothing happens if the episode was ended or abandoned before.

        Args:
            outcome_may_be_known: Whether the caller may know the outcome of a step that was not observed here.
            start_may_be_known: Whether the caller may know the first state, though no action was asked for.
        """
        if not self.is_open:
            return
        knows_start = flag("start_may_be_known", start_may_be_known) or self._advised is not None
        if flag("outcome_may_be_known", outcome_may_be_known) and self.stage == 0:
            self._agent._note_selection("an episode was abandoned after it was asked for an action")
        elif self.stage > 0:
            self._agent._note_selection(f"an episode was abandoned after {self.stage} of its steps")
        elif knows_start and (self._agent.problem.has_random_start or self._agent._ledger.is_estimated):
            seen = "was seen" if self._advised is not None else "may have been seen"
            self._agent._note_start_doubt(f"an episode was abandoned after its random first state {seen}")
        self._agent._queue.abandon(self)

    def _checked(
        self, obs: Any, action: Any, reward: float, next_obs: Any, terminated: bool, outcome: Any, step: int
    ) -> _Step:
        """Return a step that was reported, or refuse it."""
        problem = self._agent.problem
        stage = integer("step", step, low=0, remedy="Steps count from 0.")
        if stage >= problem.task.horizon:
            fail("step", f"must be below the horizon, {problem.task.horizon}", stage, "Steps count from 0.")
        state = problem.state("obs", obs)
        if stage == 0:
            check_first_state(self._agent.problem, state)
        chosen = problem.action("action", action, stage)
        self.algorithm.masks.check_action(state, stage, chosen)
        earned = problem.reward(reward, state, chosen)
        following = problem.state("next_obs", next_obs)
        ended = flag("terminated", terminated)
        after = problem.state_after_end(following) if ended else following
        found = None
        if outcome is not None or problem.task.dynamics is not None:
            found = problem.outcome(state, chosen, earned, after, outcome)
        return _Step(state, chosen, earned, after, ended, found)

    def _state(self, obs: Any) -> Any:
        """Return an observation as the state of the step to come; refuse a first state that the problem excludes."""
        state = self._agent.problem.state("obs", obs)
        if not self.data.actions:
            check_first_state(self._agent.problem, state)
        return state

    def _is_repeated(self, step: int, reported: _Step) -> bool:
        """Say whether a step was observed before; refuse one that contradicts it, or that comes too early."""
        k = integer("step", step, low=0, remedy="Steps count from 0.")
        if k > self.stage:
            rule = f"must be at most {self.stage}, as steps {self.stage} … {k - 1} were not observed"
            fail("step", rule, k, "Report the steps of an episode in order.")
        if k == self.stage:
            return False
        last = k == self.stage - 1
        known = (
            self.data.states[k],
            self.data.actions[k],
            self.data.rewards[k],
            self.data.next_states[k],
            last and self.data.terminated,
            self.data.outcomes[k],
        )
        if not all(np.array_equal(one, other) for one, other in zip(known, reported, strict=True)):
            was = "timed out" if last and self._timed_out else "was observed with another content"
            fail("step", f"must be reported once, or again with the same content: step {k} {was}", k, "Leave it out.")
        return True

    @property
    def _question(self) -> Advised | None:
        """The last answer, if the episode is open and no step followed it: a step is under way."""
        kept = self._advised
        return kept if kept is not None and self.is_open and kept.stage == self.stage else None

    def _timed_out_step(self, reward: float | None) -> _Step:
        """Return the step that is under way with the outcome that it timed out."""
        kept, problem = self._question, self._agent.problem
        if kept is None:
            raise ProtocolError("time_out was called while no step is under way; call act first, or end the episode")
        if isinstance(problem.task, (Task, FunctionalTask)) and problem.task.end_state is None:
            rule = "needs a problem with an end state, to which a step that timed out leads"
            fail("time_out", rule, "one without", "Build the Task or FiniteMDP with end_state=….")
        if problem.task.dynamics is not None:
            rule = "must be left out for known dynamics, in which every step has an outcome"
            fail("time_out", rule, "a step without one", "Make it an outcome of its own that terminates.")
        state = problem.saved_state("state", kept.state)
        paid = problem.reward(self._default_reward(state, kept.action, reward), state, kept.action)
        return _Step(state, kept.action, paid, problem.state_after_end(state), ended=True)

    def _default_reward(self, state: Any, action: int, given: float | None) -> float:
        """Return the reward of a step that timed out; rewards that are known must not be contradicted."""
        task, is_known = self._agent.problem.task, known_reward(self._agent.algorithm)
        if isinstance(task, Task) and is_known:
            known = float(task.reward[state, action])
        elif isinstance(task, FunctionalTask) and is_known:
            known = float(task.reward_at(state[None])[0, action])
        elif given is None:
            remedy = "Pass time_out(reward=…), what a step without an outcome paid."
            fail("reward", "must be given where rewards are learned, as it is learned too", None, remedy)
        else:
            return given
        if given is not None and self._agent.problem.reward(given) != known:
            rule = f"must be left out, or be the known reward of the step, {known:g}"
            fail("reward", rule, given, "Pass known_reward=False to learn rewards.")
        return known

    def _answer(self, state: Any, among: BoolArray | None, now: float | None = None) -> int:
        """Return the action of the plan, or the best one among some actions (A,) if it is not one of them."""
        kept = self._planned(state, explore=True)
        if among is None:  # a mask may have been reported after the plan was made
            known = self.algorithm.masks.at(state, kept.stage)
            among = None if known is None or known[kept.planned] else known
        asked = None if among is None else tuple(action_list(among))
        if kept.among != asked:
            self._advised = kept = kept._replace(action=self.data.choose(state, kept.planned, among), among=asked)
        if kept.now is None and now is not None:
            self._advised = kept = kept._replace(now=now)
        return kept.action

    def _planned(self, state: Any, *, explore: bool) -> Advised:
        """Return the last answer if it was to the current question, else the action of the plan, which is kept."""
        kept, stage = self._advised, len(self.data.actions)
        plain = state if type(state) is int else np.asarray(state).tolist()  # arrays do not compare to one answer
        if kept is None or kept.stage != stage or kept.state != plain:
            action = self.data.planned(state, explore=explore)
            self._advised = kept = Advised(stage, plain, action, action)
        return kept

    def _check_open(self, call: str) -> None:
        if self._life != "open":
            raise ProtocolError(_CLOSED.format(call))

    def _check_unfinished(self, call: str) -> None:
        self._check_open(call)
        if self.is_finished:
            raise ProtocolError(f"{call} was called after the last step of the episode; end it")
