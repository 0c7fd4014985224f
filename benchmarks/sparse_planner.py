"""Exact planning on a large sparse table: matrixrl beside QuantEcon and plain SciPy, in one run.

    python benchmarks/sparse_planner.py [--states 100000] [--actions 4] [--successors 10] [--horizon 20]

QuantEcon is not a dependency of matrixrl. Install both in an environment of their own:

    python -m venv out/quantecon && out/quantecon/bin/pip install quantecon -e .
    out/quantecon/bin/python benchmarks/sparse_planner.py

Times are processor seconds of one thread, the best of several rounds in which the planners alternate. Making the
problem, QuantEcon's `DiscreteDP` included, and compiling are outside the clock. Values are compared to 1e-10.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from matrixrl.problems import FiniteMDP, solve
from matrixrl.threads import limited_threads
from timing import cpu_seconds


def random_mdp(n_states: int, n_actions: int, n_successors: int, horizon: int, seed: int = 0) -> FiniteMDP:
    """Return an MDP whose pairs lead to a few random states each."""
    rng = np.random.default_rng(seed)
    n_pairs = n_states * n_actions
    following = rng.integers(n_states, size=(n_pairs, n_successors)).ravel()
    chance = rng.dirichlet(np.ones(n_successors), size=n_pairs).ravel()
    firsts = np.arange(0, n_pairs * n_successors + 1, n_successors)
    table = sparse.csr_array((chance, following, firsts), shape=(n_pairs, n_states))
    return FiniteMDP(table, rng.random((n_states, n_actions)), horizon)


def plain_scipy(mdp: FiniteMDP) -> np.ndarray:
    """Return V* by one product with P, one maximum and its place for each stage."""
    table, shape = mdp.transitions.law(), (mdp.n_states, mdp.n_actions)
    values = np.zeros((mdp.horizon + 1, mdp.n_states))
    policy = np.zeros((mdp.horizon, mdp.n_states), dtype=np.int64)
    for h in reversed(range(mdp.horizon)):
        q = mdp.task.reward + (table @ values[h + 1]).reshape(shape)
        policy[h], values[h] = q.argmax(axis=1), q.max(axis=1)
    return values


def quantecon_planner(mdp: FiniteMDP) -> Callable[[], np.ndarray] | None:
    """Return the planner of QuantEcon for an MDP; None if it is not installed."""
    if find_spec("quantecon") is None:
        return None
    from quantecon.markov import DiscreteDP, backward_induction

    states, actions = np.divmod(np.arange(mdp.n_states * mdp.n_actions), mdp.n_actions)
    table = sparse.csr_matrix(mdp.transitions.law())
    problem: Any = DiscreteDP(mdp.task.reward.ravel(), table, 0.5, states, actions)
    problem.beta = 1.0  # rewards of a fixed number of stages are not discounted
    return lambda: backward_induction(problem, mdp.horizon)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--actions", type=int, default=4)
    parser.add_argument("--successors", type=int, default=10)
    parser.add_argument("--horizon", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    mdp = random_mdp(given.states, given.actions, given.successors, given.horizon)
    planners: dict[str, Callable[[], np.ndarray] | None] = {
        "matrixrl, compiled": lambda: solve(mdp, compiled=True).values,
        "matrixrl, NumPy and SciPy": lambda: solve(mdp, compiled=False).values,
        "QuantEcon backward_induction": quantecon_planner(mdp),
        "SciPy products": lambda: plain_scipy(mdp),
    }
    present = {name: planner for name, planner in planners.items() if planner is not None}
    with limited_threads(1):
        found = {name: planner() for name, planner in present.items()}  # compiles, too
        times = {name: [] for name in present}
        for _ in range(given.rounds):
            for name, planner in present.items():
                times[name].append(cpu_seconds(planner))
    best, ours = {name: min(spent) for name, spent in times.items()}, found["matrixrl, compiled"]
    sizes = f"S = {given.states:,}, A = {given.actions}, {given.successors} successors, {given.horizon} stages"
    print(f"{sizes}; best of {given.rounds} alternating rounds\n")
    print("| planner | processor seconds | times ours | largest difference of V |\n|---|---|---|---|")
    for name in planners:
        if name not in present:
            print(f"| {name} | not installed | | |")
            continue
        apart = float(np.abs(found[name] - ours).max())
        assert apart <= 1e-10, f"{name} differs by {apart}"
        print(f"| {name} | {best[name]:.3f} | {best[name] / best['matrixrl, compiled']:.2f} | {apart:.1e} |")


if __name__ == "__main__":
    main()
