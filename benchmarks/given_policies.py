"""Policies that are fixed before their episodes: how wide their intervals are, and how often they are right.

python benchmarks/given_policies.py case       a shop: 1,200 episodes of one policy, from the model and from returns
python benchmarks/given_policies.py width      the same numbers of returns with other ranges, and other methods
python benchmarks/given_policies.py coverage   share of runs in which an interval was ever wrong
python benchmarks/given_policies.py decide     episodes until an A/B test is decided
python benchmarks/given_policies.py forecast   forecasts of `Agent.forecast` beside what came

Seeds begin at 2,000, and nothing was tuned on them.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
from scipy.stats import norm, poisson

from matrixrl import MatrixRL, Task, compare_returns, evaluate
from matrixrl.core.returns import Returns, difference_bounds, path_deviation, statement_share
from matrixrl.display import in_digits
from matrixrl.problems import tabular

FIRST_SEED = 2000
DAYS, CAPACITY, MEAN, PRICE, COST, HOLDING = 30, 20, 8.0, 40.0, 10.0, 1.0
DEMAND = poisson.pmf(np.arange(CAPACITY + 1), MEAN)
DEMAND[-1] += poisson.sf(CAPACITY, MEAN)


def shop_log(level: int, episodes: int, rng: np.random.Generator) -> tuple[dict[str, Any], np.ndarray]:
    """Return a log of a shop that orders up to a level every morning, and the return of each episode."""
    rows, returns = [], []
    for episode in range(episodes):
        stock, total = 0, 0.0
        for day, demand in enumerate(rng.choice(CAPACITY + 1, size=DAYS, p=DEMAND)):
            order = max(level - stock, 0)
            sold = min(stock + order, int(demand))
            left = stock + order - sold
            reward = PRICE * sold - COST * order - HOLDING * left
            rows.append((episode, day, stock, order, reward, left))
            stock, total = left, total + reward
        returns.append(total)
    names = ("episode", "step", "state", "action", "reward", "next_state")
    return dict(zip(names, np.array(rows).T, strict=True)), np.array(returns)


def shop(*, known: bool) -> Task:
    """Return the shop: 21 stocks, orders of at most what fits, with expected rewards or with those of the log alone."""
    n = CAPACITY + 1
    allowed = np.arange(n)[:, None] + np.arange(n)[None, :] <= CAPACITY
    reward = np.zeros((n, n))
    for stock, order in np.argwhere(allowed):
        sold = np.minimum(stock + order, np.arange(n))
        reward[stock, order] = DEMAND @ (PRICE * sold - COST * order - HOLDING * (stock + order - sold))
    ends = (-(COST + HOLDING) * CAPACITY, PRICE * CAPACITY)
    size = {"reward": reward} if known else {"n_states": n, "n_actions": n}
    return Task(horizon=DAYS, start=0, allowed=allowed, reward_range=ends, **size)


def case(_: int) -> None:
    """Print what is proven about the policy of a log of 1,200 episodes, and about a second one against it."""
    rng = np.random.default_rng(FIRST_SEED)
    policies = {level: np.maximum(level - np.arange(CAPACITY + 1), 0) for level in (13, 11)}
    logs = {level: shop_log(level, 1200, rng) for level in policies}
    for level, (_, returns) in logs.items():
        print(f"orders up to {level}: mean {in_digits(returns.mean())}, standard deviation {in_digits(returns.std())}")
    for known in (False, True):
        print(f"\nrewards {'known' if known else 'learned'}")
        plain, agent = (MatrixRL(shop(known=known), known_reward=known, seed=0) for _ in range(2))
        for level, (log, _) in logs.items():
            plain.learn_from(log, verbose=False)
            agent.learn_from(log, policy=policies[level], verbose=False)
        for policy in policies.values():
            print("  model alone:", plain.certify(policy))
            found = agent.certify(policy)
            half = found.lower - found.estimate, found.upper - found.estimate
            print("  certify:    ", found, "->", " / ".join(f"{one:+.0f}" for one in half), f"by {found.basis}")
        print("  model alone:", plain.compare(policies[13], policies[11]))
        print("  compare:    ", agent.compare(policies[13], policies[11]))


def width(_: int) -> None:
    """Print half-widths of intervals of 1,200 normal returns, mean 6,702 and standard deviation 540."""
    rng = np.random.default_rng(FIRST_SEED)
    print(
        "| range | returns at 1 − δ | first given policy of an agent | sum of deviations (11.3) | t-test at one time |"
    )
    print("|---|---|---|---|---|")
    for least, most in ((5000.0, 8500.0), (-1087.0, 18601.0), (-5000.0, 25000.0), (-20000.0, 60000.0)):
        own = rng.normal(6702.0, 540.0, 1200).clip(least, most)
        found = Returns.of(own, own, least, most)
        cells = []
        for delta in (0.05, 0.025 * statement_share(1)):
            low, high = found.interval(delta)
            cells.append(f"{low - own.mean():+.0f} / {high - own.mean():+.0f}")
        far = (most - least) * path_deviation((own - least) / (most - least), 0.025) / len(own)
        usual = norm.ppf(0.975) * own.std() / math.sqrt(len(own))
        print(f"| {least:,.0f} … {most:,.0f} | {cells[0]} | {cells[1]} | ±{far:.0f} | ±{usual:.0f} |")


LAWS: dict[str, Any] = {
    "0 or 1, p = ½": lambda rng, n: (rng.random(n) < 0.5).astype(float),
    "0 or 1, p = 0.02": lambda rng, n: (rng.random(n) < 0.02).astype(float),
    "0 or 1, p = 0.98": lambda rng, n: (rng.random(n) < 0.98).astype(float),
    "Beta(30, 40)": lambda rng, n: rng.beta(30.0, 40.0, n),
    "0, ½ or 1": lambda rng, n: rng.choice([0.0, 0.5, 1.0], n, p=[0.1, 0.6, 0.3]),
}
VALUES = {
    "0 or 1, p = ½": 0.5,
    "0 or 1, p = 0.02": 0.02,
    "0 or 1, p = 0.98": 0.98,
    "Beta(30, 40)": 3 / 7,
    "0, ½ or 1": 0.6,
}


def coverage(runs: int) -> None:
    """Print how often intervals were ever wrong, at looks after 1, 2, 3, 5, 8, … episodes, up to 1,000."""
    looks = sorted({int(1.3**k) for k in range(1, 27)} | {1000})
    print("| returns | δ | value | difference of two policies by turns | paired days |")
    print("|---|---|---|---|---|")
    for name, draw in LAWS.items():
        for delta in (0.5, 0.05):
            wrong = np.zeros(3)
            for run in range(runs):
                rng = np.random.default_rng(FIRST_SEED + run)
                ours, theirs, value = draw(rng, 1000), draw(rng, 1000), VALUES[name]
                missed = np.zeros(3, dtype=bool)
                for n in looks:
                    one, other = (Returns.of(x[:n], x[:n], 0.0, 1.0) for x in (ours, theirs))
                    low, high = one.interval(delta)
                    missed[0] |= not low <= value <= high
                    if n in (looks[4], looks[9], looks[14], looks[19], looks[-1]):
                        low, high = difference_bounds(one, other, delta)
                        missed[1] |= not low <= 0.0 <= high
                    apart = ours[:n] - theirs[:n]
                    low, high = Returns.of(apart, apart, -1.0, 1.0).interval(delta)
                    missed[2] |= not low <= 0.0 <= high
                wrong += missed
            print(f"| {name} | {delta} | {' | '.join(f'{share:.3f}' for share in wrong / runs)} |")
    agents(runs // 4)


def agents(runs: int) -> None:
    """Print how often anything that an agent says of two given policies by turns was wrong."""
    for delta in (0.5, 0.05):
        wrong = 0
        for run in range(runs):
            mdp = tabular(n_states=3, n_actions=2, horizon=3, seed=FIRST_SEED + run).mdp
            first, second = np.random.default_rng(FIRST_SEED + run).integers(0, 2, (2, 3, 3))
            values = [evaluate(mdp, table)[0] @ mdp.task.start for table in (first, second)]
            agent, missed = MatrixRL(mdp, seed=run, delta=delta, keep_log=False), False
            for _ in range(6):
                agent.learn(5, policy=first)
                agent.learn(5, policy=second)
                agent.learn(5)
                shown = [(agent.certify(table), value) for table, value in zip((first, second), values, strict=True)]
                shown.append((agent.compare(first, second), values[0] - values[1]))
                missed |= any(not one.lower - 1e-9 <= truth <= one.upper + 1e-9 for one, truth in shown)
            wrong += missed
        print(f"agents, δ = {delta}: any statement of `certify` or `compare` wrong in {wrong} of {runs} runs")


def decide(runs: int) -> None:
    """Print the median number of episodes of each policy until a test is decided, looked at every 10 % more."""
    print("| difference | by turns | separate intervals | paired days | t-test with as many, fixed in advance |")
    print("|---|---|---|---|---|")
    looks = sorted({int(20 * 1.1**k) for k in range(70)})
    for gain in (200.0, 100.0, 50.0):
        found: list[list[float]] = []
        for run in range(runs):
            rng = np.random.default_rng(FIRST_SEED + run)
            day, noise = rng.normal(6702.0, 500.0, looks[-1]), rng.normal(0.0, 200.0, (2, looks[-1]))
            ours, theirs = (day + gain + noise[0]).clip(0, 15000), (day + noise[1]).clip(0, 15000)
            apart = rng.permutation(theirs)
            rows = [math.inf] * 3
            for n in looks:
                if (
                    math.isinf(rows[0])
                    and compare_returns(ours[:n], apart[:n], return_range=(0, 15000)).probably_better
                ):
                    rows[0] = n
                one, other = (Returns.of(x[:n], x[:n], 0.0, 15000.0) for x in (ours, apart))
                if math.isinf(rows[1]) and one.interval(0.025)[0] > other.interval(0.025)[1]:
                    rows[1] = n
                paired = {"return_range": (0, 15000), "paired": True}
                if math.isinf(rows[2]) and compare_returns(ours[:n], theirs[:n], **paired).probably_better:
                    rows[2] = n
                if not any(map(math.isinf, rows)):
                    break
            found.append(rows)
        middle = np.median(np.array(found), axis=0)
        fixed = 2.0 * (500.0**2 + 200.0**2) * ((norm.ppf(0.975) + norm.ppf(0.5)) / gain) ** 2
        print(f"| {gain:.0f} | {' | '.join('more' if math.isinf(n) else f'{n:,.0f}' for n in middle)} | {fixed:,.0f} |")


def forecast(runs: int) -> None:
    """Print how many more episodes gaps took, at most eight times those so far, beside what was foretold."""
    problems = {
        "RiverSwim (4, 20)": ("river-swim", {"n_states": 4, "horizon": 20}),
        "random S=5, A=2": (tabular(n_states=5, n_actions=2, horizon=6, seed=FIRST_SEED).mdp, None),
    }
    print("| problem | after | gap shrinks to | expected | spread | came | in the spread |")
    print("|---|---|---|---|---|---|---|")
    for name, (problem, env_settings) in problems.items():
        for played in (300, 1000):
            for share in (0.8, 0.6):
                rows = []
                for run in range(runs):
                    agent = MatrixRL(problem, env_settings=env_settings, seed=FIRST_SEED + run)
                    agent.learn(played)
                    goal = share * agent.recommend().certificate.gap
                    found = agent.forecast(gap=goal)
                    agent.learn(8 * played, until_gap=goal)
                    ends = [math.inf if one is None else one for one in (found.episodes, found.fewest, found.most)]
                    rows.append([*ends, agent.n_episodes - played])
                expected, fewest, most, came = np.array(rows).T
                inside = int(((fewest <= came) & (came <= most)).sum())
                middle = [f"{np.median(one):,.0f}" for one in (expected, fewest, most, came)]
                spread = f"{middle[1]} to {middle[2]}"
                print(f"| {name} | {played} | {share} | {middle[0]} | {spread} | {middle[3]} | {inside} of {runs} |")


PARTS = {"case": case, "width": width, "coverage": coverage, "decide": decide, "forecast": forecast}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--runs", type=int, default=200)
    chosen = parser.parse_args()
    PARTS[chosen.part](chosen.runs)


if __name__ == "__main__":
    main()
