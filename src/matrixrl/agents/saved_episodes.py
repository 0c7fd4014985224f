"""Open episodes as arrays and plain data, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.agents.episodes import OpenEpisode
from matrixrl.checks import index
from matrixrl.errors import InvalidInput
from matrixrl.problems import Problem
from matrixrl.settings import flag

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["episode_arrays", "episode_header", "restore_episode"]

Arrays = dict[str, NDArray[Any]]
_STEPS = ("states", "actions", "rewards", "next_states")
_FLAGS = {"terminated", "off_plan", "advised"}


def episode_header(episode: OpenEpisode) -> dict[str, Any]:
    """Return the flags of an open episode, and its last answer if no step followed: the same question gets it again."""
    advised = episode._advised
    return {
        "terminated": episode._terminated,
        "off_plan": episode._off_plan,
        "advised": None if advised is None or advised.stage != episode.stage else [advised.state, advised.action],
    }


def episode_arrays(episode: OpenEpisode) -> Arrays:
    """Return the steps of an open episode; nothing before the first."""
    lists = (episode._states, episode._actions, episode._rewards, episode._next_states)
    return {name: np.array(values) for name, values in zip(_STEPS, lists, strict=True) if values}


def restore_episode(agent: Agent, saved: Any, own: Arrays, plan: Arrays) -> OpenEpisode:
    """Return an open episode of an agent.

    Args:
        agent: The agent.
        saved: What `episode_header` returned.
        own: What `episode_arrays` returned.
        plan: The arrays of its plan.

    Raises:
        InvalidInput: The episode cannot be one of the agent's problem.
    """
    problem = agent.problem
    if not isinstance(saved, dict) or set(saved) != _FLAGS:
        raise InvalidInput(f"an open episode must have the entries {sorted(_FLAGS)}")
    episode = OpenEpisode(agent, agent.algorithm.plan_from_arrays(plan))
    episode._terminated = flag("terminated", saved["terminated"])
    episode._off_plan = flag("off_plan", saved["off_plan"])
    if own:
        _add_steps(episode, own, problem)
    elif episode._terminated or episode._off_plan:
        raise InvalidInput("an open episode without steps can neither be terminated nor have left its plan")
    if saved["advised"] is not None:
        if not isinstance(saved["advised"], list) or len(saved["advised"]) != 2 or episode.is_finished:
            raise InvalidInput("advised must be a state and an action of an episode that is not finished")
        state, action = saved["advised"]
        chosen = index("action", action, size=problem.task.n_actions, remedy="It is damaged.")
        episode._keep_advice(problem.inner_state("state", state), chosen)
    return episode


def _add_steps(episode: OpenEpisode, own: Arrays, problem: Problem) -> None:
    if set(own) != set(_STEPS):
        raise InvalidInput(f"an open episode must have the arrays {sorted(_STEPS)}")
    states, actions, rewards, next_states = (own[name] for name in _STEPS)
    kind = np.int64 if problem.kind == "finite" else np.float64
    fits = (
        actions.ndim == rewards.ndim == 1
        and 1 <= len(actions) <= problem.task.horizon
        and all(len(own[name]) == len(actions) for name in _STEPS)
        and actions.dtype == np.int64
        and rewards.dtype == np.float64
        and states.dtype == next_states.dtype == kind
    )
    if not fits:
        raise InvalidInput("an open episode does not fit the problem")
    for state, action, reward, following in zip(states, actions, rewards, next_states, strict=True):
        episode._states.append(problem.inner_state("state", state))
        episode._actions.append(index("action", action, size=problem.task.n_actions, remedy="It is damaged."))
        episode._rewards.append(problem.reward(float(reward)))
        episode._next_states.append(problem.inner_state("next state", following))
    if episode._terminated and problem.kind != "continuous":
        end = problem.state_after_end(episode._next_states[-1])
        if not np.array_equal(episode._next_states[-1], end):
            raise InvalidInput("a terminated episode must have the end state as its last one")
