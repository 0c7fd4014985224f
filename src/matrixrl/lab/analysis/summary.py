"""What a store says: curves, tables, exponents, differences, times. A pure function of the store."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from matrixrl.lab.analysis.statistics import (
    Curve,
    Interval,
    curve_of,
    grid_of,
    growth_exponent,
    mean_interval,
    median_interval,
)
from matrixrl.lab.spec import Cell
from matrixrl.lab.store import RunRow, Store
from matrixrl.records import FloatArray
from matrixrl.simulate.results import alarm_words

__all__ = ["AgentSummary", "EnvSummary", "summarise"]

_ROUNDING = 1e-9  # optimism is judged up to the rounding of values


@dataclass(frozen=True)
class AgentSummary:
    """One agent on one environment.

    Attributes:
        cell: number of the cell.
        id: of the agent.
        agent: its name.
        settings: all of them.
        guarantee: True if a regret bound is proven for these settings and no alarm was raised, else why not; None
            before the first block.
        played: the seeds that are counted: those that have episodes and did not fail (all, if all failed).
        failed: (seed, reason) of those that failed.
        episodes: how many all of those seeds have.
        curve: cumulative regret, or return of each episode where there is no regret; None before the first block.
        final: mean of the total regret, or of the return over the second half.
        median: the same with the median.
        totals: (K,) what `final` is the mean of, by seed.
        at_end: per episode over the last tenth, mean over seeds.
        exponent: growth of regret over the last decade, or None.
        difference: of `totals` to the best agent's on the same seeds, or None for the best itself.
        seconds_per_1000: for one seed, as part of its batch.
        kept_megabytes: what one seed keeps between episodes.
        optimistic_share: episodes in which the plan's own value was at least V*(s0); None without V*.
        gap: mean of the final certificates' gaps; None where there are none.
        certified: curves of the certificate's lower and upper bound, or None.
        truths_inside: in how many of the seeds every certificate held: V*(s0) below its upper bound, the value of the
            policy that was played above its lower one; 0 without certificates.
        plans: how often a seed planned, mean over the finished ones; NaN before that.
        bounds: episode, theorem_2 and explicit bound on regret, or None.
    """

    cell: int
    id: str
    agent: str
    settings: dict[str, Any]
    guarantee: Literal[True] | str | None
    played: list[int]
    failed: list[tuple[int, str]]
    episodes: int
    curve: Curve | None = None
    final: Interval | None = None
    median: Interval | None = None
    totals: FloatArray | None = None
    at_end: float = math.nan
    exponent: Interval | None = None
    difference: Interval | None = None
    seconds_per_1000: float = math.nan
    kept_megabytes: float = math.nan
    optimistic_share: float | None = None
    gap: float | None = None
    certified: tuple[Curve, Curve] | None = None
    truths_inside: int = 0
    plans: float = math.nan
    bounds: dict[str, list[float]] | None = None

    @property
    def seeds(self) -> int:
        """How many seeds are counted."""
        return len(self.played)


@dataclass(frozen=True)
class EnvSummary:
    """All agents on one environment.

    Attributes:
        id: of the environment.
        measure: "regret", or "return" where no optimum is known.
        facts: horizon, sizes, optimal_value, as far as known.
        agents: in the order of the spec.
        best: id of the agent with the least regret, or the highest return, of those with the most episodes and seeds;
            None before the first block.
    """

    id: str
    measure: Literal["regret", "return"]
    facts: dict[str, Any]
    agents: list[AgentSummary]
    best: str | None


def summarise(store: Store) -> list[EnvSummary]:
    """Return one summary for each environment; what is not there yet is left out."""
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
    complete = [a for a in played if (a.episodes, a.seeds) == most]  # a total of fewer episodes is not a better one
    best = min(complete, key=lambda a: sign * a.final.value if a.final is not None else math.inf)
    return EnvSummary(env_id, measure, facts, [_beside(a, best) for a in agents], best.id)


def _beside(agent: AgentSummary, best: AgentSummary) -> AgentSummary:
    """Return the summary with its paired difference to the best, where both have the same seeds and episodes."""
    same = agent.id != best.id and agent.played == best.played and agent.episodes == best.episodes
    if not same or agent.totals is None or best.totals is None:
        return agent
    return replace(agent, difference=mean_interval(agent.totals - best.totals))


def _agent(store: Store, number: int, cell: Cell, rows: list[RunRow]) -> AgentSummary:
    facts = store.facts(number)
    played = [row for row in rows if row.episodes > 0]
    begun = [row for row in played if row.status != "failed"] or played
    summary = AgentSummary(
        cell=number,
        id=cell.agent_id,
        agent=cell.agent,
        settings=cell.settings,
        guarantee=_guarantee(facts, rows),
        played=[row.seed for row in begun],
        failed=[(row.seed, row.reason or "") for row in rows if row.status == "failed"],
        episodes=min((row.episodes for row in begun), default=0),
    )
    if not begun:
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
    if cell.is_control:
        totals = series[:, n // 2 :].mean(axis=1)
        curve = curve_of(series[:, picked], at)
        return replace(
            summary,
            curve=curve,
            totals=totals,
            final=mean_interval(totals),
            median=median_interval(totals),
        )
    cumulative = np.cumsum(series, axis=1)
    totals = cumulative[:, -1]
    upper, value = store.read(number, "optimistic", seeds), float(facts["optimal_value"])
    slack = _ROUNDING * max(1.0, abs(value))
    plans = [row.outcome["plans"] for row in begun if "plans" in row.outcome]
    gaps = [row.outcome["certificate"]["gap"] for row in begun if row.outcome.get("certificate")]
    return replace(
        summary,
        curve=curve_of(cumulative[:, picked], at),
        totals=totals,
        final=mean_interval(totals),
        median=median_interval(totals),
        exponent=growth_exponent(cumulative, np.arange(1.0, n + 1.0)),
        optimistic_share=float((upper >= value - slack).mean()),
        gap=float(np.mean(gaps)) if gaps else None,
        certified=_certified(store, number, seeds, picked, at),
        truths_inside=_truths_inside(store, number, seeds, value - series, value),
        plans=float(np.mean(plans)) if plans else math.nan,
        bounds=facts.get("bounds"),
    )


def _guarantee(facts: dict[str, Any], rows: list[RunRow]) -> Literal[True] | str | None:
    """Return what the settings promise, unless the misspecification alarm says that it cannot hold here."""
    alarmed = sum(row.alarms > 0 for row in rows)
    return alarm_words(alarmed, len(rows)) if alarmed else facts.get("guarantee")


def _certified(
    store: Store, number: int, seeds: list[int], picked: FloatArray, at: FloatArray
) -> tuple[Curve, Curve] | None:
    lower, upper = store.read(number, "lower", seeds), store.read(number, "upper", seeds)
    if lower.shape[1] == 0:
        return None
    return curve_of(lower[:, picked], at), curve_of(upper[:, picked], at)


def _truths_inside(store: Store, number: int, seeds: list[int], values: FloatArray, optimum: float) -> int:
    """Return how many seeds have certificates that all hold; values (K, n) are of the policies that were played."""
    lower, upper = store.read(number, "lower", seeds), store.read(number, "upper", seeds)
    if lower.shape[1] == 0:
        return 0
    slack = _ROUNDING * max(1.0, abs(optimum))
    return int(((lower <= values + slack) & (upper >= optimum - slack)).all(axis=1).sum())
