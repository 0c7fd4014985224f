"""Plain data of the parts of the report: state, failures, environments, settings, and how to repeat the experiment."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from typing import Any

from matrixrl.colours import Look
from matrixrl.play.results import proof_label
from matrixrl_lab.analysis import Aggregate, EnvSummary
from matrixrl_lab.analysis.number_text import amount, few_seeds_mark
from matrixrl_lab.report.tables import aggregate_table, final_table, is_comparable
from matrixrl_lab.store import Store

__all__ = [
    "agent_settings",
    "aggregate_section",
    "environment_section",
    "failures",
    "how_to_repeat",
    "size_text",
    "state_text",
]

_SIZES = {
    "n_states": "states",
    "n_actions": "actions",
    "d": "d",
    "d_psi": "d of ψ",
    "stage_classes": "classes of stages",
}
_BAND = "Shaded: the 95 % bootstrap band of the mean over seeds"
_CHART_TEXTS = {
    "regret": ("Cumulative regret", _BAND),
    "loglog": (
        "Cumulative regret, both axes logarithmic",
        "A straight line of slope s means that regret grows as N to the power s: 1 is linear (the agent has stopped "
        "learning), ½ is the rate of the theorems, and 0 means that regret no longer grows. Slopes are those of the "
        "mean over the last decade.",
    ),
    "return": ("Return of each episode", _BAND),
    "profile": (
        "Performance profiles",
        "The share of runs, over all seeds and environments, whose score is above τ. A curve above another one means "
        "better runs at every level; where curves cross, one agent has more good runs and the other fewer bad ones. "
        "The area between two curves is the difference of the mean scores. Shaded: the 95 % stratified bootstrap band.",
    ),
    "certificates": (
        "Certificates",
        "Bounds that each agent computes after every episode: the value of its policy is at least the lower edge, and "
        "the value of every policy is at most the upper edge, both with probability 1 − δ for each seed. Edges are "
        "means over seeds. The line is the true optimal value, V*.",
    ),
}


def state_text(store: Store) -> str:
    """Return the number of runs in each state."""
    counts = Counter(run.status for run in store.runs())
    parts = [f"{counts['done']:,} of {counts.total():,} runs done"]
    parts += [f"{counts[status]:,} {status}" for status in ("running", "pending", "failed") if counts[status]]
    return ", ".join(parts)


def size_text(store: Store) -> str:
    """Return the number of episodes and seeds of the experiment."""
    experiment = store.experiment
    seeds = len(experiment.seeds)
    return f"{experiment.episodes:,} episodes, {seeds:,} seed{'s' * (seeds > 1)}"


def failures(store: Store) -> list[dict[str, str]]:
    """Return cell, seeds and reason of the failed runs; seeds of one cell with the same reason are merged."""
    found: dict[tuple[int, str], list[int]] = {}
    for run in store.runs():
        if run.status == "failed":
            found.setdefault((run.cell, run.reason or "unknown reason"), []).append(run.seed)
    return [
        {
            "cell": store.experiment.cells[cell].id,
            "seeds": f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}",
            "reason": reason,
        }
        for (cell, reason), seeds in found.items()
    ]


def environment_section(
    env: EnvSummary, looks: dict[str, Look], charts: list[dict[str, Any]], key: str, store: Store
) -> dict[str, Any]:
    """Return the section of one environment: facts, texts of the charts, table and proofs.

    Args:
        env: Summary of the environment.
        looks: Look of every agent id.
        charts: Charts of the environment, from `charts_of`.
        key: HTML id of the section.
        store: Store of the experiment.
    """
    experiment = store.experiment
    return {
        "key": key,
        "id": env.id,
        "facts": _facts(env, store),
        "is_comparable": is_comparable(env),
        "charts": [_chart_texts(chart, env, store) for chart in charts],
        "table": final_table(env, looks, experiment.episodes, len(experiment.seeds)),
        "proofs": _proofs(env),
    }


def aggregate_section(found: Aggregate | None, chart: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the section of all environments together, or None if no scores can be compared.

    Args:
        found: Agents over all environments.
        chart: Chart of their profiles.
    """
    if found is None or chart is None:
        return None
    title, hint = _CHART_TEXTS["profile"]
    return {
        "env_ids": found.env_ids,
        "chart": {"id": chart["id"], "title": title, "hint": hint},
        "table": aggregate_table(found),
    }


