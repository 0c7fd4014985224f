"""Tasks in words and as tables."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from matrixrl.features import Features
from matrixrl.problems.stages import Stages
from matrixrl.records import BoolArray, FloatArray

__all__ = ["TaskToDescribe", "sizes_in_words", "task_facts"]


class TaskToDescribe(Protocol):
    """What the words of a task are made of; `Task` documents it."""

    horizon: int
    discount: float
    is_endless: bool
    end_is_added: bool
    knows_reward: bool
    reward_range: tuple[float, float]
    start: FloatArray
    start_is_declared: bool
    end_state: int | None
    stages: Stages | None
    allowed: BoolArray | None
    features: Features

    @property
    def n_observed(self) -> int:
        """Number of states that can be observed."""
        ...

    @property
    def n_own_actions(self) -> int:
        """Number of actions A that a user chooses from."""
        ...


def sizes_in_words(task: TaskToDescribe) -> str:
    """Return the sizes of a task, how laws depend on the stage, and how rewards are discounted.

    Args:
        task: The task.
    """
    end = " and the end state" * task.end_is_added
    words = f"{task.n_observed:,} states{end}, {task.n_own_actions:,} actions, {task.horizon:,} steps"
    if task.stages is not None:
        count = task.stages.n_classes
        each = "at every stage" if count == task.horizon else f"in {count} classes of stages"
        words += f", laws of their own {each}"
    if task.discount < 1.0:
        words += f", discount {task.discount:g}"
    if task.is_endless:
        words += f" forever: the steps that are cut off weigh {task.discount**task.horizon:.2g} of all"
    return words


def task_facts(task: TaskToDescribe) -> dict[str, object]:
    """Return what else there is to know about a task, by name.

    Args:
        task: The task.
    """
    low, high = task.reward_range
    starts = np.flatnonzero(task.start)
    first: object = int(starts[0]) if len(starts) == 1 else f"one of {len(starts):,}, at random"
    first = first if task.start_is_declared else "not declared"
    facts: dict[str, object] = {
        "rewards": f"{low:g} to {high:g}" + ("" if task.knows_reward else ", to be learned"),
        "first state": first,
    }
    if task.end_state is not None:
        facts["end state"] = task.end_state
    if task.allowed is not None:
        facts["allowed pairs"] = f"{np.count_nonzero(task.allowed):,} of {task.allowed.size:,}"
    return facts | {"features": task.features}
