"""An episode that is being played: its plan, and what was observed of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from matrixrl.checks import flag
from matrixrl.errors import ProtocolError
from matrixrl.records import Certificate, Episode, Steps

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["OpenEpisode"]


class _Advised(NamedTuple):
    """The last answer of an episode: stage, state as plain numbers, and the action, counted from 0."""

    stage: int
    state: Any
    action: int


class OpenEpisode:
    """One episode between `Agent.begin_episode` and its end; many may be open at once over one model.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", seed=0)
    >>> episode = agent.begin_episode()
    >>> action = episode.act(0)
    >>> episode.observe(0, action, 0.0, 1)
    >>> episode.stage
    1
    """

    def __init__(self, agent: Agent, plan: Any) -> None:
        self._agent = agent
        self._plan = plan
        self._states: list[Any] = []
        self._actions: list[int] = []
        self._rewards: list[float] = []
        self._next_states: list[Any] = []
        self._terminated = False
        self._off_plan = False
        self._certificate: Certificate | None = None
        self._advised: _Advised | None = None
        self._is_open = True

    def __repr__(self) -> str:
        state = "open" if self._is_open else "closed"
        return f"<OpenEpisode of {self._agent.name}, stage {self.stage}, {state}>"

    @property
    def stage(self) -> int:
        """Number of steps that were observed."""
        return len(self._actions)

    @property
    def is_open(self) -> bool:
        """Whether the episode was neither ended nor abandoned."""
        return self._is_open

    @property
    def is_finished(self) -> bool:
        """Whether no further step can be observed."""
        return self._terminated or self.stage >= self._agent.problem.task.horizon

    def act(self, obs: Any) -> Any:
        """Return the action to play now (YW19 Algorithm 1, line 9); the same question gets the same answer.

        The action is one of the environment's own space: a number, or an array, a tuple or a dictionary of numbers.
        """
        self._check_unfinished("act")
        problem = self._agent.problem
        return problem.own_action(self._advice(problem.state("obs", obs), explore=True))

    def observe(self, obs: Any, action: Any, reward: float, next_obs: Any, terminated: bool = False) -> None:
        """Add one step; the action need not be the one that was advised.

        Args:
            obs: Observation before the step.
            action: Action that was played.
            reward: Reward, in the environment's unit.
            next_obs: Observation after the step.
            terminated: Whether the environment ended the episode with this step.
        """
        self._check_unfinished("observe")
        problem = self._agent.problem
        state = problem.state("obs", obs)
        chosen = problem.action("action", action)
        earned = problem.reward(reward)
        following = problem.state("next_obs", next_obs)
        ended = flag("terminated", terminated)
        if ended:
            following = problem.state_after_end(following)
        self._off_plan |= chosen != self._advice(state, explore=False)
        self._states.append(state)
        self._actions.append(chosen)
        self._rewards.append(earned)
        self._next_states.append(following)
        self._terminated = ended

    def end(self) -> Episode:
        """Learn from the episode (Algorithm 1, lines 11 and 12) and return its record."""
        self._check_open("end")
        if self.stage == 0:
            raise ProtocolError("the episode was ended before any step was observed; abandon it instead")
        return self._agent._end(self)

    def abandon(self) -> None:
        """Forget the episode: nothing is learned from it.

        Nothing is proven any more if steps of it were observed, because the decision to leave them out may depend on
        them (docs/proofs.md, section 3).
        """
        if self._is_open and self.stage > 0:
            self._agent._note_selection(f"an episode was abandoned after {self.stage} of its steps")
        elif self._is_open and self._advised is not None and self._agent.problem.has_random_start:
            self._agent._note_selection("an episode was abandoned after its random first state was seen")
        self._agent._abandon(self)

    def _advice(self, state: Any, *, explore: bool) -> int:
        """Return the action of the plan at the current stage; the last answer is kept."""
        kept = self._advised
        if kept is None or (kept.stage, kept.state) != (self.stage, np.asarray(state).tolist()):
            algorithm = self._agent.algorithm
            action = algorithm.act(self._plan, self.stage, np.asarray(state)[None], explore=explore)
            kept = self._keep_advice(state, int(action[0]))
        return kept.action

    def _keep_advice(self, state: Any, action: int) -> _Advised:
        self._advised = _Advised(self.stage, np.asarray(state).tolist(), action)
        return self._advised

    def _check_open(self, call: str) -> None:
        if not self._is_open:
            raise ProtocolError(f"{call} was called on an episode that was ended or abandoned; begin another one")

    def _check_unfinished(self, call: str) -> None:
        self._check_open(call)
        if self.is_finished:
            raise ProtocolError(f"{call} was called after the last step of the episode; end it")

    def steps(self) -> Steps:
        """Return the steps that were observed, as a batch of one replica."""
        ended = np.zeros(self.stage, dtype=np.bool_)
        ended[-1] = self._terminated
        return Steps.of(
            np.array(self._states)[None],
            np.array(self._actions)[None],
            np.array(self._rewards)[None],
            np.array(self._next_states)[None],
            ended[None],
        )
