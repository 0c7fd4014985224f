"""Intervals of the value of one policy from one log, beside those of interval MDPs as statistical model checkers build.

python benchmarks/log_audit.py

Each log has some episodes of the best policy with a third of its actions at random, on a public problem with known
rewards; what is bounded is the value of the best policy. `per successor`: every transition probability has a Hoeffding
interval, with a union bound over all of them, as in Ashok, Kretinsky & Weininger 2019, whose checker also knows which
of them can be positive. `L1`: every pair has the L1 ball of Weissman et al. 2003. Both are given all of δ, and are for
numbers of visits that were fixed before; the audit has half of δ for the model and holds at all numbers. All three are
backed up over the worst and the best member of the set.
"""

from __future__ import annotations

import math

import numpy as np

from matrixrl import MatrixRL, evaluate, solve
from matrixrl.agents import audit_log
from matrixrl.problems import FiniteMDP

DELTA, SEEDS = 0.05, range(8000, 8003)
PROBLEMS = {
    "RiverSwim (6 states, H = 12)": ("river-swim", {"n_states": 6, "horizon": 12}),
    "FrozenLake 4x4 (H = 15)": ("gym:FrozenLake-v1", {"horizon": 15}),
    "CliffWalking (48 states, H = 20)": ("gym:CliffWalking-v1", {"horizon": 20}),
}


def extreme(low: np.ndarray, high: np.ndarray, values: np.ndarray, sign: float) -> float:
    """Return the largest (sign 1) or smallest mean of some values with probabilities in intervals."""
    order, law = np.argsort(-sign * values), low.copy()
    for s in order:
        law[s] += min(high[s] - low[s], 1.0 - law.sum())
    return float(law @ values)


def farthest(share: np.ndarray, radius: float, values: np.ndarray, sign: float) -> float:
    """Return the largest (sign 1) or smallest mean of some values in an L1 ball around shares."""
    order, law = np.argsort(-sign * values), share.copy()
    law[order[0]] = min(1.0, share[order[0]] + radius / 2.0)
    for s in order[::-1]:
        law[s] -= min(law[s] * (s != order[0]), max(law.sum() - 1.0, 0.0))
    return float(law @ values)


def interval(mdp: FiniteMDP, counts: np.ndarray, policy: np.ndarray, kind: str) -> tuple[float, float]:
    """Return bounds on the value of a policy (H, S) from counts (S, A, S)."""
    n, k, ends = counts.sum(axis=2), mdp.n_states, []
    for sign in (-1.0, 1.0):
        values = np.zeros(mdp.n_states)
        for h in reversed(range(mdp.horizon)):
            found = np.zeros(mdp.n_states)
            for s in range(mdp.n_states):
                if s == mdp.task.end_state:
                    continue
                a = policy[h, s]
                share = counts[s, a] / max(n[s, a], 1.0)
                if n[s, a] == 0:
                    mean = float((sign * values).max() * sign)
                elif kind == "per successor":
                    half = math.sqrt(math.log(2.0 * n.size * k / DELTA) / (2.0 * n[s, a]))
                    mean = extreme(np.clip(share - half, 0.0, 1.0), np.clip(share + half, 0.0, 1.0), values, sign)
                else:
                    radius = math.sqrt(2.0 * (k * math.log(2.0) + math.log(n.size / DELTA)) / n[s, a])
                    mean = farthest(share, radius, values, sign)
                found[s] = mdp.task.reward[s, a] + mean
            values = found
        ends.append(float(values @ mdp.task.start))
    return ends[0], ends[1]


def main() -> None:
    print("| problem | log | value | audit | per successor | L1 |")
    print("|---|---|---|---|---|---|")
    for name, (env, settings) in PROBLEMS.items():
        for episodes in (300, 3000):
            rows = []
            for seed in SEEDS:
                agent = MatrixRL(env, env_settings=settings, seed=seed)
                mdp, rng = agent.problem.mdp, np.random.default_rng(seed)
                assert mdp is not None
                table = solve(mdp).policy
                for _ in range(episodes):
                    other = rng.integers(0, mdp.n_actions, table.shape)
                    agent.learn(1, policy=np.where(rng.random(table.shape) < 1.0 / 3.0, other, table))
                seen, _ = agent._seen.all()
                log = {
                    "episode": seen.episodes,
                    "state": seen.states,
                    "action": seen.actions,
                    "reward": seen.rewards,
                    "next_state": seen.next_states,
                    "terminated": seen.ended,
                }
                found = audit_log(log, env, env_settings=settings, delta=DELTA, policies={"best": table})
                counts = np.zeros((mdp.n_states, mdp.n_actions, mdp.n_states))
                np.add.at(counts, (seen.states, seen.actions, seen.next_states), 1.0)
                value = float(evaluate(mdp, table)[0] @ mdp.task.start)
                best = found.policies[-1]
                ours = best.lower, best.upper
                others = [interval(mdp, counts, table, kind) for kind in ("per successor", "L1")]
                held = [low - 1e-9 <= value <= high + 1e-9 for low, high in (ours, *others)]
                assert all(held), (name, seed, held)
                rows.append([value, *(high - low for low, high in (ours, *others))])
            middle = np.mean(rows, axis=0)
            cells = " | ".join(f"{one:.3g}" for one in middle)
            print(f"| {name} | {episodes:,} episodes | {cells} |", flush=True)


if __name__ == "__main__":
    main()
