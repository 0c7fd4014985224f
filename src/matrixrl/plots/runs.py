"""Reading what users pass to be drawn over episodes: an agent, its history, a result, or several of them by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from matrixrl.agents import Agent
from matrixrl.checks import fail, shown
from matrixrl.measuring import held
from matrixrl.printable import printable
from matrixrl.problems import solve
from matrixrl.records import FloatArray, History
from matrixrl.simulate import RunResult

__all__ = ["Run", "read_runs"]

_REMEDY = "Pass an agent, agent.history, the result of run_seeds, or a dictionary of them by name."


@dataclass(frozen=True)
class Run:
    """N episodes of K seeds, in the environment's unit.

    Attributes:
        label: Name in the legend.
        returns: (K, N) Sum of the rewards of each episode.
        regret: (K, N) Regret of each episode, held between measured ones; None if it was not measured.
        certified: (K, N, 2) Lower and upper bound of each certificate; NaN where none was requested.
        optimum: Optimal value V*(s0); None if it is not known.
        guarantee: True if the regret bound is proven, else why it is not; None if it is not known.
        earns_from_zero: Whether rewards are never negative; None if it is not known.
    """

    label: str
    returns: FloatArray
    regret: FloatArray | None
    certified: FloatArray
    optimum: float | None
    guarantee: Literal[True] | str | None
    earns_from_zero: bool | None = None

    @property
    def n_episodes(self) -> int:
        """Number of episodes N."""
        return int(self.returns.shape[1])

    @property
    def n_seeds(self) -> int:
        """Number of seeds K."""
        return int(self.returns.shape[0])

    @property
    def cumulative_regret(self) -> FloatArray | None:
        """Cumulative regret (K, N), YW19 (1); None if it was not measured."""
        return None if self.regret is None else np.cumsum(self.regret, axis=1)


def read_runs(given: Any) -> list[Run]:
    """Return the runs that a user wants to see, each with its name.

    Args:
        given: An `Agent`, a `History`, a `RunResult`, or a dictionary of them by name.

    Raises:
        InvalidInput: It is something else, or nothing was played.
    """
    named = given if isinstance(given, Mapping) else {None: given}
    if not named:
        fail("runs", "must not be empty", shown(given), _REMEDY)
    runs = [_read(label, one) for label, one in named.items()]
    played = [run for run in runs if run.n_episodes]
    if not played:
        fail("runs", "must have episodes", "none", "Call learn(n_episodes=…) first.")
    return played


def _read(label: Any, given: Any) -> Run:
    if isinstance(given, Agent):
        mdp, name = given.problem.mdp, given.name if label is None else label
        optimum = None if mdp is None else solve(mdp).start_value
        earns = None if mdp is None else mdp.task.reward_range[0] >= 0.0
        return _of_history(printable(name), given.history, optimum, given.guarantee, earns)
    if isinstance(given, RunResult):
        regret = given.held_regret if given.measures_regret else None
        name = given.agent if label is None else label
        record = given.returns, regret, given.certified, given.optimal_value, given.guarantee, given.earns_from_zero
        return Run(printable(name), *record)
    if isinstance(given, History):
        return _of_history(printable("history" if label is None else label), given, None, None, None)
    fail("runs", "must be what was played", shown(given), _REMEDY)


def _of_history(
    label: str, history: History, optimum: float | None, guarantee: Literal[True] | str | None, earns: bool | None
) -> Run:
    regret = None if history.regret is None else held(history.regret, history.regret_every)
    if regret is not None and np.isnan(regret).any():  # episodes that others played have no regret of the agent
        regret = None
    rows = (None if regret is None else regret[None]), history.certified[None]
    return Run(label, history.returns[None], *rows, optimum, guarantee, earns)
