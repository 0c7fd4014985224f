"""The table of an environment: one row for each agent, sortable, the best marked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from matrixrl.lab.analysis import AgentSummary, EnvSummary, Interval
from matrixrl.lab.report.look import Look, amount, guarantee_label, hundredths, interval_text

__all__ = ["final_table", "is_even"]


@dataclass(frozen=True)
class _Column:
    heading: str
    number: Callable[[AgentSummary], float | None]
    text: Callable[[AgentSummary], tuple[str, str]]


def is_even(env: EnvSummary) -> bool:
    """Say whether all agents have the same seeds and episodes, so that their totals compare."""
    return len({(agent.seeds, agent.episodes) for agent in env.agents}) == 1


def final_table(env: EnvSummary, looks: dict[str, Look], episodes: int, seeds: int) -> str:
    """Return the table; a best one is named only where all have played as much.

    Args:
        env: one environment.
        looks: of every agent.
        episodes: N of a finished run.
        seeds: how many there will be.
    """
    columns = _columns(env)
    headings = "".join(_heading(c.heading, "number") for c in columns)
    rows = "".join(_row(env, agent, columns, looks[agent.id], episodes, seeds) for agent in env.agents)
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="Table of {escape(env.id)}">'
        f'<table class="sortable"><caption>{_caption(env)}</caption>'
        f"<thead><tr>{_heading('agent', 'text')}{_heading('proof', 'text')}{headings}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _caption(env: EnvSummary) -> str:
    what = (
        "Regret after all episodes"
        if env.measure == "regret"
        else "Return of an episode, over the second half of the episodes"
    )
    several = any(agent.seeds > 1 for agent in env.agents)
    words = f"{what}{'; in brackets 95 % bootstrap intervals over seeds' * several}. A click on a heading sorts."
    if env.best is not None and len(env.agents) > 1:
        ahead = "least regret" if env.measure == "regret" else "highest return"
        words += f" Differences are to {escape(env.best)} ({ahead}), seed by seed."
    return words


def _heading(text: str, kind: str) -> str:
    return f'<th scope="col" aria-sort="none"><button type="button" data-kind="{kind}">{text}</button></th>'


def _row(env: EnvSummary, agent: AgentSummary, columns: list[_Column], look: Look, episodes: int, seeds: int) -> str:
    best = agent.id == env.best and is_even(env) and len(env.agents) > 1
    mark = ' <span class="badge best">best</span>' if best else ""
    notes = []
    if agent.seeds < seeds or agent.episodes < episodes:
        notes.append(f"{agent.seeds} of {seeds} seeds, {agent.episodes:,} of {episodes:,} episodes")
    if agent.failed:
        notes.append(f"{len(agent.failed)} failed")
    small = f"<small>{'; '.join(notes)}</small>" if notes else ""
    label, reason = guarantee_label(agent.guarantee)
    kind = label.replace(" ", "-")
    swatch = f'<span class="swatch" style="--light:{look.colour};--dark:{look.on_dark}" aria-hidden="true"></span>'
    cells = (
        f'<th scope="row" data-value="{escape(agent.id)}">{swatch}{escape(agent.id)}{mark}{small}</th>'
        f'<td data-value="{label}"><span class="badge {kind}" title="{escape(reason)}">{label}</span></td>'
    )
    for column in columns:
        number = column.number(agent)
        known = number is not None and math.isfinite(number)
        value, interval = column.text(agent)
        small = f"<small>{interval}</small>" if interval else ""
        cells += f'<td data-value="{number if known else ""}">{value}{small}</td>'
    return f"<tr{' class=best' if best else ''}>{cells}</tr>"


def _columns(env: EnvSummary) -> list[_Column]:
    """Return the columns that mean something here; those that no agent has are left out."""
    is_regret = env.measure == "regret"
    made = [
        _of_interval("mean regret" if is_regret else "mean return", lambda a: a.final),
        _of_interval("median", lambda a: a.median),
        _of_number("regret per episode at the end" if is_regret else "return at the end", lambda a: a.at_end),
        _of_interval("growth exponent", lambda a: a.exponent, hundredths),
        _of_interval("difference to the best", lambda a: a.difference),
        _of_number("seconds per 1,000 episodes", lambda a: a.seconds_per_1000),
        _of_number("MB kept", lambda a: a.kept_megabytes),
        _of_number("optimistic episodes", lambda a: a.optimistic_share, percent=True),
        _of_number("certificate gap", lambda a: a.gap),
    ]
    always = made[:3]
    return always + [c for c in made[3:] if any(c.number(agent) is not None for agent in env.agents)]


def _of_interval(
    heading: str, of: Callable[[AgentSummary], Interval | None], say: Callable[[float], str] = amount
) -> _Column:
    def number(agent: AgentSummary) -> float | None:
        found = of(agent)
        return None if found is None else found.value

    return _Column(heading, number, lambda agent: interval_text(of(agent), say))


def _of_number(heading: str, of: Callable[[AgentSummary], float | None], *, percent: bool = False) -> _Column:
    def text(agent: AgentSummary) -> tuple[str, str]:
        value = of(agent)
        if percent and value is not None and math.isfinite(value):
            return f"{100 * value:.1f} %", ""
        return amount(value), ""

    return _Column(heading, of, text)
