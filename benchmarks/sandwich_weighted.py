"""Prototype: does weighting steps by their variance narrow the sandwich (UCRL-VTR+, Zhou, Gu & Szepesvári 2021)?

python benchmarks/sandwich_weighted.py [--episodes 2000] [--problems 4] [--states 100 300]

For every stage h the regression of V*_{h+1} weights a step by 1/σ², with σ² an upper bound on the variance of V*_{h+1}
at its pair. Four forms are compared, all with the sandwich's own plan and a new plan when the episodes grew by 10 %:

plain       the library's sandwich, which needs no variance
proven      weights from data; the radius of the paper's Bernstein inequality, with its constants
estimated   weights from data; the radius that Gaussian noise would have (not proven for bounded noise)
oracle      weights from the true variances; the same radius: what no method can beat in this family

Where two bounds exist the tighter one is used, so no form can be wider than plain for the same data.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from matrixrl import FiniteMDP, solve
from matrixrl.problems import evaluate
from sandwich import linear_mdp

DELTA, FLOOR = 0.025, 0.05  # half of δ = 0.05, as the sandwich has; smallest σ in units of the range
FORMS = ("plain", "proven", "estimated", "oracle")


class Weighted:
    """One run of one form on one problem."""

    def __init__(self, mdp: FiniteMDP, form: str, seed: int) -> None:
        self.mdp, self.form, self.rng = mdp, form, np.random.default_rng(seed)
        phi = mdp.features.phi
        self.rows, self.lowest = phi.flat, phi.smallest_design_eigenvalue()
        self.h, self.s, self.a, self.d = mdp.horizon, mdp.n_states, mdp.n_actions, phi.d
        self.reward = mdp.task.reward.T.ravel()
        self.matrix, self.cross = np.eye(self.d), np.zeros((self.d, self.s))
        self.matrices = np.tile(np.eye(self.d), (self.h, 1, 1))
        self.crosses = np.zeros((self.h, self.d, self.s))
        self.truth = solve(mdp).values
        law = mdp.transitions
        second = [law.expect(v[None] ** 2)[0].ravel() - law.expect(v[None])[0].ravel() ** 2 for v in self.truth]
        self.true_sd = np.sqrt(np.maximum(second, 0.0))  # (H+1, P)
        self.sd = np.ones((self.h, len(self.rows)))
        self.steps = 0

    def bounds(self, matrix: np.ndarray, cross: np.ndarray, noise: float, low, high) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds on P V* of all pairs; `noise` is the radius of the noise in the unit of the weights."""
        inverse = np.linalg.inv(matrix)
        signed = self.rows @ (inverse @ cross)
        width = np.sqrt(np.einsum("pd,de,pe->p", self.rows, inverse, self.rows))
        least, most = low.min(), high.max()
        centre, half = 0.5 * (least + most), 0.5 * (most - least)
        bias = half * np.linalg.norm(self.rows @ inverse, axis=1) / math.sqrt(self.lowest)
        middle = centre + signed @ (0.5 * (low + high) - centre)
        around = np.abs(signed) @ (0.5 * (high - low)) + bias + width * noise
        return np.clip(middle - around, least, most), np.clip(middle + around, least, most)

    def radius(self, matrix: np.ndarray, n_functions: int) -> float:
        return math.sqrt(2 * math.log(n_functions / DELTA) + np.linalg.slogdet(matrix)[1])

    def bernstein(self, smallest: float, span: float) -> float:
        """Return the radius of Theorem 4.1 of the paper, for noise of variance 1 and size span/smallest."""
        t = max(self.steps, 1)
        log = math.log(4 * t * t * (self.h - 1) / DELTA)
        growth = math.log1p(t / (self.d * smallest**2))
        return 8 * math.sqrt(self.d * growth * log) + 4 * span / smallest * log

    def plan(self) -> tuple[np.ndarray, float, float]:
        """Return the policy (H, S) and the interval of V*(s0); update the weights of the steps to come."""
        low, high = np.zeros(self.s), np.zeros(self.s)
        policy = np.zeros((self.h, self.s), dtype=int)
        n_functions = (self.h - 1) * (1 if self.form in ("plain", "oracle") else 2)  # V* and V*²
        for h in reversed(range(self.h)):
            lower = upper = np.zeros(len(self.rows))
            if h < self.h - 1:
                half = 0.5 * (high.max() - low.min())
                noise = half * self.radius(self.matrix, n_functions)
                lower, upper = self.bounds(self.matrix, self.cross, noise, low, high)
                if self.form != "plain":
                    lower, upper = self.with_weights(h, low, high, lower, upper, n_functions)
            q_low, q_high = ((self.reward + b).reshape(self.a, self.s) for b in (lower, upper))
            policy[h], low, high = q_high.argmax(axis=0), q_low.max(axis=0), q_high.max(axis=0)
        start = self.mdp.task.start
        return policy, float(low @ start), float(high @ start)

    def with_weights(self, h, low, high, lower, upper, n_functions):
        """Return the tighter bounds of plain and weighted regression, and set σ of the steps to come."""
        span = high.max() - low.min()
        weighted = self.matrices[h], self.crosses[h]
        smallest = FLOOR * self.h
        noise = self.bernstein(smallest, span) if self.form == "proven" else self.radius(weighted[0], n_functions)
        tight = self.bounds(*weighted, noise, low, high)
        if self.form == "oracle":
            self.sd[h] = np.maximum(self.true_sd[h + 1], FLOOR * span)
        else:
            centre = 0.5 * (low.min() + high.max())
            ends = np.stack([low - centre, high - centre])
            least = np.where((ends[0] <= 0) & (ends[1] >= 0), 0.0, np.abs(ends).min(axis=0)) ** 2
            most = (ends**2).max(axis=0)
            second_noise = 0.5 * (most.max() - least.min()) * self.radius(self.matrix, n_functions)
            second = self.bounds(self.matrix, self.cross, second_noise, least, most)[1]
            mean_low, mean_high = np.maximum(lower, tight[0]) - centre, np.minimum(upper, tight[1]) - centre
            away = np.maximum(np.maximum(mean_low, -mean_high), 0.0)
            floor = FLOOR * (self.h if self.form == "proven" else span)
            self.sd[h] = np.clip(np.sqrt(np.maximum(second - away**2, 0.0)), floor, max(0.5 * span, floor))
        return np.maximum(lower, tight[0]), np.minimum(upper, tight[1])

    def run(self, n_episodes: int) -> tuple[float, float]:
        """Return regret and the width of the interval of V*(s0); raise if V* is outside at any plan."""
        best, regret, due = float(self.truth[0] @ self.mdp.task.start), 0.0, 0
        for n in range(n_episodes):
            if n >= due:
                policy, low, high = self.plan()
                assert (low <= best + 1e-9 and best <= high + 1e-9) or self.form in ("estimated", "oracle")
                due = max(n + 1, int(1.1 * n))
                loss = best - float(evaluate(self.mdp, policy)[0] @ self.mdp.task.start)
            regret += loss
            state = int(self.rng.choice(self.s, p=self.mdp.task.start))
            for h in range(self.h):
                action = int(policy[h, state])
                following = int(
                    self.mdp.transitions.sample(np.array([state]), np.array([action]), self.rng.random(1))[0]
                )
                self.learn(action * self.s + state, following)
                state = following
        _, low, high = self.plan()
        return regret, high - low

    def learn(self, pair: int, following: int) -> None:
        row = self.rows[pair]
        outer = np.outer(row, row)
        self.matrix += outer
        self.cross[:, following] += row
        weights = 1.0 / self.sd[:, pair] ** 2
        self.matrices += weights[:, None, None] * outer
        self.crosses[:, :, following] += weights[:, None] * row
        self.steps += 1


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--problems", type=int, default=4)
    parser.add_argument("--states", type=int, nargs="+", default=[100, 300])
    chosen = parser.parse_args()
    heads = [f"{what} {form}" for what in ("interval", "regret") for form in FORMS]
    print("| S | problem | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 2) + "|", flush=True)
    for n_states in chosen.states:
        for seed in range(chosen.problems):
            mdp = linear_mdp(n_states, seed)
            found = [Weighted(mdp, form, seed).run(chosen.episodes) for form in FORMS]
            cells = [f"{width:.3f}" for _, width in found] + [f"{regret:.0f}" for regret, _ in found]
            print(f"| {n_states} | {seed} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
