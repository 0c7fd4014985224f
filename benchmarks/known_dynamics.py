"""A shop whose dynamics are known and whose demand is not: how good the greedy policy is, and what is proven, by month.

`python benchmarks/known_dynamics.py` prints a table: KnownDynamics beside an agent that learns every pair by itself.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import matrixrl
from matrixrl.envs.shop import DAYS, shop

MONTHS = (1, 4, 12, 200)


def measured(problem: Any, mdp: Any, seed: int, months: tuple[int, ...], **settings: Any) -> list[tuple[float, ...]]:
    """Return value of the greedy policy, lower and upper bound, and seconds, after some numbers of episodes."""
    agent, found, seconds = matrixrl.MatrixRL(problem, seed=seed, **settings), [], 0.0
    first = int(np.argmax(mdp.task.start))
    for month in months:
        began = time.perf_counter()
        agent.learn(n_episodes=month - agent.n_episodes)
        seconds += time.perf_counter() - began
        value = matrixrl.evaluate(mdp, agent.greedy().table)[0, first]
        certificate = agent.recommend().certificate
        found.append((float(value), certificate.lower, certificate.upper, seconds))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1000, 1008)))
    parser.add_argument("--months", type=int, nargs="+", default=list(MONTHS))
    chosen = parser.parse_args()
    began = time.perf_counter()
    known = shop()
    print(f"tabulated in {time.perf_counter() - began:.2f} s")
    best, (low, high) = matrixrl.solve(known.mdp).start_value, known.reward_range
    print(f"V* {best:,.0f}; without data [{DAYS * low:,.0f}, {DAYS * high:,.0f}]; seeds {chosen.seeds}")
    for name, problem, settings in (
        ("known dynamics", known, {"compiled": True}),
        ("one-hot pairs", known.mdp, {"known_reward": False}),
    ):
        runs = np.array([measured(problem, known.mdp, seed, tuple(chosen.months), **settings) for seed in chosen.seeds])
        for i, month in enumerate(chosen.months):
            value, lower, upper, seconds = runs[:, i].T
            share, width = value / best, (upper - lower) / (DAYS * (high - low))
            print(
                f"{name:15} {month:4} months: greedy {share.mean():6.3f} V* (worst {share.min():6.3f}), "
                f"proven [{lower.mean():6,.0f}, {upper.mean():6,.0f}], width {width.mean():.3f} of the trivial one, "
                f"{seconds.mean():5.1f} s, bounds wrong in {int(((upper < best) | (lower > best)).sum())}"
            )


if __name__ == "__main__":
    main()
