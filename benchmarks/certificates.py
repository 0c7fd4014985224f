"""Certificates: how wide, how often right, and how many episodes a certified policy takes.

python benchmarks/certification.py gap        gap on RiverSwim-6 after 3,000, 10,000 and 100,000 episodes
python benchmarks/certification.py coverage   share of 400 runs in which a certificate was ever wrong
python benchmarks/certification.py episodes   episodes until a policy is certified within 10 % and 5 % of optimal
python benchmarks/certification.py alarm      false alarms and delay of the test of groups
python benchmarks/certification.py difference width of comparisons of the recommended policy with others
python benchmarks/certification.py rewards    false alarms and delay of the test of given rewards

Seeds begin at 1,000, and nothing was tuned on them.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from matrixrl import FiniteMDP, MatrixRL, Task, run_seeds, solve
from matrixrl.agents.certification import certificate_of
from matrixrl.algorithms import UCMatrixRL
from matrixrl.play.rollout import TableWorld
from matrixrl.problems import Problem, tabular
from presets import worn_machine

FIRST_SEED = 1000
PROBLEMS: dict[str, tuple[Any, dict[str, Any] | None]] = {
    "worn machine": (worn_machine(), None),
    "random S=10, A=4": (tabular(n_states=10, n_actions=4, n_successors=3, horizon=15, seed=1).mdp, None),
    "random S=20, A=3": (tabular(n_states=20, n_actions=3, n_successors=2, horizon=20, seed=2).mdp, None),
    "random S=12, A=3": (tabular(n_states=12, n_actions=3, n_successors=5, horizon=10, seed=43).mdp, None),
    "RiverSwim (4, 20)": ("river-swim", {"n_states": 4, "horizon": 20}),
    "RiverSwim (6, 24)": ("river-swim", {"n_states": 6, "horizon": 24}),
    "DeepSea 6": ("deep-sea", {"size": 6}),
    "FourRooms 5": ("four-rooms", {"size": 5}),
}
AGENTS: dict[str, dict[str, Any]] = {
    "tuned": {"preset": "tuned"},
    "optimistic": {"preset": "optimistic"},
    "tuned, explore_for=certificate": {"preset": "tuned", "explore_for": "certificate"},
}


def gap(seeds: int) -> None:
    """Print the mean gap of the recommended policy, from the model alone and with returns, and of the played policy."""
    print("| N | played policy | recommended, model | recommended | basis | s an agent |")
    print("|---|---|---|---|---|---|")
    agents = [MatrixRL("river-swim", preset="optimistic", seed=FIRST_SEED + i) for i in range(seeds)]
    done = 0
    for n in (3000, 10_000):
        rows, started = [], time.process_time()
        for agent in agents:
            agent.learn(n - done)
            played = agent.certificate()
            model = certificate_of(agent, agent.algorithm.certifier.safest_plan())
            best = agent.recommend()
            rows.append((played.gap, model.gap, best.certificate.gap, best.basis))
        done, spent = n, (time.process_time() - started) / seeds
        means = [np.mean([row[k] for row in rows]) for k in range(3)]
        basis = " ".join(sorted({row[3] for row in rows}))
        print(f"| {n:,} | {means[0]:.2f} | {means[1]:.2f} | {means[2]:.2f} | {basis} | {spent:.0f} |", flush=True)
    seeds_of = range(FIRST_SEED, FIRST_SEED + seeds)
    result = run_seeds("river-swim", n_episodes=100_000, seeds=seeds_of, preset="optimistic")
    last = np.mean([c.gap for c in result.certificate])
    print(f"| 100,000 | {last:.2f} | | | | V* = {result.optimal_value:.3f} |", flush=True)


def coverage(seeds: int) -> None:
    """Print how often V* or the value of the policy was outside its certificate in any episode."""
    del seeds
    print("| δ | rewards | runs | episodes | runs outside |")
    print("|---|---|---|---|---|")
    for delta in (0.05, 0.5):
        for known in (True, False):
            result = run_seeds(
                "river-swim",
                preset="optimistic",
                n_episodes=1000,
                seeds=range(FIRST_SEED, FIRST_SEED + 400),
                delta=delta,
                known_reward=known,
                certify=True,
            )
            value = result.optimal_value - result.regret
            lower, upper = result.certified[:, :, 0], result.certified[:, :, 1]
            outside = ((lower > value + 1e-9) | (upper < result.optimal_value - 1e-9)).any(axis=1)
            words = "known" if known else "learned"
            print(f"| {delta} | {words} | 400 | 1,000 | {int(outside.sum())} |", flush=True)


def episodes(seeds: int, most: int = 10_000) -> None:
    """Print the median number of episodes until a policy is certified within 10 % and 5 % of V*."""
    print("| problem | V* | " + " | ".join(f"{name}: 10 %; 5 %; regret" for name in AGENTS) + " |")
    print("|---" * (len(AGENTS) + 2) + "|")
    for label, (env, env_settings) in PROBLEMS.items():
        cells = []
        for settings in AGENTS.values():
            needed = []
            for seed in range(FIRST_SEED, FIRST_SEED + seeds):
                agent = MatrixRL(env, env_settings=env_settings, seed=seed, switch_growth=0.05, **settings)
                optimum = solve(agent.problem.mdp).start_value
                row = []
                for share in (0.1, 0.05):
                    left = most - agent.n_episodes
                    reached = left > 0
                    if reached:
                        agent.learn(left, until_gap=share * optimum)
                        reached = agent.recommend().certificate.gap <= share * optimum
                    row.append(float(agent.n_episodes) if reached else np.inf)
                needed.append((*row, agent.history.cumulative_regret[-1] / agent.n_episodes / optimum))
            ten, five, lost = np.median(needed, axis=0)
            shown = [f"{n:,.0f}" if np.isfinite(n) else f"> {most:,}" for n in (ten, five)]
            cells.append(f"{shown[0]}; {shown[1]}; {100 * lost:.1f} %")
        print(f"| {label} | {optimum:.2f} | " + " | ".join(cells) + " |", flush=True)


def _grouped(apart: float) -> tuple[FiniteMDP, np.ndarray]:
    """Return a chain whose two actions share a group of features, with laws that differ by `apart` in one state."""
    rng = np.random.default_rng(0)
    law = np.repeat(rng.dirichlet(np.ones(5), size=(5, 1)), 2, axis=1)
    law[0, 1] = (1.0 - apart) * law[0, 0] + apart * np.eye(5)[0]
    phi = np.zeros((5, 2, 5))
    phi[np.arange(5), :, np.arange(5)] = 1.0
    return FiniteMDP(law, np.repeat(rng.random((5, 1)), 2, axis=1), 10), phi


def alarm(seeds: int) -> None:
    """Print the share of runs with an alarm and the median episode of the first one, against the size of the error."""
    del seeds
    print("| difference of the laws of one group | δ | runs | with alarm | median episode of the first alarm |")
    print("|---|---|---|---|---|")
    for apart, delta, runs in ((0.0, 0.5, 400), (0.0, 0.05, 400), (0.1, 0.05, 40), (0.2, 0.05, 40), (0.4, 0.05, 40)):
        mdp, phi = _grouped(apart)
        options = {"phi": phi, "preset": "optimistic", "delta": delta}
        result = run_seeds(mdp, n_episodes=1000, seeds=range(FIRST_SEED, FIRST_SEED + runs), **options)
        raised = result.alarms.any(axis=1)
        first = np.median(result.alarms[raised].argmax(axis=1) + 1) if raised.any() else None
        print(
            f"| {apart} | {delta} | {runs} | {int(raised.sum())} | {'–' if first is None else int(first)} |", flush=True
        )


def _incumbents(table: np.ndarray, n_actions: int) -> dict[str, np.ndarray]:
    """Return policies that differ from a table (H, S) in more and more places."""
    other, rare, last = (table + 1) % n_actions, table.copy(), table.copy()
    rare[::3, 1], last[-3:] = other[::3, 1], other[-3:]
    uniform = np.full((table.shape[1], n_actions), 1.0 / n_actions)
    return {
        "another action in one state, every third stage": rare,
        "another action in the last three stages": last,
        "another action everywhere": other,
        "uniform": uniform,
    }


def difference(seeds: int, n_episodes: int = 2000) -> None:
    """Print the interval of the difference of two values, from separate bounds and from their joint backup."""
    del seeds
    print("| problem | incumbent | truth | separate bounds | compare | s |")
    print("|---|---|---|---|---|---|")
    for label in ("RiverSwim (4, 20)", "RiverSwim (6, 24)", "random S=10, A=4", "worn machine"):
        env, env_settings = PROBLEMS[label]
        chosen = {"preset": "optimistic", "switch_growth": 0.05}
        agent = MatrixRL(env, env_settings=env_settings, seed=FIRST_SEED, **chosen)
        agent.learn(n_episodes)
        chosen, mdp = agent.recommend(), agent.problem.mdp
        for name, incumbent in _incumbents(chosen.table.astype(int), chosen.n_actions).items():
            started = time.process_time()
            shown = agent.compare(chosen, incumbent)
            spent = time.process_time() - started
            values = [_value(mdp, policy) for policy in (chosen.table, incumbent)]
            apart = shown.policy[0] - shown.incumbent[1], shown.policy[1] - shown.incumbent[0]
            print(
                f"| {label} | {name} | {values[0] - values[1]:.2f} | {apart[0]:.2f} to {apart[1]:.2f} | "
                f"{shown.lower:.2f} to {shown.upper:.2f} | {spent:.2f} |",
                flush=True,
            )


def _value(mdp: FiniteMDP, policy: np.ndarray) -> float:
    """Return the exact value of actions (H, S) or of probabilities (S, A)."""
    values = np.zeros(mdp.n_states)
    for h in reversed(range(mdp.horizon)):
        q = mdp.task.reward + mdp.transitions.expect(values[None])[0].T
        is_table = policy.dtype.kind in "iu"
        values = q[np.arange(mdp.n_states), policy[h]] if is_table else (policy * q).sum(axis=1)
    return float(mdp.task.start @ values)


def _refuted(off: float, noisy: bool, delta: float, runs: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the episode and the visits at which the wrong reward of one pair is refuted; infinity in runs without.

    The agents are given rewards without a table: those of a random MDP, of which that of one pair is `off` too large.
    They plan with a ball, which is fast for many runs side by side; the test sees nothing but visits and rewards.
    """
    law = tabular(n_states=5, n_actions=2, n_successors=3, horizon=10, seed=0).mdp.transitions
    reward = np.random.default_rng(0).uniform(0.2, 0.6, (5, 2))
    mdp = FiniteMDP(law, reward, 10, noisy_rewards=noisy)
    given = reward.copy()
    given[0, 0] += off
    seeds = range(FIRST_SEED, FIRST_SEED + runs)
    algorithm = UCMatrixRL(set="normalised", delta=delta).start(Problem.of(Task(given, 10)), seeds)
    world = TableWorld(mdp, seeds)
    episode, visits = np.full((2, runs), np.inf)
    seen = np.zeros(runs)
    for n in range(most):
        steps = world.play(algorithm, algorithm.plan()).steps
        algorithm.update(steps)
        seen += ((steps.states == 0) & (steps.actions == 0)).sum(axis=1)
        new = algorithm._rewards.given.alarm & np.isinf(episode)
        episode[new], visits[new] = n + 1, seen[new]
        if algorithm._rewards.given.alarm.all():
            break
    return episode, visits


