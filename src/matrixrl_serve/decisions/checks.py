"""Checks of questions and outcomes against what is known of an episode."""

from __future__ import annotations

from typing import Any

from matrixrl.checks import fail, flag, integer, number
from matrixrl_serve.errors import Conflict
from matrixrl_serve.problem import ServedProblem
from matrixrl_serve.projection import EpisodeState, Step, Told

__all__ = ["check_state", "checked_outcome", "step_to_ask", "step_to_tell"]


def step_to_ask(episode: EpisodeState, given: Any, key: str | None, horizon: int) -> int:
    """Return the number of the step that a question is about.

    Without a number it is the step of the same idempotency key, else the last question if its outcome is missing, else
    the next step.
    """
    known = episode.keys.get(f"asked/{key}") if key is not None else None
    n = len(episode.steps)
    if given is None:
        if known is not None:
            return known
        given = n - 1 if n and episode.steps[-1].told is None and episode.steps[-1].asked is not None else n
        if given == horizon:
            raise Conflict(f"episode {episode.id} has had its {horizon} steps; report the outcomes that are missing")
    step = integer("step", given, low=0, high=horizon - 1, remedy="Steps count from 0.")
    if known is not None and known != step:
        raise Conflict(f"the idempotency key was used for step {known} of episode {episode.id}, not for step {step}")
    if step > n:
        raise Conflict(f"step {step} cannot be asked before step {n} of episode {episode.id}; ask in order")
    return step


def step_to_tell(episode: EpisodeState, given: Any, key: str | None, horizon: int) -> int:
    """Return the number of the step that an outcome is about; by default the first one whose outcome is missing."""
    known = episode.keys.get(f"told/{key}") if key is not None else None
    if given is None:
        if known is not None:
            return known
        given = episode.first_missing
        if given == horizon:
            raise Conflict(f"all outcomes of episode {episode.id} were reported; give step to report one again")
    step = integer("step", given, low=0, high=horizon - 1, remedy="Steps count from 0.")
    if known is not None and known != step:
        raise Conflict(f"the idempotency key was used for step {known} of episode {episode.id}, not for step {step}")
    if step > len(episode.steps):
        raise Conflict(f"step {step} cannot be reported before step {len(episode.steps)} was asked or reported")
    return step


def check_state(problem: ServedProblem, episode: EpisodeState, step: int, state: int) -> None:
    """Refuse the state of a step that contradicts what is known."""
    if step == 0 and problem.start is not None and state != problem.start:
        first = problem.states.decode(problem.start)
        fail("state", f"must be {first}, in which all episodes begin", problem.states.decode(state), "Correct it.")
    before = episode.steps[step - 1].told if step else None
    if before is not None and before.terminated:
        raise Conflict(f"step {step - 1} terminated episode {episode.id}; nothing follows it")
    if before is not None and before.following != state:
        assert before.following is not None
        known = problem.states.decode(before.following)
        raise Conflict(f"state must be {known!r}, in which step {step - 1} of episode {episode.id} ended")


def checked_outcome(problem: ServedProblem, episode: EpisodeState, step: int, given: dict[str, Any]) -> Told:
    """Return an outcome, or refuse it.

    Args:
        problem: The problem.
        episode: The episode.
        step: Number of the step.
        given: state, action, reward, next_state and terminated; None for what was left out.
    """
    known = episode.steps[step] if step < len(episode.steps) else Step()
    state = _state(problem, known, given["state"])
    check_state(problem, episode, step, state)
    action = _action(problem, known, step, state, given["action"])
    reward = _reward(problem, given["reward"])
    terminated = flag("terminated", given["terminated"])
    after = episode.steps[step + 1].state if step + 1 < len(episode.steps) else None
    if terminated:
        if problem.task.end_state is None:
            remedy = "Add may_terminate = true to the problem file."
            fail("terminated", "must be false for a problem whose episodes do not end early", True, remedy)
        if after is not None:
            raise Conflict(f"step {step} of episode {episode.id} cannot have ended it: step {step + 1} followed")
        return Told(state, action, reward, None, terminated=True)
    following = after
    if given["next_state"] is not None:
        following = problem.state("next_state", given["next_state"])
    if following is None:
        fail("next_state", "must be given", "nothing", "Give the state after the step, or terminated = true.")
    if after is not None and following != after:
        shown = problem.states.decode(after)
        raise Conflict(f"next_state must be {shown!r}, the state of step {step + 1} of episode {episode.id}")
    return Told(state, action, reward, following, terminated=False)


def _state(problem: ServedProblem, known: Step, given: Any) -> int:
    if given is None:
        if known.state is None:
            fail("state", "must be given for a step that was not asked for", "nothing", "Give the state before it.")
        return known.state
    state = problem.state("state", given)
    if known.state is not None and state != known.state:
        raise Conflict(f"state must be {problem.states.decode(known.state)!r}, as the step was asked for")
    return state


def _action(problem: ServedProblem, known: Step, step: int, state: int, given: Any) -> int:
    if given is None:
        answered = None if known.asked is None else known.asked.action
        if answered is None:
            fail("action", "must be given: the service did not choose it", "nothing", "Report the action played.")
        return answered
    action = problem.action("action", given)
    declared = problem.allowed_at(state, step)
    if declared is not None and not declared[action]:
        fail("action", "must be one that the problem file allows in the state", given, "Correct one of them.")
    return action


def _reward(problem: ServedProblem, given: Any) -> float:
    low, high = problem.task.reward_range
    return number("reward", given, low=low, high=high, remedy="The problem file declares the reward_range.")
