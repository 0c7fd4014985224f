"""Advice for the real world: one episode a week, in two shops that share one model, with the agent saved in between.

There is no simulator: the program asks the agent for an action and reports what happened. Two small shops order 0, 1
or 2 pieces each morning. Demand, and therefore profit, is unknown. Both shops have an episode open at the same time,
and the agent learns from both.
"""

import tempfile
from pathlib import Path

import numpy as np

import matrixrl

capacity, days, shops = 4, 6, 2  # states: pieces in stock; an episode is a week of six days
orders = np.array([0, 1, 2])
path = Path(tempfile.mkdtemp()) / "shop.npz"

# Rewards are learned, so this table only says how many states and actions there are.
task = matrixrl.Task(n_states=capacity + 1, n_actions=3, horizon=days)  # rewards are learned
matrixrl.MatrixRL(task, preset="tuned", seed=1).save(path)

customers = np.random.default_rng(0)
earned = []
for week in range(100):
    agent = matrixrl.MatrixRL.load(path)  # a new process every week
    episodes = [agent.begin_episode() for _ in range(shops)]
    pieces = [0] * shops
    for _ in range(days):
        for shop, episode in enumerate(episodes):
            action = episode.act(pieces[shop])  # ask
            stock = min(capacity, pieces[shop] + orders[action])
            sold = min(stock, customers.poisson(1.2))
            profit = 0.3 * sold - 0.05 * stock  # pieces in stock cost something
            episode.observe(pieces[shop], action, float(np.clip(profit, 0.0, 1.0)), stock - sold)  # tell
            pieces[shop] = stock - sold
    earned += [episode.end().episode_return for episode in episodes]  # learn
    agent.save(path)
    if week + 1 in (5, 25, 100):
        shown = agent.certificate()
        print(
            f"week {week + 1}: {np.mean(earned[-10:]):.2f} per shop and week in the last 10 episodes; "
            f"the best policy earns at most {shown.upper:.2f}, this one at least {shown.lower:.2f} "
            f"(with probability {1 - shown.delta:g})"
        )
