"""The finished episodes of a log as CSV, Parquet or a Minari data set, as `Agent.export` writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from matrixrl.errors import ProtocolError, StoreError
from matrixrl.logs import StepLog, write_log
from matrixrl.problems import Problem
from matrixrl_serve.learner.outcomes import default_reward, filled_in
from matrixrl_serve.log import EventLog
from matrixrl_serve.problem import ServedProblem
from matrixrl_serve.projection import Projection, Told

__all__ = ["export"]


def export(log: EventLog, problem: ServedProblem, path: str, is_stopping: Callable[[], bool]) -> int:
    """Write all steps that a learner may learn from, and return their number.

    Args:
        log: The log.
        problem: Its problem.
        path: As in `Agent.export`.
        is_stopping: Function that says whether nobody waits for it any more.
    """
    episodes = list(_episodes(log, problem, is_stopping))
    if not episodes:
        raise ProtocolError("nothing can be exported before an episode is over")
    rows = [told for steps in episodes for told in steps]
    end = problem.task.end_state
    columns = (
        np.array([told.state for told in rows]),
        np.array([told.action for told in rows]),
        np.array([told.reward for told in rows]),
        np.array([end if told.following is None else told.following for told in rows]),
        np.array([told.terminated for told in rows]),
    )
    lengths = np.array([len(steps) for steps in episodes])
    seen = StepLog(*columns, np.zeros_like(lengths), lengths)
    task = Problem.of(problem.task)
    described = replace(task, states=problem.states, actions=problem.actions, name=problem.file.name)
    write_log(path, seen, np.zeros(len(episodes), dtype=np.bool_), described, "matrix-rl")
    return seen.n_steps


def _episodes(log: EventLog, problem: ServedProblem, is_stopping: Callable[[], bool]) -> Iterator[list[Told]]:
    """Yield the outcomes of each episode that is over and was not abandoned; a time-out ends an episode."""
    projection = Projection(problem.file.mode)
    for event in log.read():
        if is_stopping():
            raise StoreError("the service ends; send the request again later")
        closed = projection.apply(event)
        if closed is None or closed.closed == "abandoned" or not closed.steps:
            continue
        found = []
        for number, told in enumerate(filled_in(closed, problem)):
            asked = closed.steps[number].asked
            if told is None and asked is not None and asked.action is not None:
                reward = default_reward(problem, asked.state, asked.action, number)
                told = Told(asked.state, asked.action, reward, None, terminated=True)
            if told is not None:
                found.append(told)
        yield found
