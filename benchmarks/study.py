"""Tables of the study, one command each.

python benchmarks/study.py regret          every set × radius, presets, known and unknown rewards
python benchmarks/study.py coverage        how often M* is inside at all n, set × radius
python benchmarks/study.py certificates    gap against N, and how often the truth is inside
python benchmarks/study.py misspecified    how early the alarm fires as features get worse
python benchmarks/study.py scaling         time per episode against S and against d
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from matrixrl import FiniteMDP, run_seeds
from matrixrl.core import RADII, SETS, SetContext
from matrixrl.features import Features, TablePhi
from matrixrl.mdp import low_rank, tabular
from matrixrl.run import Simulation

TASKS = {
    "RiverSwim (4, 20)": ("river-swim", {"n_states": 4, "horizon": 20}, 3000),
    "RiverSwim (6, 24)": ("river-swim", {"n_states": 6, "horizon": 24}, 3000),
    "LinearMDP S=300": ("linear-mdp", {}, 1000),
    "DeepSea 10": ("deep-sea", {"size": 10}, 1000),
    "FourRooms 9": ("four-rooms", {}, 500),
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
                found = run_seeds(env, n_episodes=n, seeds=seeds, env_settings=settings, set=kind, radius=radius)
                cells.append(f"{found.final_regret.mean():,.1f}")
            row(cells)
        print()
        head(["preset", "known rewards", "unknown rewards", "unknown, noisy"])
        for preset in ("guaranteed", "practical"):
            cells = [preset]
            for known, noisy in ((True, False), (False, False), (False, True)):
                found = run_seeds(
                    env,
                    n_episodes=n,
                    seeds=seeds,
                    env_settings={**settings, "noisy_rewards": noisy},
                    preset=preset,
                    known_reward=known,
                )
                cells.append(f"{found.final_regret.mean():,.1f} ± {found.final_regret.std(ddof=1):,.1f}")
            row(cells)


def coverage(runs: int, episodes: int = 60, delta: float = 0.1) -> None:
    worlds = {
        "tabular S=6 A=2": tabular(n_states=6, n_actions=2, horizon=5, seed=2),
        "low rank d=3": low_rank(n_states=20, n_actions=3, d=3, horizon=5, seed=2),
    }
    for label, world in worlds.items():
        print(f"\n**{label}: M* inside at all of {episodes} episodes, {runs} runs, 1 − δ = {1 - delta:g}**\n")
        psi = world.features.psi
        context = SetContext(psi.total, world.features.phi.d, 5, psi.c_psi, psi.c_psi_columns)
        head(["set", *RADII])
        inside: dict[tuple[str, str], np.ndarray] = {}
        for radius in RADII:
            simulation = Simulation(
                world.mdp, n_episodes=episodes, seeds=list(range(runs)), settings={"radius": radius, "delta": delta}
            )
            for kind in SETS:
                inside[kind, radius] = np.ones(runs, dtype=bool)
            for _ in range(episodes):
                simulation.step()
                engine = simulation.engine
                arrays = engine.design.arrays()
                eye = np.eye(world.features.phi.d)
                matrix = arrays["design"] if "design" in arrays else (1 + arrays["counts"])[:, :, None] * eye
                values, vectors = np.linalg.eigh(matrix)
                root = (vectors * np.sqrt(values)[:, None, :]) @ vectors.transpose(0, 2, 1)
                sizes = engine.radii()[0]
                difference = world.core - engine.core()
                if sizes.shape[1] > 1:  # by pair: compare each row of A^{1/2}(M* − M_n) with its own radius
                    rows = np.linalg.norm(root @ difference, axis=2) <= sizes if "counts" in arrays else None
                    held = rows.all(axis=1) if rows is not None else None
                for kind in SETS:
                    if sizes.shape[1] > 1 and held is not None:
                        inside[kind, radius] &= held
                    else:
                        size = sizes.max(axis=1)
                        inside[kind, radius] &= SETS[kind](context).contains(root @ difference, size)
        for kind in SETS:
            row([kind, *[f"{inside[kind, radius].mean():.3f}" for radius in RADII]])


def certificates(seeds: int) -> None:
    head(["problem", "V*", *[f"gap at N={n:,}" for n in (100, 1_000, 10_000)], "truth inside"])
    for label, (env, settings, _) in list(TASKS.items())[:3]:
        for preset in ("guaranteed", "practical"):
            found = run_seeds(env, n_episodes=10_000, seeds=seeds, env_settings=settings, preset=preset, certify=True)
            lower, upper = found.certified[:, :, 0], found.certified[:, :, 1]
            value = found.optimal_value - found.regret
            held = ((lower <= value + 1e-9) & (found.optimal_value <= upper + 1e-9)).all(axis=1).mean()
            gaps = [f"{(upper - lower)[:, n - 1].mean():.3f}" for n in (100, 1_000, 10_000)]
            row([f"{label}, {preset}", f"{found.optimal_value:.3f}", *gaps, f"{held:.3f}"])


def misspecified(seeds: int) -> None:
    world = low_rank(n_states=60, n_actions=4, d=4, horizon=8, seed=1)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(world.features.phi.table.shape)
    head(["noise in φ", "explained", "seeds with alarm", "first alarm (median episode)", "regret"])
    from matrixrl.core.embedding import embedding

    for size in (0.0, 0.01, 0.03, 0.1, 0.2, 0.4, 0.8):
        phi = world.features.phi.table + size * noise
        features = Features(TablePhi(phi), world.features.psi)
        mdp = FiniteMDP(world.mdp.transitions, world.mdp.task.reward, 8, features=features)
        fit = embedding(mdp.transitions, features)
        found = run_seeds(mdp, n_episodes=3000, seeds=seeds)
        alarms = found.alarm_list()
        first = f"{np.median([a['first_episode'] for a in alarms]):.0f}" if alarms else "–"
        assert fit is not None
        cells = [size, f"{fit.explained:.4f}", f"{len(alarms)}/{seeds}", first]
        row([*cells, f"{found.final_regret.mean():,.1f}"])


def scaling() -> None:
    def per_episode(**settings: int) -> float:
        simulation = Simulation("linear-mdp", n_episodes=60, seeds=[0], env_settings=settings)
        for _ in range(10):
            simulation.step()
        best = np.inf
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(10):
                simulation.engine.plan()
                simulation.engine.update(*[np.zeros((1, 10), dtype=int)] * 3, np.ones((1, 10)), np.zeros((1, 10)))
            best = min(best, (time.perf_counter() - start) / 10)
        return best * 1e3

    head(["S (A=4, d=20, H=10)", "ms per plan and update", "ns per S·A·d·H"])
    for n in (100, 1_000, 10_000, 100_000):
        took = per_episode(n_states=n, n_actions=4, d=20, horizon=10)
        row([f"{n:,}", f"{took:.2f}", f"{took * 1e6 / (n * 4 * 20 * 10):.3f}"])
    print()
    head(["d (S=2,000, A=4, H=10)", "ms per plan and update", "ns per S·A·d·H"])
    for d in (5, 20, 80, 320):
        took = per_episode(n_states=2_000, n_actions=4, d=d, horizon=10)
        row([d, f"{took:.2f}", f"{took * 1e6 / (2_000 * 4 * d * 10):.3f}"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["regret", "coverage", "certificates", "misspecified", "scaling"])
    parser.add_argument("--seeds", type=int, default=8)
    chosen = parser.parse_args()
    if chosen.table == "scaling":
        scaling()
    elif chosen.table == "coverage":
        coverage(200)
    else:
        {"regret": regret, "certificates": certificates, "misspecified": misspecified}[chosen.table](chosen.seeds)
