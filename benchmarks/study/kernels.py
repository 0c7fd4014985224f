"""Questions about Theorem 3: kernels against features, and the effective dimension of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.agents import KernelMatrixRL
from matrixrl.core.dual import DualEstimate, effective_dimension
from matrixrl.envs import make
from matrixrl.features.from_kernels import factor_gram
from matrixrl.features.kernels import as_kernel
from matrixrl.random_streams import generator
from matrixrl_lab.analysis import Interval
from matrixrl_lab.analysis.number_text import interval_text
from study.panels import curves, points
from study.question import Evidence, Finding, Question, Size, Table
from study.slopes import ratio
from study.specs import agent, env, spec

__all__ = ["QUESTIONS"]

PART = "Theorem 3"
_SAME = 1e-6  # two routes to the same numbers; they differ by rounding errors only


def _kernel_specs(size: Size) -> dict[str, dict[str, Any]]:
    kernel = "kernel-matrix-rl"
    agents = [
        agent("one-hot features", preset="tuned"),
        agent("kernel, identity", name=kernel, preset="tuned", length_scale=0.001),
        agent("kernel, RBF 0.5", name=kernel, preset="tuned", length_scale=0.5),
        agent("kernel, RBF 1.0", name=kernel, preset="tuned", length_scale=1.0),
    ]
    grid = env("grid-world", {"size": 12 if size.name == "full" else 8})
    return {"runs": spec(size, size.episodes(300), [grid], agents, seeds=max(2, size.seeds // 2))}


def _kernel(evidence: Evidence) -> Finding:
    agents = [a for _, a in evidence.agents()]
    plain, identity = agents[0], agents[1]
    assert plain.totals is not None
    assert identity.totals is not None
    apart = float(np.abs(plain.totals - identity.totals).max())
    rows, gains = [], []
    for a in agents:
        assert a.totals is not None
        gain = ratio(a.totals, plain.totals)
        gains.append(gain)
        rows.append([a.id, interval_text(a.final, 1), interval_text(gain, 3)])
    better = [a.id for a, gain in zip(agents[2:], gains[2:], strict=True) if gain.value < 1.0]
    found = evidence.numbers
    error = max(case["widths"] for case in found["cases"].values())
    error = max(error, *(case["predictions"] for case in found["cases"].values()))
    verdict = (
        f"After {found['episodes']:,} episodes widths and predictions of the dual form, from kernel values alone, "
        f"differ from those of the agent by at most {error:.1g}. The identity as kernel differs from one-hot features "
        f"by {apart:.2g} in total regret, which tests the coordinates only: the same program plays both. Neighbours "
        f"that share what they learn lower regret: {', '.join(better) or 'none does'}."
    )
    tables = [
        Table("total regret", ["agent", "regret", "ratio to one-hot"], rows),
        Table(
            "largest difference between the dual form and the coordinates of the kernel, over all pairs",
            ["kernel", "visited pairs", "squared widths", "predictions of PV, V in [0, 1]"],
            [
                [label, f"{case['visited']:,}", f"{case['widths']:.1g}", f"{case['predictions']:.1g}"]
                for label, case in found["cases"].items()
            ],
        ),
    ]

    def draw(figure: Any) -> None:
        curves(figure.subplots(), agents, log=False)

    same = apart < 1e-6 * max(1.0, float(plain.totals.max())) and error < _SAME
    return Finding(same and bool(better), verdict, tables, draw)


def _measure_dual(size: Size) -> dict[str, Any]:
    """Play with the coordinates of a kernel, and compute widths and predictions again by the dual form (YW19 (9))."""
    episodes, cases = size.episodes(100), {}
    for label, scale in (("RBF 0.5", 0.5), ("RBF 1.0", 1.0)):
        world = make("grid-world", size=8)
        player = KernelMatrixRL(world, preset="optimistic", set="normalised", length_scale=scale, seed=0)
        steps = [step for _ in range(episodes) for step in _play(player, world)]
        algorithm: Any = player.algorithm
        phi, psi = algorithm.problem.features.phi, algorithm.problem.features.psi
        states, actions, following = np.array(steps).T
        rows = phi.rows(np.arange(phi.n_states * phi.n_actions))
        dual = DualEstimate(rows @ rows.T, phi.pairs(states, actions), following, np.eye(phi.n_states))
        values = generator(0, "sampling").random(phi.n_states)
        primal = phi.dot(algorithm.model.core_matrix() @ psi.project(values[None])[0]).ravel()
        cases[label] = {
            "visited": len(dual.distinct),
            "widths": float(np.abs(dual.width_sq() - algorithm.model.design.width_sq[0]).max()),
            "predictions": float(np.abs(dual.predict(values) - primal).max()),
        }
    return {"episodes": episodes, "cases": cases}


def _play(player: KernelMatrixRL, world: Any) -> list[tuple[int, int, int]]:
    """Play an episode by ask and tell and return its steps: state, action and next state."""
    steps, (state, _) = [], world.reset(seed=player.n_episodes)
    episode, ended = player.begin_episode(), False
    while not ended:
        action = episode.act(state)
        following, reward, terminated, truncated, _ = world.step(action)
        episode.observe(state, action, reward, following, terminated)
        steps.append((int(state), int(action), int(following)))
        state, ended = following, terminated or truncated
    episode.end()
    return steps


def _measure_dimension(size: Size) -> dict[str, Any]:
    from sklearn.gaussian_process.kernels import RBF, DotProduct, Exponentiation

    side = {"tiny": 4, "quick": 15, "full": 20}[size.name]
    axis = np.linspace(-1.0, 1.0, side)
    where = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    kernels = {
        "linear (rank 3)": DotProduct(1.0),
        "polynomial, degree 2 (rank 6)": Exponentiation(DotProduct(1.0), 2),
        "RBF, length scale 1": RBF(1.0),
        "RBF, length scale 0.3": RBF(0.3),
    }
    steps = [10, 100, 1_000, 10_000, 100_000]
    found: dict[str, Any] = {}
    for label, kernel in kernels.items():
        gram = as_kernel(kernel)(where, where)
        rows = factor_gram("kernel", gram / gram.diagonal().max())[0]
        found[label] = {"rank": int(rows.shape[1]), "dims": [effective_dimension(rows, most=t) for t in steps]}
    return {"steps": steps, "points": len(where), "found": found}


def _dimension(evidence: Evidence) -> Finding:
    steps, found = evidence.numbers["steps"], evidence.numbers["found"]
    rows = [[k, str(v["rank"]), *[f"{x:.2f}" for x in v["dims"]]] for k, v in found.items()]
    bounded = all(v["dims"][-1] <= 1.05 * v["rank"] for v in found.values())
    linear, narrow = found["linear (rank 3)"]["dims"], found["RBF, length scale 0.3"]["dims"]
    verdict = (
        f"At T = {steps[-1]:,} the linear kernel has d̃ = {linear[-1]:.2f} (it may not exceed its rank, 3), the narrow "
        f"RBF kernel {narrow[-1]:.2f} on {evidence.numbers['points']} points: far below the number of points, and "
        "growing slowly."
    )
    head = ["kernel", "rank", *[f"T={t:,}" for t in steps]]

    def draw(figure: Any) -> None:
        series = {k: [Interval(x, x, x) for x in v["dims"]] for k, v in found.items()}
        axes = figure.subplots()
        points(axes, steps, series, x_label="T", y_label="effective dimension d̃", log=False)
        axes.set_xscale("log")

    return Finding(bounded, verdict, [Table("d̃ on well chosen points of a square", head, rows)], draw)


QUESTIONS = [
    Question(
        "kernel",
        PART,
        "Kernels against features",
        "Algorithm 2 with a kernel is Algorithm 1 with its features, and regret follows the kernel's effective "
        "dimension.",
        "A grid world; one-hot features, and the features of the identity and of RBF kernels of the positions of the "
        "cells, all in coordinates and with the tuned ball. The dual form of Algorithm 2, with kernel values only, is "
        "computed beside them from the steps of two runs of the proven ball on 64 cells.",
        _kernel,
        _kernel_specs,
        _measure_dual,
    ),
    Question(
        "effective-dimension",
        PART,
        "Effective dimension against T",
        "d̃ is at most the rank of a kernel of finite rank, and grows slowly in T for smooth kernels.",
        "ln det(I + K)/ln(1 + t), where K is the Gram matrix of t points of a square that differ as much as possible.",
        _dimension,
        measure=_measure_dimension,
    ),
]
