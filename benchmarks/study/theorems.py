"""Questions about Theorems 1 and 2: regret against T, d, H, |S| and |A|, and the explicit bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from matrixrl_lab.analysis import AgentSummary, Interval
from matrixrl_lab.analysis.number_text import interval_text, rounded
from study.panels import curves, points
from study.question import Evidence, Finding, Question, Size, Table
from study.slopes import power
from study.specs import LOCK, PROVEN_BALL, TUNED_BALL, agent, env, spec

__all__ = ["QUESTIONS", "excludes_linear_growth"]

PART = "Theorems 1 and 2"
_LONG = 200_000  # episodes after which the explicit bound of the smallest river is below N·H
RIVER = {"n_states": 3, "horizon": 6}  # small enough for the paper's ball to learn within N


def _growth_specs(size: Size) -> dict[str, dict[str, Any]]:
    agents = [
        agent("paper's ball (6), theorem's β", set="frobenius", radius="theorem"),
        agent("paper's ball (5), theorem's β", set="column", radius="theorem"),
        agent("paper's ball (6), block β", set="frobenius", radius="block"),
        agent("normalised, theorem's β", set="normalised", radius="theorem"),
        PROVEN_BALL,
    ]
    return {"runs": spec(size, size.episodes(12_000), [env("river-swim", RIVER)], agents)}


def _growth(evidence: Evidence) -> Finding:
    agents = [a for _, a in evidence.agents()]
    rows = [[a.id, interval_text(a.final, 1), interval_text(a.exponent)] for a in agents]
    sublinear = [a.id for a in agents if a.exponent is not None and _upper_end(a.exponent) < 1.0]
    within = [a.id for a in agents if a.exponent is not None and a.exponent.value <= 0.5]
    n, (can_fail, words) = agents[0].episodes, excludes_linear_growth(agents[0])
    verdict = (
        f"Over the last decade up to N = {n:,}, regret grows sublinearly for {len(sublinear)} of {len(agents)} agents "
        f"and at most as √T for {len(within)}.{words}"
    )
    table = Table("total regret, and its growth exponent over the last decade", ["agent", "regret", "exponent"], rows)

    def draw(figure: Any) -> None:
        curves(figure.subplots(), agents)

    return Finding(len(within) == len(agents), verdict, [table], draw, can_fail=can_fail)


def excludes_linear_growth(agent: AgentSummary) -> tuple[bool, str]:
    """Return whether a bound of order √T excludes linear growth up to N, and a sentence to append if it does not.

    The rule is about N alone: where Theorem 2's formula is above N·H, it allows regret to grow linearly up to N.
    """
    assert agent.bounds is not None
    formula, most = float(agent.bounds.theorem_2[-1]), float(agent.bounds.largest[-1])
    if formula < most:
        return True, ""
    return False, (
        f" At this N Theorem 2's formula (c = 1), {formula:,.3g}, is above N·H = {most:,.0f}: larger exponents would "
        "not contradict it."
    )


def _dimension_specs(size: Size) -> dict[str, dict[str, Any]]:
    # N grows with the number of rivers, so that each river is played equally often
    return {
        f"{count}": spec(
            size, count * size.episodes(2_500), [env("river-swim", {**RIVER, "copies": count})], [PROVEN_BALL]
        )
        for count in size.first([1, 2, 4, 8])
    }


def _horizon_specs(size: Size) -> dict[str, dict[str, Any]]:
    rivers = env("river-swim", {"n_states": 3}, horizon=size.first([4, 8, 16, 32]))
    return {"runs": spec(size, size.episodes(5_000), [rivers], [PROVEN_BALL])}


def _compare_with_formula(what: str, symbol: str, of: str) -> Any:
    """Return an answer function that compares the growth of regret with that of the formula of Theorem 2."""

    def answer(evidence: Evidence) -> Finding:
        found = [pair for name in evidence.summaries for pair in evidence.agents(name)]
        x = [_size_of(e.facts, of) for e, _ in found]
        totals = [a.totals for _, a in found if a.totals is not None]
        bound = [float(a.bounds.theorem_2[-1]) for _, a in found if a.bounds is not None]
        measured, promised = power(x, totals), power(x, [np.array([b]) for b in bound])
        rows = [
            [f"{v:g}", f"{a.episodes:,}", interval_text(a.final, 1), f"{b:,.3g}"]
            for v, (_, a), b in zip(x, found, bound, strict=True)
        ]
        below = [b / max(a.final.value, 1e-9) for (_, a), b in zip(found, bound, strict=True) if a.final is not None]
        faster = " (over this range faster than the formula: a bound is no forecast)" * (measured.low > promised.value)
        verdict = (
            f"Regret is {min(below):,.0f} to {max(below):,.0f} times below Theorem 2's formula (c = 1). It grows as "
            f"{symbol} to the power {interval_text(measured)}{faster}; the formula, with the constants of the same "
            f"problems, as {symbol} to the power {promised.value:.2f}."
        )
        table = Table("at the last N", [symbol, "N", "regret", "Theorem 2, c = 1"], rows)

        def draw(figure: Any) -> None:
            series = {"measured": [a.final for _, a in found if a.final is not None]}
            points(figure.subplots(), x, series, x_label=f"{what} {symbol}", y_label="regret")

        return Finding(min(below) >= 1.0, verdict, [table], draw)

    return answer


def _states_specs(size: Size) -> dict[str, dict[str, Any]]:
    sides = size.first([10, 32, 100, 316])
    one = {"seeds": max(2, size.seeds // 4), "batch": 4}
    return {"runs": spec(size, _grid_episodes(size, 100), [env("soft-grid", side=sides)], [TUNED_BALL], **one)}


def _actions_specs(size: Size) -> dict[str, dict[str, Any]]:
    grid = env("soft-grid", {"side": 20}, copies=size.first([1, 2, 8, 32]))
    return {"runs": spec(size, _grid_episodes(size, 100), [grid], [TUNED_BALL])}


def _grid_episodes(size: Size, full: int) -> int:
    """Return the number of episodes of the grids, as many in a quick study, because fewer show only random play."""
    return full if size.name != "tiny" else 10


def _check_independence(symbol: str, of: str) -> Any:
    """Return an answer function that tests whether regret is independent of a size."""

    def answer(evidence: Evidence) -> Finding:
        found = evidence.agents()
        x = [_size_of(e.facts, of) for e, _ in found]
        slope = power(x, [a.totals for _, a in found if a.totals is not None])
        shown = [a.final for _, a in found if a.final is not None]
        first, last = shown[0].value, shown[-1].value
        rows = [[f"{v:,.0f}", interval_text(i, 1)] for v, i in zip(x, shown, strict=True)]
        verdict = (
            f"From {symbol} = {x[0]:,.0f} to {x[-1]:,.0f} regret goes from {first:,.1f} to {last:,.1f}: {symbol} to "
            f"the power {interval_text(slope, 3)}."
        )

        def draw(figure: Any) -> None:
            axes = figure.subplots()
            points(axes, x, {"tuned ball": shown}, x_label=symbol, y_label="regret", log=False)
            axes.set_xscale("log")
            axes.set_ylim(bottom=0.0)

        table = Table(f"N = {found[0][1].episodes:,}, d = 20", [symbol, "regret"], rows)
        return Finding(abs(slope.value) < 0.1, verdict, [table], draw)

    return answer


def _bound_specs(size: Size) -> dict[str, dict[str, Any]]:
    envs = [env("river-swim", RIVER), env("river-swim", {"n_states": 6, "horizon": 24}), env(*LOCK)]
    agents = [agent("paper's ball, proven β", set="frobenius", radius="self-normalised"), PROVEN_BALL]
    specs = {"runs": spec(size, size.episodes(2_000), envs, agents, certify=False)}
    if size.name == "full":  # with fewer episodes the bound of the smallest river is N·H as well
        smallest = [env("river-swim", {"n_states": 2, "horizon": 2})]
        specs["smallest"] = spec(size, size.episodes(_LONG), smallest, agents, certify=False)
    return specs


def _bound(evidence: Evidence) -> Finding:
    found = [pair for name in evidence.summaries for pair in evidence.agents(name)]
    below, trivial, starts, rows = [], [], [], []
    for e, a in found:
        assert a.curve is not None
        assert a.bounds is not None
        assert a.bounds.explicit is not None
        # the curve does not store the worst seed, so the upper end of the band of the mean is compared
        at = np.interp(a.curve.episode, a.bounds.episode, a.bounds.explicit)
        below.append(bool((a.curve.high <= at * (1 + 1e-9)).all()))
        trivial.append(a.bounds.is_trivial)
        starts.append(float(a.bounds.informative_from or math.inf))
        bound = "N·H" if trivial[-1] else f"{a.bounds.explicit[-1]:,.0f}"
        most = f"{a.bounds.largest[-1]:,.0f}"
        rows.append([e.id, a.id, f"{a.episodes:,}", interval_text(a.final, 1), bound, most, rounded(starts[-1])])
    tested = len(found) - sum(trivial)
    regret_is = "below the bound" if all(below) else f"below the bound for only {sum(below)} of {len(below)}"
    verdict = (
        f"{sum(trivial)} of {len(found)} comparisons are trivial: up to the last N the bound is N·H, which regret "
        f"never exceeds. The bound falls below N·H at N = {rounded(min(starts))} in the smallest problem and at "
        f"N = {rounded(max(starts))} in the largest. "
    ) + (
        f"In the other {tested}, mean regret (upper end of its band) is {regret_is} at every N."
        if tested
        else "No comparison of this size tests the bound."
    )
    head = ["environment", "agent", "N", "regret", "explicit bound", "N·H", "bound is below N·H from N ="]

    def draw(figure: Any) -> None:
        envs = [e for summaries in evidence.summaries.values() for e in summaries]
        figure.set_size_inches(6.4, 6.0)
        figure.get_layout_engine().set(h_pad=0.12)  # room for the legends below the panels
        panels = np.ravel(figure.subplots(2, -(-len(envs) // 2)))
        for axes in panels[len(envs) :]:
            axes.set_axis_off()
        for axes, e in zip(panels, envs, strict=False):
            curves(axes, e.agents, bounds=True)
            axes.set_title(e.id, fontsize=8)
            axes.legend(fontsize=6, loc="upper left", bbox_to_anchor=(0.0, -0.28), frameon=False)

    table = Table("at the last N; N·H in place of a bound says that it is trivial", head, rows)
    scope = f" in {tested} of {len(found)} comparisons, trivial in the others" if any(trivial) else ""
    return Finding(all(below), verdict, [table], draw, is_tested=tested > 0, scope=scope)


def _size_of(facts: dict[str, Any], name: str) -> float:
    return float(facts["horizon"] if name == "horizon" else facts["sizes"][name])


def _upper_end(interval: Interval) -> float:
    return interval.value if math.isnan(interval.high) else interval.high


QUESTIONS = [
    Question(
        "growth",
        PART,
        "Regret against T",
        "Regret is of order √T up to logarithms, for both balls of the paper (Theorems 1 and 2), and so for every "
        "smaller set.",
        "RiverSwim with 3 states, H = 6: small enough that even the paper's balls, with the theorem's radius (c = 1), "
        "learn within N. The exponent is the slope of ln(mean regret) against ln N over the last decade.",
        _growth,
        _growth_specs,
    ),
    Question(
        "dimension",
        PART,
        "Regret against d",
        "Regret is at most of order d·C_ψ·√T (Theorem 2); C_ψ grows with the number of states as well.",
        "1 to 8 separate rivers of 3 states: an episode starts in one of them, each must be learned by itself and is "
        "played equally often. So N grows with d, and the bound as d·C_ψ·√N. Agent: proven ball.",
        _compare_with_formula("features", "d", "d"),
        _dimension_specs,
    ),
    Question(
        "horizon",
        PART,
        "Regret against H",
        "At a fixed number of episodes regret is at most of order H²√(NH), which is √N times H to the power 2.5.",
        "RiverSwim with 3 states, H from 4 to 32. Agent: proven ball.",
        _compare_with_formula("horizon", "H", "horizon"),
        _horizon_specs,
    ),
    Question(
        "states",
        PART,
        "Regret against |S|",
        "Regret does not depend on the number of states, only on d.",
        "SoftGrid: one field, cut into ever finer cells, d = 20 regions. Agent: tuned ball.",
        _check_independence("S", "n_states"),
        _states_specs,
    ),
    Question(
        "actions",
        PART,
        "Regret against |A|",
        "Regret does not depend on the number of actions, only on d.",
        "SoftGrid with 400 cells; each of its four moves is offered 1 to 32 times. Agent: tuned ball.",
        _check_independence("A", "n_actions"),
        _actions_specs,
    ),
    Question(
        "bound",
        PART,
        "Below the explicit bound",
        "For every N, with probability 1 − δ − δ', regret is at most 2C_ψH√β·√(2HT ln det A) + H√(T ln(1/δ')/2), "
        "constants and all (T = NH).",
        "Two rivers and a linear lock, and in the full study the smallest river (2 states, H = 2) for so long that the "
        "bound is below N·H: the paper's ball with the proven radius and the proven ball, δ = δ' = 0.05, against the "
        "bound that can be written down before any data.",
        _bound,
        _bound_specs,
    ),
]
