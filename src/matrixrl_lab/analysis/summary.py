"""Summary of a store: curves, totals, growth exponents, differences and times of every agent."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from matrixrl.measurement import measured_places
from matrixrl.play.results import alarm_words
from matrixrl.records import FloatArray, Guarantee
from matrixrl_lab.analysis.number_text import rounded
from matrixrl_lab.analysis.statistics import (
    Curve,
    Interval,
    curve_of,
    grid_of,
    growth_exponent,
    iqm_interval,
    mean_interval,
    median_interval,
)
from matrixrl_lab.spec import Cell
from matrixrl_lab.store import RunRow, Store

__all__ = ["AgentSummary", "EnvSummary", "RegretBounds", "contents", "summarise"]


@dataclass(frozen=True)
class RegretBounds:
    """Regret bounds of one agent on one environment, in the unit of the environment.

    Attributes:
        episode: (m,) Numbers of episodes N.
        theorem_2: (m,) Formula of Theorem 2 with c = 1, whose constant c is not proven.
        explicit: (m,) Bound that the regret of N episodes exceeds with probability at most 2δ; None if nothing is
            proven. Agents of the lab play their own plans, so that the gaps of docs/proofs.md, 7.1, are 0.
        largest: (m,) NH, the largest regret that is possible.
        informative_from: Smallest N at which the explicit bound is below NH; None if nothing is proven.
    """

    episode: FloatArray
    theorem_2: FloatArray
    explicit: FloatArray | None
    largest: FloatArray
    informative_from: int | None

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Self | None:
        """Return the bounds among the stored facts of a cell, or None if there are none.

        Facts without `largest` are of an older version, whose explicit bound left out learned rewards, rare switching
        and chance; that bound is not used.
        """
        stored = facts.get("bounds")
        if stored is None:
            return None
        episode, theorem_2 = np.asarray(stored["episode"]), np.asarray(stored["theorem_2"])
        if stored.get("largest") is None:
            return cls(episode, theorem_2, None, np.full(len(episode), np.nan), None)
        explicit = None if stored["explicit"] is None else np.asarray(stored["explicit"])
        return cls(episode, theorem_2, explicit, np.asarray(stored["largest"]), stored["informative_from"])

    @property
    def is_trivial(self) -> bool:
        """Whether the explicit bound is NH at every N, so that it says nothing."""
        return self.explicit is not None and bool((self.explicit >= self.largest).all())

    @property
    def extent(self) -> str:
        """Words that say up to which episode the explicit bound is trivial."""
        if self.explicit is None:
            return "nothing is proven"
        first = self.informative_from
        return "trivial at any N" if first is None else f"trivial until N = {rounded(first)}"


_ROUNDING = 1e-9  # relative tolerance of comparisons with V*


@dataclass(frozen=True)
class AgentSummary:
    """Summary of one agent on one environment.

    Attributes:
        cell: Number of the cell.
        id: Id of the agent.
        agent: Registered name of the agent.
        settings: All settings of the agent, including defaults.
        guarantee: True if a regret bound is proven for these settings and no alarm was raised, otherwise the reason;
            None before the first block.
        played: Seeds that the statistics include: those with episodes that did not fail (all seeds with episodes if
            all failed).
        failed: Seed and reason of every failed run.
        episodes: Number of episodes that all seeds in `played` have.
        curve: Cumulative regret, or return of each episode if the optimum is unknown; None before the first block.
        final: Mean of the total regret, or of the return over the second half of the episodes.
        median: Median of the same quantity.
        iqm: Interquartile mean of the same quantity.
        scores: Share of the largest possible value that each run earned, 1 − regret / (N V*(s0)), shape (K,): 1 is
            optimal and 0 is earning nothing; None if V* is unknown or rewards may be negative.
        totals: Values of which `final` is the mean, shape (K,).
        at_end: Regret or return per episode over the last tenth of the episodes, mean over seeds.
        exponent: Growth exponent of regret over the last decade, or None.
        difference: Mean of `totals` minus those of the best agent on the same seeds; None for the best agent.
        seconds_per_1000: Seconds per 1,000 episodes of one seed, measured as its share of a batch, without compiling.
        kept_megabytes: Megabytes that one seed stores between episodes.
        optimistic_share: Share of episodes in which the planned value was at least V*(s0); None if V* is unknown.
        gap: Mean gap of the final certificates: the upper bound on V*(s0) minus the lower bound on the value of the
            policy that all data advise; None for agents without certificates. It does not need `certify`.
        gap_guarantee: True if all final certificates are proven, each with probability 1 − δ, otherwise the first
            reason why not; None without certificates.
        certified: Curves of the lower and the upper bound of the certificates, or None.
        truths_inside: Number of seeds of which all certificates held: V*(s0) was at most the upper bound and the value
            of the played policy at least the lower bound; 0 without certificates.
        plans: Number of plans of a seed, mean over the finished seeds; NaN if none is finished.
        bounds: Bounds on regret, or None for agents that have none.
    """

    cell: int
    id: str
    agent: str
    settings: dict[str, Any]
    guarantee: Guarantee | None
    played: list[int]
    failed: list[tuple[int, str]]
    episodes: int
    curve: Curve | None = None
    final: Interval | None = None
    median: Interval | None = None
    iqm: Interval | None = None
    scores: FloatArray | None = None
    totals: FloatArray | None = None
    at_end: float = math.nan
    exponent: Interval | None = None
    difference: Interval | None = None
    seconds_per_1000: float = math.nan
    kept_megabytes: float = math.nan
    optimistic_share: float | None = None
    gap: float | None = None
    gap_guarantee: Guarantee | None = None
    certified: tuple[Curve, Curve] | None = None
    truths_inside: int = 0
    plans: float = math.nan
    bounds: RegretBounds | None = None

    @property
    def seeds(self) -> int:
        """Number of seeds that the statistics include."""
        return len(self.played)


@dataclass(frozen=True)
class EnvSummary:
    """Summary of all agents on one environment.

    Attributes:
        id: Id of the environment.
        measure: "regret", or "return" if the optimum is unknown.
        facts: `horizon`, `sizes` and `optimal_value`, as far as they are known.
        agents: Summaries of the agents in the order of the spec.
        best: Id of the agent with the least regret, or the highest return, among those with the most episodes and
            seeds; None before the first block.
    """

    id: str
    measure: Literal["regret", "return"]
    facts: dict[str, Any]
    agents: list[AgentSummary]
    best: str | None


def summarise(store: Store) -> list[EnvSummary]:
    """Return one summary for each environment, from the episodes that are stored so far.

    Args:
        store: Store, open for reading or writing.
    """
    found: dict[str, list[tuple[int, Cell]]] = {}
    for number, cell in enumerate(store.experiment.cells):
        found.setdefault(cell.env_id, []).append((number, cell))
    with store.reading():
        rows: dict[int, list[RunRow]] = {}
        for row in store.runs():
            rows.setdefault(row.cell, []).append(row)
        return [_environment(store, env_id, cells, rows) for env_id, cells in found.items()]


def _environment(store: Store, env_id: str, cells: list[tuple[int, Cell]], rows: dict[int, list[RunRow]]) -> EnvSummary:
    agents = [_agent(store, number, cell, rows[number]) for number, cell in cells]
    facts = next((f for f in (store.facts(number) for number, _ in cells) if f), {})
    measure = cells[0][1].measure
    played = [a for a in agents if a.final is not None]
    if not played:
        return EnvSummary(env_id, measure, facts, agents, None)
    sign = 1.0 if measure == "regret" else -1.0
    most = max((a.episodes, a.seeds) for a in played)
    complete = [a for a in played if (a.episodes, a.seeds) == most]  # totals of fewer episodes cannot be compared
    best = min(complete, key=lambda a: sign * a.final.value if a.final is not None else math.inf)
    return EnvSummary(env_id, measure, facts, [_with_difference(a, best) for a in agents], best.id)


def _with_difference(agent: AgentSummary, best: AgentSummary) -> AgentSummary:
    """Add the paired difference to the best agent if both have the same seeds and episodes."""
    same = agent.id != best.id and agent.played == best.played and agent.episodes == best.episodes
    if not same or agent.totals is None or best.totals is None:
        return agent
    return replace(agent, difference=mean_interval(agent.totals - best.totals))


def _agent(store: Store, number: int, cell: Cell, rows: list[RunRow]) -> AgentSummary:
    facts = store.facts(number)
    played = [row for row in rows if row.episodes > 0]
    counted = [row for row in played if row.status != "failed"] or played
    summary = AgentSummary(
        cell=number,
        id=cell.agent_id,
        agent=cell.agent,
        settings=cell.settings,
        guarantee=_guarantee(facts, rows),
        played=[row.seed for row in counted],
        failed=[(row.seed, row.reason or "") for row in rows if row.status == "failed"],
        episodes=min((row.episodes for row in counted), default=0),
    )
    if not counted:
        return summary
    seeds = summary.played
    series = store.read(number, cell.measure, seeds)
    n = series.shape[1]
    at = grid_of(n)
    picked = at.astype(int) - 1
    tenth = series[:, -max(1, n // 10) :]
    seconds = store.read(number, "seconds", seeds)
    summary = replace(
        summary,
        at_end=float(tenth.mean()),
        seconds_per_1000=float(seconds.mean() * 1000.0),
        kept_megabytes=float(facts.get("kept_bytes_per_seed", math.nan)) / 1e6,
    )
    if cell.measure == "return":
        totals = series[:, n // 2 :].mean(axis=1)
        curve = curve_of(series[:, picked], at)
        return replace(
            summary,
            curve=curve,
            totals=totals,
            final=mean_interval(totals),
            median=median_interval(totals),
            iqm=iqm_interval(totals),
        )
    cumulative = np.cumsum(series, axis=1)
    totals = cumulative[:, -1]
    upper, value = store.read(number, "optimistic", seeds), float(facts["optimal_value"])
    slack = _ROUNDING * max(1.0, abs(value))
    plans = [row.outcome["plans"] for row in counted if "plans" in row.outcome]
    certificates = [row.outcome["certificate"] for row in counted if row.outcome.get("certificate")]
    return replace(
        summary,
        curve=curve_of(cumulative[:, picked], at),
        totals=totals,
        final=mean_interval(totals),
        median=median_interval(totals),
        iqm=iqm_interval(totals),
        scores=1.0 - totals / (n * value) if facts.get("earns_from_zero") and value > 0.0 else None,
        exponent=growth_exponent(cumulative, np.arange(1.0, n + 1.0)),
        optimistic_share=float((upper >= value - slack).mean()),
        gap=float(np.mean([c["gap"] for c in certificates])) if certificates else None,
        gap_guarantee=Guarantee.unless(*(c["guarantee"]["reason"] for c in certificates)) if certificates else None,
        certified=_certified(store, number, seeds, picked, at),
        truths_inside=_truths_inside(store, number, seeds, value),
        plans=float(np.mean(plans)) if plans else math.nan,
        bounds=RegretBounds.of(facts),
    )


def _guarantee(facts: dict[str, Any], rows: list[RunRow]) -> Guarantee | None:
    """Return the guarantee of the settings, or the reason why an alarm has withdrawn it."""
    alarmed = sum(row.alarms > 0 for row in rows)
    if alarmed:
        return Guarantee(False, alarm_words(alarmed, len(rows)))
    return Guarantee(**facts["guarantee"]) if "guarantee" in facts else None


def _certified(
    store: Store, number: int, seeds: list[int], picked: FloatArray, at: FloatArray
) -> tuple[Curve, Curve] | None:
    lower, upper = store.read(number, "lower", seeds), store.read(number, "upper", seeds)
    if lower.shape[1] == 0:
        return None
    return curve_of(lower[:, picked], at), curve_of(upper[:, picked], at)


def _truths_inside(store: Store, number: int, seeds: list[int], optimum: float) -> int:
    """Return the number of seeds of which all certificates hold, as far as the values of policies were measured."""
    lower, upper = store.read(number, "lower", seeds), store.read(number, "upper", seeds)
    if lower.shape[1] == 0:
        return 0
    slack = _ROUNDING * max(1.0, abs(optimum))
    places = measured_places(lower.shape[1], store.experiment.regret_every)
    values = optimum - store.read(number, "regret", seeds, as_measured=True)[:, places]
    held_up = (lower[:, places] <= values + slack).all(axis=1) & (upper >= optimum - slack).all(axis=1)
    return int(held_up.sum())


def contents(store: Store) -> dict[str, Any]:
    """Return name, hash, versions and size of a store, and the status and total regret of each cell."""
    with store.reading():
        return _contents(store)


def _contents(store: Store) -> dict[str, Any]:
    experiment = store.experiment
    rows = store.runs()
    cells = []
    for number, cell in enumerate(experiment.cells):
        own = [row for row in rows if row.cell == number]
        begun = [row.seed for row in own if row.episodes]
        regret = store.read(number, "regret", begun) if begun and cell.measure == "regret" else None
        cells.append(
            {
                "env": cell.env_id,
                "agent": cell.agent_id,
                "seeds": dict(Counter(row.status for row in own)),
                "episodes": min((row.episodes for row in own), default=0),
                "regret": None if regret is None else mean_interval(regret.sum(axis=1)).as_dict(),
                "reasons": sorted({row.reason for row in own if row.reason}),
            }
        )
    return {
        "name": experiment.name,
        "title": experiment.title,
        "hash": experiment.hash,
        "rows": store.digest(),
        "episodes": experiment.episodes,
        "seeds": len(experiment.seeds),
        "megabytes": store.path.stat().st_size / 1e6,
        "versions": store.versions,
        "cells": cells,
    }
