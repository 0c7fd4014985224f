"""Many open episodes on one model: memory and time of an episode, and a save in the middle.

    python benchmarks/open_episodes.py [--sizes 1 10 100 1000] [--problem small|large]

For each number of episodes that are open at once it prints the memory of an open episode with its part of the plans,
the number of different tables that the plans have, the time to begin one, to ask for an action and to report a step,
and the time and size of a saved file. The small problem is RiverSwim with 6 states; the large one is a random MDP of
700 states, 25 actions and 30 stages. Times are processor seconds, but for those of saving and loading.
"""

from __future__ import annotations

import argparse
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

from matrixrl import MatrixRL, make
from matrixrl.problems import FiniteMDP
from timing import cpu_seconds, seconds


def small() -> MatrixRL:
    agent = MatrixRL(make("river-swim", n_states=6), seed=0, measure_regret=False)
    agent.learn(20)
    return agent


def large() -> MatrixRL:
    rng = np.random.default_rng(0)
    n_states, n_actions, successors = 700, 25, 5
    transitions = np.zeros((n_states, n_actions, n_states))
    for s in range(n_states):
        for a in range(n_actions):
            transitions[s, a, rng.choice(n_states, successors, replace=False)] = rng.dirichlet(np.ones(successors))
    mdp = FiniteMDP(transitions, rng.random((n_states, n_actions)), 30)
    agent = MatrixRL(mdp, preset="tuned", known_reward=False, seed=0, measure_regret=False)
    agent.learn(3)
    return agent


PROBLEMS: dict[str, Callable[[], MatrixRL]] = {"small": small, "large": large}


def memory(agent: MatrixRL, count: int) -> float:
    """Return the bytes that an open episode takes; some are open before, so that the plan of these data is there."""
    for _ in range(3):
        agent.begin_episode()
    tracemalloc.start()
    episodes = [agent.begin_episode() for _ in range(count)]
    for episode in episodes:
        episode.observe(0, episode.act(0), 0.0, 1)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken / count


def measure(build: Callable[[], MatrixRL], count: int, folder: Path) -> tuple[str, ...]:
    taken, agent = memory(build(), count), build()
    begin = cpu_seconds(lambda: [agent.begin_episode() for _ in range(count)]) / count
    episodes = agent.open_episodes
    rounds = max(20, 3000 // count)
    asked = []
    for _ in range(rounds):
        for episode in episodes:
            episode._advised = None  # a new question each time
        asked.append(cpu_seconds(lambda: [episode.act(0) for episode in episodes]))
    told = cpu_seconds(lambda: [episode.observe(0, episode.act(0), 0.0, 1) for episode in episodes]) / count
    tables = {id(table) for e in episodes for table in (e.data.plan.policy, e.data.plan.values)}
    path = folder / f"{count}.npz"
    saving = seconds(lambda: agent.save(path))
    loading = seconds(lambda: MatrixRL.load(path))
    act = min(asked) / count
    return (
        f"{count:,}",
        f"{taken:,.0f}",
        f"{len(tables):,}",
        f"{1e3 * begin:.2f}",
        f"{1e6 * act:.1f}",
        f"{1e6 * told:.1f}",
        f"{1 / act:,.0f}",
        f"{saving:.2f}",
        f"{loading:.2f}",
        f"{path.stat().st_size / 1e6:.2f}",
    )


HEAD = (
    "open",
    "bytes each",
    "tables",
    "begin, ms",
    "act, µs",
    "act and observe, µs",
    "acts a second",
    "save, s",
    "load, s",
    "file, MB",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--problem", choices=PROBLEMS, default="small")
    arguments = parser.parse_args()
    print(f"| {' | '.join(HEAD)} |")
    print("|" + "---|" * len(HEAD))
    with tempfile.TemporaryDirectory() as folder:
        for count in arguments.sizes:
            print(f"| {' | '.join(measure(PROBLEMS[arguments.problem], count, Path(folder)))} |", flush=True)


if __name__ == "__main__":
    main()
