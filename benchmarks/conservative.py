"""Conservative exploration: how often the loss budget is exceeded, and how fast it learns beside the agent without one.

python benchmarks/conservative.py learn        share of the optimum by episodes, for several budgets
python benchmarks/conservative.py violations   runs in which the promise was ever broken, by exact values
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import poisson

import matrixrl
from known_dynamics import shop

FIRST_SEED = 7000


def kiosk() -> matrixrl.KnownDynamics:
    """Return a kiosk: 11 stocks, 6 orders, 7 days, one law of demand."""
    demands = np.arange(11)
    law = poisson.pmf(demands, 5.0)
    law[-1] += poisson.sf(10, 5.0)

    def step(stock: Any, order: Any, demand: Any) -> tuple[Any, Any]:
        delivered = np.minimum(order, 10 - stock)
        sold = np.minimum(stock + delivered, demand)
        left = stock + delivered - sold
        return left, 3.0 * sold - 1.0 * delivered - 0.3 * left

    return matrixrl.KnownDynamics(
        step, outcomes=11, n_states=11, n_actions=6, horizon=7, start=0, law=law, vectorized=True
    )


def small_shop() -> matrixrl.KnownDynamics:
    """Return a shop of 77 states (stock and weekday), 4 orders, 7 days, one law of demand for each weekday."""
    demands, means = np.arange(11), np.array((2.0, 2.0, 2.0, 3.0, 4.0, 6.0, 4.0))
    law = poisson.pmf(demands, means[:, None])
    law[:, -1] += poisson.sf(10, means)

    def step(state: Any, boxes: Any, demand: Any) -> tuple[Any, Any]:
        stock, day = state
        delivered = np.minimum(3 * boxes, 10 - stock)
        sold = np.minimum(stock + delivered, demand)
        left = stock + delivered - sold
        return (left, (day + 1) % 7), 25.0 * sold - 12.0 * delivered - 0.5 * left - 3.0 * (demand - sold)

    return matrixrl.KnownDynamics(
        step,
        outcomes=11,
        states=(11, 7),
        n_actions=4,
        horizon=7,
        start=(0, 0),
        laws=lambda state, boxes: state[1] + 0 * boxes,
        law=law,
        vectorized=True,
    )


def up_to(level: int, box: int, n_actions: int, n_days: int, capacity: int) -> np.ndarray:
    """Return the policy that orders up to a level, in boxes: (S,)."""
    stock = np.arange(capacity + 1)
    order = np.clip((level - stock + box - 1) // box, 0, n_actions - 1)
    return np.repeat(order, n_days)


def problems() -> dict[str, tuple[Any, Any, np.ndarray, dict[str, Any]]]:
    """Return name: problem, known MDP, incumbent, settings."""
    small, large, stand = small_shop(), shop(), kiosk()
    river = matrixrl.make("river-swim").unwrapped.mdp
    return {
        "kiosk": (stand, stand.mdp, up_to(4, 1, 6, 1, 10), {}),
        "kiosk, pairs": (stand.mdp, stand.mdp, up_to(4, 1, 6, 1, 10), {"known_reward": True}),
        "small shop": (small, small.mdp, up_to(4, 3, 4, 7, 10), {}),
        "shop": (large, large.mdp, up_to(8, 5, 6, 7, 25), {}),
        "river": (river, river, np.zeros(river.n_states, dtype=np.int64), {}),
    }


def value(mdp: Any, policy: np.ndarray) -> float:
    """Return V(s0) of a policy (S,)."""
    table = np.tile(policy, (mdp.horizon, 1))
    return float(matrixrl.evaluate(mdp, table)[0] @ mdp.task.start)


def learn(names: Sequence[str], runs: int, n_episodes: int) -> None:
    """Print the mean share of V* that episodes earn, and how many of them play what."""
    every = problems()
    for name in names or every:
        problem, mdp, incumbent, settings = every[name]
        best, base = matrixrl.solve(mdp).start_value, value(mdp, incumbent)
        print(f"{name}: V* {best:.4g}, incumbent {base:.4g} ({base / best:.3f} V*)", flush=True)
        marks = [n for n in (10, 30, 100, 300, 1000, 3000, 10000) if n <= n_episodes]
        for budget in (None, 0.0, abs(base), "2 %", "5 %", "10 %"):
            extra = {} if budget is None else {"incumbent": incumbent.tolist(), "loss_budget": budget}
            began, loss = time.perf_counter(), -np.inf
            shares = []
            for seed in range(FIRST_SEED, FIRST_SEED + runs):
                result = matrixrl.run_seeds(
                    problem, n_episodes=n_episodes, seeds=[seed], compiled=budget is None, **settings, **extra
                )
                values = best - result.regret[0]
                shares.append([values[max(0, n - max(n // 10, 1)) : n].mean() / best for n in marks])
                loss = max(loss, float((base - values).cumsum().max()))
            shown = "  ".join(f"{n}: {s:.3f}" for n, s in zip(marks, np.mean(shares, axis=0), strict=True))
            print(f"  {budget!s:>8}  {shown}   worst loss {loss:.4g}  {time.perf_counter() - began:.0f} s", flush=True)


def bet(p: float) -> matrixrl.FiniteMDP:
    """Return a problem of four states: a safe reward of ½, or a bet on 1 that is won with probability p."""
    law, reward = np.zeros((4, 2, 4)), np.zeros((4, 2))
    law[0, 0, 1], law[0, 1, 2], law[0, 1, 3] = 1.0, p, 1.0 - p
    for state in (1, 2, 3):
        law[state, :, state] = 1.0
    reward[1], reward[2] = 0.5, 1.0
    return matrixrl.FiniteMDP(law, reward, 2, start=0)


def broken(
    problem: Any, mdp: Any, incumbent: Any, budget: float | str, seeds: Any, n: int, **settings: Any
) -> np.ndarray:
    """Return, for each run, the largest excess of the loss over what is allowed, by exact values."""
    table = np.asarray(incumbent)
    table = np.tile(table, (mdp.horizon, 1)) if table.ndim == 1 else table
    base = float(matrixrl.evaluate(mdp, table)[0] @ mdp.task.start)
    given = {"incumbent": table, "loss_budget": budget, "n_episodes": n, "compiled": False, **settings}
    result = matrixrl.run_seeds(problem, seeds=list(seeds), **given)
    lost = (base - matrixrl.solve(mdp).start_value + result.regret).cumsum(axis=1)
    allowed = budget
    if isinstance(budget, str):
        allowed = float(budget.removesuffix("%")) / 100.0 * base * np.arange(1, n + 1)
    return (lost - allowed).max(axis=1)


def violations(names: Sequence[str], runs: int, n_episodes: int) -> None:
    """Print in how many runs the loss ever exceeded what is allowed; "bet" is made to make bounds fail."""
    cases = [(name, *case, budget, 0.05) for name, case in problems().items() for budget in ("5 %", 50.0)]
    safe = np.zeros(4, dtype=np.int64)
    for p in (0.4, 0.48):
        cases += [("bet", bet(p), bet(p), safe, {"optimism_budget": 3.0}, 1.5, delta) for delta in (0.5, 0.05)]
    for name, problem, mdp, incumbent, settings, budget, delta in cases:
        if name not in (names or ("kiosk", "bet")):
            continue
        began, seeds = time.perf_counter(), range(FIRST_SEED, FIRST_SEED + runs)
        excess = broken(problem, mdp, incumbent, budget, seeds, n_episodes, delta=delta, **settings)
        words = f"{int((excess > 1e-9).sum())} of {runs} runs of {n_episodes} episodes, budget {budget}, δ {delta}"
        seconds = time.perf_counter() - began
        print(f"{name}: {words}; nearest to the limit {excess.max():.3g}; {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["learn", "violations"])
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=1000)
    chosen = parser.parse_args()
    {"learn": learn, "violations": violations}[chosen.what](chosen.names, chosen.runs, chosen.episodes)