def _facts(env: EnvSummary, store: Store) -> list[tuple[str, str]]:
    cell = next(cell for cell in store.experiment.cells if cell.env_id == env.id)
    facts = env.facts
    rows = [("environment", " ".join([cell.env, *(f"{k}={_plain(v)}" for k, v in cell.env_settings.items())]))]
    if "horizon" in facts:
        rows.append(("steps H", f"{facts['horizon']:,}"))
    rows += [(_SIZES.get(name, name), f"{size:,}") for name, size in facts.get("sizes", {}).items()]
    if facts.get("optimal_value") is not None:
        rows.append(("V* of the start", amount(facts["optimal_value"], 5)))
    if env.measure == "regret" and store.experiment.regret_every > 1:
        words = f"measured every {store.experiment.regret_every:,} episodes; others count with the last measured value"
        rows.append(("regret", words))
    return rows


def _chart_texts(chart: dict[str, Any], env: EnvSummary, store: Store) -> dict[str, Any]:
    title, hint = _CHART_TEXTS[chart["kind"]]
    if hint == _BAND:
        has_band = any(trace["part"] == "band" for trace in chart["traces"])
        mark = few_seeds_mark(min((agent.seeds for agent in env.agents if agent.curve is not None), default=0))
        hint = f"{_BAND}{mark}." if has_band else ""
    unproven = _unproven_certificates(env, store) if chart["kind"] == "certificates" else {}
    return {"id": chart["id"], "title": title, "hint": hint, "unproven": unproven}


def _unproven_certificates(env: EnvSummary, store: Store) -> dict[str, list[str]]:
    """Return the ids of the agents whose certificates are not proven, by the reason."""
    ids = {agent.cell: agent.id for agent in env.agents}
    found: dict[str, dict[str, None]] = {}
    for run in store.runs():
        certificate = run.outcome.get("certificate")
        if run.cell in ids and certificate and not certificate["guarantee"]["holds"]:
            found.setdefault(certificate["guarantee"]["reason"], {})[ids[run.cell]] = None
    return {reason: list(names) for reason, names in found.items()}


def _proofs(env: EnvSummary) -> list[dict[str, Any]]:
    """Return label and reason of each guarantee with the ids of its agents."""
    found: dict[str, dict[str, Any]] = {}
    for agent in env.agents:
        proof = proof_label(agent.guarantee)
        found.setdefault(str(proof), {**proof, "ids": []})["ids"].append(agent.id)
    return list(found.values())


def agent_settings(environments: list[EnvSummary]) -> list[dict[str, Any]]:
    """Return all settings of every agent, including defaults; once if all environments have the same."""
    found: dict[tuple[str, str], list[str]] = {}
    for env in environments:
        for agent in env.agents:
            found.setdefault((agent.id, json.dumps(agent.settings)), []).append(env.id)
    return [
        {
            "name": agent_id if len(env_ids) == len(environments) else f"{agent_id} on {', '.join(env_ids)}",
            "settings": [(name, _plain(value)) for name, value in json.loads(settings).items()],
        }
        for (agent_id, settings), env_ids in found.items()
    ]


def how_to_repeat(store: Store) -> dict[str, str | None]:
    """Return the spec, its file name and the command that repeats the experiment."""
    name = store.experiment.name
    file, *options = store.command.split() or [f"{name}.toml"]
    trust = ["--trust-code"] if store.experiment.imports_code else []
    command = shlex.join(["matrixrl", "compare", file, *options, *trust, "--out", name])
    return {"file": file, "command": command, "spec": store.source}


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
