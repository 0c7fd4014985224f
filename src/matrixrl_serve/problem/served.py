"""A problem that is served: its spaces, the task that is learned, and the agent that learns it."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.agents import MatrixRL
from matrixrl.algorithms.registry import setting_names
from matrixrl.checks import choice, fail, shaped, shown
from matrixrl.errors import InvalidInput
from matrixrl.features import Features, one_hot
from matrixrl.problems import Task
from matrixrl.records import BoolArray, FloatArray, IntArray
from matrixrl.references import is_reference
from matrixrl.spaces import read_space
from matrixrl_serve.problem.file import ProblemFile

__all__ = ["LOGGED", "ServedProblem"]

LOGGED = "logged"
"""An incumbent of which only the decisions are known that the application reports."""
_SWITCH_GROWTH = 0.1  # plan again once some group of pairs was visited 10 % more often
_SHARE_OF_LOGGED = 0.5  # of δ, for the bound on the value of an incumbent that is only known from its returns
_OWN = {  # settings that follow from other keys of the file, or from none
    "preset": "Use the key preset.",
    "incumbent": "Use the key incumbent: a service plays it until a better policy is proven (promote).",
    "loss_budget": "A service has none: episodes share plans; use the keys incumbent and promote.",
    "delta": "Use the key delta.",
    "seed": "Use the key seed.",
    "known_reward": "Give rewards if they are known; they are learned without them.",
    "compiled": "Compiled loops are used if the extra fast is installed.",
    "planner": "A service needs the values of all states, which only sweeps have.",
    "n_episodes": "A service has no planned number of episodes.",
}
_LARGEST_GROUP = 2.0**53 - 1.0
_MOST_PAIRS = 5_000_000  # of states and actions; a service and its learner hold tables of them


class ServedProblem:
    """Everything that follows from a problem file.

    Attributes:
        states: States as applications name them.
        actions: Actions, likewise.
        task: What is learned.
        incumbent: (H, S) Actions of the policy in use; None if it is not known.
        start: Number of the first state; None if episodes may begin anywhere.

    Raises:
        InvalidInput: Keys do not fit together.

    >>> problem = ServedProblem(ProblemFile(states=3, actions=["wait", "order"], horizon=5))
    >>> problem.task.n_states, problem.actions.decode(1)
    (3, 'order')
    """

    def __init__(self, file: ProblemFile) -> None:
        self.file = file
        self.states, self.actions = (
            read_space(name, getattr(file, name), as_objects=True) for name in ("states", "actions")
        )
        n_pairs = self.states.size * self.actions.size
        if n_pairs > _MOST_PAIRS:
            rule = f"times actions must be at most {_MOST_PAIRS:,}"
            fail("states", rule, f"{n_pairs:,}", "Group states before they are asked about.")
        self.start = None if file.start is None else self.state("start", file.start)
        if file.default_reward is not None and file.time_out is None:
            fail("default_reward", "needs a time_out", file.default_reward, "Add time_out = seconds.")
        self._settings = _checked_settings(file.settings)
        self.task = self._task()
        self.incumbent = self._incumbent()
        if file.promote and file.incumbent is None:
            fail("promote", "needs an incumbent to compare with", True, "Add incumbent = [...] or 'logged'.")
        if file.promote and self.start is None:
            rule = "needs a first state that all episodes begin in: values are compared there"
            fail("promote", rule, "no start", "Add start = ….")
        if file.default_reward is not None:
            self.agent().problem.reward(file.default_reward)

    def state(self, argument: str, given: Any) -> int:
        """Return the number of a state, or refuse what is none under the name of an argument."""
        return self.states.encode(argument, given, "See the problem file.")

    def action(self, argument: str, given: Any) -> int:
        """Return the number of an action, likewise."""
        return self.actions.encode(argument, given, "See the problem file.")

    @property
    def horizon(self) -> int:
        """Number of steps of an episode."""
        return self.task.horizon

    @property
    def incumbent_delta(self) -> float:
        """Share of δ for the bound on the value of an incumbent that is only known from its returns."""
        return _SHARE_OF_LOGGED * self.file.delta if self.file.incumbent == LOGGED else 0.0

    def assumptions(self, n_time_outs: int) -> str:
        """Return what the service assumes besides what its agent does, in words; may be empty.

        Args:
            n_time_outs: Number of episodes that timed out.
        """
        if self.file.default_reward is None:
            return ""
        # Plans before the first time-out keep the words of earlier versions, or their logs could not be followed.
        is_known = self.task.knows_reward and n_time_outs > 0
        pays = "its known reward" if is_known else f"{self.file.default_reward:g}"
        return (
            f"an outcome that is not reported in time pays {pays}, and whether it is reported "
            "depends on its state and action alone"
        )

    def agent(self) -> MatrixRL:
        """Return a new agent that has learned nothing."""
        file = self.file
        options = {"switch_growth": _SWITCH_GROWTH, **self._settings}
        return MatrixRL(
            self.task,
            preset=file.preset,
            delta=file.delta - self.incumbent_delta,
            seed=file.seed,
            keep_log=False,
            late_episodes="wait",
            **options,
        )

    def allowed_at(self, state: int, stage: int) -> BoolArray | None:
        """Return which actions (A,) are declared as allowed in a state at a stage; None for all."""
        allowed = self.task.allowed
        return None if allowed is None else allowed[state, self.task.stages.block(stage)]

    def _task(self) -> Task:
        file, sizes = self.file, (self.states.size, self.actions.size)
        rewards = None if file.rewards is None else shaped("rewards", file.rewards, sizes, remedy=_row_of("numbers"))
        return Task(
            rewards,
            file.horizon,
            n_states=sizes[0],
            n_actions=sizes[1],
            reward_range=(file.reward_range[0], file.reward_range[1]),
            start=self.start,
            may_terminate=file.may_terminate or file.time_out is not None,
            features=None if file.groups is None else self._grouped(),
            allowed=None if file.allowed is None else self._allowed(),
            stage_dependent=file.stage_dependent,
            discount=file.discount,
            accuracy=file.accuracy,
        )

    def _grouped(self) -> Features:
        """Return one-hot features of groups of pairs."""
        sizes = (self.states.size, self.actions.size)
        table = shaped("groups", self.file.groups, sizes, remedy=_row_of("numbers of groups"))
        if (table != np.floor(table)).any():
            fail("groups", "must be whole numbers", shown(self.file.groups), "Number the groups.")
        if (np.abs(table) > _LARGEST_GROUP).any():  # float64 would merge neighbours
            fail("groups", "must be between −2⁵³ and 2⁵³", shown(self.file.groups), "Number the groups 0, 1, 2, ….")
        found, numbers = np.unique(table, return_inverse=True)
        phi = np.eye(len(found))[numbers.reshape(sizes)]
        return Features(phi, one_hot(*sizes).psi)  # type: ignore[arg-type]  # arrays become feature maps

    def _allowed(self) -> BoolArray:
        """Return the declared table of allowed actions: (S, A)."""
        given, (n_states, n_actions) = self.file.allowed, (self.states.size, self.actions.size)
        if not isinstance(given, list) or len(given) != n_states:
            fail("allowed", f"must have one row for each of the {n_states} states", shown(given), _row_of("booleans"))
        for s, row in enumerate(given):
            if not isinstance(row, list):
                fail(f"allowed[{s}]", "must be a list", shown(row), "Give A booleans, or the actions that are allowed.")
        if all(len(row) == n_actions and _are_bits(row) for row in given):
            return self._table_of_bits(given)
        return np.array([self._mask(f"allowed[{s}]", row, n_actions) for s, row in enumerate(given)])

    def _table_of_bits(self, given: list[list[int]]) -> BoolArray:
        """Return a table of A columns of 0 and 1 as a mask; refuse it if it can be lists of actions as well."""
        table = np.array(given, dtype=np.bool_)
        try:
            lists = np.array([self._mask(f"allowed[{s}]", row, 0) for s, row in enumerate(given)])
        except InvalidInput:  # rows that name an action twice, or that name actions by words
            return table
        if np.array_equal(lists, table) or not table.any(axis=1).all():
            return lists
        rule = "must be clear: its rows of 0 and 1 may be masks or the numbers of actions"
        remedy = "Write true and false for masks; leave it out if all actions are allowed."
        fail("allowed", rule, shown(given), remedy)

    def _mask(self, argument: str, row: list[Any], n_actions: int) -> BoolArray:
        if len(row) == n_actions and all(isinstance(cell, bool) for cell in row):
            return np.array(row, dtype=np.bool_)
        mask = self.among(argument, row)
        if np.count_nonzero(mask) < len(row):
            fail(argument, "must name each action once", shown(row), "Write true and false for a mask.")
        return mask

    def among(self, argument: str, given: Any) -> BoolArray:
        """Return a list of actions as booleans (A,)."""
        if not isinstance(given, list) or not given:
            fail(argument, "must be a list of at least one action", shown(given), "Leave it out to allow all.")
        mask = np.zeros(self.actions.size, dtype=np.bool_)
        for number, action in enumerate(given):
            mask[self.action(f"{argument}[{number}]", action)] = True
        return mask

    def _incumbent(self) -> IntArray | None:
        """Return the policy in use as a table (H, S); None if there is none or it is only reported."""
        given, n_states = self.file.incumbent, self.states.size
        if given is None or given == LOGGED:
            return None
        if not isinstance(given, list) or not given:
            fail("incumbent", "must be a list of actions, or 'logged'", shown(given), "Give one for each state.")
        nested = len(given) == self.horizon and all(isinstance(row, list) for row in given)
        rows = given if nested else [given]
        table = np.zeros((len(rows), self.task.n_states), dtype=np.int64)
        for h, row in enumerate(rows):
            if len(row) != n_states:
                rule = f"must have one action for each of the {n_states} states"
                fail("incumbent", rule, f"{len(row)}", "Give a list, or one list for each stage.")
            table[h, :n_states] = [self.action(f"incumbent[{s}]", action) for s, action in enumerate(row)]
        full = np.broadcast_to(table, (self.horizon, self.task.n_states)).copy()
        if self.task.allowed is not None:
            for h in range(self.horizon):
                for s in range(n_states):
                    mask = self.allowed_at(s, h)
                    if mask is not None and not mask[full[h, s]]:
                        action = self.actions.decode(int(full[h, s]))
                        fail("incumbent", "must take actions that are allowed", f"{action} in state {s}", "Correct it.")
        return full

    def value_range(self) -> FloatArray:
        """Return the smallest and the largest value of an episode: (2,)."""
        return self.task.steps_weight * np.array(self.task.reward_range)


def _are_bits(row: list[Any]) -> bool:
    return all(type(cell) is int and cell in (0, 1) for cell in row)


def _checked_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a problem file: those of the algorithm, and no others.

    A file is data. Arguments of the agent, such as one that lets it import code, are not among them, and no value may
    refer to code.
    """
    known = sorted(setting_names(MatrixRL.name) - set(_OWN))
    for name, value in given.items():
        if name in _OWN:
            fail(f"settings.{name}", "must be left out", shown(value), _OWN[name])
        choice("settings", name, known)
        if is_reference(value) or not isinstance(value, str | bool | int | float):
            rule = "must be a number, true, false or a name of the library; a file cannot refer to code"
            fail(f"settings.{name}", rule, shown(value), "See matrixrl list settings.")
    return dict(given)


def _row_of(what: str) -> str:
    return f"Give one row of A {what} for each state."
