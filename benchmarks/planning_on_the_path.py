"""Planning on the path beside sweeps: regret, time an episode, and the start of an agent with ten million states.

    python benchmarks/planning_on_the_path.py [regret] [time] [start] [--seeds 5]

Times are processor seconds of one thread, without compiling. Nothing was tuned on the seeds, which begin at 100.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import matrixrl
from matrixrl.play.simulation import Simulation
from matrixrl.problems import FiniteMDP, Task
from matrixrl.threads import limited_threads
from sparse_planner import random_mdp

FIRST_SEED = 100
PRESETS = ("optimistic", "budget")
PLANNERS = ("sweep", "path")
REGRET = (
    ("river-swim", {}, 3000),
    ("river-swim", {"n_states": 12}, 5000),
    ("four-rooms", {"size": 9}, 3000),
    ("deep-sea", {"size": 10}, 1000),
    ("random", {"n_states": 20}, 3000),
    ("random", {"n_states": 100}, 3000),
    ("random", {"n_states": 1000}, 500),
)
SIZES = (10, 30, 100, 300, 1000, 10_000, 100_000)
SHAPE = {"n_actions": 4, "n_successors": 5, "horizon": 20}


def played(env: str | FiniteMDP, n_episodes: int, seed: int, *, measures: bool, **settings: object) -> Simulation:
    """Return a simulation that was played to its end, with compiled episodes."""
    simulation = Simulation(
        env,
        n_episodes=n_episodes,
        seeds=[seed],
        agent="matrix-rl",
        settings=settings,
        compiled=True,
        measure_regret=measures,
    )
    simulation.run()
    return simulation


def regrets(env: str, options: dict[str, int], n_episodes: int, n_seeds: int, **settings: object) -> np.ndarray:
    """Return the regret of every seed; each has a random MDP of its own."""
    totals = []
    for seed in range(FIRST_SEED, FIRST_SEED + n_seeds):
        world = random_mdp(seed=seed, **options, **SHAPE) if env == "random" else matrixrl.make(env, **options)
        totals.append(played(world, n_episodes, seed, measures=True, **settings).series.regret.sum())
    return np.array(totals)


def show_regret(n_seeds: int) -> None:
    """Print mean and standard error of the regret."""
    for env, options, n_episodes in REGRET:
        for preset in PRESETS:
            found = [regrets(env, options, n_episodes, n_seeds, preset=preset, planner=one) for one in PLANNERS]
            shown = ", ".join(
                f"{one} {total.mean():.1f} ± {total.std(ddof=1) / np.sqrt(n_seeds):.1f}"
                for one, total in zip(PLANNERS, found, strict=True)
            )
            ratio = found[1].mean() / found[0].mean()
            print(f"{env} {options} N={n_episodes} {preset}: {shown}; path/sweep {ratio:.2f}", flush=True)


def show_times() -> None:
    """Print milliseconds an episode on random MDPs."""
    for n_states in SIZES:
        mdp = random_mdp(n_states, seed=FIRST_SEED, **SHAPE)
        for preset in PRESETS:
            times = []
            for planner in PLANNERS:
                n = 4000 if planner == "path" else max(20 if n_states < 10**5 else 5, 400_000 // (n_states * 4))
                settings = {"preset": preset, "planner": planner}
                played(mdp, 2, 0, measures=False, **settings)  # loads the loops
                simulation = Simulation(
                    mdp,
                    n_episodes=n,
                    seeds=[FIRST_SEED],
                    agent="matrix-rl",
                    settings=settings,
                    compiled=True,
                    measure_regret=False,
                )
                simulation.advance(1)
                began = time.process_time()
                simulation.advance(n - 1)
                times.append(f"{planner} {1e3 * (time.process_time() - began) / (n - 1):.3f} (N={n})")
            print(f"S={n_states:,} {preset}, ms an episode: {', '.join(times)}", flush=True)


def show_start() -> None:
    """Print the seconds until an agent with ten million states has started, and has played an episode."""
    n_states = 10**7
    reward = np.zeros((n_states, 4))
    reward[-1] = 1.0
    matrixrl.MatrixRL("river-swim", planner="path", seed=0)  # imports
    for preset in PRESETS:
        began = time.process_time()
        task = Task(reward, horizon=20, start=0)
        read = time.process_time()
        agent = matrixrl.MatrixRL(task, preset=preset, planner="path", seed=FIRST_SEED)
        started = time.process_time()
        episode, state = agent.begin_episode(), 0
        for _ in range(20):
            action = episode.act(state)
            following = (7 * state + action + 1) % n_states
            episode.observe(state, action, reward[state, action], following)
            state = following
        episode.end()
        spent = [read - began, started - read, time.process_time() - started]
        print(f"S={n_states:,} {preset}: table read {spent[0]:.2f} s, agent {spent[1]:.2f} s, episode {spent[2]:.2f} s")


def main() -> None:
    """Print what was asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["regret", "time", "start"])
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    with limited_threads(1):
        for name, show in (("regret", lambda: show_regret(given.seeds)), ("time", show_times), ("start", show_start)):
            if name in given.what:
                show()


if __name__ == "__main__":
    main()
