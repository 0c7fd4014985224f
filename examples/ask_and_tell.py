"""Advice for the real world: one week at a time, the agent kept on disk in between.

Nobody simulates anything: the agent is asked for actions and told what happened. Here a small shop orders 0, 1 or 2
pieces each morning. How many customers come, and so what is earned, nobody knows in advance.
"""

import tempfile
from pathlib import Path

import numpy as np

import matrixrl

capacity, days = 4, 6  # states: pieces in stock; an episode is a week of six days
orders = np.array([0, 1, 2])
path = Path(tempfile.mkdtemp()) / "shop.npz"

# Rewards are not known either: the table is only a placeholder of the right shape.
task = matrixrl.Task(np.zeros((capacity + 1, 3)), days)
matrixrl.MatrixRL(task, known_reward=False, preset="practical", seed=1).save(path)

customers = np.random.default_rng(0)
earned = []
for week in range(200):
    agent = matrixrl.MatrixRL.load(path)  # a new process every week
    agent.begin_episode()
    pieces = 0
    for _ in range(days):
        action = agent.act(pieces)  # ask
        stock = min(capacity, pieces + orders[action])
        sold = min(stock, customers.poisson(1.2))
        profit = 0.3 * sold - 0.05 * stock  # pieces that lie around cost something
        agent.observe(pieces, action, float(np.clip(profit, 0.0, 1.0)), stock - sold)  # tell
        pieces = stock - sold
    earned.append(agent.end_episode().episode_return)
    agent.save(path)
    if week + 1 in (10, 50, 200):
        shown = agent.certificate()
        print(
            f"week {week + 1}: {np.mean(earned[-10:]):.2f} a week lately; "
            f"the best policy earns at most {shown.upper:.2f}, this one at least {shown.lower:.2f} "
            f"(with probability {1 - shown.delta:g})"
        )
