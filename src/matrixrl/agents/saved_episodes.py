"""Episodes that were not learned from yet as arrays, and back; tables of plans are stored once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.agents.episodes import Advised, OpenEpisode
from matrixrl.archive import check_arrays
from matrixrl.checks import index
from matrixrl.errors import InvalidInput
from matrixrl.problems import FunctionalTask, Problem, Task
from matrixrl.problems.action_masks import action_list

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["episode_arrays", "restore_episodes"]

Arrays = dict[str, NDArray[Any]]
_STEPS = ("states", "actions", "rewards", "next_states")
_WHOLE = ("number", "planned_after", "plan", "length", "advised", "planned")
_FLAGS = ("terminated", "off_plan", "waiting", "certifying")
_ROWS = {
    **{name: np.empty(0, dtype=np.int64) for name in _WHOLE},
    **{name: np.empty(0, dtype=np.bool_) for name in _FLAGS},
    "asked_at": np.empty(0),
}
_NO_ADVICE = -1


def episode_arrays(agent: Agent) -> tuple[Arrays, Arrays, list[dict[str, int]]]:
    """Return the episodes that were not learned from, in the order of their begin; nothing if there are none.

    Returns:
        One entry for each episode (n,): number, planned_after, plan, length, advised (action that was asked for last,
        or -1), planned (action of the plan there, or -1), asked_at (time of that question, or NaN), terminated,
        off_plan, waiting, certifying. The states of the questions and, if any was about some actions only, which ones
        (q, A), all False for a question about all; and the steps of all episodes one after the other. Second, the
        tables of their plans, which may share some: "0_policy", "1_policy", …. Third, each different plan as the number
        of each of its tables by name.
    """
    episodes = sorted((*agent._queue.open, *agent._queue.waiting), key=lambda episode: episode.number)
    if not episodes:
        return {}, {}, []
    tables: dict[str, dict[int, tuple[int, NDArray[Any]]]] = {}  # by name and identity: number and table
    plans: dict[tuple[tuple[str, int], ...], int] = {}
    by_plan: dict[int, int] = {}
    for episode in episodes:
        if id(episode._plan) not in by_plan:
            numbers = []
            for name, table in agent.algorithm.plan_to_arrays(episode._plan).items():
                known = tables.setdefault(name, {})
                numbers.append((name, known.setdefault(id(table), (len(known), table))[0]))
            by_plan[id(episode._plan)] = plans.setdefault(tuple(numbers), len(plans))
    asked = [episode._question for episode in episodes]
    columns = {
        "number": [e.number for e in episodes],
        "planned_after": [e._planned_after for e in episodes],
        "plan": [by_plan[id(e._plan)] for e in episodes],
        "length": [e.stage for e in episodes],
        "advised": [_NO_ADVICE if one is None else one.action for one in asked],
        "planned": [_NO_ADVICE if one is None else one.planned for one in asked],
        "asked_at": [np.nan if one is None or one.now is None else one.now for one in asked],
        "terminated": [e.data.terminated for e in episodes],
        "off_plan": [e._off_plan for e in episodes],
        "waiting": [e.is_waiting for e in episodes],
        "certifying": [e._is_certifying for e in episodes],
    }
    arrays = {name: np.array(values, dtype=_ROWS[name].dtype) for name, values in columns.items()}
    questions = [one for one in asked if one is not None]
    if questions:
        arrays["advised_states"] = np.array([one.state for one in questions])
    if any(one.among is not None for one in questions):
        actions = np.arange(agent.problem.actions.size)
        arrays["advised_among"] = np.array([np.isin(actions, one.among or ()) for one in questions])
    if any(e.stage for e in episodes):
        for name in _STEPS:
            arrays[name] = np.array([value for e in episodes for value in getattr(e.data, name)])
    stored = {f"{number}_{name}": table for name, known in tables.items() for number, table in known.values()}
    return arrays, stored, [dict(plan) for plan in plans]


def restore_episodes(agent: Agent, own: Arrays, tables: Arrays, plans: list[Any], n_begun: int) -> None:
    """Put the episodes that `episode_arrays` returned into an agent.

    Args:
        agent: The agent, with everything that it learned.
        own: The episodes.
        tables: The tables of their plans.
        plans: The number of each table of each plan.
        n_begun: Number of episodes that were begun.

    Raises:
        InvalidInput: The episodes cannot be those of the agent's problem.
    """
    agent._queue.n_begun = n_begun
    if not own and not tables and not plans:
        return
    _check(agent, own, n_begun)
    if {f"{number}_{name}" for one in plans for name, number in one.items()} != set(tables):
        raise InvalidInput("the tables must be those of the plans")
    if set(own["plan"].tolist()) != set(range(len(plans))):
        raise InvalidInput("every episode must have a plan, and every plan an episode")
    made = [
        agent.algorithm.plan_from_arrays({name: tables[f"{number}_{name}"] for name, number in one.items()})
        for one in plans
    ]
    states = iter(own.get("advised_states", ()))
    among = iter(own.get("advised_among", np.zeros((len(own["number"]), 0), dtype=np.bool_)))
    for i, end in enumerate(np.cumsum(own["length"]).tolist()):
        row = {name: own[name][i].item() for name in _ROWS}
        episode = OpenEpisode(agent, made[row["plan"]], row["number"], row["planned_after"])
        episode.data.terminated, episode._off_plan = row["terminated"], row["off_plan"]
        episode._is_certifying = row["certifying"]
        for k in range(end - row["length"], end):
            _add_step(episode, agent.problem, *(own[name][k] for name in _STEPS))
        agent._queue.add(episode)
        if row["waiting"]:
            agent._queue.wait(episode)
        if row["advised"] != _NO_ADVICE:
            _restore_question(episode, agent.problem, next(states), next(among), row)


def _check(agent: Agent, own: Arrays, n_begun: int) -> None:
    """Refuse arrays of other names, shapes or types, and numbers that are no indices."""
    task, optional = agent.problem.task, ("advised_states", "advised_among", *_STEPS)
    check_arrays(own, _ROWS, optional=optional, may_be_nan=("asked_at",))
    numbers, lengths = own["number"], own["length"]
    if any(len(own[name]) != len(numbers) for name in _ROWS):
        raise InvalidInput("every entry of the open episodes must have one value for each of them")
    if not len(numbers) or numbers[0] < 0 or (np.diff(numbers) <= 0).any() or numbers[-1] >= n_begun:
        raise InvalidInput(f"numbers of episodes must increase from 0 to at most {n_begun - 1}")
    if (lengths < 0).any() or (lengths > task.horizon).any():
        raise InvalidInput("an open episode must have at most as many steps as the horizon")
    if (own["waiting"] & (lengths == 0)).any():
        raise InvalidInput("an episode that waits to be learned from must have steps")
    if not ((own["planned_after"] >= 0) & (own["planned_after"] <= agent.algorithm.episode)).all():
        raise InvalidInput(f"plans must have been made after 0 to {agent.algorithm.episode} episodes")
    kind = task.state_dtype if isinstance(task, FunctionalTask) else np.int64 if isinstance(task, Task) else np.float64
    kinds = {"states": kind, "actions": np.int64, "rewards": np.float64, "next_states": kind}
    for name, wanted in kinds.items():
        steps = own.get(name, np.empty(0, dtype=wanted))
        if not steps.ndim or len(steps) != lengths.sum() or steps.dtype != wanted:
            raise InvalidInput(
                f"{name} of the open episodes must have one entry of type {np.dtype(wanted)} for each step"
            )
    n_asked, n_actions = int((own["advised"] != _NO_ADVICE).sum()), agent.problem.actions.size
    among = own.get("advised_among", np.empty((n_asked, n_actions), dtype=np.bool_))
    if len(own.get("advised_states", ())) != n_asked or among.shape != (n_asked, n_actions) or among.dtype != np.bool_:
        raise InvalidInput("every question must have its state and the actions that it is about")


def _restore_question(
    episode: OpenEpisode, problem: Problem, state: Any, among: NDArray[Any], row: dict[str, Any]
) -> None:
    """Take back the last answer of an episode: the same question gets it again."""
    size = problem.actions.size
    chosen, planned = (
        index("action", row[name], size=size, remedy="It is damaged.") for name in ("advised", "planned")
    )
    now = None if np.isnan(row["asked_at"]) else row["asked_at"]
    own = problem.inner_state("state", state)
    asked = tuple(action_list(among)) or None
    episode._advised = Advised(episode.stage, np.asarray(own).tolist(), chosen, planned, asked, now)


def _add_step(episode: OpenEpisode, problem: Problem, state: Any, action: Any, reward: Any, following: Any) -> None:
    number = index("action", action, size=problem.actions.size, remedy="It is damaged.")
    episode.data.states.append(problem.inner_state("state", state))
    episode.data.actions.append(number)
    episode.data.rewards.append(problem.reward(float(reward)))
    episode.data.next_states.append(problem.inner_state("next state", following))
