"""Questions about additions to the paper: normalised set, certificates, ties, rare switching; and constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.colours import COLOURS
from matrixrl_lab.analysis.number_text import interval_text
from study.panels import curves, points
from study.question import Evidence, Finding, Question, Size, Table
from study.slopes import ratio, share_interval
from study.specs import LOCK, PROVEN_BALL, TUNED_BALL, agent, env, spec

__all__ = ["QUESTIONS"]

PART = "What we add"
SUITE = (
    env("river-swim", {"n_states": 3, "horizon": 6}),
    env("river-swim", {"n_states": 6}),
    env(*LOCK),
    env("deep-sea", {"size": 5}),
    env("four-rooms", {"size": 5}),
    env("combination-lock"),
)


def _normalised_specs(size: Size) -> dict[str, dict[str, Any]]:
    agents = [
        agent("paper's ball", set="frobenius", radius="block"),
        agent("normalised", set="normalised", radius="block"),
    ]
    return {"runs": spec(size, size.episodes(1_000), list(SUITE), agents)}


def _normalised(evidence: Evidence) -> Finding:
    rows, worse, better = [], 0, 0
    for e in evidence.summaries["runs"]:
        paper, ours = e.agents
        assert paper.totals is not None
        assert ours.totals is not None
        found = ratio(ours.totals, paper.totals)
        worse += found.value > 1.001
        better += found.value < 0.95
        rows.append([e.id, interval_text(paper.final, 1), interval_text(ours.final, 1), interval_text(found, 3)])
    verdict = (
        f"With the same radius the normalised set has clearly less regret on {better} of {len(rows)} problems and more "
        f"on {worse}; where neither has learned anything yet the ratio is 1."
    )
    head = ["environment", "paper's ball", "normalised", "ratio"]

    def draw(figure: Any) -> None:
        _bars_by_environment(figure.subplots(), evidence, (0, 1))

    return Finding(worse == 0 and better > 0, verdict, [Table("total regret, block radius", head, rows)], draw)


def _bars_by_environment(axes: Any, evidence: Evidence, pair: tuple[int, int]) -> None:
    """Draw the regret of two agents, given by their positions, on every environment."""
    found = evidence.summaries["runs"]
    position = np.arange(len(found))[::-1]
    for shift, colour, which in zip((0.2, -0.2), COLOURS, pair, strict=False):
        finals = [e.agents[which].final for e in found]
        totals = [final.value for final in finals if final is not None]
        label = found[0].agents[which].id
        axes.barh(position + shift, totals, height=0.38, color=colour, label=label)
    axes.set_yticks(position, [e.id for e in found])
    axes.set_xscale("log")
    axes.set_xlim(left=1.0)  # bars of a regret below 1 have no length
    axes.set_xlabel("regret")
    axes.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False)


def _ties_specs(size: Size) -> dict[str, dict[str, Any]]:
    agents = [
        agent(f"{how}, rewards {'known' if known else 'learned'}", preset="optimistic", ties=how, known_reward=known)
        for known in (True, False)
        for how in ("random", "estimate")
    ]
    return {"runs": spec(size, size.episodes(1_000), list(SUITE), agents)}


def _ties(evidence: Evidence) -> Finding:
    rows, factors = [], []
    for e in evidence.summaries["runs"]:
        for at_random, by_estimate in (e.agents[:2], e.agents[2:]):
            assert at_random.totals is not None
            assert by_estimate.totals is not None
            factors.append(ratio(by_estimate.totals, at_random.totals))
            rewards = at_random.id.rsplit(maxsplit=1)[1]
            rows.append(
                [
                    e.id,
                    rewards,
                    interval_text(at_random.final, 1),
                    interval_text(by_estimate.final, 1),
                    interval_text(factors[-1], 3),
                ]
            )
    better = sum(factor.high < 0.95 for factor in factors)
    worse = sum(factor.low > 1.01 for factor in factors)
    least = min(factors, key=lambda factor: factor.value)
    verdict = (
        f"Of {len(factors)} comparisons regret is clearly less in {better} and clearly more in {worse}; at best it "
        f"falls to {interval_text(least, 3)} of what it was. Values, radii and certificates are the same."
    )
    head = ["environment", "rewards", "ties at random", "ties by the estimate", "ratio"]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        _bars_by_environment(left, evidence, (0, 1))
        _bars_by_environment(right, evidence, (2, 3))

    return Finding(worse == 0 and better > 0, verdict, [Table("total regret, proven ball", head, rows)], draw)


def _certificate_specs(size: Size) -> dict[str, dict[str, Any]]:
    envs = [env(*LOCK), env("river-swim", {"n_states": 3, "horizon": 6})]
    return {"runs": spec(size, size.episodes(1_500), envs, [PROVEN_BALL, TUNED_BALL], certify=True)}


def _certificates(evidence: Evidence) -> Finding:
    rows, held, total = [], 0, 0
    for e, a in evidence.agents():
        assert a.certified is not None
        lower, upper = a.certified
        value = e.facts["optimal_value"]
        gap = upper.mean - lower.mean
        held += a.truths_inside
        total += a.seeds
        rows.append([e.id, a.id, f"{value:.3f}", f"{gap[0]:.2f}", f"{gap[-1]:.3f}", f"{a.truths_inside}/{a.seeds}"])
    share = share_interval(held, total)
    verdict = (
        f"The truth was inside the certificate of every episode in {held} of {total} runs ({interval_text(share, 3)}), "
        "where 95 % are promised."
    )
    head = [
        "environment",
        "agent",
        "V*(s0)",
        "gap at first",
        f"gap at N = {a.episodes:,}",
        "runs with the truth inside",
    ]

    def draw(figure: Any) -> None:
        found = evidence.agents()
        for axes, (e, a) in zip(np.ravel(figure.subplots(2, 2)), found, strict=True):
            assert a.certified is not None
            lower, upper = a.certified
            axes.fill_between(lower.episode, lower.mean, upper.mean, color=COLOURS[0], alpha=0.3)
            axes.axhline(e.facts["optimal_value"], color="black", linewidth=0.9, linestyle=":")
            axes.set_xscale("log")
            axes.set_title(f"{e.id}, {a.id}", fontsize=7)

    return Finding(share.high >= 0.95, verdict, [Table("certificates, mean over seeds", head, rows)], draw)


def _switching_specs(size: Size) -> dict[str, dict[str, Any]]:
    agents = [agent(f"κ = {k:g}", preset="optimistic", switch_growth=k) for k in (0.0, 0.1, 0.5, 1.0)]
    return {"runs": spec(size, size.episodes(2_000), [env("river-swim", {"n_states": 6})], agents)}


def _switching(evidence: Evidence) -> Finding:
    agents = [a for _, a in evidence.agents()]
    base = agents[0]
    rows, factors = [], []
    for a in agents:
        assert a.totals is not None
        assert base.totals is not None
        factor = ratio(a.totals, base.totals)
        factors.append(factor)
        rows.append([a.id, f"{a.plans:,.0f}", interval_text(a.final, 1), interval_text(factor, 3)])
    verdict = (
        f"Planning only when det A grew by half takes {agents[2].plans:,.0f} plans in place of {base.plans:,.0f} and "
        f"{interval_text(factors[2], 3)} times the regret; √(1 + κ) = 1.22 is what the widths may lose."
    )

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        curves(left, agents, log=False)
        finals = [a.final for a in agents if a.final is not None]
        points(right, [a.plans for a in agents], {"κ": finals}, x_label="plans", y_label="regret", log=False)
        right.set_xscale("log")

    return Finding(
        factors[2].value <= 1.5**0.5 * 1.05, verdict, [Table("", ["agent", "plans", "regret", "ratio"], rows)], draw
    )


def _constants_specs(size: Size) -> dict[str, dict[str, Any]]:
    agents = [
        agent("theorem's β, c = 1", set="frobenius", radius="theorem"),
        agent("proof's β", set="frobenius", radius="proof"),
        PROVEN_BALL,
        TUNED_BALL,
    ]
    return {"runs": spec(size, size.episodes(2_000), [env("river-swim", {"n_states": 6}), env(*LOCK)], agents)}


def _constants(evidence: Evidence) -> Finding:
    rows, far = [], []
    trivial = all(a.bounds.is_trivial for _, a in evidence.agents() if a.bounds and a.bounds.explicit is not None)
    for e, a in evidence.agents():
        assert a.bounds is not None
        assert a.final is not None
        promised = float(a.bounds.theorem_2[-1])
        explicit = a.bounds.explicit
        bound = "–" if explicit is None else "N·H" if a.bounds.is_trivial else f"{explicit[-1]:,.0f}"
        nothing = a.episodes * e.facts["optimal_value"]
        far.append(promised / max(a.final.value, 1e-9))
        rows.append(
            [
                e.id,
                a.id,
                interval_text(a.final, 1),
                f"{nothing:,.0f}",
                bound,
                f"{promised:,.3g}",
            ]
        )
    verdict = (
        f"Theorem 2's formula with c = 1 is {min(far):,.0f} to {max(far):,.0f} times the measured regret: it is a "
        "statement about rates, not a forecast. The radius of the printed proof explores without end at these N; the "
        "proven ball keeps a proof and learns; the tuned one gives the proof up. The explicit bound, where "
        f"one is proven, {'is N·H at these N: it says nothing yet' if trivial else 'is below N·H'}."
    )
    head = ["environment", "agent", "regret", "earning nothing", "explicit bound", "Theorem 2, c = 1"]
    return Finding(min(far) > 1.0, verdict, [Table(f"N = {a.episodes:,}", head, rows)])


QUESTIONS = [
    Question(
        "normalised",
        PART,
        "The normalised set",
        "Cutting the ball with “probabilities sum to one” can only shrink it: less optimism, the same proof.",
        "Six problems, the paper's ball and the normalised one with the same (block) radius.",
        _normalised,
        _normalised_specs,
    ),
    Question(
        "certificates",
        PART,
        "Certificates",
        "With probability 1 − δ, at all episodes, V*(s0) is below the upper bound and the value of the played policy "
        "above the lower one.",
        "LinearLock with 3 closed positions and a small river, the proven and the tuned ball, δ = 0.05: a certificate "
        "of every episode, compared with the truth.",
        _certificates,
        _certificate_specs,
    ),
    Question(
        "ties",
        PART,
        "Ties by the estimate",
        "Any choice among equally optimistic actions keeps the proof, so the data may choose: less regret, the same "
        "bound.",
        "Six problems, the proven ball with rewards known and learned; ties are broken at random, or by a plan at a "
        "twentieth of the radius.",
        _ties,
        _ties_specs,
    ),
    Question(
        "switching",
        PART,
        "Rare switching",
        "Planning only when det A grew by 1 + κ takes O(d log T) plans and widens by at most √(1 + κ).",
        "RiverSwim with 6 states, the proven ball.",
        _switching,
        _switching_specs,
    ),
    Question(
        "constants",
        "Constants",
        "How far the constants are from practice",
        "Theorem 2 bounds regret up to an absolute constant.",
        "Measured regret beside Theorem 2's formula with c = 1, the explicit bound, and earning nothing at all.",
        _constants,
        _constants_specs,
    ),
]
