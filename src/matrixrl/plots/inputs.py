"""What users pass to be drawn: agents, states and stages, and runs of one or more agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from matrixrl.agents import Agent, PlannedAhead
from matrixrl.agents.deployment import ActionTables
from matrixrl.checks import fail, index, shown
from matrixrl.display import printable
from matrixrl.history import History
from matrixrl.measurement import held
from matrixrl.play import RunResult
from matrixrl.problems import solve
from matrixrl.records import FloatArray, Guarantee
from matrixrl.spaces import Codec, NamesCodec, name_text

__all__ = ["Run", "action_names", "checked_agent", "checked_stage", "read_runs", "state_names", "tables_of", "texts_of"]

_REMEDY = "Pass an agent, agent.history, the result of run_seeds, or a dictionary of them by name."


def checked_agent(agent: Any, *, finite: bool = True) -> Agent:
    """Return `agent` if it is an `Agent`, on numbered states unless they are not needed; or raise `InvalidInput`."""
    if not isinstance(agent, Agent):
        fail("agent", "must be an agent", shown(agent), 'Such as matrixrl.MatrixRL("river-swim").')
    if finite and agent.problem.kind != "finite":
        fail("agent", "must be on numbered states", shown(agent), "Draw regret or returns instead.")
    return agent


def checked_stage(agent: Agent, stage: Any) -> int:
    """Return a stage of the agent's problem, or raise `InvalidInput`."""
    return index("stage", stage, size=agent.problem.task.horizon, remedy="Stages count from 0.")


def tables_of(agent: Agent) -> ActionTables:
    """Return the plan of the next episode, with proven bounds on Q* of every action; nothing is changed."""
    return agent.action_tables(PlannedAhead(agent.algorithm.advice(), agent.n_episodes))


def action_names(agent: Agent) -> list[str]:
    """Return the actions of a problem, as its environment names them."""
    return texts_of(agent.problem.actions)


def texts_of(codec: Codec) -> list[str]:
    """Return the elements of a space as text."""
    return [printable(codec.decode(number)) for number in range(codec.size)]


def state_names(agent: Agent) -> list[str]:
    """Return the states of a finite problem, as its environment names them; the end state is called so."""
    problem, task = agent.problem, agent.problem.finite_task
    names = [printable(problem.shown_state(s)) for s in range(task.n_states)]
    if isinstance(problem.states, NamesCodec):
        names[: problem.n_observed] = map(name_text, problem.states.elements)
    if task.end_state is not None:
        names[task.end_state] = "end"
    return names


@dataclass(frozen=True)
class Run:
    """N episodes of K seeds, in the environment's unit."""

    label: str  # name in the legend
    returns: FloatArray  # (K, N) Sum of the rewards of each episode
    regret: FloatArray | None  # (K, N) Regret of each episode, held between measured ones; None if it was not measured
    certified: FloatArray  # (K, N, 2) Lower and upper bound of each certificate; NaN where none was requested
    optimum: float | None  # optimal value V*(s0); None if it is not known
    guarantee: Guarantee | None  # whether the regret bound is proven; None if it is not known
    earns_from_zero: bool | None = None  # whether rewards are never negative; None if it is not known

    @property
    def n_episodes(self) -> int:
        """Number of episodes N."""
        return int(self.returns.shape[1])

    @property
    def n_seeds(self) -> int:
        """Number of seeds K."""
        return int(self.returns.shape[0])


def read_runs(given: Any) -> list[Run]:
    """Return the runs of an `Agent`, a `History`, a `RunResult`, or a dictionary of them by name."""
    named = given if isinstance(given, Mapping) else {None: given}
    if not named:
        fail("runs", "must not be empty", shown(given), _REMEDY)
    runs = [_read(label, one) for label, one in named.items()]
    played = [run for run in runs if run.n_episodes]
    if not played:
        fail("runs", "must have episodes", "none", "Call learn(n_episodes=…) first.")
    return played


def _read(label: Any, given: Any) -> Run:
    if isinstance(given, RunResult):
        regret = given.held_regret if given.measures_regret else None
        name, optimum = printable(given.agent if label is None else label), given.optimal_value
        return Run(name, given.returns, regret, given.certified, optimum, given.guarantee, given.earns_from_zero)
    name, history, optimum, guarantee, earns = "history", given, None, None, None
    if isinstance(given, Agent):
        name, history, guarantee, mdp = given.name, given.history, given.guarantee, given.problem.mdp
        if mdp is not None:
            optimum, earns = solve(mdp).start_value, mdp.task.reward_range[0] >= 0.0
    if not isinstance(history, History):
        fail("runs", "must be what was played", shown(given), _REMEDY)
    regret = None if history.regret is None else held(history.regret, history.regret_every)[None]
    if regret is not None and np.isnan(regret).any():  # episodes that others played have no regret of the agent
        regret = None
    name = printable(name if label is None else label)
    return Run(name, history.returns[None], regret, history.certified[None], optimum, guarantee, earns)
