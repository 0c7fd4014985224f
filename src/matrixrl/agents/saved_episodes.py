"""Episodes that were not learned from yet as arrays, and back; tables of plans are stored once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.agents.episodes import Advised, OpenEpisode
from matrixrl.checks import index
from matrixrl.errors import InvalidInput
from matrixrl.problems import FunctionalTask, Problem, Task
from matrixrl.problems.masks import action_list

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["episode_arrays", "plan_tables", "restore_episodes", "restore_plans"]

Arrays = dict[str, NDArray[Any]]
_STEPS = ("states", "actions", "rewards", "next_states")
_WHOLE = ("number", "planned_after", "plan", "length", "advised", "planned")
_FLAGS = ("terminated", "off_plan", "waiting", "certifying")
_NO_ADVICE = -1


def plan_tables(agent: Agent) -> tuple[list[dict[str, int]], Arrays, list[int]]:
    """Return the plans of all episodes that were not learned from.

    Returns:
        Each different plan as the number of each of its tables by name; the tables, "0_policy", "1_policy", …; the
        number of the plan of each episode.
    """
    tables: dict[str, dict[int, tuple[int, NDArray[Any]]]] = {}  # by name and identity: number and table
    plans: dict[tuple[tuple[str, int], ...], int] = {}
    by_plan: dict[int, int] = {}
    chosen = []
    for episode in _episodes(agent):
        if id(episode._plan) not in by_plan:
            numbers = []
            for name, table in agent.algorithm.plan_to_arrays(episode._plan).items():
                known = tables.setdefault(name, {})
                numbers.append((name, known.setdefault(id(table), (len(known), table))[0]))
            by_plan[id(episode._plan)] = plans.setdefault(tuple(numbers), len(plans))
        chosen.append(by_plan[id(episode._plan)])
    arrays = {f"{number}_{name}": table for name, known in tables.items() for number, table in known.values()}
    return [dict(plan) for plan in plans], arrays, chosen


def episode_arrays(agent: Agent, plans: Sequence[int]) -> Arrays:
    """Return the episodes that were not learned from, in the order of their begin; nothing if there are none.

    Args:
        agent: The agent.
        plans: Number of the plan of each of them.

    Returns:
        One entry for each episode (n,): number, planned_after, plan, length, advised (action that was asked for last,
        or -1), planned (action of the plan there, or -1), asked_at (time of that question, or NaN), terminated,
        off_plan, waiting, certifying. The states of the questions and, if any was about some actions only, which ones
        (q, A), all False for a question about all; and the steps of all episodes one after the other.
    """
    episodes = list(_episodes(agent))
    if not episodes:
        return {}
    asked = [episode._question for episode in episodes]
    whole = {
        "number": [e.number for e in episodes],
        "planned_after": [e._planned_after for e in episodes],
        "plan": plans,
        "length": [e.stage for e in episodes],
        "advised": [_NO_ADVICE if one is None else one.action for one in asked],
        "planned": [_NO_ADVICE if one is None else one.planned for one in asked],
    }
    arrays: Arrays = {name: np.array(values, dtype=np.int64) for name, values in whole.items()}
    arrays["asked_at"] = np.array([np.nan if one is None or one.now is None else one.now for one in asked])
    arrays |= {
        "terminated": np.array([e._terminated for e in episodes]),
        "off_plan": np.array([e._off_plan for e in episodes]),
        "waiting": np.array([e.is_waiting for e in episodes]),
        "certifying": np.array([e._is_certifying for e in episodes]),
    }
    if any(one is not None for one in asked):
        questions = [one for one in asked if one is not None]
        arrays["advised_states"] = np.array([one.state for one in questions])
        if any(one.among is not None for one in questions):
            actions = np.arange(agent.problem.actions.size)
            arrays["advised_among"] = np.array([np.isin(actions, one.among or ()) for one in questions])
    if any(e.stage for e in episodes):
        for name in _STEPS:
            arrays[name] = np.array([value for e in episodes for value in getattr(e, f"_{name}")])
    return arrays


def _episodes(agent: Agent) -> Iterator[OpenEpisode]:
    """Yield the open and the waiting episodes in the order of their begin."""
    yield from sorted((*agent._order.open, *agent._order.waiting), key=lambda episode: episode.number)


def restore_plans(agent: Agent, plans: Any, tables: Arrays) -> list[Any]:
    """Return the plans that `plan_tables` wrote.

    Raises:
        InvalidInput: They are not plans of the agent's problem, or tables are left over.
    """
    maps = [one for one in plans if isinstance(one, dict) and all(type(k) is int for k in one.values())]
    if len(maps) != len(plans) or len({tuple(sorted(one.items())) for one in maps}) != len(maps):
        raise InvalidInput("plans must be different and give the number of each of their tables")
    if {f"{number}_{name}" for one in maps for name, number in one.items()} != set(tables):
        raise InvalidInput("the tables must be those of the plans")
    own = [{name: tables[f"{number}_{name}"] for name, number in one.items()} for one in maps]
    return [agent.algorithm.plan_from_arrays(one) for one in own]


def restore_episodes(agent: Agent, own: Arrays, plans: Sequence[Any], n_begun: int) -> None:
    """Put the episodes that `episode_arrays` wrote into an agent.

    Args:
        agent: The agent, with everything that it learned.
        own: What `episode_arrays` returned.
        plans: The plans that the episodes refer to.
        n_begun: Number of episodes that were begun.

    Raises:
        InvalidInput: The episodes cannot be those of the agent's problem.
    """
    agent._order.n_begun = n_begun
    if not own and not plans:
        return
    _check(agent, own, len(plans), n_begun)
    ends = np.cumsum(own["length"])
    steps = [own[name] for name in _STEPS] if ends[-1] else None
    states = iter(own.get("advised_states", ()))
    among = iter(own.get("advised_among", np.zeros((len(own["number"]), 0), dtype=np.bool_)))
    columns = {name: own[name].tolist() for name in (*_WHOLE, *_FLAGS, "asked_at")}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for row, end in zip(rows, ends.tolist(), strict=True):
        episode = OpenEpisode(agent, plans[row["plan"]], row["number"], row["planned_after"])
        episode._terminated, episode._off_plan = row["terminated"], row["off_plan"]
        episode._is_certifying = row["certifying"]
        if steps is not None and row["length"]:
            _add_steps(episode, [part[end - row["length"] : end] for part in steps], agent.problem)
        elif row["terminated"] or row["off_plan"] or row["waiting"]:
            raise InvalidInput("an episode without steps can neither be over nor have left its plan")
        agent._order.add(episode)
        if row["waiting"]:
            agent._order.wait(episode)
            episode._life = "waiting"
        if row["advised"] != _NO_ADVICE:
            _restore_question(episode, agent.problem, next(states), next(among), row)


def _check(agent: Agent, own: Arrays, n_plans: int, n_begun: int) -> None:
    """Refuse arrays whose names, shapes, types or numbers no episodes have."""
    needed = {*_WHOLE, *_FLAGS, "asked_at"}
    asked = "advised" in own and bool((own["advised"] != _NO_ADVICE).any())
    reported = "length" in own and bool((own["length"] != 0).any())
    needed |= ({"advised_states"} if asked else set()) | (set(_STEPS) if reported else set())
    if set(own) - ({"advised_among"} if asked else set()) != needed:
        raise InvalidInput("the open episodes must have the arrays of episodes")
    count = len(own["number"]) if own["number"].ndim == 1 else 0
    types = dict.fromkeys(_WHOLE, np.int64) | dict.fromkeys(_FLAGS, np.bool_) | {"asked_at": np.float64}
    if not count or any(own[name].shape != (count,) or own[name].dtype != kind for name, kind in types.items()):
        raise InvalidInput("every entry of the open episodes must have one value for each of them")
    numbers, after, lengths = own["number"], own["planned_after"], own["length"]
    if numbers[0] < 0 or (np.diff(numbers) <= 0).any() or numbers[-1] >= n_begun:
        raise InvalidInput(f"numbers of episodes must increase from 0 to at most {n_begun - 1}")
    if (after < 0).any() or (np.diff(after) < 0).any() or (after > np.minimum(numbers, agent.n_episodes)).any():
        raise InvalidInput("an episode must be planned after episodes that were learned from")
    if set(own["plan"].tolist()) != set(range(n_plans)):
        raise InvalidInput("every plan must be that of an episode, and every episode must have one")
    if (lengths < 0).any() or (lengths > agent.problem.task.horizon).any():
        raise InvalidInput("an open episode does not fit the problem")
    if own["waiting"].any() and agent.late_episodes != "wait":
        raise InvalidInput("no episode waits if late episodes are learned from at once")
    if np.isinf(own["asked_at"]).any() or (~np.isnan(own["asked_at"]) & (own["advised"] == _NO_ADVICE)).any():
        raise InvalidInput("asked_at must be the time of a question")
    if asked and len(own["advised_states"]) != int((own["advised"] != _NO_ADVICE).sum()):
        raise InvalidInput("every question must have its state")
    if "advised_among" in own:
        shape, found = (len(own["advised_states"]), agent.problem.actions.size), own["advised_among"]
        if found.shape != shape or found.dtype != np.bool_ or not found.any():
            raise InvalidInput(f"advised_among must be booleans of shape {shape}, for questions about some actions")
    if reported:
        _check_steps(own, agent.problem, int(lengths.sum()))


def _check_steps(own: Arrays, problem: Problem, total: int) -> None:
    """Refuse steps of another number, shape or type than the problem has."""
    task = problem.task
    kind = task.state_dtype if isinstance(task, FunctionalTask) else np.int64 if isinstance(task, Task) else np.float64
    fits = (
        own["actions"].ndim == own["rewards"].ndim == 1
        and all(own[name].ndim > 0 and len(own[name]) == total for name in _STEPS)
        and own["actions"].dtype == np.int64
        and own["rewards"].dtype == np.float64
        and own["states"].dtype == own["next_states"].dtype == kind
    )
    if not fits:
        raise InvalidInput("an open episode does not fit the problem")


def _restore_question(
    episode: OpenEpisode, problem: Problem, state: Any, among: NDArray[Any], row: dict[str, Any]
) -> None:
    """Take back the last answer of an episode: the same question gets it again."""
    if episode.is_finished or not episode.is_open:
        raise InvalidInput("only an open episode that is not finished can have been asked for an action")
    chosen, planned = (
        index("action", row[name], size=problem.actions.size, remedy="It is damaged.")
        for name in ("advised", "planned")
    )
    now = None if np.isnan(row["asked_at"]) else row["asked_at"]
    own = problem.inner_state("state", state)
    asked = tuple(action_list(among)) or None
    if (chosen != planned and (asked is None or planned in asked)) or (asked is not None and chosen not in asked):
        raise InvalidInput("an answer must be the action of the plan, unless that was not allowed")
    _check_declared(problem, own, episode.stage, chosen)
    episode._advised = Advised(episode.stage, np.asarray(own).tolist(), chosen, planned, asked, now)


def _check_declared(problem: Problem, state: Any, stage: int, action: int) -> None:
    """Refuse an action that is not declared as allowed; a mask may have been reported after it was played."""
    known = problem.allowed_at(state, stage)
    if known is not None and not known[action]:
        raise InvalidInput(f"action {action} is not allowed in state {state}")


def _add_steps(episode: OpenEpisode, parts: list[NDArray[Any]], problem: Problem) -> None:
    for state, action, reward, following in zip(*(part for part in parts), strict=True):
        own_state = problem.inner_state("state", state)
        if not episode._states:
            episode._agent._first.check(own_state)
        episode._states.append(own_state)
        stage, inner = episode.stage, index("action", action, size=problem.task.n_actions, remedy="It is damaged.")
        own = problem.own_number(inner)
        if problem.inner_number(own, stage) != inner:
            raise InvalidInput(f"action {inner} is not one of stage {stage}")
        _check_declared(problem, episode._states[-1], stage, own)
        episode._actions.append(inner)
        episode._rewards.append(problem.reward(float(reward)))
        episode._next_states.append(problem.inner_state("next state", following))
    if episode._terminated and problem.kind != "continuous":
        end = problem.state_after_end(episode._next_states[-1])
        if not np.array_equal(episode._next_states[-1], end):
            raise InvalidInput("a terminated episode must have the end state as its last one")
