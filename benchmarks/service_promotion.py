"""From shadow to live: how many episodes a promotion takes, and whether the promoted policy was in truth better.

    python benchmarks/service_promotion.py --case shop --runs 200
    python benchmarks/service_promotion.py --case inventory --runs 20

Each run is a service with its log on disk. A shop fills up to a base stock, tries another order in a share of its
decisions, and reports what came of it. The service watches until it is promoted; then the law of the demand, which
only this file knows, tells the true values of the promoted policy and of the incumbent. With ``--level best`` the
incumbent is the best policy, so that every promotion would be wrong. ``shop`` is the case of ``examples/shop.toml``,
``inventory`` that of the load test. Results are kept in ``--out``; a run that is there is not played again.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
from dataclasses import dataclass
from math import comb
from pathlib import Path

import numpy as np

from matrixrl.problems import FiniteMDP, evaluate, solve
from matrixrl_serve import Service, read_problem
from matrixrl_serve.decisions import Decisions
from service_common import write_inventory


@dataclass(frozen=True)
class Case:
    """A shop.

    Attributes:
        room: Units that fit on the shelves.
        most: Largest order.
        customers: Customers of a day.
        buys: Probability with which each of them buys.
        price: Reward of a unit sold.
        holding: Cost of a unit on the shelves in the morning.
        base: Reward of an empty day.
        horizon: Days.
        level: Base stock of the incumbent.
        trials: Share of decisions in which the shop tries another order.
        every: Episodes between two plans.
        limit: Episodes after which a run without a promotion ends.
    """

    room: int
    most: int
    customers: int
    buys: float
    price: float
    holding: float
    base: float
    horizon: int
    level: int
    trials: float
    every: int
    limit: int

    def profit(self, stock: int, sold: int) -> float:
        """Return the reward of a day."""
        return min(1.0, max(0.0, self.price * sold - self.holding * stock + self.base))

    def sold(self, stock: int, rng: random.Random) -> int:
        """Return how many units are sold."""
        return min(stock, sum(rng.random() < self.buys for _ in range(self.customers)))

    def mdp(self) -> FiniteMDP:
        """Return the case as an MDP."""
        n, p = self.customers, self.buys
        law = np.zeros((self.room + 1, self.most + 1, self.room + 1))
        reward = np.zeros(law.shape[:2])
        allowed = np.add.outer(np.arange(self.room + 1), np.arange(self.most + 1)) <= self.room
        for s, a in np.argwhere(allowed):
            for wanted in range(n + 1):
                chance, sold = comb(n, wanted) * p**wanted * (1 - p) ** (n - wanted), min(s + a, wanted)
                law[s, a, s + a - sold] += chance
                reward[s, a] += chance * self.profit(s + a, sold)
        return FiniteMDP(law, reward, self.horizon, allowed=allowed, start=0)

    def orders(self, level: int) -> list[int]:
        """Return the orders that fill up to a level, by stock."""
        return [min(max(level - s, 0), self.most, self.room - s) for s in range(self.room + 1)]


CASES = {
    "shop": Case(4, 4, 4, 0.8, 0.25, 0.0, 0.0, 5, level=1, trials=0.5, every=5, limit=2_000),
    "inventory": Case(50, 20, 20, 0.25, 0.05, 0.004, 0.2, 30, level=3, trials=0.3, every=20, limit=10_000),
}


def run(folder: Path, case: Case, mdp: FiniteMDP, incumbent: list[list[int]], seed: int) -> dict[str, float | None]:
    """Play one service until its promotion, and return the episodes that it took and the true value of its policy."""
    keys = {"mode": "shadow", "incumbent": incumbent, "promote": True, "explore": False}
    file = write_inventory(folder / "inventory.toml", case.room, case.most, case.horizon, **keys)
    rng = random.Random(seed)
    with Service(read_problem(file), folder / "data", learning=False) as service:
        for episode in range(1, case.limit + 1):
            service.run(lambda: _play(service.decisions, case, incumbent, rng))
            if episode % case.every == 0:
                service.learn_now()
            if service.decisions.projection.mode == "live":
                newest = service.decisions.newest
                earned = evaluate(mdp, newest.recommended[:, : case.room + 1])[0, 0]
                proven = newest.report["comparison"]["lower"]
                return {"episodes": episode, "promoted": float(earned), "proven": proven}
    return {"episodes": None, "promoted": None, "proven": None}


def _play(decisions: Decisions, case: Case, incumbent: list[list[int]], rng: random.Random) -> None:
    name, stock = decisions.open("local").episode, 0
    for step in range(case.horizon):
        trial = rng.random() < case.trials
        ordered = rng.randint(0, min(case.most, case.room - stock)) if trial else incumbent[step][stock]
        left = stock + ordered - (sold := case.sold(stock + ordered, rng))
        reward = case.profit(stock + ordered, sold)
        decisions.tell("local", name, state=stock, action=ordered, reward=reward, next_state=left, step=step)
        stock = left


def main() -> None:
    """Play the runs that are missing, and print what all of them say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=list(CASES), default="shop")
    parser.add_argument("--level", help="base stock of the incumbent, or best for the best policy")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("out/service-promotion"))
    options = parser.parse_args()
    case = CASES[options.case]
    mdp, level = case.mdp(), options.level or str(case.level)
    solution = solve(mdp)
    best = level == "best"
    incumbent = solution.policy.tolist() if best else [case.orders(int(level))] * case.horizon
    usual = evaluate(mdp, np.array(incumbent))[0, 0]
    options.out.mkdir(parents=True, exist_ok=True)
    found = []
    for seed in range(options.first_seed, options.first_seed + options.runs):
        path = options.out / f"{options.case}-{level}-{seed}.json"
        if not path.exists():
            with tempfile.TemporaryDirectory() as folder:
                path.write_text(json.dumps(run(Path(folder), case, mdp, incumbent, seed)) + "\n")
        found.append(json.loads(path.read_text()))
        print(f"\r{len(found)} of {options.runs}", end="", flush=True)
    promoted = [one for one in found if one["episodes"] is not None]
    wrong = sum(one["promoted"] <= usual for one in promoted)
    held = sum(one["proven"] <= one["promoted"] - usual for one in promoted)
    print(f"\n{options.case}: incumbent {usual:.3f}, best {solution.start_value:.3f}, {len(found)} runs")
    print(f"promoted {len(promoted)}, not better in truth {wrong}, what was proven held in {held}")
    if promoted:
        episodes = sorted(int(one["episodes"]) for one in promoted)
        values = [one["promoted"] for one in promoted]
        print(
            f"episodes until promotion: median {statistics.median(episodes):.0f}, {episodes[0]} to {episodes[-1]}; "
            f"value of the promoted policy {min(values):.3f} to {max(values):.3f}, mean {statistics.mean(values):.3f}"
        )


if __name__ == "__main__":
    main()
