"""Certificates from half of a log with groups that the other half suggests, beside those of the whole log without.

    python benchmarks/groups_from_logs.py

Problems have 30 states, 10 actions and 5 laws of the next state, which pairs share at random; actions of the log are
uniform. Prints, for each seed and number of episodes: groups, those that hold pairs of different laws, V*, and
[lower, upper] with its share of what is possible, from all episodes one-hot and from the second half with groups.
"""

from __future__ import annotations

import argparse

import numpy as np

from matrixrl import FiniteMDP, MatrixRL, Task
from matrixrl.logs import groups_from_log
from matrixrl.problems import solve

N_STATES, N_ACTIONS, N_LAWS, HORIZON = 30, 10, 5, 10


def problem(seed: int) -> tuple[FiniteMDP, np.ndarray]:
    """Return an MDP and the number of the law of each pair."""
    rng = np.random.default_rng(seed)
    laws = np.zeros((N_LAWS, N_STATES))
    for law in laws:
        law[rng.choice(N_STATES, 5, replace=False)] = rng.dirichlet(np.ones(5))
    of_pairs = rng.integers(0, N_LAWS, (N_STATES, N_ACTIONS))
    reward = np.repeat(rng.random((N_STATES, 1)), N_ACTIONS, axis=1)
    return FiniteMDP(laws[of_pairs], reward, HORIZON, start=0), of_pairs


def log_of(mdp: FiniteMDP, n_episodes: int, seed: int) -> dict[str, np.ndarray]:
    """Return episodes of uniform actions."""
    rng = np.random.default_rng(seed)
    steps = [
        mdp.rollout(rng.random((1, mdp.draws_per_episode)), lambda _h, states: rng.integers(0, N_ACTIONS, states.shape))
        for _ in range(n_episodes)
    ]
    columns = {"state": "states", "action": "actions", "reward": "rewards", "next_state": "next_states"}
    rows = {name: np.concatenate([getattr(one, field)[0] for one in steps]) for name, field in columns.items()}
    return {"episode": np.repeat(np.arange(n_episodes), HORIZON), **rows}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13, 14, 15])
    parser.add_argument("--episodes", type=int, nargs="+", default=[500, 1000, 2000, 4000])
    given = parser.parse_args()
    for n_episodes in given.episodes:
        for seed in given.seeds:
            mdp, of_pairs = problem(seed)
            task = Task(mdp.task.reward, HORIZON, start=0)
            log = log_of(mdp, n_episodes, seed)
            found = groups_from_log(log, task)
            mixed = sum(len(np.unique(of_pairs[found.table == group])) > 1 for group in range(found.n_groups))
            row = f"{n_episodes:5d} {seed:3d} {found.n_groups:4d} {mixed:2d} {solve(mdp).start_value:6.2f}"
            for phi, rows in ((None, log), (found.phi, found.rest)):
                agent = MatrixRL(task) if phi is None else MatrixRL(task, phi=phi)
                agent.learn_from(rows, verbose=False)
                certificate = agent.certificate()
                row += f"   [{certificate.lower:.2f}, {certificate.upper:.2f}] {certificate.share_left:5.1%}"
            print(row)


if __name__ == "__main__":
    main()
