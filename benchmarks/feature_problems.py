"""Regret on problems that need exploration in feature space, and what makes the certificates of balls wide.

python benchmarks/feature_problems.py regret [problem ...] [--seeds 8] [--first-seed 100] [--episodes 2000]
python benchmarks/feature_problems.py losses [problem ...] [--seeds 2] [--episodes 20000]
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from typing import Any

import numpy as np

from matrixrl import MatrixRL, make, run_seeds, solve
from matrixrl.core import greedy_plan
from matrixrl.core.backup import pessimistic_values
from matrixrl.core.greedy import lowest_first
from matrixrl.core.radius import BlockRadius, PairwiseRadius, RadiusInputs
from matrixrl.problems import evaluate

PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "emission-river": ("emission-river", {}),
    "emission-river, overlap 0.2": ("emission-river", {"overlap": 0.2}),
    "linear-lock": ("linear-lock", {}),
    "hypercube": ("hypercube", {}),
    "factors": ("factors", {}),
}
AGENTS: dict[str, dict[str, Any]] = {
    "optimistic": {"preset": "optimistic"},
    "budget": {"preset": "budget"},
    "tuned": {"preset": "tuned"},
    "lsvi-ucb, tuned": {"agent": "lsvi-ucb", "preset": "tuned"},
    "rlsvi, tuned": {"agent": "rlsvi", "preset": "tuned"},
    "random": {"agent": "random"},
}


def regret(names: list[str], seeds: range, n_episodes: int) -> None:
    """Print the regret of every agent on every problem, as a table in Markdown."""
    print("| problem | V\\* | " + " | ".join(AGENTS) + " |\n" + "|---" * (len(AGENTS) + 2) + "|")
    for name in names:
        env, settings = PROBLEMS[name]
        cells = [name, f"{solve(make(env, **settings).unwrapped.mdp).start_value:.2f}"]
        for options in AGENTS.values():
            found = run_seeds(env, env_settings=settings, n_episodes=n_episodes, seeds=seeds, **options).final_regret
            cells.append(f"{found.mean():,.0f} ± {found.std(ddof=1) / len(found) ** 0.5:,.0f}")
            print(cells[0], cells[-1], flush=True)
        print("| " + " | ".join(cells) + " |", flush=True)


class PartialRadius(PairwiseRadius):
    """The radius of certificates with its parts multiplied by factors: how much of a width each part is; not proven."""

    def __init__(self, *, bias: float = 1.0, noise: float = 1.0, delta: float = 1.0, logdet: float = 1.0) -> None:
        self.bias, self.noise, self.delta, self.logdet = bias, noise, delta, logdet

    def __call__(self, inputs: RadiusInputs) -> np.ndarray:
        k, blocks, design = inputs.regularity, inputs.blocks, inputs.design
        logdet = design.block_logdet(blocks.members) if blocks.count > 1 else design.logdet[:, None]
        logdet, log = logdet[:, blocks.pair_block], 2.0 * math.log(blocks.n_events / inputs.delta)
        bias = super().__call__(inputs) - k.noise_scale * np.sqrt(log + logdet)
        return self.bias * bias + self.noise * k.noise_scale * np.sqrt(self.delta * log + self.logdet * logdet)


def losses(names: list[str], seeds: range, n_episodes: int) -> None:
    """Print the width of a certificate, and what it would be if one part of the radius cost nothing."""
    for name in names:
        env, settings = PROBLEMS[name]
        mdp = make(env, **settings).unwrapped.mdp
        best, rows = solve(mdp).start_value, {}
        for seed in seeds:
            agent = MatrixRL(mdp, seed=seed, preset="optimistic", set="weighted")
            agent.learn(n_episodes)
            algorithm = agent.algorithm
            model, frame, lowest = algorithm.model, algorithm.frame, lowest_first(mdp.n_actions, 1)
            policy = agent.algorithm.advice().policy
            value = mdp.task.start @ evaluate(mdp, policy[0])[0]
            whole, psi = model.confidence, model.context.features.psi
            values = greedy_plan(model.bounds(algorithm.clock, "proven")[0], frame, lowest).values[0, 1:-1]
            v = psi.project(values)
            v = v - np.outer(v @ psi.total / (psi.total @ psi.total), psi.total)
            x = psi.solve_gram(psi.rows(np.arange(mdp.n_states)))
            reach = whole.regularity.noise_scale * np.linalg.norm(v, axis=1)
            of_range = float((0.5 * np.ptp(v @ x.T, axis=1) / reach).mean())
            variants = {
                "as certified": PairwiseRadius(),
                "one bias for all pairs": BlockRadius(),
                "no bias": PartialRadius(bias=0.0),
                "no ln(1/δ)": PartialRadius(delta=0.0),
                "no ln det A": PartialRadius(logdet=0.0),
                "half the range of V for L‖v‖": PartialRadius(noise=of_range),
            }
            for variant, radius in variants.items():
                model._confidence = replace(whole, radius=radius)
                bounds = model.bounds(algorithm.clock, "agent")[0]
                high = mdp.task.start @ greedy_plan(bounds, frame, lowest).values[0, 0]
                low = mdp.task.start @ pessimistic_values(bounds, policy, frame)[0, 0]
                rows.setdefault(variant, []).append((high - low, high - best, value - low))
        print(f"{name}: {n_episodes} episodes, V* {best:.2f}; gap, V_opt − V*, V^π − V_low")
        for variant, found in rows.items():
            print(f"  {variant:<30}" + " ".join(f"{number:7.2f}" for number in np.mean(found, axis=0)), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["regret", "losses"])
    parser.add_argument("problems", nargs="*", help=", ".join(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--episodes", type=int, default=2000)
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    run = {"regret": regret, "losses": losses}[given.what]
    run(given.problems or list(PROBLEMS), seeds, given.episodes)
