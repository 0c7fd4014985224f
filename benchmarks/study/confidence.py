"""Questions about confidence: coverage of M*, the potential lemmas, and optimism of the plans."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.core import RADII, SETS, SetContext
from matrixrl.play import Simulation
from matrixrl.problems import EmbeddedMDP, low_rank, tabular
from matrixrl.records import FloatArray
from matrixrl_lab.analysis import Interval
from study.panels import bars
from study.question import Evidence, Finding, Question, Size, Table
from study.slopes import share_interval
from study.specs import LOCK, PROVEN_BALL, TUNED_BALL, env, spec

__all__ = ["QUESTIONS", "coverage_of"]

PART = "Confidence"
DELTA = 0.1
PROVEN = ("block", "self-normalised")


def coverage_of(world: EmbeddedMDP, radius: str, *, runs: int, episodes: int) -> dict[str, int]:
    """Return, for each set, the number of runs in which M* was inside the set at all episodes.

    Args:
        world: Problem whose M* is known.
        radius: Name of the radius.
        runs: Number of runs B.
        episodes: Number of episodes N.
    """
    psi, phi = world.features.psi, world.features.phi
    context = SetContext(psi.total, phi.d, world.mdp.horizon, psi.constants.c_psi, psi.constants.c_psi_max_norm)
    settings = {"preset": "optimistic", "set": "normalised", "radius": radius, "delta": DELTA}
    simulation = Simulation(world.mdp, n_episodes=episodes, seeds=range(runs), settings=settings)
    inside = {kind: np.ones(runs, dtype=bool) for kind in SETS}
    for _ in range(episodes):
        simulation.advance()
        algorithm: Any = simulation.algorithm
        model = algorithm.model
        root = _root(model.design.arrays(), phi.d)
        sizes = model.confidence.radii(model.design, algorithm.clock).models
        miss = root @ (world.core - model.core_matrix())
        for kind in SETS:
            if sizes.shape[1] > 1 and phi.d == sizes.shape[1]:  # one radius for each one-hot pair
                inside[kind] &= (np.linalg.norm(miss, axis=2) <= sizes).all(axis=1)
            else:
                inside[kind] &= SETS[kind]().bind(context).contains(miss, sizes.max(axis=1))
    return {kind: int(held.sum()) for kind, held in inside.items()}


def _root(arrays: dict[str, FloatArray], d: int) -> FloatArray:
    """Return A_n^{1/2} of every replica, shape (B, d, d)."""
    matrix = arrays["design"] if "design" in arrays else (1.0 + arrays["counts"])[:, :, None] * np.eye(d)
    values, vectors = np.linalg.eigh(matrix)
    root: FloatArray = (vectors * np.sqrt(values)[:, None, :]) @ vectors.transpose(0, 2, 1)
    return root


def _measure_coverage(size: Size) -> dict[str, Any]:
    runs = {"tiny": 4, "quick": 100, "full": 400}[size.name]
    worlds = {
        "tabular S=6 A=2": tabular(n_states=6, n_actions=2, horizon=5, seed=2),
        "low rank d=3": low_rank(n_states=20, n_actions=3, d=3, horizon=5, seed=2),
    }
    held = {
        label: {radius: coverage_of(world, radius, runs=runs, episodes=size.episodes(100)) for radius in RADII}
        for label, world in worlds.items()
    }
    return {"runs": runs, "held": held}


def _coverage(evidence: Evidence) -> Finding:
    runs, held = evidence.numbers["runs"], evidence.numbers["held"]
    tables, worst = [], 1.0
    proven = [(label, radius, kind) for label in held for radius in PROVEN for kind in SETS if kind in _NORMALISED]
    for label, radius, kind in proven:
        worst = min(worst, share_interval(held[label][radius][kind], runs).high)
    for label in held:
        rows = [[kind, *[f"{held[label][radius][kind] / runs:.3f}" for radius in RADII]] for kind in SETS]
        tables.append(Table(f"{label}: share of {runs} runs", ["set", *RADII], rows))
    shares = [held[label][radius][kind] / runs for label, radius, kind in proven]
    verdict = (
        f"With the proven radii M* stayed inside in at least {min(shares):.1%} of runs; {1 - DELTA:.0%} is promised. "
        "The constant radius promises nothing."
    )
    return Finding(worst >= 1 - DELTA, verdict, tables)


_NORMALISED = ("normalised", "frobenius", "intersection")


def _measure_potential(size: Size) -> dict[str, Any]:
    episodes = size.episodes(2_000)
    found = {}
    for label, (name, settings) in {
        "RiverSwim (6, 24)": ("river-swim", {"n_states": 6}),
        "LinearLock (3)": LOCK,
    }.items():
        simulation = Simulation(
            name, n_episodes=episodes, seeds=[0, 1], env_settings=settings, settings=PROVEN_BALL["settings"]
        )
        algorithm: Any = simulation.algorithm
        phi, horizon, played = algorithm.problem.features.phi, algorithm.task.horizon, np.zeros(2)
        for _ in range(episodes):
            planned = algorithm.model.design.width_sq.copy()
            simulation.advance()
            pairs = phi.pairs(simulation.last.states[:, 0], simulation.last.actions[:, 0])
            played += np.minimum(1.0, np.take_along_axis(planned, pairs, axis=1)).sum(axis=1)
        most = 2.0 * horizon * algorithm.model.design.logdet
        a_priori = 2.0 * horizon * phi.d * np.log(episodes * horizon * phi.max_norm_sq / phi.d + 1.0)
        found[label] = {"sum": float(played.max()), "logdet": float(most.min()), "a_priori": float(a_priori)}
    return {"episodes": episodes, "found": found}


def _potential(evidence: Evidence) -> Finding:
    found = evidence.numbers["found"]
    rows = [[k, f"{v['sum']:,.1f}", f"{v['logdet']:,.1f}", f"{v['a_priori']:,.1f}"] for k, v in found.items()]
    holds = all(v["sum"] <= v["logdet"] <= v["a_priori"] for v in found.values())
    tightest = max(v["sum"] / v["logdet"] for v in found.values())
    verdict = (
        f"Both inequalities hold on both problems at N = {evidence.numbers['episodes']:,}; the sum of widths is at "
        f"most {tightest:.0%} of 2H·ln det A."
    )
    head = ["problem", "Σ min(1, w²)", "2H ln det A", "2Hd ln(1 + NHC_φ)"]
    return Finding(holds, verdict, [Table("along two real runs each, the larger sum", head, rows)])


def _optimism_specs(size: Size) -> dict[str, dict[str, Any]]:
    envs = [
        env("river-swim", {"n_states": 6}),
        env(*LOCK),
        env("deep-sea", {"size": 6}),
        env("four-rooms", {"size": 5}),
        env("combination-lock"),
    ]
    return {"runs": spec(size, size.episodes(500), envs, [PROVEN_BALL, TUNED_BALL])}


def _optimism(evidence: Evidence) -> Finding:
    found = evidence.agents()
    proven = [a.optimistic_share for _, a in found if a.id == PROVEN_BALL["id"] and a.optimistic_share is not None]
    rows = [[e.id, a.id, f"{a.optimistic_share:.1%}"] for e, a in found if a.optimistic_share is not None]
    verdict = (
        f"The proven ball was optimistic in at least {min(proven):.1%} of episodes on every problem; with "
        "probability at least 95 % a run is always optimistic. The tuned ball is not, and need not be."
    )

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        shares = [Interval(a.optimistic_share or 0.0, *[a.optimistic_share or 0.0] * 2) for _, a in found]
        bars(axes, [f"{e.id}, {a.id}" for e, a in found], shares, x_label="share of episodes with V_opt ≥ V*")

    table = Table("share of episodes", ["environment", "agent", "optimistic"], rows)
    return Finding(min(proven) >= 0.95, verdict, [table], draw)


QUESTIONS = [
    Question(
        "coverage",
        PART,
        "Coverage of M*",
        "With probability 1 − δ the set holds M* at all episodes at once (for the radii that are proven).",
        f"Two problems whose M* is known, δ = {DELTA}; a run counts if M* was inside after every episode.",
        _coverage,
        measure=_measure_coverage,
    ),
    Question(
        "potential",
        PART,
        "The potential lemmas",
        "Σ min(1, w²) ≤ 2H ln det A ≤ 2Hd ln(1 + NHC_φ), A after N episodes.",
        "The widths of the pairs that were played, summed along runs of the proven ball.",
        _potential,
        measure=_measure_potential,
    ),
    Question(
        "optimism",
        PART,
        "Optimism",
        "With probability 1 − δ the planned value of the start is at least V*(s0) in every episode.",
        "Five problems, the proven and the tuned ball: the share of episodes in which it was.",
        _optimism,
        _optimism_specs,
    ),
]
