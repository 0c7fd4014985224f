"""The charts of an environment as plain data; the script of the page chooses sizes and colours of the theme."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl.colours import Look, look
from matrixrl.records import FloatArray
from matrixrl_lab.analysis import AgentSummary, Aggregate, Curve, EnvSummary
from matrixrl_lab.analysis.number_text import hundredths, interval_parts

if TYPE_CHECKING:
    from matrixrl_lab.spec import Experiment

__all__ = ["charts_of", "looks_of", "profile_chart"]

_LONGEST = 1.5  # a bound that makes the axis longer than this factor is hidden at first
_FAINTEST = 1e-5  # share of the largest regret; smaller values on a logarithmic axis are rounding errors

Trace = dict[str, Any]


def looks_of(experiment: Experiment) -> dict[str, Look]:
    """Return the look of every agent id by its position in the spec, the same on every environment."""
    ids = dict.fromkeys(cell.agent_id for cell in experiment.cells)
    return {name: look(i) for i, name in enumerate(ids)}


def charts_of(env: EnvSummary, looks: dict[str, Look], key: str) -> list[dict[str, Any]]:
    """Return the charts for which an environment has data.

    Args:
        env: Summary of the environment.
        looks: Look of every agent id.
        key: Prefix of the chart ids, unique in the page.

    Returns:
        One dict for each chart: id, kind (regret, loglog, return or certificates), title of the y-axis and traces.
    """
    played = [agent for agent in env.agents if agent.curve is not None]
    if not played:
        return []
    if env.measure == "return":
        return [_chart(key, "return", "return of the episode", [t for a in played for t in _curves(a, looks)])]
    bounds = _bounds(played)
    linear = [trace for agent in played for trace in _curves(agent, looks)]
    linear += [_bound(*bound, "linear", played) for bound in bounds if bound[0] == "explicit"]
    log = [trace for agent in played for trace in _curves(agent, looks, log=True)]
    log += [_bound(*bound, "log", played) for bound in bounds]
    log += _slopes(played)
    charts = [_chart(key, "regret", "cumulative regret", linear), _chart(key, "loglog", "cumulative regret", log)]
    certified = [agent for agent in played if agent.certified is not None]
    if certified:
        traces = [trace for agent in certified for trace in _certificates(agent, looks)]
        traces.append(_optimum(certified, float(env.facts["optimal_value"])))
        charts.append(_chart(key, "certificates", "value of the start", traces))
    return charts


def profile_chart(found: Aggregate, looks: dict[str, Look]) -> dict[str, Any]:
    """Return the chart of the performance profiles of all agents.

    Args:
        found: Agents over all environments.
        looks: Look of every agent id.
    """
    traces: list[Trace] = []
    for agent in found.agents:
        profile = agent.profile
        common = {"agent": agent.id, "label": agent.id, **_colours(looks[agent.id])}
        if (profile.low < profile.high).any():
            traces.append({**common, "part": "band", **_outline(profile.threshold, profile.low, profile.high)})
        dash = looks[agent.id].dash
        x, y = _numbers(profile.threshold), _numbers(profile.share)
        traces.append({**common, "part": "line", "x": x, "y": y, "dash": dash})
    return {**_chart("all", "profile", "share of runs with a score above τ", traces), "x_title": "score τ"}


def _chart(key: str, kind: str, y_title: str, traces: list[Trace]) -> dict[str, Any]:
    return {"id": f"{key}-{kind}", "kind": kind, "y_title": y_title, "traces": traces}


def _curves(agent: AgentSummary, looks: dict[str, Look], *, log: bool = False) -> list[Trace]:
    """Return the band of an agent, if it has one, and the line of its mean."""
    curve = agent.curve
    assert curve is not None
    label = agent.id
    if log and agent.exponent is not None:
        label += f"\nslope {' '.join(interval_parts(agent.exponent, hundredths)).rstrip()}"
    common = {"agent": agent.id, "label": label, **_colours(looks[agent.id])}
    line = {
        **common,
        "part": "line",
        "x": _numbers(curve.episode),
        "y": _numbers(curve.mean, log=log),
        "median": _numbers(curve.median, log=log),
        "iqm": _numbers(curve.iqm, log=log),
        "dash": looks[agent.id].dash,
    }
    if (curve.low == curve.high).all():
        return [line]
    low = curve.low
    if log:  # a logarithmic axis has no zero
        low = np.maximum(low, _FAINTEST * float(curve.mean.max()))
    return [{**common, "part": "band", **_outline(curve.episode, low, curve.high, log=log)}, line]


def _certificates(agent: AgentSummary, looks: dict[str, Look]) -> list[Trace]:
    """Return the area between the certified bounds of an agent, and the two bounds."""
    assert agent.certified is not None
    lower, upper = agent.certified
    common = {"agent": agent.id, "label": agent.id, **_colours(looks[agent.id])}
    area = {**common, "part": "area", **_outline(lower.episode, lower.mean, upper.mean)}
    area["median"] = _outline(lower.episode, lower.median, upper.median)["y"]
    area["iqm"] = _outline(lower.episode, lower.iqm, upper.iqm)["y"]
    edges = [
        {
            **common,
            "part": part,
            "x": _numbers(curve.episode),
            "y": _numbers(curve.mean),
            "median": _numbers(curve.median),
            "iqm": _numbers(curve.iqm),
            "dash": looks[agent.id].dash,
        }
        for part, curve in (("lower", lower), ("upper", upper))
    ]
    return [area, *edges]


def _optimum(agents: list[AgentSummary], value: float) -> Trace:
    last = max(float(agent.curve.episode[-1]) for agent in agents if agent.curve is not None)
    return {
        "part": "optimum",
        "label": "V* of the start",
        "text": ["", "V*"],
        "x": [1.0, last],
        "y": [value, value],
        "dash": "solid",
    }


def _bounds(agents: list[AgentSummary]) -> list[tuple[str, str, list[float], list[float]]]:
    """Return kind, label, episodes and values of each bound; agents with equal bounds share one.

    Agents without a guarantee are left out, because the bound need not hold for them.
    """
    found: dict[tuple[str, str, tuple[float, ...]], tuple[list[float], list[str]]] = {}
    for agent in agents:
        bounds = agent.bounds
        if bounds is None or not agent.guarantee:
            continue
        drawn = [("theorem_2", "Theorem 2 with c = 1", bounds.theorem_2)]
        if bounds.explicit is not None:
            says_less = bool((bounds.explicit >= bounds.largest).any())
            name = f"explicit bound\n{bounds.extent}" if says_less else "explicit bound"
            drawn.insert(0, ("explicit", name, bounds.explicit))
        for kind, name, values in drawn:
            key = (kind, name, tuple(values.tolist()))
            found.setdefault(key, (bounds.episode.tolist(), []))[1].append(agent.id)
    return [
        (kind, f"{name}\n{_short_list(ids)}", episode, list(values))
        for (kind, name, values), (episode, ids) in found.items()
    ]


def _bound(kind: str, label: str, x: list[float], y: list[float], axis: str, agents: list[AgentSummary]) -> Trace:
    curves = [agent.curve for agent in agents if agent.curve is not None]
    return {
        "part": "bound",
        "kind": kind,
        "label": label,
        "x": x,
        "y": _numbers(np.asarray(y), log=axis == "log"),
        "dash": "dash" if kind == "explicit" else "dashdot",
        "off": _is_too_high(np.asarray(y), curves, log=axis == "log"),
    }


def _is_too_high(bound: FloatArray, curves: list[Curve], *, log: bool) -> bool:
    """Return whether the axis of a bound would be so long that the curves are hard to read."""
    top = max(float(curve.high.max()) for curve in curves)
    if not log:
        return bool(bound.max() > _LONGEST * top)
    seen = np.concatenate([curve.mean[curve.mean > _FAINTEST * top] for curve in curves])
    if len(seen) == 0:
        return True
    span = max(1.0, math.log10(top / float(seen.min())))
    return bool(math.log10(max(float(bound.max()), top) / float(seen.min())) > _LONGEST * span)


def _slopes(agents: list[AgentSummary]) -> list[Trace]:
    """Return guide lines of slope ½ and 1 over the last decade, from the geometric mean of the curves at its start."""
    last = max(agent.episodes for agent in agents)
    start = last / 10.0
    at = [float(np.interp(start, a.curve.episode, a.curve.mean)) for a in agents if a.curve is not None]
    positive = [value for value in at if value > 0.0]
    if last < 10 or not positive:
        return []
    middle = math.exp(float(np.mean(np.log(positive))))
    return [
        {
            "part": "slope",
            "label": f"guide of slope {name}",
            "text": ["", name],
            "x": [start, float(last)],
            "y": [middle, middle * 10.0**slope],
            "dash": "dot",
        }
        for name, slope in (("½", 0.5), ("1", 1.0))
    ]


def _colours(look: Look) -> dict[str, str]:
    return {"colour": look.colour, "on_dark": look.on_dark}


def _outline(x: FloatArray, low: FloatArray, high: FloatArray, *, log: bool = False) -> dict[str, list[float | None]]:
    """Return the outline of the area between two curves: the upper one forwards, then the lower one backwards."""
    keep = high > 0.0 if log else np.ones(len(x), dtype=bool)
    x, low, high = x[keep], low[keep], high[keep]
    return {"x": _numbers(np.concatenate([x, x[::-1]])), "y": _numbers(np.concatenate([high, low[::-1]]), log=log)}


def _numbers(values: FloatArray, *, log: bool = False) -> list[float | None]:
    """Return numbers for JSON, with None for values that are not finite or have no logarithm if `log`."""
    return [float(v) if math.isfinite(v) and (v > 0.0 or not log) else None for v in values]


def _short_list(ids: list[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more"
