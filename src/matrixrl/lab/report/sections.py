"""The parts of the page around the charts: header, what is proven, settings, versions, how to do it again."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from datetime import datetime
from html import escape
from typing import Any

from matrixrl.lab.analysis import EnvSummary
from matrixrl.lab.report.look import Look, amount, guarantee_label
from matrixrl.lab.report.tables import final_table, is_even
from matrixrl.lab.store import Store

__all__ = ["again", "environment", "header", "settings_of_agents", "versions"]

_SIZES = {"n_states": "states", "n_actions": "actions", "d": "d", "d_psi": "d of ψ"}
_BAND = "Shaded: the 95 % bootstrap band of the mean over seeds."
_CHART_WORDS = {
    "regret": ("Cumulative regret", _BAND),
    "loglog": (
        "The same, both axes logarithmic",
        "A straight line of slope s is a regret that grows like N to the power s: 1 is linear (nothing is learned any "
        "more), ½ the rate of the theorems, 0 a regret that has stopped. Slopes are of the mean, over the last decade.",
    ),
    "return": ("Return of each episode", _BAND),
    "certificates": (
        "Certificates",
        "What each agent could vouch for after every episode: the value of its policy is at least the lower edge, and "
        "no policy is worth more than the upper one. The line is the truth, V*.",
    ),
}


def header(store: Store, when: datetime) -> str:
    """Return title, name, hash, date, state and failures."""
    experiment, runs = store.experiment, store.runs()
    counts = Counter(run.status for run in runs)
    state = f"{counts['done']:,} of {len(runs):,} runs done"
    for status, word in (("running", "under way"), ("pending", "not begun"), ("failed", "failed")):
        state += f", {counts[status]:,} {word}" if counts[status] else ""
    seeds = len(experiment.seeds)
    rows = [
        ("experiment", f"{escape(experiment.name)} <code>{experiment.hash}</code>"),
        ("made", f'<time datetime="{when.isoformat(timespec="seconds")}">{when:%Y-%m-%d %H:%M %Z}</time>'),
        ("state", state),
        ("size", f"{experiment.episodes:,} episodes, {seeds:,} seed{'s' * (seeds > 1)}"),
    ]
    facts = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in rows)
    lone = "<p>One seed says nothing of the spread: there are no bands and no intervals.</p>" if seeds == 1 else ""
    return f'<h1>{escape(experiment.title)}</h1><dl class="facts">{facts}</dl>{lone}{_failures(store)}'


def _failures(store: Store) -> str:
    found: dict[tuple[int, str], list[int]] = {}
    for run in store.runs():
        if run.status == "failed":
            found.setdefault((run.cell, run.reason or "no reason was kept"), []).append(run.seed)
    if not found:
        return ""
    cells = store.experiment.cells
    items = "".join(
        f"<li><strong>{escape(cells[cell].id)}</strong>, seed{'s' * (len(seeds) > 1)} "
        f"{', '.join(map(str, seeds))}: {escape(reason)}</li>"
        for (cell, reason), seeds in found.items()
    )
    return f'<section class="failures"><h2>Failures</h2><ul>{items}</ul></section>'


def environment(env: EnvSummary, looks: dict[str, Look], charts: list[dict[str, Any]], key: str, store: Store) -> str:
    """Return the section of one environment: facts, charts, table, what is proven."""
    experiment = store.experiment
    pieces = [f'<section id="{key}"><h2>{escape(env.id)}</h2>', _env_facts(env, store)]
    if not is_even(env):
        pieces.append('<p class="note">Agents have not played equally much so far: totals do not compare yet.</p>')
    for chart in charts:
        title, words = _CHART_WORDS[chart["kind"]]
        if words == _BAND and not any(trace["part"] == "band" for trace in chart["traces"]):
            words = ""
        label = escape(f"{title}, {env.id}")
        pieces.append(
            f'<h3>{title}</h3><p class="hint">{words}</p>'
            f'<div class="chart" id="{chart["id"]}" role="group" aria-label="{label}"></div>'
        )
        if chart["kind"] == "certificates":
            pieces.append(_unproven(env, store))
    if not charts:
        pieces.append('<p class="note">Nothing was played here so far.</p>')
    pieces += ["<h3>Numbers</h3>", final_table(env, looks, experiment.episodes, len(experiment.seeds)), _proofs(env)]
    return "".join(pieces) + "</section>"


def _unproven(env: EnvSummary, store: Store) -> str:
    """Return of whose certificates no proof holds, and why; nothing where all are proven."""
    ids = {agent.cell: agent.id for agent in env.agents}
    found: dict[str, list[str]] = {}
    for run in store.runs():
        claim = (run.outcome.get("certificate") or {}).get("guarantee", True)
        if run.cell in ids and claim is not True:
            found.setdefault(str(claim), []).append(ids[run.cell])
    items = "".join(
        f"<li>{escape(', '.join(dict.fromkeys(names)))}: {escape(reason)}.</li>" for reason, names in found.items()
    )
    return f'<p class="hint">Only estimated, not proven:</p><ul class="proofs">{items}</ul>' if items else ""


def _env_facts(env: EnvSummary, store: Store) -> str:
    cell = next(cell for cell in store.experiment.cells if cell.env_id == env.id)
    facts = env.facts
    rows = [("environment", " ".join([cell.env, *(f"{k}={_plain(v)}" for k, v in cell.env_settings.items())]))]
    if "horizon" in facts:
        rows.append(("steps H", f"{facts['horizon']:,}"))
    rows += [(_SIZES.get(name, name), f"{size:,}") for name, size in facts.get("sizes", {}).items()]
    if facts.get("optimal_value") is not None:
        rows.append(("V* of the start", amount(facts["optimal_value"], 5)))
    shown = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in rows)
    return f'<dl class="facts">{shown}</dl>'


def _proofs(env: EnvSummary) -> str:
    """Return for each reason the agents that it is about."""
    found: dict[tuple[str, str], list[str]] = {}
    for agent in env.agents:
        found.setdefault(guarantee_label(agent.guarantee), []).append(agent.id)
    items = "".join(
        f'<li><span class="badge {label.replace(" ", "-")}">{label}</span> {escape(", ".join(ids))}: '
        f"{escape(reason)}.</li>"
        for (label, reason), ids in found.items()
    )
    return f'<h3>What is proven</h3><ul class="proofs">{items}</ul>'


def settings_of_agents(environments: list[EnvSummary]) -> str:
    """Return every agent's settings, nothing left to a default; once, where all environments have the same."""
    found: dict[tuple[str, str], list[str]] = {}
    for env in environments:
        for agent in env.agents:
            found.setdefault((agent.id, json.dumps(agent.settings)), []).append(env.id)
    pieces = []
    for (agent_id, text), env_ids in found.items():
        settings = json.loads(text)
        where = "" if len(env_ids) == len(environments) else f" on {', '.join(env_ids)}"
        rows = "".join(
            f'<tr><th scope="row">{escape(str(name))}</th><td>{escape(_plain(value))}</td></tr>'
            for name, value in settings.items()
        )
        name = escape(agent_id + where)
        table = f"<table><caption>Settings of {name}</caption><tbody>{rows}</tbody></table>"
        inside = f'<div class="wide">{table}</div>' if settings else "<p>It has none.</p>"
        pieces.append(f"<details><summary>{name}</summary>{inside}</details>")
    return f'<section id="settings"><h2>Settings of every agent</h2>{"".join(pieces)}</section>'


def versions(store: Store) -> str:
    """Return the versions that the results were made with."""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(found)}</td></tr>'
        for name, found in store.versions.items()
    )
    table = f"<table><caption>What the results were made with</caption><tbody>{rows}</tbody></table>"
    return f'<section id="versions"><h2>Versions</h2><div class="wide">{table}</div></section>'


def again(store: Store) -> str:
    """Return how to regenerate the results: the spec and the command."""
    name = store.experiment.name
    file, *options = (store.command or f"{name}.toml").split()
    command = shlex.join(["matrixrl", "compare", file, *options, "--out", name])
    if store.source:
        words = f"Save this text as <code>{escape(file)}</code>, and run"
        text = f'<pre class="wide" tabindex="0">{escape(store.source)}</pre>'
    else:
        words, text = "The store was made without the text of its spec. With the spec in a file, run", ""
    return (
        f'<section id="again"><h2>How to make this again</h2><p>{words}</p>'
        f'<pre class="wide" tabindex="0">{escape(command)}</pre>{text}'
        "<p>The same spec and versions give the same numbers, wall times apart.</p></section>"
    )


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