def rewards(seeds: int) -> None:
    """Print how often given rewards were refuted, and when, against the error of one of them."""
    del seeds
    print("| error of one given reward | rewards | δ | runs | refuted | median episode | median visits of that pair |")
    print("|---|---|---|---|---|---|---|")
    for off, delta, runs, most in (
        (0.0, 0.5, 400, 1000),
        (0.0, 0.05, 400, 1000),
        (0.05, 0.05, 40, 5000),
        (0.1, 0.05, 40, 5000),
        (0.3, 0.05, 40, 5000),
    ):
        for noisy in (True, False):
            episode, visits = _refuted(off, noisy, delta, runs, most)
            found = np.isfinite(episode)
            middle = [f"{np.median(x):,.0f}" if found.mean() > 0.5 else "–" for x in (episode, visits)]
            words = "0 or 1" if noisy else "always the mean"
            row = [f"{off}", words, f"{delta}", f"{runs}", f"{found.sum()}", *middle]
            print("| " + " | ".join(row) + " |", flush=True)


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tables = {
        "gap": gap,
        "coverage": coverage,
        "episodes": episodes,
        "alarm": alarm,
        "difference": difference,
        "rewards": rewards,
    }
    parser.add_argument("table", choices=list(tables))
    parser.add_argument("--seeds", type=int, default=8)
    chosen = parser.parse_args()
    tables[chosen.table](chosen.seeds)


if __name__ == "__main__":
    main()
