"""Tables of the kernel agent on finite states, and of an inducing-point budget.

python benchmarks/kernels.py finite    regret against one-hot features, time per episode early and late
python benchmarks/kernels.py budget    20,000 steps with 1,000 inducing points: time, and error against the exact dual
python benchmarks/kernels.py dims      effective dimension of kernels, on greedily chosen pairs
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from matrixrl import make, run_seeds
from matrixrl.algorithms.continuous import ContinuousSettings
from matrixrl.algorithms.continuous.base import Experience
from matrixrl.algorithms.continuous.model import KernelModel, optimistic_plan
from matrixrl.core.dual import effective_dimension
from matrixrl.features.from_kernels import factor_gram
from matrixrl.features.kernels import ObservationScale, as_kernel
from matrixrl.features.state_maps import InducingMap
from matrixrl.play import Simulation


def row(*cells: object) -> None:
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def finite() -> None:
    row("problem", "features", "d", "regret", "per episode at the end", "ms per episode")
    row(*["---"] * 6)
    for env, env_settings, n, seeds in (("river-swim", {}, 1000, 8), ("grid-world", {"size": 20}, 300, 2)):
        for label, settings in (
            ("one-hot", {}),
            ("RBF 0.5", {"agent": "kernel-matrix-rl", "length_scale": 0.5}),
            ("RBF 1.0", {"agent": "kernel-matrix-rl", "length_scale": 1.0}),
        ):
            found = run_seeds(env, n_episodes=n, seeds=seeds, env_settings=env_settings, preset="tuned", **settings)
            late = found.regret[:, -n // 10 :].mean()
            pace = found.total_seconds / n / seeds * 1e3
            row(
                f"{env}, N={n}",
                label,
                found.sizes["d"],
                f"{found.final_regret.mean():,.0f}",
                f"{late:.2f}",
                f"{pace:.1f}",
            )
    print()
    row("problem", "ms at episode 100", "ms at episode 5,000", "ratio")
    row(*["---"] * 4)
    for env, settings in (("river-swim", {}), ("grid-world", {"size": 8})):
        simulation = Simulation(env, n_episodes=5000, seeds=[0], agent="kernel-matrix-rl", env_settings=settings)
        times = []
        for _ in range(5000):
            start = time.process_time()
            simulation.advance()
            times.append(time.process_time() - start)
        early, late = (np.median(times[i - 50 : i]) * 1e3 for i in (150, 5000))
        row(env, f"{early:.2f}", f"{late:.2f}", f"{late / early:.2f}")


def budget() -> None:
    rng = np.random.default_rng(0)
    settings = ContinuousSettings(budget=1000, tolerance=0.0, exploration=0.0, length_scale=0.3, ridge=0.1)
    kernel = RBF(0.3)
    scale = ObservationScale(-np.ones(4), np.ones(4))
    state_map = InducingMap(as_kernel(kernel), 4, budget=1000, tolerance=0.0)
    model = KernelModel(2, scale, state_map, ridge=settings.ridge, correlation=settings.action_correlation)
    seconds = []
    for _ in range(100):
        start = time.perf_counter()
        obs, following = rng.uniform(-1, 1, (200, 4)), rng.uniform(-1, 1, (200, 4))
        model.update(Experience(obs, rng.integers(0, 2, 200), _smooth(obs), following, np.zeros(200, dtype=bool)))
        seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    plan = optimistic_plan(model, (0.0, 1.0), settings.exploration, rng, horizon=1)
    planned = time.perf_counter() - start
    where = rng.uniform(-1, 1, (200, 4))
    ours = plan.q_at(0, where)
    sample = rng.permutation(20_000)[:3000]
    part = model.data
    sub = Experience(*(getattr(part, n)[sample] for n in ("obs", "actions", "rewards", "next_obs", "terminated")))
    same = np.where(sub.actions[:, None] == sub.actions, 1.0, 0.5)
    inner = np.linalg.inv(kernel(sub.obs, sub.obs) * same + settings.ridge * np.eye(3000))
    across, weights = kernel(where, sub.obs), inner @ (sub.rewards - 1.0)
    shares = [np.where(sub.actions == a, weights, 0.5 * weights) for a in (0, 1)]
    exact = 1.0 + across @ np.stack(shares, axis=1)
    truth = _smooth(where)[:, None]
    row("steps", "inducing points", "s per episode of 200 steps (first, last)", "s to solve", "residual (mean)")
    row(*["---"] * 5)
    residual = plan.bounds.describe(where)[1].mean()
    row("20,000", model.map.size, f"{seconds[0]:.3f}, {seconds[-1]:.3f}", f"{planned:.2f}", f"{residual:.3f}")
    print()
    row("mean error of the prediction", "against the truth", "exact dual on 3,000 steps, against the truth")
    row(*["---"] * 3)
    row("", f"{np.abs(ours - truth).mean():.4f}", f"{np.abs(exact - truth).mean():.4f}")


def _smooth(x: np.ndarray) -> np.ndarray:
    return 0.5 + 0.25 * np.sin(3.0 * x[:, 0]) * np.cos(2.0 * x[:, 1]) + 0.2 * np.tanh(x[:, 2])


def dims() -> None:
    points = make("grid-world", size=12).unwrapped.points
    row("kernel on a 12×12 grid, 4 actions", "rank", "T = 1,000", "T = 100,000")
    row(*["---"] * 4)
    kinds = {
        "linear": "linear",
        "polynomial": "polynomial",
        "RBF 1.0": RBF(1.0),
        "RBF 0.5": RBF(0.5),
        "RBF 0.2": RBF(0.2),
    }
    for label, kind in kinds.items():
        states = as_kernel(kind)(points, points)
        rows = np.kron(np.eye(4), factor_gram("k", states)[0])
        row(label, rows.shape[1], *(f"{effective_dimension(rows, most=t):.1f}" for t in (1_000, 100_000)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["finite", "budget", "dims"])
    {"finite": finite, "budget": budget, "dims": dims}[parser.parse_args().table]()
