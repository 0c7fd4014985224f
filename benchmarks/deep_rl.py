"""Stable-Baselines3 DQN and PPO on the same control tasks: how many episodes until solved, and how good at 25.

It runs in an environment of its own, with CPU torch:

    python -m venv .venv-deep && .venv-deep/bin/pip install stable-baselines3 gymnasium
    .venv-deep/bin/python benchmarks/deep_rl.py --steps 50000
"""

from __future__ import annotations

import argparse
import time

import gymnasium as gym
import numpy as np
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback

from first_solved import first_solved

# Hyperparameters of the RL Zoo where the defaults are known not to learn the task.
DQN_SETTINGS = {
    "cart-pole": {
        "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000, "gamma": 0.99,
        "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04, "policy_kwargs": {"net_arch": [256, 256]},
    },
}  # fmt: skip


class Sparse(gym.Wrapper):
    """1 at the goal and nothing else, as in our own sparse tasks."""

    def step(self, action):
        obs, _, terminated, truncated, info = self.env.step(action)
        return obs, float(terminated), terminated, truncated, info


def make(task: str) -> gym.Env:
    if task == "cart-pole":
        return gym.make("CartPole-v1", max_episode_steps=200)
    if task == "mountain-car":
        return Sparse(gym.make("MountainCar-v0", max_episode_steps=200))
    return Sparse(gym.make("Acrobot-v1", max_episode_steps=300))


class Returns(BaseCallback):
    """Keeps the return of every training episode."""

    def __init__(self) -> None:
        super().__init__()
        self.returns: list[float] = []
        self._sum = 0.0

    def _on_step(self) -> bool:
        self._sum += float(self.locals["rewards"][0])
        if self.locals["dones"][0]:
            self.returns.append(self._sum)
            self._sum = 0.0
        return True


def main(steps: int, seeds: int) -> None:
    print("| task | agent | return of episodes 11–25 | episodes to solve, each seed | steps | s |")
    print("|---|---|---|---|---|---|")
    for task in ("cart-pole", "mountain-car", "acrobot"):
        for kind in (DQN, PPO):
            early, solved, took = [], [], []
            for seed in range(seeds):
                keep, start = Returns(), time.perf_counter()
                extra = DQN_SETTINGS.get(task, {}) if kind is DQN else {}
                model = kind("MlpPolicy", make(task), seed=seed, device="cpu", **extra)
                model.learn(steps, callback=keep)
                returns = np.array(keep.returns)
                early.append(returns[10:25].mean() if len(returns) > 10 else np.nan)
                solved.append(first_solved(task, returns))
                took.append(time.perf_counter() - start)
            shown = ", ".join("never" if n is None else str(n) for n in solved)
            cells = [task, kind.__name__, f"{np.nanmean(early):.2f}", shown, f"{steps:,}", f"{np.mean(took):.0f}"]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    main(chosen.steps, chosen.seeds)
