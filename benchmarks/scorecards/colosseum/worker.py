"""Plays Colosseum's own agents, in an interpreter that has Colosseum; `own_agents` starts it."""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.envs import policy_value
from matrixrl.problems import FiniteMDP, solve
from matrixrl.records import FloatArray, IntArray
from scorecards.colosseum.own_agents import THEIRS
from scorecards.colosseum.package import make_agent, make_mdp
from scorecards.colosseum.rows import PlayedSeeds, Player, play_tables
from scorecards.tables import greedy_value
from scorecards.workers import follow, tell

__all__ = ["main", "mean_regrets"]

ADVISES_ANOTHER = ("PSRLEpisodic",)
"""Agents that would advise another policy than the one that they play."""
SCORED_EVERY = 1_002
"""Steps between two scores of Colosseum's loop in its benchmark."""


def main() -> None:
    """Follow the order on the command line."""
    follow({"run": run})


def run(order: dict[str, Any]) -> None:
    """Play what is missing: the order names paths, folder, agents, n_steps and n_seeds."""
    played = play_tables(
        [Path(path) for path in order["paths"]],
        Path(order["folder"]),
        agents=order["agents"],
        n_steps=order["n_steps"],
        n_seeds=order["n_seeds"],
        player=Player(THEIRS, _play, ("rl-colosseum", "numpy")),
    )
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):  # Colosseum writes files where it runs
        for mdp, agent, row in played:
            tell(mdp=mdp, agent=agent, row=asdict(row) if row else None)


def _play(mdp: FiniteMDP, settings: dict[str, Any], n_episodes: int, seeds: Sequence[int]) -> PlayedSeeds:
    """Play the seeds of one of Colosseum's agents on its own MDP of a table."""
    found, began = [], time.process_time()
    for seed in seeds:
        env, states = make_mdp(mdp, seed)
        agent = make_agent(settings, env, n_episodes * mdp.horizon, seed)
        found.append(mean_regrets(mdp, env, agent, states, n_episodes))
    seconds = (time.process_time() - began) / len(seeds)
    advised = float(np.mean([advised for _, advised in found])) if settings["agent"] in ADVISES_ANOTHER else math.nan
    return PlayedSeeds(np.array([played for played, _ in found]), seconds, advised)


def mean_regrets(mdp: FiniteMDP, env: Any, agent: Any, states: IntArray, n_episodes: int) -> tuple[float, float]:
    """Play episodes as Colosseum's loop does, and return the means of V* − V^π of the policies played and advised.

    An agent takes the best action by its Q, and draws among several. Q of a stage changes after the step of that stage,
    so the policy of an episode is that of the Q at its start; its value is computed again when it changed. Colosseum's
    loop scores the policy that the agent would advise at every 1,002nd step; that of PSRL is the best one for the mean
    of the posterior, and never plays.

    Args:
        mdp: Table, which gives the values.
        env: Colosseum's MDP of the table.
        agent: Colosseum's agent.
        states: State of the table by observation.
        n_episodes: Number of episodes.
    """
    best, total, loss, greedy = solve(mdp).start_value, 0.0, 0.0, np.empty(0)
    advised: list[float] = []
    agent.before_start_interacting()
    for episode in range(n_episodes):
        q = agent._actor._q_values[: mdp.horizon]
        fresh = q == q.max(axis=2, keepdims=True)
        if not np.array_equal(fresh, greedy):
            greedy = fresh
            loss = best - greedy_value(mdp, _in_order(q, states), repeated=episode + 1)
        total += loss
        if episode * mdp.horizon >= len(advised) * SCORED_EVERY:
            advice = agent.current_optimal_stochastic_policy[: mdp.horizon]
            chances = _in_order(advice, states)  # in single precision
            advised.append(best - policy_value(mdp, chances / chances.sum(axis=2, keepdims=True)))
        now = env.reset()
        while not now.last():
            stage = env.h
            action = agent.select_action(now, stage)
            following = env.step(action)
            agent.step_update(now, action, following, stage)
            now = following
        agent.episode_end_update()
    return total / n_episodes, sum(advised) / len(advised)


def _in_order(table: FloatArray, states: IntArray) -> FloatArray:
    """Return an array (H, S, A) over observations as one over the states of the table."""
    own = np.empty(table.shape)
    own[:, states] = table
    return own


if __name__ == "__main__":
    main()
