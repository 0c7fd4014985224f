"""How an agent learns from an episode of the log."""

from __future__ import annotations

from matrixrl.agents import OpenEpisode
from matrixrl_serve.problem import ServedProblem
from matrixrl_serve.projection import EpisodeState, Told

__all__ = ["default_reward", "filled_in", "is_declared", "observe_episode"]


def observe_episode(own: OpenEpisode, episode: EpisodeState, problem: ServedProblem) -> None:
    """Report a closed episode to the agent's own one, and close that.

    Args:
        own: Episode of the agent, of which nothing was observed.
        episode: The episode of the log.
        problem: The problem.
    """
    if not episode.steps:
        # The application may have known the first state when it decided not to ask.
        own.abandon(start_may_be_known=True)
        return
    if episode.closed == "abandoned" or (episode.closed == "timed_out" and not is_declared(episode, problem)):
        # The application that asked for an action may have seen what it led to.
        own.abandon(outcome_may_be_known=True)
        return
    for number, told in enumerate(filled_in(episode, problem)):
        asked = episode.steps[number].asked
        if asked is not None and asked.allowed is not None and asked.action is not None:
            own.note_answer(asked.state, asked.action, allowed=list(asked.allowed))
        if told is None:
            action = None if asked is None else asked.action
            assert asked is not None
            assert action is not None
            own.note_answer(asked.state, action)
            own.time_out(None if problem.task.knows_reward else problem.file.default_reward)
            return
        following = told.state if told.following is None else told.following
        own.observe(told.state, told.action, told.reward, following, told.terminated)
    own.end()


def is_declared(episode: EpisodeState, problem: ServedProblem) -> bool:
    """Say whether the problem says what the missing outcomes of an episode are.

    It does by a default reward, which makes a time-out an outcome with that reward, or with the known one. Without one
    it does only for steps whose reward is known and whose next state a later step shows. What was done must be known in
    any case.
    """
    for number, step in enumerate(episode.steps):
        if step.told is not None:
            continue
        if step.asked is None or step.asked.action is None:
            return False
        has_outcome = problem.task.knows_reward and episode.state_after(number) is not None
        if problem.file.default_reward is None and not has_outcome:
            return False
    return True


def filled_in(episode: EpisodeState, problem: ServedProblem) -> list[Told | None]:
    """Return the outcomes of a closed episode, where those that are missing are filled in.

    A missing outcome of a step that another one followed led to the state of that one and paid the default reward: only
    its reward did not come in time. The last step has no such state: it timed out (None).
    """
    found: list[Told | None] = []
    for number, step in enumerate(episode.steps):
        following = episode.state_after(number)
        if step.told is not None:
            found.append(step.told)
        elif following is not None and step.asked is not None and step.asked.action is not None:
            reward = default_reward(problem, step.asked.state, step.asked.action, number)
            found.append(Told(step.asked.state, step.asked.action, reward, following, terminated=False))
        else:
            found.append(None)
            break
    return found


def default_reward(problem: ServedProblem, state: int, action: int, stage: int) -> float:
    """Return the reward of a step whose outcome is missing: the known one, or the default of the problem file."""
    task = problem.task
    if task.knows_reward:
        return float(task.reward[state, task.stages.inner(action, stage)])
    return problem.file.default_reward or 0.0
