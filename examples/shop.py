"""A shop that asks a service how much to order, and reports what it sold.

The service starts in shadow mode: the shop decides, with a trial now and then, and the service watches. Once the policy
that it recommends is proven to earn more than the usual one, it takes over. This example runs the service inside its
own process; with a server it is the same::

    matrixrl serve examples/shop.toml --data shop-data
    python examples/shop.py --url http://127.0.0.1:8799
"""

from __future__ import annotations

import argparse
import random
import tempfile
from contextlib import ExitStack
from pathlib import Path

from matrixrl_serve import Client, Service, make_app, read_problem

EVENINGS, ROOM, USUAL = 5, 4, 1


def own_order(stock: int, rng: random.Random) -> int:
    """Return what the shop orders while it decides itself: up to the usual stock, and every second time a trial."""
    return rng.randint(0, ROOM - stock) if rng.random() < 0.5 else max(0, USUAL - stock)


def sell(on_shelf: int, rng: random.Random) -> tuple[int, float]:
    """Return the stock after a day, and its profit: 0.25 for each unit sold."""
    sold = min(on_shelf, sum(rng.random() < 0.8 for _ in range(ROOM)))
    return on_shelf - sold, 0.25 * sold


def play_week(client: Client, rng: random.Random) -> tuple[str, float]:
    """Play one week, and return the mode and the profit."""
    episode, stock, total = client.open(), 0, 0.0
    for _ in range(EVENINGS):
        answer = episode.ask(stock)
        ordered = own_order(stock, rng) if answer.mode == "shadow" else answer.action
        stock, profit = sell(stock + ordered, rng)
        episode.tell(profit, next_state=stock, action=ordered)
        total += profit
    return episode.opened.mode, total


def main() -> None:
    """Play some weeks, and print what was earned and what is proven."""
    parser = argparse.ArgumentParser(description="A shop that uses a service.")
    parser.add_argument("--url", help="address of a service; by default it runs inside this process")
    parser.add_argument("--token", help="token, if the service needs one")
    parser.add_argument("--weeks", type=int, default=150)
    options, _ = parser.parse_known_args()
    rng, profits = random.Random(1), {"shadow": [], "live": []}
    with ExitStack() as stack:
        if options.url is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            problem = read_problem(Path(__file__).with_name("shop.toml"))
            service = stack.enter_context(Service(problem, folder))
            client = stack.enter_context(Client(app=make_app(service)))
        else:
            client = stack.enter_context(Client(options.url, token=options.token))
        for week in range(options.weeks):
            mode, profit = play_week(client, rng)
            if mode == "live" and not profits["live"]:
                switched = client.get("/v1/events?kind=mode")["events"][-1]["body"]
                print(f"week {week + 1}: the service decides from now on; {switched['reason']}")
            profits[mode].append(profit)
        for mode, weeks in profits.items():
            if weeks:
                print(f"{len(weeks)} weeks {mode}: {sum(weeks) / len(weeks):.2f} a week")
        shown = client.certificate()
        print(
            f"the recommended policy earns at least {shown['lower']:.2f} a week, the best at most {shown['upper']:.2f}"
        )


if __name__ == "__main__":
    main()
