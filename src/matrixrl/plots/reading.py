"""Reading agents, states, actions and stages that users pass to be drawn."""

from __future__ import annotations

from typing import Any

from matrixrl.agents import Agent
from matrixrl.agents.action_tables import ActionTables, action_tables
from matrixrl.checks import fail, index, shown
from matrixrl.printable import printable

__all__ = ["action_names", "checked_agent", "checked_stage", "finite_agent", "state_names", "tables_of"]


def checked_agent(agent: Any) -> Agent:
    """Return `agent` if it is an `Agent`, or raise `InvalidInput`."""
    if not isinstance(agent, Agent):
        fail("agent", "must be an agent", shown(agent), 'Such as matrixrl.MatrixRL("river-swim").')
    return agent


def finite_agent(agent: Any) -> Agent:
    """Return an agent on numbered states, or raise `InvalidInput`."""
    if checked_agent(agent).problem.kind != "finite":
        fail("agent", "must be on numbered states", shown(agent), "Draw regret or returns instead.")
    return agent  # type: ignore[no-any-return]


def checked_stage(agent: Agent, stage: Any) -> int:
    """Return a stage of the agent's problem, or raise `InvalidInput`."""
    return index("stage", stage, size=agent.problem.task.horizon, remedy="Stages count from 0.")


def tables_of(agent: Agent) -> ActionTables:
    """Return the plan that `predict` follows, with proven bounds on Q* of every action; nothing is changed."""
    return action_tables(agent.algorithm, agent.algorithm.advice())


def action_names(agent: Agent) -> list[str]:
    """Return the actions of a problem, as its environment names them."""
    codec = agent.problem.actions
    return [printable(codec.decode(a)) for a in range(codec.size)]


def state_names(agent: Agent) -> list[str]:
    """Return the states of a finite problem, as its environment names them; the end state is called so."""
    problem, task = agent.problem, agent.problem.finite_task
    names = [printable(problem.shown_state(s)) for s in range(task.n_states)]
    if task.end_state is not None:
        names[task.end_state] = "end"
    return names
