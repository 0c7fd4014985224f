"""Agents over all environments of an experiment: interquartile means and performance profiles of normalised scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from matrixrl.records import FloatArray
from matrixrl_lab.analysis.statistics import (
    Interval,
    Profile,
    interquartile_mean,
    profile_of,
    stratified_interval,
    thresholds_of,
)
from matrixrl_lab.analysis.summary import AgentSummary, EnvSummary

__all__ = ["AgentAggregate", "Aggregate", "aggregate"]


@dataclass(frozen=True)
class AgentAggregate:
    """One agent over all environments that are compared.

    Attributes:
        id: Id of the agent.
        runs: Number of runs.
        seeds: Number of seeds of each environment, the smallest if they differ.
        mean: Mean score of all runs, with its stratified interval.
        median: Median score of all runs, with its stratified interval.
        iqm: Interquartile mean of the scores of all runs, with its stratified interval.
        profile: Share of runs with a score above τ.
    """

    id: str
    runs: int
    seeds: int
    mean: Interval
    median: Interval
    iqm: Interval
    profile: Profile


@dataclass(frozen=True)
class Aggregate:
    """All agents over all environments that are compared.

    Attributes:
        score: What a score is, in words.
        env_ids: Environments that are included.
        left_out: Environments without a score that can be compared.
        incomplete: Agents that are left out, as they have not played all episodes and seeds of `env_ids`.
        agents: Agents that have played all episodes and seeds of `env_ids`, in the order of the spec.
    """

    score: str
    env_ids: tuple[str, ...]
    left_out: tuple[str, ...]
    agents: list[AgentAggregate]
    incomplete: tuple[str, ...] = ()

    def left_out_words(self) -> list[str]:
        """Return which environments and agents are left out, one sentence each; nothing if all are included."""
        words = []
        if self.left_out:
            words.append(f"Without {', '.join(self.left_out)}: scores there have another scale, or are not known.")
        if self.incomplete:
            words.append(f"Without {', '.join(self.incomplete)}, not played in all environments, seeds and episodes.")
        return words


def aggregate(environments: Sequence[EnvSummary]) -> Aggregate | None:
    """Return all agents over all environments whose scores have one scale, or None if there is nothing to compare.

    The score of a run is 1 − regret / (N V*(s0)). Environments for which it is not defined are left out; if it is
    defined for none and there is one environment, the score is the return.

    Args:
        environments: Summaries of a store.
    """
    scored = {env.id: {a.id: a.scores for a in _most_played(env) if a.scores is not None} for env in environments}
    words = "share of the optimal value that a run earned, 1 − regret / (N V*(s0))"
    if not any(scored.values()) and len(environments) == 1 and environments[0].measure == "return":
        scored = {env.id: {a.id: a.totals for a in _most_played(env) if a.totals is not None} for env in environments}
        words = "return of an episode, over the second half of the episodes"
    included = {env_id: scores for env_id, scores in scored.items() if scores}
    ids = dict.fromkeys(agent.id for env in environments for agent in env.agents)
    complete = [agent_id for agent_id in ids if all(agent_id in scores for scores in included.values())]
    if not included or not complete:
        return None
    samples = {agent_id: [scores[agent_id] for scores in included.values()] for agent_id in complete}
    threshold = thresholds_of([scores for parts in samples.values() for scores in parts])
    left_out = tuple(env_id for env_id in scored if env_id not in included)
    agents = [_agent(agent_id, parts, threshold) for agent_id, parts in samples.items()]
    incomplete = tuple(agent_id for agent_id in ids if agent_id not in complete)
    return Aggregate(words, tuple(included), left_out, agents, incomplete)


def _most_played(env: EnvSummary) -> list[AgentSummary]:
    """Return the agents with the most episodes and seeds: scores of fewer episodes cannot be compared with theirs."""
    most = max((agent.episodes, agent.seeds) for agent in env.agents)
    return [agent for agent in env.agents if (agent.episodes, agent.seeds) == most]


def _agent(agent_id: str, samples: list[FloatArray], threshold: FloatArray) -> AgentAggregate:
    return AgentAggregate(
        id=agent_id,
        runs=sum(map(len, samples)),
        seeds=min(map(len, samples)),
        mean=stratified_interval(samples, np.mean),
        median=stratified_interval(samples, np.median),
        iqm=stratified_interval(samples, interquartile_mean),
        profile=profile_of(samples, threshold),
    )
