"""Episodes that were not learned from yet as arrays, and back; tables of plans are stored once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.agents.episodes import Advised, OpenEpisode
from matrixrl.archive import check_arrays
from matrixrl.checks import index
from matrixrl.errors import InvalidInput
from matrixrl.problems import FunctionalTask, Task
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
    "asked_at": np.empty(0),  # time of the last question, or NaN
}
_NO_ADVICE = -1  # "advised" and "planned" of an episode whose last question was followed by a step


def episode_arrays(agent: Agent) -> tuple[Arrays, Arrays, list[dict[str, int]]]:
    """Return the episodes that were not learned from, in the order of their begin; nothing if there are none.

    Returns:
        One entry of every name in `_ROWS` for each episode, the states of the questions and, if any was about some
        actions only, which ones (q, A), and the steps of all episodes one after the other. Second, the tables of their
        plans, which may share some: "0_policy", "1_policy", …. Third, each different plan as the number of each of its
        tables by name.
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
            for name, table in episode._plan.arrays().items():
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
    """Put what `episode_arrays` returned into an agent that has everything that it learned."""
    agent._queue.n_begun = n_begun
    if not own and not tables and not plans:
        return
    _check(agent, own)
    named = {f"{number}_{name}" for one in plans for name, number in one.items()}
    if named != set(tables) or set(own["plan"].tolist()) != set(range(len(plans))):
        raise InvalidInput("every episode must have a plan, every plan an episode, and every table a plan")
    made = [
        agent.algorithm.plan_from_arrays({name: tables[f"{number}_{name}"] for name, number in one.items()})
        for one in plans
    ]
    problem, n_actions = agent.problem, agent.problem.actions.size
    states: Iterator[Any] = iter(own.get("advised_states", ()))
    among = iter(own.get("advised_among", np.zeros((len(own["number"]), 0), dtype=np.bool_)))
    for i, end in enumerate(np.cumsum(own["length"]).tolist()):
        row = {name: own[name][i].item() for name in _ROWS}
        episode = OpenEpisode(agent, made[row["plan"]], row["number"], row["planned_after"])
        episode.data.terminated, episode._off_plan = row["terminated"], row["off_plan"]
        episode._is_certifying = row["certifying"]
        for k in range(end - row["length"], end):
            episode.data.states.append(problem.inner_state("state", own["states"][k]))
            episode.data.actions.append(index("action", own["actions"][k], size=n_actions, remedy="It is damaged."))
            episode.data.rewards.append(problem.reward(float(own["rewards"][k])))
            episode.data.next_states.append(problem.inner_state("next state", own["next_states"][k]))
        agent._queue.add(episode)
        if row["waiting"]:
            agent._queue.wait(episode)
        if row["advised"] != _NO_ADVICE:
            chosen, planned = (
                index("action", row[name], size=n_actions, remedy="It is damaged.") for name in ("advised", "planned")
            )
            state = np.asarray(problem.inner_state("state", next(states))).tolist()
            asked, now = tuple(action_list(next(among))) or None, row["asked_at"]
            now = None if np.isnan(now) else now
            episode._advised = Advised(episode.stage, state, chosen, planned, asked, now)


def _check(agent: Agent, own: Arrays) -> None:
    """Refuse arrays of other names, lengths or types."""
    check_arrays(own, _ROWS, optional=("advised_states", "advised_among", *_STEPS), may_be_nan=("asked_at",))
    lengths, task, order = own["length"], agent.problem.task, [-1, *own["number"].tolist(), agent._queue.n_begun]
    kind = task.state_dtype if isinstance(task, FunctionalTask) else np.int64 if isinstance(task, Task) else np.float64
    kinds = dict(zip(_STEPS, (kind, np.int64, np.float64, kind), strict=True))
    n_asked = int((own["advised"] != _NO_ADVICE).sum())
    among = own.get("advised_among", np.empty((n_asked, agent.problem.actions.size), dtype=np.bool_))
    fits = (
        all(len(own[name]) == len(lengths) for name in _ROWS)
        and all(own[name].dtype == wanted for name, wanted in kinds.items() if name in own)
        and all(len(own.get(name, ())) == lengths.sum() for name in _STEPS)
        and bool(((lengths >= own["waiting"]) & (lengths <= task.horizon)).all())
        and all(first < second for first, second in pairwise(order))
        # the delay of a plan enters the regret bound
        and bool(((own["planned_after"] >= 0) & (own["planned_after"] <= agent.algorithm.episode)).all())
        and len(own.get("advised_states", ())) == n_asked
        and among.shape == (n_asked, agent.problem.actions.size)
        and among.dtype == np.bool_
    )
    if not fits:
        raise InvalidInput("the open episodes must have one entry for each of them, each step and each question")
