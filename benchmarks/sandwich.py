"""Interval of V* and regret of the normalised ball, the sandwich and both, on random linear MDPs with one-hot ψ.

python benchmarks/sandwich.py [--episodes 2000] [--problems 4] [--seeds 2] [--states 100 300] [--bias]

The features φ of a pair are a random law over d latent states, each latent state has a random law over S next states
that nobody knows, and rewards are known. Prints one line for each problem: the width of the interval of V* after all
episodes (from the data of the agent with that set, mean over seeds), the regret, and the processor time of an episode
in milliseconds. The interval of the ball is that of its best policy, V_low = max over actions, not that of the policy
that was played. `--bias` compares the two forms of the bias of the ridge, √λ‖M*‖w and λ‖A⁻¹φ‖‖M*‖, instead.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from matrixrl import FiniteMDP, solve
from matrixrl.core import optimal_plan
from matrixrl.core.greedy import lowest_first
from matrixrl.core.radius import PairwiseRadius
from matrixrl.features import Features, OneHotPsi, TablePhi
from matrixrl.play import Simulation

SETS = {
    "ball": {"set": "normalised"},
    "sandwich": {"set": "sandwich"},
    "both": {"set": "sandwich-or-ball"},
}
BIAS = {
    "ball": {"set": "normalised"},
    "ball, bias of the pair": {"set": "normalised", "radius": PairwiseRadius()},
    "sandwich, √λ bias": {"set": "sandwich", "radius": "self-normalised"},
    "sandwich": {"set": "sandwich"},
}


def linear_mdp(n_states: int, seed: int, *, n_actions: int = 5, d: int = 5, horizon: int = 10) -> FiniteMDP:
    """Return a random linear MDP: φ ~ Dirichlet(0.3), rows of M* ~ Dirichlet(0.05) over states, 5 % of states pay."""
    rng = np.random.default_rng([n_states, seed])
    phi = rng.dirichlet(np.full(d, 0.3), size=(n_states, n_actions))
    core = rng.dirichlet(np.full(n_states, 0.05), size=d)
    reward = 0.1 * rng.random((n_states, n_actions))
    reward[rng.choice(n_states, n_states // 20, replace=False)] += 0.9
    return FiniteMDP(phi @ core, reward, horizon, features=Features(TablePhi(phi), OneHotPsi(n_states)))


def interval_width(simulation: Simulation) -> tuple[float, float, float]:
    """Return the mean interval of V*(s0) at the radius of the agent, and its width."""
    algorithm = simulation.algorithm
    belief = algorithm.model.bounds(algorithm.clock, "agent")[0]
    best, low = optimal_plan(belief, algorithm.frame, lowest_first(algorithm.task.n_actions, algorithm.n_replicas))
    lower, upper = (float((values[:, 0] @ algorithm.task.start).mean()) for values in (low, best.values))
    return lower, upper, upper - lower


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--problems", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--states", type=int, nargs="+", default=[100, 300])
    parser.add_argument("--bias", action="store_true")
    chosen = parser.parse_args()
    kinds = BIAS if chosen.bias else SETS
    heads = [f"{what} {name}" for what in ("interval", "regret", "ms", "ratio") for name in kinds]
    print("| S | problem | V* | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 3) + "|", flush=True)
    for n_states in chosen.states:
        for seed in range(chosen.problems):
            mdp = linear_mdp(n_states, seed)
            truth, widths, regrets, times = solve(mdp).start_value, [], [], []
            for settings in kinds.values():
                seeds = range(chosen.seeds)
                simulation = Simulation(mdp, n_episodes=chosen.episodes, seeds=seeds, settings=settings)
                started = time.process_time()
                result = simulation.run()
                times.append(1e3 * (time.process_time() - started) / chosen.episodes / chosen.seeds)
                assert (result.upper >= truth - 1e-9).all(), "optimism failed"
                lower, upper, width = interval_width(simulation)
                assert lower <= truth <= upper
                widths.append(width)
                regrets.append(float(result.regret.sum(axis=1).mean()))
            cells = [f"{w:.3f}" for w in widths] + [f"{r:.1f}" for r in regrets] + [f"{t:.1f}" for t in times]
            ratios = [f"{w / widths[0]:.2f}" for w in widths]
            print(f"| {n_states} | {seed} | {truth:.2f} | " + " | ".join(cells + ratios) + " |", flush=True)


if __name__ == "__main__":
    main()
