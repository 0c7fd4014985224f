"""Plain data of the table of an environment: one row for each agent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matrixrl.colours import Look
from matrixrl.play.results import proof_label
from matrixrl_lab.analysis import AgentSummary, Aggregate, EnvSummary, Interval
from matrixrl_lab.analysis.number_text import (
    amount,
    few_seeds_mark,
    few_seeds_note,
    hundredths,
    interval_parts,
    interval_text,
)

__all__ = ["PlainTable", "aggregate_table", "final_table", "is_comparable", "table_notes"]


@dataclass(frozen=True)
class PlainTable:
    """A table as text.

    Attributes:
        heading: What it is about.
        caption: What its numbers are.
        head: Heading of each column; the first column is text.
        rows: Cells of each row.
    """

    heading: str
    caption: str
    head: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class _Column:
    heading: str
    number: Callable[[AgentSummary], float | None]
    text: Callable[[AgentSummary], tuple[str, str]]


def is_comparable(env: EnvSummary) -> bool:
    """Return whether all agents have played equally many seeds and episodes, so that totals can be compared."""
    return len({(agent.seeds, agent.episodes) for agent in env.agents}) == 1


def final_table(env: EnvSummary, looks: dict[str, Look], episodes: int, seeds: int) -> dict[str, Any]:
    """Return caption, headings, rows and footnotes; the best agent is marked only if all agents can be compared.

    Args:
        env: Summary of the environment.
        looks: Look of every agent id.
        episodes: Number of episodes N of a finished run.
        seeds: Number of seeds of the experiment.
    """
    columns = _columns(env)
    return {
        "caption": _caption(env),
        "headings": [("agent", "text"), ("proof", "text"), *((column.heading, "number") for column in columns)],
        "rows": [
            {
                "agent": agent.id,
                "is_best": agent.id == env.best and is_comparable(env) and len(env.agents) > 1,
                "note": _note(agent, episodes, seeds),
                "look": looks[agent.id],
                "proof": proof_label(agent.guarantee),
                "cells": [_cell(column, agent) for column in columns],
            }
            for agent in env.agents
        ],
        "notes": table_notes([env]),
    }


def aggregate_table(found: Aggregate) -> dict[str, Any]:
    """Return caption, head, rows and footnotes of the scores over all environments."""
    environments = len(found.env_ids)
    where = f"{environments} environments ({', '.join(found.env_ids)})" if environments > 1 else found.env_ids[0]
    caption = f"Score: {found.score}. All runs of {where}; in brackets 95 % intervals of the stratified bootstrap"
    return {
        "caption": " ".join([f"{caption}, which resamples the seeds of each environment.", *found.left_out_words()]),
        "head": ["agent", "runs", "interquartile mean", "mean", "median"],
        "rows": [
            [agent.id, f"{agent.runs:,}", *(_marked(i, agent.seeds) for i in (agent.iqm, agent.mean, agent.median))]
            for agent in found.agents
        ],
        "notes": list(filter(None, [few_seeds_note(agent.seeds for agent in found.agents)])),
    }


def _marked(interval: Interval, seeds: int) -> str:
    """Return a score with its interval, which is marked if there are few seeds."""
    text = interval_text(interval, 3)
    return text + few_seeds_mark(seeds) if text.endswith("]") else text


def table_notes(environments: Sequence[EnvSummary]) -> list[str]:
    """Return the footnotes of the tables of some environments: few seeds, times, and the gaps of certificates."""
    played = [agent for env in environments for agent in env.agents if agent.final is not None]
    if not played:
        return []
    notes = [few_seeds_note(agent.seeds for agent in played)]
    notes.append("Seconds: of one seed as its share of a batch, without compiling.")
    certified = [agent for agent in played if agent.gap is not None]
    if certified:
        estimated = dict.fromkeys(agent.id for agent in certified if not agent.gap_guarantee)
        notes.append(
            "Certificate gap: the upper bound on V* of the start minus the lower bound on the value of the policy that "
            "all data of a seed advise, mean over seeds. Agents with certificates compute them at the end of a run, "
            "also if episodes are not certified. Both bounds hold with probability 1 − δ for each seed"
            + (f", but they are only estimated for {', '.join(estimated)}." if estimated else ".")
        )
    return list(filter(None, notes))


def _caption(env: EnvSummary) -> str:
    is_regret = env.measure == "regret"
    caption = "Regret after all episodes" if is_regret else "Return of an episode, over the second half of the episodes"
    if any(agent.seeds > 1 for agent in env.agents):
        caption += "; in brackets 95 % bootstrap intervals over seeds"
    caption += ". Click on a heading to sort."
    if env.best is not None and len(env.agents) > 1:
        criterion = "least regret" if is_regret else "highest return"
        caption += f" Differences are to {env.best} ({criterion}) on the same seeds."
    return caption


def _note(agent: AgentSummary, episodes: int, seeds: int) -> str:
    """Return how much of the agent is missing or failed; empty for a complete agent."""
    notes = []
    if agent.seeds < seeds or agent.episodes < episodes:
        notes.append(f"{agent.seeds} of {seeds} seeds, {agent.episodes:,} of {episodes:,} episodes")
    if agent.failed:
        notes.append(f"{len(agent.failed)} failed")
    return "; ".join(notes)


def _cell(column: _Column, agent: AgentSummary) -> dict[str, Any]:
    number = column.number(agent)
    value, interval = column.text(agent)
    interval += few_seeds_mark(agent.seeds) if interval else ""
    is_known = number is not None and math.isfinite(number)
    return {"number": number if is_known else "", "value": value, "interval": interval}


def _columns(env: EnvSummary) -> list[_Column]:
    """Return the columns of the measure, without optional ones that are empty for all agents."""
    is_regret = env.measure == "regret"
    required = [
        _interval_column("mean regret" if is_regret else "mean return", lambda a: a.final),
        _interval_column("interquartile mean", lambda a: a.iqm),
        _interval_column("median", lambda a: a.median),
        _number_column("regret per episode at the end" if is_regret else "return at the end", lambda a: a.at_end),
    ]
    optional = [
        _interval_column("growth exponent", lambda a: a.exponent, hundredths),
        _interval_column("difference to the best", lambda a: a.difference),
        _number_column("seconds per 1,000 episodes", lambda a: a.seconds_per_1000),
        _number_column("MB kept", lambda a: a.kept_megabytes),
        _number_column("optimistic episodes", lambda a: a.optimistic_share, percent=True),
        _number_column("certificate gap, mean", lambda a: a.gap),
    ]
    return required + [c for c in optional if any(c.number(agent) is not None for agent in env.agents)]


def _interval_column(
    heading: str, get: Callable[[AgentSummary], Interval | None], number: Callable[[float], str] = amount
) -> _Column:
    def value(agent: AgentSummary) -> float | None:
        interval = get(agent)
        return None if interval is None else interval.value

    return _Column(heading, value, lambda agent: interval_parts(get(agent), number))


def _number_column(heading: str, get: Callable[[AgentSummary], float | None], *, percent: bool = False) -> _Column:
    def text(agent: AgentSummary) -> tuple[str, str]:
        value = get(agent)
        if percent and value is not None and math.isfinite(value):
            return f"{100 * value:.1f} %", ""
        return amount(value), ""

    return _Column(heading, get, text)
