"""Advice for the real world: one episode a day, the agent kept on disk in between.

Nobody simulates anything: the agent is asked for actions and told what happened. Here a small stock is managed; a
shopkeeper orders 0, 1 or 2 pieces each morning, and the number of customers is not known to anybody in advance.
"""

import tempfile
from pathlib import Path

import numpy as np

import matrixrl

capacity, horizon = 4, 6  # states: pieces in stock; an episode is a week of six days
order = np.array([0, 1, 2])
stock = np.arange(capacity + 1)[:, None]
# Known in advance: the cost of stock and the expected profit are declared as a table of rewards.
profit = np.minimum(stock + order, 2) * 0.4 - 0.1 * np.maximum(stock + order - 2, 0)
reward = np.clip(profit, 0.0, 1.0)

path = Path(tempfile.mkdtemp()) / "shop.npz"
matrixrl.MatrixRL(matrixrl.Task(reward, horizon), preset="practical", seed=1).save(path)

customers = np.random.default_rng(0)
for week in range(30):
    agent = matrixrl.MatrixRL.load(path)  # a new process every week
    agent.begin_episode()
    pieces = 0
    for _ in range(horizon):
        action = agent.act(pieces)
        after = max(0, min(capacity, pieces + order[action]) - customers.poisson(1.2))
        agent.observe(pieces, action, reward[pieces, action], after)
        pieces = after
    episode = agent.end_episode()
    agent.save(path)
    if week % 10 == 9:
        print(f"week {week + 1}: earned {episode.episode_return:.2f}, at most {episode.upper:.2f} is possible")
