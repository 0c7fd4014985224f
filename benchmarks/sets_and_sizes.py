"""Tables of the study, one command each.

python benchmarks/sets_and_sizes.py regret          every ball × radius on RiverSwim
python benchmarks/sets_and_sizes.py misspecified    how early the alarm fires as features get worse
python benchmarks/sets_and_sizes.py scaling         time per episode against S and against d
python benchmarks/sets_and_sizes.py columns         sampled columns: error and regret against m, 10,000 states
python benchmarks/sets_and_sizes.py million         a million states: time per episode and peak memory
python benchmarks/sets_and_sizes.py features        100,000 states with d = 50: CPU time per episode and peak memory
python benchmarks/sets_and_sizes.py kernel          a kernel on 3,969 points, likewise
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from matrixrl import FiniteMDP, KernelMatrixRL, MatrixRL, make, run_seeds, solve
from matrixrl.core import RADII, SETS
from matrixrl.core.embedding import embedding
from matrixrl.core.models.sampled import column_sampler
from matrixrl.features import Features, TablePhi
from matrixrl.play import Simulation
from matrixrl.records import Steps

TASKS = {
    "RiverSwim (4, 20)": ("river-swim", {"n_states": 4, "horizon": 20}, 3000),
    "RiverSwim (6, 24)": ("river-swim", {"n_states": 6, "horizon": 24}, 3000),
}


def row(cells: list[object]) -> None:
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def head(cells: list[object]) -> None:
    row(cells)
    print("|---" * len(cells) + "|")


def regret(seeds: int) -> None:
    for label, (env, settings, n) in TASKS.items():
        print(f"\n**{label}, N = {n:,}, {seeds} seeds**\n")
        head(["set", *RADII])
        for kind in SETS:
            cells: list[object] = [kind]
            for radius in RADII:
                found = run_seeds(
                    env, n_episodes=n, seeds=seeds, env_settings=settings, preset="optimistic", set=kind, radius=radius
                )
                cells.append(f"{found.final_regret.mean():,.1f}")
            row(cells)


def misspecified(seeds: int) -> None:
    world = make("factors").unwrapped.mdp  # φ are mixtures, and without exploration nearly nothing is earned
    noise = np.random.default_rng(0).standard_normal(world.features.phi.table.shape)
    head(["noise in φ", "explained", "seeds with alarm", "first alarm (median episode)", "regret"])
    for size in (0.0, 0.01, 0.03, 0.1, 0.2, 0.4, 0.8):
        features = Features(TablePhi(world.features.phi.table + size * noise), world.features.psi)
        mdp = FiniteMDP(world.transitions, world.task.reward, world.horizon, start=world.task.start, features=features)
        fit = embedding(mdp.transitions, features)
        found = run_seeds(mdp, n_episodes=3000, seeds=range(1000, 1000 + seeds), preset="optimistic")
        alarms = found.alarm_list()
        first = f"{np.median([a['first_episode'] for a in alarms]):.0f}" if alarms else "–"
        assert fit is not None
        cells = [size, f"{fit.explained:.4f}", f"{len(alarms)}/{seeds}", first]
        row([*cells, f"{found.final_regret.mean():,.1f}"])


def scaling() -> None:
    def per_episode(compiled: bool, **settings: int) -> float:
        simulation = Simulation(
            "linear-mdp",
            n_episodes=60,
            seeds=[0],
            env_settings=settings,
            settings={"ties": "random"},  # one plan; the default makes a second one to break ties
            compiled=compiled,
        )
        simulation.advance(10)
        algorithm, nothing = simulation.algorithm, np.zeros((1, 10), dtype=int)
        steps = Steps.of(nothing, nothing, np.zeros((1, 10)), nothing)
        best = np.inf
        for _ in range(5):
            start = time.process_time()
            for _ in range(10):
                algorithm.plan()
                algorithm.update(steps)
            best = min(best, (time.process_time() - start) / 10)
        return best * 1e3

    def line(first: object, n: int, d: int) -> None:
        arrays, loops = (per_episode(c, n_states=n, n_actions=4, d=d, horizon=10) for c in (False, True))
        row([first, f"{arrays:.2f}", f"{arrays * 1e6 / (n * 4 * d * 10):.2f}", f"{loops:.2f}"])

    columns = ["ms per plan and update", "ns per S·A·d·H", "ms, compiled"]
    head(["S (A=4, d=20, H=10)", *columns])
    for n in (100, 1_000, 10_000, 100_000):
        line(f"{n:,}", n, 20)
    print()
    head(["d (S=2,000, A=4, H=10)", *columns])
    for d in (5, 20, 80, 320):
        line(d, 2_000, d)


def columns(seeds: int) -> None:
    env = make("soft-grid").unwrapped
    psi, mdp = env.mdp.features.psi, env.mdp
    values = solve(mdp).values[1]
    # What planning needs is K⁻¹ΨᵀV: its error in the expected value of the next state, over all pairs.
    at_all = mdp.transitions.expect(values[None])[0]
    counts = (50, 200, 500, 2_000, 5_000, 10_000)
    head(["m of 10,000 columns", *[f"{m:,}" for m in counts]])
    for weights in ("norm", "uniform"):
        alone, together = [], []
        for m in counts:
            draw, rng = column_sampler(weights, m, mdp.n_states, psi.norms_sq), np.random.default_rng(0)
            errors, fits = [], []
            for _ in range(50):
                c = draw(rng)
                rows = psi.rows(c.states)
                weighted = rows * c.weights[:, None]
                estimate = weighted.T @ values[c.states]
                errors.append(np.linalg.norm(estimate - psi.project(values[None])[0]))
                gram = np.linalg.pinv(weighted.T @ rows)
                core = env.core @ (psi.matrix.T @ psi.matrix).toarray() @ gram  # M as the sample sees it
                fits.append(np.abs(mdp.features.phi.dot((core @ estimate)[None])[0] - at_all).max())
            alone.append(f"{np.sqrt(np.mean(np.square(errors))) / np.linalg.norm(psi.project(values[None])):.5f}")
            together.append(f"{np.mean(fits):.5f}")
        row([f"{weights}: relative error of ΨᵀV", *alone])
        row([f"{weights}: largest error of E[V(s')] (V* up to {values.max():.1f})", *together])
    print()
    head(["columns", "regret at N=200 (tuned)"])
    kinds = [("norm", "resampled"), ("norm", "fixed"), ("uniform", "resampled"), ("uniform", "fixed")]
    for m, weights, kind in [(None, "norm", "fixed"), *[(m, *kind) for m in (2_000, 200) for kind in kinds]]:
        cells: list[object] = ["all" if m is None else f"{m:,}, {weights}, {kind}"]
        settings = {"columns": m, "column_weights": weights, "column_draw": kind, "preset": "tuned"}
        found = run_seeds("soft-grid", n_episodes=200, seeds=seeds, **settings)
        cells.append(f"{found.final_regret.mean():,.1f} ± {found.final_regret.std(ddof=1):,.1f}")
        row(cells)


def million() -> None:
    head(["states", "seconds to build", "ms per episode", "return of the last 20 of 200", "peak memory (MB)"])
    for side in (100, 1_000):
        start = time.perf_counter()
        env = make("soft-grid", side=side)
        agent = MatrixRL(env, columns=2_000, preset="tuned", measure_regret=False, seed=0)
        built = time.perf_counter() - start
        start = time.perf_counter()
        history = agent.learn(200)
        took = (time.perf_counter() - start) / 200 * 1e3
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        row([f"{side**2:,}", f"{built:.1f}", f"{took:.1f}", f"{history.returns[-20:].mean():.2f}", f"{peak:.0f}"])


def large(env: object, kind: type[MatrixRL] | type[KernelMatrixRL], n_episodes: int) -> None:
    """CPU time of the set-up, of the first 20 episodes after 5 that load what is needed, and of many."""
    head(["d", "set-up (s)", "ms per episode, first 20", f"of {n_episodes:,}", "plans", "peak memory (MB)"])
    start = time.process_time()
    agent = kind(env, measure_regret=False, seed=0, compiled=None if kind is KernelMatrixRL else True)
    cells = [agent.problem.features.phi.d, f"{time.process_time() - start:.1f}"]
    agent.learn(5)
    start = time.process_time()
    agent.learn(20)
    cells.append(f"{(time.process_time() - start) / 20 * 1e3:.0f}")
    agent.learn(n_episodes - 20)
    cells.append(f"{(time.process_time() - start) / n_episodes * 1e3:.0f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    row([*cells, int(agent.algorithm.n_plans[0]), f"{peak:.0f}"])


TABLES = {
    "regret": regret,
    "misspecified": misspecified,
    "scaling": lambda _: scaling(),
    "columns": columns,
    "million": lambda _: million(),
    "features": lambda _: large(make("linear-mdp", n_states=100_000, n_actions=4, d=50, horizon=10), MatrixRL, 40),
    "kernel": lambda _: large(make("grid-world", size=63, horizon=20), KernelMatrixRL, 500),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=list(TABLES))
    parser.add_argument("--seeds", type=int, default=8)
    chosen = parser.parse_args()
    TABLES[chosen.table](chosen.seeds)
