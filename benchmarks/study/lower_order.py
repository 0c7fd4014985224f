"""Questions about lower-order claims: unknown rewards, unknown N, sampled columns, and closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.core.models.sampled import column_sampler
from matrixrl.envs import make
from matrixrl.problems import solve
from matrixrl_lab.analysis import Interval
from matrixrl_lab.analysis.number_text import interval_text
from study.panels import bars, curves, points
from study.question import Evidence, Finding, Question, Size, Table
from study.slopes import power, ratio
from study.specs import LOCK, agent, env, spec
from study.theorems import excludes_linear_growth

__all__ = ["QUESTIONS"]

PART = "Lower-order claims"
RIVER = {"n_states": 3, "horizon": 6}


def _reward_specs(size: Size) -> dict[str, dict[str, Any]]:
    name, settings = LOCK
    envs = [
        env("river-swim", {"n_states": 6, "noisy_rewards": True}),
        env(name, {**settings, "noisy_rewards": True}),
    ]
    agents = [
        agent(f"{ball}, {'known' if known else 'unknown'} rewards", preset=preset, known_reward=known)
        for ball, preset in (("proven ball", "optimistic"), ("tuned ball", "tuned"))
        for known in (True, False)
    ]
    return {"runs": spec(size, size.episodes(2_000), envs, agents)}


def _reward(evidence: Evidence) -> Finding:
    rows, ratios = [], []
    for e in evidence.summaries["runs"]:
        for known, unknown in (e.agents[:2], e.agents[2:]):
            assert known.totals is not None
            assert unknown.totals is not None
            found = ratio(unknown.totals, known.totals)
            ratios.append(found.value)
            rows.append(
                [
                    e.id,
                    known.id.partition(",")[0],
                    interval_text(known.final, 1),
                    interval_text(unknown.final, 1),
                    interval_text(found),
                ]
            )
    verdict = (
        f"With rewards that are noisy, not knowing them costs {min(ratios):.2f} to {max(ratios):.2f} times the regret."
    )
    head = ["environment", "agent", "known", "unknown", "ratio"]
    # the same order up to a constant: learning the rewards is one more regression of the same size
    return Finding(max(ratios) < 3.0, verdict, [Table("total regret, noisy rewards", head, rows)])


def _doubling_specs(size: Size) -> dict[str, dict[str, Any]]:
    agents = [
        agent("N known", radius="theorem", set="normalised"),
        agent("doubling, keep", name="doubling-matrix-rl", radius="theorem", keep_data=True),
        agent("doubling, restart", name="doubling-matrix-rl", radius="theorem"),
    ]
    return {"runs": spec(size, size.episodes(10_000), [env("river-swim", RIVER)], agents)}


def _doubling(evidence: Evidence) -> Finding:
    agents = [a for _, a in evidence.agents()]
    totals = [a.totals for a in agents if a.totals is not None]
    factors = [ratio(total, totals[0]) for total in totals]
    rows = [[a.id, interval_text(a.final, 1), interval_text(f)] for a, f in zip(agents, factors, strict=True)]
    most = 1.0 / (1.0 - 2.0**-0.5)  # Σ √(2^i) ≤ √N / (1 − 1/√2)
    growth = agents[2].exponent
    can_fail, words = excludes_linear_growth(agents[2])
    verdict = (
        f"Not knowing N costs {interval_text(factors[1])} times the regret if the data are kept, "
        f"{interval_text(factors[2])} if they are forgotten at each doubling as in the paper. The argument allows "
        f"{most:.2f} times a bound of order √N; measured regret flattens sooner than that, and then every restart pays "
        f"the beginning again. It still grows as N to the power {interval_text(growth)} only.{words}"
    )

    def draw(figure: Any) -> None:
        curves(figure.subplots(), agents, log=False)

    return Finding(
        growth is not None and growth.value <= 0.5,
        verdict,
        [Table("total regret", ["agent", "regret", "factor"], rows)],
        draw,
        can_fail=can_fail,
    )


def _measure_columns(size: Size) -> dict[str, Any]:
    made: Any = make("soft-grid", side={"tiny": 20, "quick": 60, "full": 100}[size.name]).unwrapped
    psi, draws = made.mdp.features.psi, {"tiny": 4, "quick": 20, "full": 60}[size.name]
    values = solve(made.mdp).values[1]
    exact = psi.project(values[None])[0]
    counts = [m for m in (50, 100, 200, 400, 800) if m < made.mdp.n_states]
    found = {}
    for weights in ("norm", "uniform"):
        errors = []
        for m in counts:
            draw, rng = column_sampler(weights, m, made.mdp.n_states, psi.norms_sq), np.random.default_rng(0)
            own = []
            for _ in range(draws):
                columns = draw(rng)
                estimate = (psi.rows(columns.states) * columns.weights[:, None]).T @ values[columns.states]
                own.append(float(np.linalg.norm(estimate - exact) / np.linalg.norm(exact)))
            errors.append(own)
        found[weights] = errors
    return {"states": made.mdp.n_states, "counts": counts, "errors": found}


def _columns(evidence: Evidence) -> Finding:
    counts, errors = evidence.numbers["counts"], evidence.numbers["errors"]
    slopes = {k: power(counts, [np.array(e) for e in v]) for k, v in errors.items()}
    rows = [[k, *[f"{np.mean(e):.4f}" for e in v], interval_text(slopes[k])] for k, v in errors.items()]
    verdict = (
        f"The error of ΨᵀV from m of {evidence.numbers['states']:,} columns falls as m to the power "
        f"{interval_text(slopes['norm'])} (norm) and {interval_text(slopes['uniform'])} (uniform); −½ is what "
        "independent draws would give, stratified ones do better."
    )
    head = ["weights", *[f"m={m}" for m in counts], "power of m"]

    def draw(figure: Any) -> None:
        series: dict[str, list[Interval]] = {}
        for label, own in errors.items():
            means = [float(np.mean(e)) for e in own]
            spread = [1.96 * float(np.std(e)) / len(e) ** 0.5 for e in own]
            series[label] = [Interval(m, m - s, m + s) for m, s in zip(means, spread, strict=True)]
        points(figure.subplots(), counts, series, x_label="columns m", y_label="relative error of ΨᵀV")

    return Finding(all(s.value <= -0.45 for s in slopes.values()), verdict, [Table("mean error", head, rows)], draw)


def _closed_specs(size: Size) -> dict[str, dict[str, Any]]:
    agents = [
        agent("Frobenius ball, exact (6)", set="frobenius", radius="block"),
        agent("Frobenius ball, closed form (8)", set="frobenius-closed", radius="block"),
        agent("column ball, exact (5)", set="column", radius="block"),
        agent("column ball, closed form (7)", set="column-closed", radius="block"),
    ]
    return {"runs": spec(size, size.episodes(5_000), [env("river-swim", RIVER)], agents)}


def _closed(evidence: Evidence) -> Finding:
    agents = [a for _, a in evidence.agents()]
    rows = [[a.id, interval_text(a.final, 1), interval_text(a.exponent)] for a in agents]
    means = [a.final.value for a in agents if a.final is not None]
    holds = means[0] <= means[1] and means[2] <= means[3]
    verdict = (
        f"Maximising over the balls exactly has regret {means[0]:,.1f} and {means[2]:,.1f}; the closed forms, which "
        f"bound the same maximum, {means[1]:,.1f} and {means[3]:,.1f}."
    )

    def draw(figure: Any) -> None:
        bars(
            figure.subplots(),
            [a.id for a in agents],
            [a.final for a in agents if a.final is not None],
            x_label="regret",
        )

    return Finding(holds, verdict, [Table("total regret, block radius", ["set", "regret", "exponent"], rows)], draw)


QUESTIONS = [
    Question(
        "unknown-rewards",
        PART,
        "Unknown rewards",
        "Learning rewards too does not change the order of the regret.",
        "RiverSwim and LinearLock, rewards paid at random with the right mean; the same agents with and without "
        "knowing the means.",
        _reward,
        _reward_specs,
    ),
    Question(
        "doubling",
        PART,
        "Unknown N",
        "Doubling the planned N, with a restart each time, costs a constant factor of the bound: regret stays of "
        "order √T.",
        "RiverSwim with 3 states, the normalised set with the theorem's radius, which needs N.",
        _doubling,
        _doubling_specs,
    ),
    Question(
        "columns",
        PART,
        "Sampled columns",
        "ΨᵀV and K_ψ can be estimated from sampled columns; the error falls with their number.",
        "SoftGrid: the relative error of ΨᵀV* over independent draws.",
        _columns,
        measure=_measure_columns,
    ),
    Question(
        "closed-forms",
        PART,
        "Closed forms against exact sets",
        "The closed forms (7) and (8) are upper bounds on the maxima over the balls, so they can only explore more.",
        "RiverSwim with 3 states, all four with the same proven radius.",
        _closed,
        _closed_specs,
    ),
]
